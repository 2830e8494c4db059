//! The process: arguments in, exit code out.

use std::process::ExitCode;

use cloud_provider::Registry;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::flags::{Flags, Parsed};
use crate::{logging, plan, start};

/// Worker threads at most: more only cost memory.
const MAX_THREADS: usize = 4;

/// Runs the cloud controller manager, or its subcommand `plan`, with the process's arguments. Returns when it has ended.
#[must_use]
pub fn run(providers: &Registry) -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|first| first == plan::SUBCOMMAND) {
        let name = std::env::args_os().take(1);
        return plan::main(providers, name.chain(std::env::args_os().skip(2)));
    }
    let flags = match Flags::parse(std::env::args_os()) {
        Parsed::Flags(flags) => *flags,
        Parsed::Say(text) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Parsed::Wrong(text) => {
            eprintln!("Error: {text}");
            return ExitCode::FAILURE;
        }
    };
    logging::init(flags.verbosity);
    block_on(async {
        let shutdown = CancellationToken::new();
        stop_on_signal(shutdown.clone());
        match start::start(&flags, providers, shutdown).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                tracing::error!("{error:#}");
                eprintln!("Error: {error:#}");
                ExitCode::FAILURE
            }
        }
    })
}

/// Runs a future on this program's kind of runtime: few threads, whatever the machine has.
pub fn block_on<T>(future: impl Future<Output = T>) -> T
where
    T: From<ExitCode>,
{
    install_crypto();
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    match tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build() {
        Ok(runtime) => runtime.block_on(future),
        Err(error) => {
            eprintln!("Error: cannot start threads: {error}");
            T::from(ExitCode::FAILURE)
        }
    }
}

/// Installs the TLS crypto provider of the process.
pub fn install_crypto() {
    // Fails only if one is installed already.
    _ = rustls::crypto::ring::default_provider().install_default();
}

/// SIGTERM and SIGINT end everything in order; the second one ends it at once.
fn stop_on_signal(shutdown: CancellationToken) {
    tokio::spawn(async move {
        let (Ok(mut term), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
        else {
            tracing::error!("signals cannot be received; stop the process with SIGKILL");
            return;
        };
        for first in [true, false] {
            tokio::select! {
                _ = term.recv() => {}
                _ = interrupt.recv() => {}
            }
            if !first {
                std::process::exit(1);
            }
            tracing::info!("stopping");
            shutdown.cancel();
        }
    });
}
