//! A whole cluster and a whole cloud in this process, and the story of what becomes of Nodes and Services.
//!
//! [`story`] says what is done and what must come of it, [`expectation`] judges what was [`observed`] in the Kubernetes
//! API and in the cloud, [`runner`] waits for it in the [`world`], [`timeline`] and [`report`] tell it.

mod arguments;
mod controllers;
mod directory;
mod expectation;
mod kubelet;
mod news;
mod node_object;
mod observed;
mod observer;
mod pod_ranges;
mod report;
mod requests;
mod runner;
mod serve;
mod story;
mod table;
mod tally;
mod timeline;
mod user;
mod world;

use std::ffi::OsString;
use std::io::{IsTerminal as _, Stdout, stdout};
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

use arguments::{Arguments, Parsed};
use serve::Places;
use timeline::{Style, Timeline};
use world::World;

/// Exit code of a process that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// Runs the demo with the arguments that follow `demo`.
pub(crate) fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match arguments::parse(arguments) {
        Parsed::Run(arguments) => manager::block_on(run(arguments)),
        Parsed::Say(text) => manager::print(&text, ExitCode::SUCCESS),
        Parsed::Wrong(text) => fail(&text),
    }
}

fn fail(text: &str) -> ExitCode {
    eprintln!("Error: {text}");
    ExitCode::FAILURE
}

async fn run(arguments: Arguments) -> ExitCode {
    // Without -v nothing is logged: what the controllers warn of is what the story is about.
    match arguments.verbosity {
        0 => {}
        1 => manager::init_logging(0),
        2 => manager::init_logging(4),
        _ => manager::init_logging(10),
    }
    let variable = |name| std::env::var_os(name);
    let (no_color, term) = (variable("NO_COLOR"), variable("TERM"));
    let style = Style::new(arguments.output, stdout().is_terminal(), no_color.as_deref(), term.as_deref());
    let mut timeline = Timeline::new(stdout(), style);
    // One for the whole run: a signal that comes when the story is just over is not lost.
    let mut stopped = std::pin::pin!(stopped());
    let world = tokio::select! {
        told = show(&arguments, &mut timeline) => match told {
            Ok(world) => world,
            Err(text) => return fail(&text),
        },
        () = &mut stopped => return ExitCode::from(INTERRUPTED),
    };
    if arguments.serve {
        let places = Places {
            api_url: &world.api_url,
            cloud_url: &world.cloud_url,
            kubeconfig: &world.kubeconfig,
            cloud_config: &world.cloud_config,
        };
        timeline.announce(&places.text(), &places.object());
        stopped.await;
    }
    ExitCode::SUCCESS
}

/// Tells the whole story, and returns the world as it is after that.
async fn show(arguments: &Arguments, timeline: &mut Timeline<Stdout>) -> Result<World, String> {
    let world = World::start(arguments).await;
    let mut world = world.map_err(|error| format!("the demo did not start: {error:#}"))?;
    timeline.say(&format!("Kubernetes API {}, simulated cloud {}", world.api_url, world.cloud_url));
    let (nodes, services) = (arguments.nodes, arguments.services);
    runner::tell(&story::story(nodes, services), [nodes, services], &mut world, timeline).await?;
    Ok(world)
}

/// Returns on SIGINT or SIGTERM.
async fn stopped() {
    let (Ok(mut interrupt), Ok(mut term)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) else {
        // Then the signals end the process as they always do.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = term.recv() => {}
    }
}
