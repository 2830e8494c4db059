//! The subcommand: flags in, report out, exit code.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use cloud_provider::{Environment, Fence, Finding, Registry, Setup};
use runtime::clock::SystemClock;
use runtime::election::migration::LeaderMigration;

use super::{ElectedBy, Report, Subject, SystemNames, examine, json, text};
use crate::controllers_task::{Clients, Settings};
use crate::diagnosis::Situation;
use crate::flags::{Flags, MigrationSettings, Output, Parsed, Program, ReportCommand, ReportFlags};
use crate::logging;
use crate::permissions::Features;
use crate::process::{block_on, print};

const COMMAND: ReportCommand = ReportCommand {
    name: super::SUBCOMMAND,
    about: "Looks at the API server, permissions, DNS, clock, lease, cloud, Nodes and Services as the cloud \
                     controller manager would with these flags, tells what is wrong and what to do, and changes nothing.",
    after_help: "Exit code: 0 nothing fails (there may be warnings), 1 something fails.\n\
                          JSON: {\"version\": 1, \"findings\": [{\"check\", \"severity\": \"ok|warning|failure\", \"text\", \
                          \"remedy\"}], \"summary\": {\"ok\", \"warnings\", \"failures\", \"exitCode\"}}",
};
/// A person waits: a server that takes longer does not answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs the subcommand as this program; the first argument is the program's name.
pub(crate) fn main(providers: &Registry, program: &Program, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let ReportFlags { flags, output } = match COMMAND.parse(program, arguments) {
        Parsed::Flags(flags) => flags,
        Parsed::Say(text) => return print(&text, ExitCode::SUCCESS),
        Parsed::Wrong(text) => return wrong(&text),
    };
    // The report says it all; the log is for whoever asks for it.
    if flags.verbosity > 0 {
        logging::init_for_output(flags.verbosity);
    }
    block_on(async {
        let report = run(&flags, providers).await;
        let text = match output {
            Output::Text => text(&report),
            Output::Json => format!("{:#}\n", json(&report)),
        };
        print(&text, ExitCode::from(report.exit_code()))
    })
}

fn wrong(text: &str) -> ExitCode {
    eprintln!("Error: {text}");
    ExitCode::FAILURE
}

async fn run(flags: &Flags, providers: &Registry) -> Report {
    let mut options = flags.client_options();
    options.request_timeout = Some(PATIENCE);
    let situation = Situation::find(&options);
    let settings = Settings { clients: Clients::Configured(Box::new(options)), ..flags.settings() };
    let provider =
        // It changes nothing, whatever a provider would do.
        match providers.init(&flags.cloud.cloud_provider, flags.cloud.cloud_config.as_deref(), closed(flags)) {
            Ok(Some(provider)) => Ok(provider),
            Ok(None) => {
                Err(format!("--cloud-provider={} names nothing that this binary runs", flags.cloud.cloud_provider))
            }
            Err(error) => Err(error.to_string()),
        };
    let lease = flags.election().map(|election| ElectedBy {
        namespace: election.namespace,
        name: election.name,
        duration: election.lease_duration,
    });
    let migration = migration(flags);
    let features = Features::of(flags, migration.as_ref().ok().and_then(Option::as_ref));
    let subject = Subject {
        features,
        settings: &settings,
        cluster_name: &flags.cloud.cluster_name,
        lease,
        provider,
        situation,
        names: &SystemNames,
        clock: &SystemClock,
    };
    let mut report = examine(&subject).await;
    if let Err(error) = migration {
        report.add(Finding::failure(
            "leader migration",
            error,
            "correct the file that --leader-migration-config names",
        ));
    }
    report
}

/// A provider that may change nothing.
fn closed(flags: &Flags) -> Setup {
    Setup {
        fence: Fence::closed("doctor changes nothing"),
        environment: Environment::of_process(),
        cluster_cidr: Some(flags.route.cluster_cidr.clone()),
        user_agent: flags.cloud_user_agent(),
        ..Setup::default()
    }
}

/// What is to migrate, or why that cannot be told (APP-76, APP-78).
fn migration(flags: &Flags) -> Result<Option<LeaderMigration>, String> {
    match flags.election().and_then(|election| election.migration) {
        None => Ok(None),
        Some(MigrationSettings { file: None }) => Ok(Some(LeaderMigration::default())),
        Some(MigrationSettings { file: Some(path) }) => {
            LeaderMigration::read(&path).map(Some).map_err(|error| error.to_string())
        }
    }
}
