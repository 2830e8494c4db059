//! The subcommand `plan`: parses the flags, prints the report and returns the exit code.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use cloud_provider::{Cluster, Fence, NoEvents, Registry};
use tokio_util::sync::CancellationToken;

use super::output::{json, text};
use super::plan;
use super::report::{Outcome, Report};
use crate::commands::read_only_client;
use crate::exit::paragraph;
use crate::flags::{Output, Parsed, Program, ReportCommand, ReportFlags};
use crate::kubernetes::{ProviderClients, read_cluster};
use crate::output::{print, print_error, print_json};
use crate::provider::PROVIDER_CLIENT;
use crate::threads::block_on;
use crate::{logging, provider};

const COMMAND: ReportCommand = ReportCommand {
    name: super::SUBCOMMAND,
    about: "Prints the changes that the cloud controller manager would make in Kubernetes and in the cloud with \
                     these flags. plan is read-only.",
    after_help: "Exit code: 0 nothing to do, 2 changes, 1 error (of one object too; the rest is printed all the same).\n\
                          JSON: {\"version\": 1, \"provider\", \"cluster\", \"objects\": [{\"kind\", \"namespace\", \"name\", \
                          \"steps\": [{\"side\", \"action\", \"what\", \"detail\"}], \"notes\", \"errors\"}], \"notes\", \
                          \"errors\", \"summary\": {\"create\", \"update\", \"delete\", \"exitCode\", …}}",
};

/// Runs the subcommand. The first argument is the program's name.
pub(crate) fn main(
    providers: &Registry,
    program: &Program,
    arguments: impl IntoIterator<Item = OsString>,
) -> ExitCode {
    let flags = match COMMAND.parse(program, arguments) {
        Parsed::Flags(flags) => flags,
        Parsed::Say(text) => return print(&text, ExitCode::SUCCESS),
        Parsed::Wrong(text) => return wrong(&text),
    };
    logging::init_for_report(flags.flags.verbosity);
    block_on(async {
        match run(&flags, providers).await {
            Ok(code) => code,
            Err(error) => failed(&flags, paragraph(&error)),
        }
    })
}

/// Reports an error instead of a plan, as text or as a JSON report that holds only the error.
fn failed(ReportFlags { flags, output, .. }: &ReportFlags, error: String) -> ExitCode {
    if *output == Output::Text {
        return wrong(&error);
    }
    let cluster = Cluster {
        name: flags.cloud.cluster_name.clone(),
        id: None,
    };
    let report = Report {
        errors: vec![error],
        ..Report::new(&flags.cloud.cloud_provider, &cluster)
    };
    print_report(*output, &report)
}

fn print_report(output: Output, report: &Report) -> ExitCode {
    let code = report.outcome().into();
    match output {
        Output::Text => print(&text(report), code),
        Output::Json => print_json(&json(report), code),
    }
}

fn wrong(text: &str) -> ExitCode {
    print_error(text);
    Outcome::Incomplete.into()
}

async fn run(report: &ReportFlags, providers: &Registry) -> Result<ExitCode> {
    let ReportFlags { flags, output, .. } = report;
    // The fence refuses every change, whatever the provider does.
    let settings = report.settings(Fence::closed("plan changes nothing"));
    let provider = provider::create(&flags.configuration(), &settings, providers)?;
    let shutdown = CancellationToken::new();
    let client = read_only_client(&settings, PROVIDER_CLIENT).await?;
    // `plan` runs interactively, so there is only one attempt.
    let cluster = read_cluster(
        &flags.cloud.cluster_name,
        &client,
        std::time::Duration::ZERO,
        &shutdown,
    )
    .await?;
    let clients = Arc::new(ProviderClients::Shared(client));
    let context = provider::context(&settings, &cluster, clients, Arc::new(NoEvents), &shutdown);
    provider::initialize(&settings, &*provider, &context).await?;
    let report = plan(&settings, &*provider, &cluster).await?;
    shutdown.cancel();
    Ok(print_report(*output, &report))
}
