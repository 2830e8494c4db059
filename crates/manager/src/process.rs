//! The process: arguments in, exit code out.

use std::ffi::OsString;
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::exit::Failure;
use crate::flags::{Flags, Parsed, Program};
use crate::manager::Manager;
use crate::{doctor, logging, plan};

/// Worker threads at most: more only cost memory.
const MAX_THREADS: usize = 4;

/// Runs the cloud controller manager, or one of its subcommands, with the process's arguments. Returns when it has ended.
#[must_use]
pub fn run(providers: &cloud_provider::Registry) -> ExitCode {
    Manager::new(providers).run()
}

pub(crate) fn run_manager(manager: Manager<'_>) -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = subcommand(&manager, &arguments) {
        return code;
    }
    let called = arguments.first().map(|name| Program::called(name)).unwrap_or_default();
    let program = manager.program.clone().unwrap_or(called);
    let flags = match Flags::parse_as(&program, arguments) {
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
    let log = logging::start(&flags.logging());
    if flags.verbosity > 0 {
        logging::say_flags(flags.dump());
    }
    let manager = manager.log(log.clone());
    let ended = block_on(async {
        let stop = CancellationToken::new();
        stop_on_signal(stop.clone(), log.clone());
        Ended(manager.run_with(&flags, &stop).await)
    });
    let code = match &ended.0 {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            match failure {
                Failure::Fatal(_) => logging::fatal(&failure.to_string()),
                _ => tracing::error!("{failure}"),
            }
            failure.into()
        }
    };
    log.flush();
    code
}

/// What came of a run.
struct Ended(Result<(), Failure>);

impl From<ExitCode> for Ended {
    fn from(_: ExitCode) -> Self {
        Self(Err(Failure::Setup(anyhow::anyhow!("threads cannot be started"))))
    }
}

/// The subcommand that the first argument names, run to its end.
fn subcommand(manager: &Manager<'_>, arguments: &[OsString]) -> Option<ExitCode> {
    let name = arguments.get(1)?.to_str()?;
    let rest = || arguments.iter().take(1).chain(arguments.iter().skip(2)).cloned();
    match name {
        plan::SUBCOMMAND => Some(plan::main(manager.providers, rest())),
        doctor::SUBCOMMAND => Some(doctor::main(manager.providers, rest())),
        _ => None,
    }
}

/// Runs a future on this program's kind of runtime: few threads, whatever the machine has.
pub fn block_on<T>(future: impl Future<Output = T>) -> T
where
    T: From<ExitCode>,
{
    install_crypto();
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    match tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build() {
        Ok(runtime) => {
            let output = runtime.block_on(future);
            // A call of a provider that blocks its thread must not hold up the end.
            runtime.shutdown_background();
            output
        }
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

/// SIGTERM and SIGINT end everything in order; the second one ends it at once (APP-162).
fn stop_on_signal(stop: CancellationToken, log: logging::Handle) {
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
                let failure = Failure::Impatience;
                tracing::error!("{failure}");
                log.flush();
                std::process::exit(failure.code().into());
            }
            tracing::info!("stopping: what is in work is finished, then the lease is released");
            stop.cancel();
        }
    });
}
