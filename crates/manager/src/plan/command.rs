//! The subcommand: flags in, report out, exit code.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory as _, Parser};
use cloud_provider::{Fence, Registry};
use tokio_util::sync::CancellationToken;

use super::output::Output;
use super::report::Outcome;
use super::{plan, read_only_client};
use crate::clients::ForProvider;
use crate::controllers_task::Settings;
use crate::exit::paragraph;
use crate::flags::{self, Flags, Parsed, Program};
use crate::process::block_on;
use crate::{logging, start};

/// Name of the command.
const COMMAND: &str = "plan";
const ABOUT: &str = "Tells what the cloud controller manager would change in Kubernetes and in the cloud if it ran with \
                     these flags, and changes nothing.";
const AFTER_HELP: &str = "Exit code: 0 nothing to do, 2 changes, 1 error (of one object too; the rest is printed all the same).\n\
                          JSON: {\"version\": 1, \"provider\", \"cluster\", \"objects\": [{\"kind\", \"namespace\", \"name\", \
                          \"steps\": [{\"side\", \"action\", \"what\", \"detail\"}], \"notes\", \"errors\"}], \"notes\", \
                          \"errors\", \"summary\": {\"create\", \"update\", \"delete\", \"exitCode\", …}}";

/// All flags of the manager, and the form of the output.
#[derive(Parser, Debug)]
struct PlanFlags {
    #[command(flatten)]
    flags: Flags,
    /// Form of the output: text or json.
    #[arg(long, default_value = "text", value_name = "FORM", value_parser = str::parse::<Output>, help_heading = "Plan")]
    output: Output,
}

impl AsMut<Flags> for PlanFlags {
    fn as_mut(&mut self) -> &mut Flags {
        &mut self.flags
    }
}

/// Runs the subcommand as this program; the first argument is the program's name.
pub(crate) fn main(providers: &Registry, program: &Program, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let flags = match parse(program, arguments) {
        Parsed::Flags(flags) => flags,
        Parsed::Say(text) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Parsed::Wrong(text) => return wrong(&text),
    };
    logging::init_for_output(flags.flags.verbosity);
    block_on(async {
        match run(&flags, providers).await {
            Ok(outcome) => outcome.into(),
            Err(error) => wrong(&paragraph(&error)),
        }
    })
}

fn parse(program: &Program, arguments: impl IntoIterator<Item = OsString>) -> Parsed<PlanFlags> {
    let name = format!("{} {COMMAND}", program.name());
    let command = PlanFlags::command()
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
    Outcome::Incomplete.into()
}

async fn run(PlanFlags { flags, output }: &PlanFlags, providers: &Registry) -> Result<Outcome> {
    // It changes nothing, whatever a provider would do.
    let settings = Settings { fence: Some(Fence::new(|| false)), ..flags.settings() };
    let provider = start::provider(flags, &settings, providers)?;
    let shutdown = CancellationToken::new();
    let client = read_only_client(&settings, start::PROVIDER_CLIENT).await?;
    // A person waits for the answer: one try.
    let cluster = start::cluster(flags, &client, std::time::Duration::ZERO, &shutdown).await?;
    start::initialize(&*provider, &cluster, ForProvider::Given(client), &shutdown).await?;
    let report = plan(&settings, &*provider, &cluster).await?;
    shutdown.cancel();
    print!("{}", output.render(&report));
    Ok(report.outcome())
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
        let Parsed::Flags(PlanFlags { flags, .. }) = parse(&["x", "--acme-zone=two", "--output=json"]) else {
            panic!()
        };
        assert_eq!((flags.cloud.cloud_provider.as_str(), flags.value("acme-zone")), ("acme", Some("two")));
        assert_eq!(flags.cloud.cluster_name, "adjusted");
        let Parsed::Say(help) = parse(&["x", "--help"]) else { panic!() };
        assert!(help.contains("acme-ccm plan") && help.contains("--acme-zone"), "{help}");
        let Parsed::Wrong(text) = parse(&["x", "--cloud-provider=", "--node-monitor-period=0s"]) else { panic!() };
        assert!(text.contains("--cloud-provider cannot be empty") && text.contains("node-monitor-period"), "{text}");
    }
}
