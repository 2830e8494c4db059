//! The demo: a cluster and a cloud in this process, and a story about Nodes and Services.
//!
//! [`story`] declares the actions and the expected results of each step, [`expectation`] judges the [`observed`] state
//! of the Kubernetes API and the cloud, [`runner`] waits for the results in the [`world`], and [`timeline`] and
//! [`report`] print them.

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
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use arguments::{Arguments, Parsed};
use runner::Stage as _;
use serve::Places;
use story::Action;
use timeline::{Style, Timeline, Width};
use world::World;

/// Interval of polls for events while the demo serves.
const LOOK: Duration = Duration::from_millis(200);

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
    eprintln!("Error: {text}");
    ExitCode::FAILURE
}

async fn run(arguments: Arguments) -> ExitCode {
    // Nothing is logged without -v, because the story provokes what the controllers warn of.
    match arguments.verbosity {
        0 => {}
        1 => manager::init_logging(0),
        2 => manager::init_logging(4),
        _ => manager::init_logging(10),
    }
    let variable = |name| std::env::var_os(name);
    let (no_color, term) = (variable("NO_COLOR"), variable("TERM"));
    let style = Style::new(arguments.output, stdout().is_terminal(), no_color.as_deref(), term.as_deref());
    let mut timeline = Timeline::new(stdout(), style, Width::of_terminal());
    // One future for the whole run, so that a signal at the end of the story is not lost.
    let mut stopped = std::pin::pin!(stopped());
    let world = tokio::select! {
        told = show(&arguments, &mut timeline) => match told {
            Ok(world) => world,
            Err(text) => return fail(&text),
        },
        code = &mut stopped => return ExitCode::from(code),
    };
    if arguments.serve || arguments.no_controllers {
        let places = Places {
            api_url: &world.api_url,
            cloud_url: &world.cloud_url,
            kubeconfig: &world.kubeconfig,
            cloud_config: &world.cloud_config,
            has_controllers: !arguments.no_controllers,
        };
        timeline.announce(&places.text(), &places.object());
        tokio::select! {
            _ = &mut stopped => {}
            () = feed(&world, &mut timeline) => {}
        }
    }
    ExitCode::SUCCESS
}

/// Runs the whole story, and returns the world in its final state.
async fn show(arguments: &Arguments, timeline: &mut Timeline<Stdout>) -> Result<World, String> {
    let world = World::start(arguments).await;
    let mut world = world.map_err(|error| format!("the demo did not start: {error:#}"))?;
    timeline.say(&format!("Kubernetes API {}, simulated cloud {}", world.api_url, world.cloud_url));
    let (nodes, services) = (arguments.nodes, arguments.services);
    if arguments.no_controllers {
        world.act(&Action::StartKubelets).await?;
        world.act(&Action::CreateServices(story::services(services))).await?;
        return Ok(world);
    }
    runner::tell(&story::story(nodes, services), [nodes, services], &mut world, timeline).await?;
    Ok(world)
}

/// Prints each event of the cluster; never returns.
async fn feed(world: &World, timeline: &mut Timeline<Stdout>) {
    let mut told = world.said_since(0).len();
    loop {
        let news = world.said_since(told);
        told += news.len();
        for said in news {
            timeline.event(&said);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Returns on SIGINT, SIGTERM or SIGHUP, with the exit code of a process that was ended by this signal.
async fn stopped() -> u8 {
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
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
