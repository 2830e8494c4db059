//! The manifests and the chart in `deploy`: what they grant, what they start, and that a real cluster takes them; and that
//! the program needs each permission that they grant, and no other.
//!
//! * `CCM_TEST_HELM`: helm; without it the one in the `PATH`, and without that all that concerns the chart is ignored.
//! * `CCM_TEST_KUBECONFIG`, `CCM_TEST_BINARY`: as for `kube_apiserver`. The account and the roles of the manifests are
//!   created in that cluster, changed and removed again.
//!
//! The arguments are those of `cargo test`.

mod accounts;
mod applied;
mod atom;
// Shared with the scenarios of `kube_apiserver`; some of it is unused here.
#[allow(dead_code)]
#[path = "../kube_apiserver/cluster.rs"]
mod cluster;
mod cluster_objects;
mod defaults;
mod documents;
#[allow(dead_code)]
#[path = "../kube_apiserver/environment.rs"]
mod environment;
mod helm;
mod image;
#[allow(dead_code)]
#[path = "../kube_apiserver/kubelets.rs"]
mod kubelets;
mod notes;
mod package;
mod pods;
mod presets;
mod proof;
mod readme;
mod rules;
mod runbooks;
mod series;

use std::process::ExitCode;

use anyhow::Result;
use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::environment::{Environment, Need};
use crate::helm::Helm;

/// Shared tools of the scenarios, for the lifetime of the process.
struct Means {
    helm: Option<Helm>,
    environment: Environment,
}

const NO_HELM: &str = "there is no helm: set CCM_TEST_HELM";

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let means = Helm::find().and_then(|helm| {
        Ok(Means {
            helm,
            environment: Environment::from_variables()?,
        })
    });
    let means = match means {
        Ok(means) => &*Box::leak(Box::new(means)),
        Err(error) => {
            eprintln!("manifests: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    libtest_mimic::run(&arguments, trials(means)).exit_code()
}

macro_rules! named {
    ($with:ident, $means:expr, $($module:ident::$name:ident,)*) => {
        [$($with($means, stringify!($name), $module::$name)),*]
    };
}

fn trials(means: &'static Means) -> Vec<Trial> {
    let alone = named!(
        plain,
        means,
        rules::the_plain_manifests_grant_what_is_needed_and_nothing_else,
        pods::the_plain_pods_have_the_shape_that_a_starting_cluster_needs,
        pods::the_arguments_of_the_plain_pods_are_flags_of_this_program,
        pods::plain_pods_get_credentials_as_files,
        pods::plain_pods_wait_for_nothing_that_this_program_sets,
        image::every_base_image_is_pinned_by_digest,
        image::the_image_builds_with_the_pinned_toolchain,
        series::every_series_of_the_alerts_exists,
        series::every_series_of_the_dashboard_exists,
        series::each_note_of_the_dashboard_and_of_the_alerts_is_a_sentence,
        pods::only_the_example_needs_the_simulated_cloud,
        presets::the_chart_has_a_preset_for_each_provider,
        readme::the_schema_and_the_values_of_the_chart_have_the_same_names,
        readme::the_readme_of_the_chart_has_each_value_and_each_cloud,
        runbooks::each_alert_has_a_runbook_and_each_runbook_an_alert,
    );
    let with_helm = named!(
        with_helm,
        means,
        rules::the_chart_grants_each_installation_what_it_needs_and_nothing_else,
        pods::the_chart_makes_pods_that_start,
        pods::the_chart_runs_the_controllers_that_are_switched_on,
        pods::the_chart_refuses_what_cannot_work,
        presets::each_cloud_installs_from_the_package_with_two_values,
        presets::the_notes_say_how_to_see_that_it_works_and_how_to_uninstall,
        presets::values_files_have_the_effect_that_the_table_says,
        runbooks::the_chart_puts_the_base_of_the_runbooks_into_each_alert,
        runbooks::the_alerts_name_the_lease_and_the_namespace_of_the_release,
        defaults::a_value_that_is_left_empty_has_its_default,
        package::a_package_installs_its_image_and_no_mixture,
        package::a_package_with_a_placeholder_needs_a_repository_and_keeps_its_digest,
        package::a_package_with_an_image_that_cannot_be_pulled_is_not_made,
        notes::the_notes_name_what_the_cluster_lacks,
        notes::the_notes_give_doctor_the_flags_of_the_release,
        notes::the_notes_warn_of_credentials_in_variables,
    );
    let with_cluster = named!(
        with_cluster,
        means,
        applied::the_plain_manifests_are_taken_by_a_real_cluster,
        proof::the_account_may_do_what_is_needed_and_nothing_else,
        proof::as_the_account_of_the_manifests_nothing_is_refused,
        proof::the_role_of_the_reference_is_enough,
        proof::without_any_one_permission_something_is_refused,
    );
    let with_both = named!(
        with_both,
        means,
        applied::the_chart_is_taken_by_a_real_cluster,
        proof::with_an_account_for_each_controller_nothing_is_refused,
    );
    alone
        .into_iter()
        .chain(with_helm)
        .chain(with_cluster)
        .chain(with_both)
        .collect()
}

fn failed(error: &anyhow::Error) -> Failed {
    Failed::from(format!("{error:#}"))
}

fn plain(_means: &'static Means, name: &'static str, test: fn() -> Result<()>) -> Trial {
    Trial::test(name, move || test().map_err(|error| failed(&error)))
}

fn with_helm(means: &'static Means, name: &'static str, test: fn(&Helm) -> Result<()>) -> Trial {
    Trial::ignorable_test(name, move || {
        let Some(helm) = &means.helm else {
            return Ok(Completion::ignored_with(NO_HELM));
        };
        test(helm).map_err(|error| failed(&error))?;
        Ok(Completion::Completed)
    })
}

fn with_cluster<F>(means: &'static Means, name: &'static str, test: F) -> Trial
where
    F: AsyncFnOnce(&'static Environment) -> Result<()> + Send + 'static,
{
    Trial::ignorable_test(name, move || {
        if let Some(reason) = means.environment.lacks(Need::Cluster) {
            return Ok(Completion::ignored_with(reason));
        }
        play(test(&means.environment))
    })
}

fn with_both<F>(means: &'static Means, name: &'static str, test: F) -> Trial
where
    F: AsyncFnOnce(&'static Environment, &'static Helm) -> Result<()> + Send + 'static,
{
    Trial::ignorable_test(name, move || {
        if let Some(reason) = means.environment.lacks(Need::Cluster) {
            return Ok(Completion::ignored_with(reason));
        }
        let Some(helm) = &means.helm else {
            return Ok(Completion::ignored_with(NO_HELM));
        };
        play(test(&means.environment, helm))
    })
}

fn play(test: impl Future<Output = Result<()>>) -> Result<Completion, Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime
        .map_err(|error| failed(&error.into()))?
        .block_on(test)
        .map_err(|error| failed(&error))?;
    Ok(Completion::Completed)
}
