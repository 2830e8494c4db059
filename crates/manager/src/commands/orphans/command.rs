//! The subcommand `orphans`: parses the flags, prints the list, asks for confirmation, deletes and returns the exit
//! code.

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use cloud_provider::{CloudProvider, Cluster, Fence, NoEvents, Registry};
use jiff::Timestamp;
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::output::{ended, json, text, totals};
use super::report::{OrphanReport, OrphanState};
use super::{delete, find};
use crate::commands::read_only_client;
use crate::controller_set::Settings;
use crate::exit::paragraph;
use crate::flags::{OrphansFlags, Output, Parsed, Program, ReportCommand, ReportFlags};
use crate::kubernetes::{ProviderClients, read_cluster};
use crate::output::{Lines, has_failed, print, print_error, print_json};
use crate::provider::PROVIDER_CLIENT;
use crate::threads::block_on;
use crate::{logging, provider};

const COMMAND: ReportCommand = ReportCommand {
    name: super::SUBCOMMAND,
    about: "Lists load balancers and routes that carry owner tags of this cluster and whose Service or Node no longer \
            exists. With --delete it deletes those that are this cluster's for certain.",
    after_help: "Exit code: 0 no orphans are left, 2 there are orphans, 1 error.\n\
                 JSON: {\"version\": 1, \"provider\", \"cluster\", \"orphans\": [{\"kind\", \"id\", \"name\", \"owner\", \
                 \"created\", \"ageSeconds\", \"addresses\", \"facts\", \"auxiliaries\", \"state\", \"reason\"}], \"notes\", \
                 \"errors\", \"summary\": {…, \"exitCode\"}}",
};

/// Runs the subcommand. The first argument is the program's name.
pub(crate) fn main(
    providers: &Registry,
    program: &Program,
    arguments: impl IntoIterator<Item = OsString>,
) -> ExitCode {
    let mut flags: OrphansFlags = match COMMAND.parse_as(program, arguments) {
        Parsed::Flags(flags) => flags,
        Parsed::Say(text) => return print(&text, ExitCode::SUCCESS),
        Parsed::Wrong(text) => return wrong(&text),
    };
    if flags.delete && flags.report.output == Output::Json && !flags.yes {
        return wrong("--delete with --output=json cannot ask for confirmation: add --yes");
    }
    flags.report.has_patience = flags.delete;
    logging::init_for_report(flags.report.flags.verbosity);
    block_on(async {
        run(&flags, providers)
            .await
            .unwrap_or_else(|error| failed(&flags, paragraph(&error)))
    })
}

/// Reports an error instead of a list, as text or as a JSON report that holds only the error.
fn failed(
    OrphansFlags {
        report: ReportFlags { flags, output, .. },
        ..
    }: &OrphansFlags,
    error: String,
) -> ExitCode {
    if *output == Output::Text {
        return wrong(&error);
    }
    let cluster = Cluster {
        name: flags.cloud.cluster_name.clone(),
        id: None,
    };
    let report = OrphanReport::new(&flags.cloud.cloud_provider, &cluster, Timestamp::now());
    let report = OrphanReport {
        errors: vec![error],
        ..report
    };
    print_json(&json(&report), report.exit_code().into())
}

fn wrong(text: &str) -> ExitCode {
    print_error(text);
    ExitCode::FAILURE
}

async fn run(command: &OrphansFlags, providers: &Registry) -> Result<ExitCode> {
    let OrphansFlags {
        report: ReportFlags { flags, output, .. },
        ..
    } = command;
    // The provider must not change anything before the deletion is confirmed.
    let is_confirmed = Arc::new(AtomicBool::new(false));
    let fence = match command.delete {
        true => Fence::new({
            let is_confirmed = Arc::clone(&is_confirmed);
            move || is_confirmed.load(Ordering::Acquire)
        }),
        false => Fence::closed("orphans changes nothing without --delete"),
    };
    // Pod CIDRs do not matter for owners.
    let settings = Settings {
        configure_cloud_routes: false,
        ..command.report.settings(fence)
    };
    let provider = provider::create(&flags.configuration(), &settings, providers)?;
    let shutdown = CancellationToken::new();
    let client = read_only_client(&settings, PROVIDER_CLIENT).await?;
    // `orphans` runs interactively, so there is only one attempt.
    let cluster = read_cluster(
        &flags.cloud.cluster_name,
        &client,
        Duration::ZERO,
        &shutdown,
    )
    .await?;
    let clients = Arc::new(ProviderClients::Shared(client.clone()));
    let context = provider::context(&settings, &cluster, clients, Arc::new(NoEvents), &shutdown);
    provider::initialize(&settings, &*provider, &context).await?;
    // The provider gets no caches, because with caches some providers start work in the background.
    let mut report = find(&client, &*provider, &cluster, Timestamp::now()).await;
    choose(&mut report, command)?;
    if *output == Output::Text {
        say(&text(&report));
        // Nothing is deleted that could not be shown.
        if has_failed() {
            return Ok(ExitCode::FAILURE);
        }
    }
    if command.delete && has_any(&report) {
        if !report.errors.is_empty() {
            print_error("nothing is deleted, because the list is not complete");
        } else if command.yes && report.are_too_many && command.chosen().is_empty() {
            print_error(
                "more than half of the cluster's resources have no owner: leave out --yes and confirm on a terminal, or \
                 name the orphans with --only",
            );
            return Ok(ExitCode::FAILURE);
        } else if command.yes || confirm(&report)? {
            is_confirmed.store(true, Ordering::Release);
            delete_all(&client, &*provider, &mut report, *output).await;
            is_confirmed.store(false, Ordering::Release);
        } else {
            say("Nothing was deleted.\n");
        }
    }
    shutdown.cancel();
    let code = report.exit_code().into();
    Ok(match output {
        // The text was printed before anything was deleted.
        Output::Text => print("", code),
        Output::Json => print_json(&json(&report), code),
    })
}

fn say(text: &str) {
    _ = print(text, ExitCode::SUCCESS);
}

fn say_line(line: &str) {
    let mut lines = Lines::default();
    lines.line(format_args!("{line}"));
    say(&lines.into_text());
}

fn has_any(report: &OrphanReport) -> bool {
    report.count(|state| *state == OrphanState::Deletable) > 0
}

/// Removes all orphans from the report that `--only` does not name.
fn choose(report: &mut OrphanReport, command: &OrphansFlags) -> Result<()> {
    let chosen = command.chosen();
    let names = |orphan: &super::Orphan, id: &str| {
        let shown = orphan
            .resource
            .cloud_name_and_id
            .as_ref()
            .map(|(_, id)| &**id);
        orphan.resource.id == id || shown == Some(id)
    };
    let missing: Vec<_> = chosen
        .iter()
        .filter(|id| !report.orphans.iter().any(|orphan| names(orphan, id)))
        .copied()
        .collect();
    if !missing.is_empty() {
        bail!(
            "--only={} names no orphan; the list without --only shows the IDs",
            missing.join(",")
        );
    }
    if !chosen.is_empty() {
        report
            .orphans
            .retain(|orphan| chosen.iter().any(|id| names(orphan, id)));
    }
    Ok(())
}

/// Asks for confirmation on the terminal.
fn confirm(report: &OrphanReport) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!("--delete asks before it deletes, and standard input is no terminal: add --yes");
    }
    let count = report.count(|state| *state == OrphanState::Deletable);
    say(&format!(
        "Delete {count} of cluster {:?}? Type yes to confirm: ",
        report.cluster.name
    ));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(answer.trim() == "yes")
}

/// Deletes the orphans and prints each result. The first signal stops after the deletion in progress.
async fn delete_all(
    client: &Client,
    provider: &dyn CloudProvider,
    report: &mut OrphanReport,
    output: Output,
) {
    let stop = CancellationToken::new();
    let signalled = stop.clone();
    let signals = tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            _ = writeln!(
                std::io::stderr(),
                "stopping after the deletion in progress; a second signal ends the process at once"
            );
            signalled.cancel();
        }
        if tokio::signal::ctrl_c().await.is_ok() {
            std::process::exit(1);
        }
    });
    delete(client, provider, report, &stop, |orphan| {
        if output == Output::Text {
            say_line(&format!("{}: {}", orphan.resource, ended(&orphan.state)));
        }
    })
    .await;
    signals.abort();
    if output == Output::Text {
        say(&totals(report));
    }
}
