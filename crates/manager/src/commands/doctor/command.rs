//! The subcommand `doctor`: parses the flags, prints the report and returns the exit code.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use cloud_provider::{Environment, Fence, Finding, Registry, Setup};
use runtime::clock::SystemClock;

use super::report::{Lines, summary};
use super::{ElectedBy, Report, Subject, SystemNames, examine, files, json};
use crate::controller_set::Settings;
use crate::diagnosis::Situation;
use crate::election::migration;
use crate::flags::{
    Configuration, Flags, Output, Parsed, PathFlag, Program, ReportCommand, ReportFlags,
};
use crate::kubernetes::Clients;
use crate::output::{print, print_error, print_json};
use crate::permissions::Features;
use crate::threads::block_on;
use crate::{logging, provider};

const COMMAND: ReportCommand = ReportCommand {
    name: super::SUBCOMMAND,
    about: "Checks the API server, permissions, DNS, clock, lease, cloud, Nodes and Services with the flags of the \
                     cloud controller manager, and prints each problem with its remedy. doctor is read-only.",
    after_help: "Exit code: 0 nothing fails (there may be warnings), 1 something fails.\n\
                          JSON: {\"version\": 1, \"findings\": [{\"check\", \"severity\": \"ok|warning|failure\", \"text\", \
                          \"remedy\"}], \"summary\": {\"ok\", \"warnings\", \"failures\", \"exitCode\"}}",
};

/// Runs the subcommand. The first argument is the program's name.
pub(crate) fn main(
    providers: &Registry,
    program: &Program,
    arguments: impl IntoIterator<Item = OsString>,
) -> ExitCode {
    let given = match COMMAND.parse(program, arguments) {
        Parsed::Flags(flags) => flags,
        Parsed::Say(text) => return print(&text, ExitCode::SUCCESS),
        Parsed::Wrong(text) => return wrong(&text),
    };
    let (timeout, ReportFlags { flags, output, .. }) = (given.timeout().unwrap_or_default(), given);
    // The report is complete; the log is for those who ask for it.
    if flags.verbosity > 0 {
        logging::init_for_report(flags.verbosity);
    }
    block_on(async {
        let mut lines = Lines::default();
        let mut told = |finding: &Finding| {
            if output == Output::Text {
                // The last line returns a failure to print, too.
                _ = print(&lines.line(finding), ExitCode::SUCCESS);
            }
        };
        let report = run(&flags, timeout, providers, &mut told).await;
        let code = ExitCode::from(report.exit_code());
        match output {
            Output::Text => print(&summary(&report), code),
            Output::Json => print_json(&json(&report), code),
        }
    })
}

fn wrong(text: &str) -> ExitCode {
    print_error(text);
    ExitCode::FAILURE
}

async fn run(
    flags: &Flags,
    timeout: Duration,
    providers: &Registry,
    told: &mut (dyn FnMut(&Finding) + Send),
) -> Report {
    let configuration = flags.configuration();
    let mut options = configuration.client_options.clone();
    options.request_timeout = Some(timeout);
    let situation = Situation::find(&options);
    let settings = Settings {
        clients: Clients::Configured(Box::new(options)),
        ..configuration.settings()
    };
    let provider =
        // The fence refuses every change, whatever the provider does.
        match providers.init(&flags.cloud.cloud_provider, flags.cloud.cloud_config.as_deref(), closed(&configuration, timeout)) {
            Ok(Some(provider)) => Ok(provider),
            Ok(None) => {
                Err(format!("--cloud-provider={} is not a provider of this binary", flags.cloud.cloud_provider))
            }
            Err(error) => Err(error.to_string()),
        };
    let lease = configuration.election.clone().map(|election| ElectedBy {
        namespace: election.namespace,
        name: election.name,
        duration: election.lease_duration,
    });
    let migration = migration(configuration.election.as_ref());
    let refusal = provider.as_ref().ok().and_then(|other_provider| {
        provider::check(&configuration, &settings, &**other_provider).err()
    });
    let features = Features::of(
        &configuration,
        migration.as_ref().ok().and_then(Option::as_ref),
    );
    let subject = Subject {
        features,
        settings: &settings,
        cluster_name: &flags.cloud.cluster_name,
        lease,
        provider,
        refusal: refusal.map(|error| format!("{error:#}")),
        timeout,
        situation,
        names: &SystemNames,
        clock: &SystemClock,
    };
    let mut report = examine(&subject, told).await;
    let given = [&flags.cloud.cloud_config, &flags.misc.kubeconfig]
        .map(PathFlag::to_path_buf)
        .into_iter()
        .flatten();
    let provider = subject.provider.as_ref().ok().map(|provider| &**provider);
    for finding in files::check(&files::of(given, provider, &Environment::of_process())) {
        told(&finding);
        report.findings.push(finding);
    }
    if let Err(failure) = migration {
        let remedy = "correct the file that --leader-migration-config names";
        let finding = Finding::failure("leader migration", failure.to_string(), remedy);
        told(&finding);
        report.findings.push(finding);
    }
    report
}

/// Returns the setup of a provider whose fence refuses every change.
fn closed(configuration: &Configuration, timeout: Duration) -> Setup {
    Setup {
        fence: Fence::closed("doctor changes nothing"),
        environment: Environment::of_process(),
        cluster_cidr: Some(configuration.route.cluster_cidr.clone()),
        user_agent: configuration.cloud.user_agent.clone(),
        adoptable_tag: configuration.cloud.adoptable_tag.clone(),
        call_timeout: Some(timeout),
        flags: configuration.cloud.flags.clone(),
        ..Setup::default()
    }
}
