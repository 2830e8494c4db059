//! The demo: a cluster and a cloud in this process, and a scenario about Nodes and Services.
//!
//! [`scenario`] declares the actions and the expected results of each step, [`expectation`] judges the [`observed`]
//! state of the Kubernetes API and the cloud, [`runner`] waits for the results in the [`environment`], and [`timeline`]
//! and [`report`] print them.

mod arguments;
mod changes;
mod controllers;
mod directory;
mod environment;
mod expectation;
mod kubelet;
mod lease;
mod node_object;
mod observed;
mod observer;
mod pod_ranges;
mod report;
mod requests;
mod runner;
mod scenario;
mod serve;
mod table;
mod tally;
mod timeline;
mod user;

use std::ffi::OsString;
use std::io::{IsTerminal as _, Stdout, stdout};
use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

pub(crate) use arguments::command;
use arguments::{Arguments, Parsed};
use environment::DemoEnvironment;
use runner::Harness as _;
use runtime::election::Leadership;
use scenario::Action;
use serve::Places;
use timeline::{Style, Timeline, Width};

/// Interval of polls for events while the demo serves.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Runs the demo, or prints its help, if the arguments of the program ask for that.
pub(crate) fn requested(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    match arguments.next()? {
        first if first == "demo" => Some(main(arguments)),
        first if first == "help" && arguments.next()? == "demo" => Some(main(["--help".into()])),
        _ => None,
    }
}

/// Runs the demo with the arguments that follow `demo`.
fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match arguments::parse(arguments) {
        Parsed::Run(arguments) => manager::block_on(run(arguments)),
        Parsed::Say(text) => manager::print(&text, ExitCode::SUCCESS),
        Parsed::Wrong(text) => fail(&text),
    }
}

fn fail(text: &str) -> ExitCode {
    manager::print_error(text);
    ExitCode::FAILURE
}

async fn run(arguments: Arguments) -> ExitCode {
    // Nothing is logged without -v, because the scenario provokes what the controllers warn of.
    match arguments.verbosity {
        0 => {}
        1 => manager::init_logging(0),
        2 => manager::init_logging(4),
        _ => manager::init_logging(10),
    }
    let variable = |name| std::env::var_os(name);
    let no_color = variable("NO_COLOR");
    let term = variable("TERM");
    let style = Style::new(
        arguments.output,
        stdout().is_terminal(),
        no_color.as_deref(),
        term.as_deref(),
    );
    let mut timeline = Timeline::new(stdout(), style, Width::of_terminal());
    // One future for the whole run, so that a signal at the end of the scenario is not lost.
    let mut stopped = std::pin::pin!(stopped());
    let mut environment = tokio::select! {
        shown = show(&arguments, &mut timeline) => match shown {
            Ok(environment) => environment,
            Err(text) => return fail(&text),
        },
        code = &mut stopped => return ExitCode::from(code),
    };
    let ended = tokio::select! {
        _ = &mut stopped => Ok(()),
        ended = serve(&arguments, &mut environment, &mut timeline) => ended,
    };
    match ended
        .map_err(|error| format!("{error:#}"))
        .err()
        .or_else(|| timeline.failure())
    {
        Some(text) => fail(&text),
        None => ExitCode::SUCCESS,
    }
}

/// Serves for the user's own commands, if the arguments ask for that. Returns when the output fails.
async fn serve(
    arguments: &Arguments,
    environment: &mut DemoEnvironment,
    timeline: &mut Timeline<Stdout>,
) -> anyhow::Result<()> {
    if arguments.no_controllers {
        announce(environment, false, timeline);
        feed(environment, timeline).await;
    } else if arguments.serve {
        let leadership = environment.compete().await?;
        _ = tokio::time::timeout(lease::SOON, leadership.acquired()).await;
        announce(environment, true, timeline);
        lead(leadership, environment, timeline).await?;
    }
    Ok(())
}

/// Prints the addresses and the instructions.
fn announce(environment: &DemoEnvironment, has_controllers: bool, timeline: &mut Timeline<Stdout>) {
    let places = Places {
        api_url: &environment.api_url,
        cloud_url: &environment.cloud_url,
        kubeconfig: &environment.kubeconfig,
        cloud_config: &environment.cloud_config,
        program: &std::env::current_exe().unwrap_or_else(|_| "cloud-controller-manager".into()),
        has_controllers,
    };
    timeline.announce(&places.text(), &places.object());
}

/// Shows events while the controllers run as long as the demo holds the Lease. Returns when the output fails.
async fn lead(
    mut leadership: Leadership,
    environment: &mut DemoEnvironment,
    timeline: &mut Timeline<Stdout>,
) -> anyhow::Result<()> {
    loop {
        if tokio::time::timeout(lease::SOON, leadership.acquired())
            .await
            .is_err()
        {
            environment.stop_controllers().await?;
            timeline
                .write_line("Another manager holds the Lease: the demo's controllers have stopped, and wait for it.");
            tokio::select! {
                () = leadership.acquired() => {}
                () = feed(environment, timeline) => return Ok(()),
            }
            timeline.write_line("The demo holds the Lease again: its controllers start.");
        }
        environment.ensure_controllers().await?;
        tokio::select! {
            _ = leadership.lost() => {}
            () = feed(environment, timeline) => return Ok(()),
        }
        environment.stop_controllers().await?;
        leadership = environment.compete().await?;
    }
}

/// Runs the whole scenario, and returns the environment in its final state.
async fn show(
    arguments: &Arguments,
    timeline: &mut Timeline<Stdout>,
) -> Result<DemoEnvironment, String> {
    let environment = DemoEnvironment::start(arguments).await;
    let mut environment =
        environment.map_err(|error| format!("the demo did not start: {error:#}"))?;
    timeline.write_line(&format!(
        "Kubernetes API {}, simulated cloud {}",
        environment.api_url, environment.cloud_url
    ));
    let nodes = arguments.nodes;
    let services = arguments.services;
    if arguments.no_controllers {
        environment.act(&Action::StartKubelets).await?;
        environment
            .act(&Action::CreateServices(scenario::services(services)))
            .await?;
        return Ok(environment);
    }
    runner::run(
        &scenario::scenario(nodes, services),
        [nodes, services],
        &mut environment,
        timeline,
    )
    .await?;
    Ok(environment)
}

/// Prints each event of the cluster. Returns when the output fails.
async fn feed(environment: &DemoEnvironment, timeline: &mut Timeline<Stdout>) {
    let mut shown = environment.events_since(0).len();
    while timeline.failure().is_none() {
        let new_events = environment.events_since(shown);
        shown += new_events.len();
        for event in new_events {
            timeline.event(&event);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Returns on SIGINT, SIGTERM or SIGHUP, with the exit code of a process that was ended by this signal.
async fn stopped() -> u8 {
    let kinds = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ];
    let [Ok(mut interrupt), Ok(mut term), Ok(mut hangup)] = kinds.map(signal) else {
        // The signals keep their default action.
        return std::future::pending().await;
    };
    let kind = tokio::select! {
        _ = interrupt.recv() => SignalKind::interrupt(),
        _ = term.recv() => SignalKind::terminate(),
        _ = hangup.recv() => SignalKind::hangup(),
    };
    u8::try_from(128 + kind.as_raw_value()).unwrap_or(u8::MAX)
}
