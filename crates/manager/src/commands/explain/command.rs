//! The subcommand `explain`: parses the flags, prints the explanation and returns the exit code.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{CloudProvider, Cluster, Fence, NoEvents, Registry, visible};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::output::JSON_VERSION;
use super::{Reader, Subject, explain, text};
use crate::commands::doctor::ElectedBy;
use crate::commands::plan::Outcome;
use crate::commands::read_only_client;
use crate::controller_set::Settings;
use crate::exit::paragraph;
use crate::flags::{Flags, ObjectFlags, Output, Parsed, Program, ReportCommand, ReportFlags};
use crate::kubernetes::{ProviderClients, read_cluster};
use crate::output::{print, print_error, print_json};
use crate::provider::PROVIDER_CLIENT;
use crate::threads::block_on;
use crate::{logging, provider};

const COMMAND: ReportCommand = ReportCommand {
    name: super::SUBCOMMAND,
    about: "Explains the state of a Node or Service: its objects in Kubernetes and in the cloud, the reason why it \
            waits or is held and since when, the next changes, and the remedy. explain is read-only. Name the object \
            as `node NAME`, `service NAME` or `service NAMESPACE/NAME`.",
    after_help: "Exit code: 0 nothing waits and nothing would change, 2 something does, 1 error (the object does not exist, or \
                 something could not be read; the rest is printed all the same).\n\
                 JSON: {\"version\": 1, \"kind\", \"namespace\", \"name\", \"exists\", \"causes\": [{\"state\", \"waits\", \"since\", \
                 \"meaning\", \"detail\", \"advice\"}], \"kubernetes\", \"cloud\", \"loadBalancers\", \"claims\", \"plan\", \
                 \"lastErrors\", \"events\", \"leader\", \"unknown\", \"errors\", \"exitCode\"}",
};

/// Runs the subcommand. The first argument is the program's name.
pub(crate) fn main(
    providers: &Registry,
    program: &Program,
    arguments: impl IntoIterator<Item = OsString>,
) -> ExitCode {
    let given: ObjectFlags = match COMMAND.parse_as(program, arguments) {
        Parsed::Flags(flags) => flags,
        Parsed::Say(text) => return print(&text, ExitCode::SUCCESS),
        Parsed::Wrong(text) => return wrong(&text),
    };
    let ObjectFlags {
        kind,
        name,
        namespace,
        report,
    } = given;
    let namespace = Some(namespace.as_str()).filter(|namespace| !namespace.is_empty());
    let subject = match Subject::parse(kind.as_deref(), name.as_deref(), namespace) {
        Ok(subject) => subject,
        Err(text) => return wrong(&text),
    };
    logging::init_for_report(report.flags.verbosity);
    block_on(async {
        match run(&report, &subject, providers).await {
            Ok(code) => code,
            Err(error) => failed(&subject, report.output, &error),
        }
    })
}

/// Reports an error instead of an explanation, as text or as a JSON object that holds only the error.
fn failed(subject: &Subject, output: Output, error: &str) -> ExitCode {
    let code = Outcome::Incomplete;
    if output == Output::Text {
        return wrong(&visible(error));
    }
    let value = json!({
        "version": JSON_VERSION, "kind": subject.kind(), "namespace": subject.namespace(), "name": subject.name(),
        "errors": [error], "exitCode": code.code(),
    });
    print_json(&value, code.into())
}

fn wrong(text: &str) -> ExitCode {
    print_error(text);
    Outcome::Incomplete.into()
}

async fn run(
    report: &ReportFlags,
    subject: &Subject,
    providers: &Registry,
) -> Result<ExitCode, String> {
    let said = |error: anyhow::Error| paragraph(&error);
    let ReportFlags { flags, output, .. } = report;
    let settings = report.settings(Fence::closed("explain changes nothing"));
    let shutdown = CancellationToken::new();
    let client = read_only_client(&settings, PROVIDER_CLIENT)
        .await
        .map_err(said)?;
    // `explain` runs interactively, so there is only one attempt.
    let cluster = read_cluster(
        &flags.cloud.cluster_name,
        &client,
        Duration::ZERO,
        &shutdown,
    )
    .await
    .map_err(said)?;
    let provider = initialized(flags, &settings, providers, &client, &cluster, &shutdown)
        .await
        .map_err(said);
    let lease = flags.configuration().election.map(|election| ElectedBy {
        namespace: election.namespace,
        name: election.name,
        duration: election.lease_duration,
    });
    let reader = Reader {
        settings: &settings,
        client,
        provider,
        cluster,
        lease,
        now: Timestamp::now(),
    };
    let explanation = explain(&reader, subject).await?;
    shutdown.cancel();
    let code = explanation.outcome().into();
    Ok(match output {
        Output::Text => print(&text(&explanation), code),
        Output::Json => print_json(&super::json(&explanation), code),
    })
}

/// Returns the initialized provider, or an error; the Kubernetes side is explained without a provider, too.
async fn initialized(
    flags: &Flags,
    settings: &Settings,
    providers: &Registry,
    client: &Client,
    cluster: &Cluster,
    shutdown: &CancellationToken,
) -> anyhow::Result<Arc<dyn CloudProvider>> {
    let provider = provider::create(&flags.configuration(), settings, providers)?;
    let clients = Arc::new(ProviderClients::Shared(client.clone()));
    let context = provider::context(settings, cluster, clients, Arc::new(NoEvents), shutdown);
    provider::initialize(settings, &*provider, &context).await?;
    Ok(provider)
}
