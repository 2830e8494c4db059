//! The subcommand: flags in, report out, exit code.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory as _, Parser};
use cloud_provider::{Fence, Finding, Registry, Setup};
use runtime::clock::SystemClock;
use runtime::election::migration::LeaderMigration;

use super::{ElectedBy, Report, Subject, SystemNames, examine, json, text};
use crate::controllers_task::{Clients, Settings};
use crate::diagnosis::Situation;
use crate::flags::{self, Flags, MigrationSettings, Parsed, Program};
use crate::logging;
use crate::permissions::Features;
use crate::plan::Output;
use crate::process::block_on;

/// Name of the command.
const COMMAND: &str = "doctor";
const ABOUT: &str = "Looks at the API server, permissions, DNS, clock, lease, cloud, Nodes and Services as the cloud \
                     controller manager would with these flags, tells what is wrong and what to do, and changes nothing.";
const AFTER_HELP: &str = "Exit code: 0 nothing fails (there may be warnings), 1 something fails.\n\
                          JSON: {\"version\": 1, \"findings\": [{\"check\", \"severity\": \"ok|warning|failure\", \"text\", \
                          \"remedy\"}], \"summary\": {\"ok\", \"warnings\", \"failures\", \"exitCode\"}}";
/// A person waits: a server that takes longer does not answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// All flags of the manager, and the form of the output.
#[derive(Parser, Debug)]
struct DoctorFlags {
    #[command(flatten)]
    flags: Flags,
    /// Form of the output: text or json.
    #[arg(long, default_value = "text", value_name = "FORM", value_parser = str::parse::<Output>, help_heading = "Doctor")]
    output: Output,
}

impl AsMut<Flags> for DoctorFlags {
    fn as_mut(&mut self) -> &mut Flags {
        &mut self.flags
    }
}

/// Runs the subcommand as this program; the first argument is the program's name.
pub(crate) fn main(providers: &Registry, program: &Program, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let DoctorFlags { flags, output } = match parse(program, arguments) {
        Parsed::Flags(flags) => flags,
        Parsed::Say(text) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Parsed::Wrong(text) => return wrong(&text),
    };
    // The report says it all; the log is for whoever asks for it.
    if flags.verbosity > 0 {
        logging::init_for_output(flags.verbosity);
    }
    block_on(async {
        let report = run(&flags, providers).await;
        match output {
            Output::Text => print!("{}", text(&report)),
            Output::Json => println!("{:#}", json(&report)),
        }
        ExitCode::from(report.exit_code())
    })
}

fn parse(program: &Program, arguments: impl IntoIterator<Item = OsString>) -> Parsed<DoctorFlags> {
    let name = format!("{} {COMMAND}", program.name());
    let command = DoctorFlags::command()
        .name(COMMAND)
        .bin_name(&name)
        .about(ABOUT)
        .after_help(AFTER_HELP)
        .disable_help_subcommand(true)
        .args_override_self(true)
        .max_term_width(120);
    flags::parse(program, command, &name, arguments)
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
        match providers.init(&flags.cloud.cloud_provider, flags.cloud.cloud_config.as_deref(), closed()) {
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
    let mut features = Features::of(flags);
    let migration = migration(flags);
    if let (Some(election), Ok(Some(migration))) = (&mut features.election, &migration) {
        election.leases.push(migration.leader_name.clone());
    }
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
fn closed() -> Setup {
    Setup { fence: Fence::new(|| false), ..Setup::default() }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::VendorFlag;

    #[test]
    fn a_vendors_program_has_its_defaults_and_flags_here_too() {
        let zone = VendorFlag { name: "acme-zone", default: "one", help: "The zone.", secret: false };
        let program = Program::new("acme-ccm").with_default("cloud-provider", "acme").with_flag(zone);
        let program = program.adjusted(|flags| flags.cloud.cluster_name = "adjusted".to_owned());
        let parse = |arguments: &[&str]| parse(&program, arguments.iter().map(OsString::from));
        let Parsed::Flags(DoctorFlags { flags, .. }) = parse(&["x", "--acme-zone=two", "--output=json"]) else {
            panic!()
        };
        assert_eq!((flags.cloud.cloud_provider.as_str(), flags.value("acme-zone")), ("acme", Some("two")));
        assert_eq!(flags.cloud.cluster_name, "adjusted");
        let Parsed::Say(help) = parse(&["x", "--help"]) else { panic!() };
        assert!(help.contains("acme-ccm doctor") && help.contains("--acme-zone"), "{help}");
        let Parsed::Wrong(text) = parse(&["x", "--cloud-provider=", "--node-monitor-period=0s"]) else { panic!() };
        assert!(text.contains("--cloud-provider cannot be empty") && text.contains("node-monitor-period"), "{text}");
    }
}
