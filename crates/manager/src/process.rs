//! The process: reads the arguments and returns the exit code.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use futures::FutureExt as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::exit::Failure;
use crate::flags::{Flags, Parsed, Program};
use crate::manager::Manager;
use crate::{check, core_dumps, doctor, explain, logging, orphans, plan};

/// Maximum number of worker threads. More threads only cost memory.
const MAX_THREADS: usize = 4;

/// Runs the cloud controller manager, or one of its subcommands, with the arguments of the process, and returns its
/// exit code.
#[must_use]
pub fn run(providers: &cloud_provider::Registry) -> ExitCode {
    Manager::new(providers).run()
}

pub(crate) fn run_manager(manager: Manager<'_>) -> ExitCode {
    core_dumps::forbid();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let program = manager.called(arguments.first().map(OsString::as_os_str).unwrap_or_default());
    if let Some(code) = subcommand(&manager, &program, &arguments) {
        return code;
    }
    let flags = match Flags::parse_as(&program, arguments) {
        Parsed::Flags(flags) => *flags,
        Parsed::Say(text) => return print(&text, ExitCode::SUCCESS),
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
        Ended(caught(manager.run_with(&flags, &stop)).await)
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

/// Turns a panic of the main task into a failure, which ends the process with the exit code of the Go program
/// (APP-162).
async fn caught(run: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let ended = std::panic::AssertUnwindSafe(run).catch_unwind().await;
    ended.unwrap_or_else(|panic| Err(Failure::Defect(what(&*panic))))
}

/// Returns the message of a panic, whose location the panic hook has logged already.
fn what(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}

/// The result of a run.
struct Ended(Result<(), Failure>);

impl From<ExitCode> for Ended {
    fn from(_: ExitCode) -> Self {
        Self(Err(Failure::Setup(anyhow::anyhow!("threads cannot be started"))))
    }
}

/// Runs the subcommand that the first argument names, if there is one.
fn subcommand(manager: &Manager<'_>, program: &Program, arguments: &[OsString]) -> Option<ExitCode> {
    let name = arguments.get(1)?.to_str()?;
    let rest: Vec<_> = arguments.iter().take(1).chain(arguments.iter().skip(2)).cloned().collect();
    let help = || [arguments[0].clone(), "--help".into()];
    match (name, arguments.get(2).and_then(|next| next.to_str())) {
        (plan::SUBCOMMAND, _) => Some(plan::main(manager.providers, program, rest)),
        (orphans::SUBCOMMAND, _) => Some(orphans::main(manager.providers, program, rest)),
        (doctor::SUBCOMMAND, _) => Some(doctor::main(manager.providers, program, rest)),
        (check::SUBCOMMAND, _) => Some(check::main(manager.providers, program, rest)),
        ("help", Some(check::SUBCOMMAND)) => Some(check::main(manager.providers, program, help())),
        (explain::SUBCOMMAND, _) => Some(explain::main(manager.providers, program, rest)),
        ("help", Some(explain::SUBCOMMAND)) => Some(explain::main(manager.providers, program, help())),
        ("help", Some(plan::SUBCOMMAND)) => Some(plan::main(manager.providers, program, help())),
        ("help", Some(orphans::SUBCOMMAND)) => Some(orphans::main(manager.providers, program, help())),
        ("help", Some(doctor::SUBCOMMAND)) => Some(doctor::main(manager.providers, program, help())),
        _ => None,
    }
}

/// Prints to standard output and returns `code`. A closed pipe (`| head`) is not an error; any other failure, such as a
/// full disk, returns [`ExitCode::FAILURE`].
#[must_use]
pub fn print(text: &str, code: ExitCode) -> ExitCode {
    let mut output = std::io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            eprintln!("Error: cannot write to standard output: {error}");
            ExitCode::FAILURE
        }
        _ => code,
    }
}

/// Runs a future on a new tokio runtime with one thread per CPU, at most four. Prints an error and returns
/// `T::from(ExitCode::FAILURE)` if the threads cannot be started.
pub fn block_on<T>(future: impl Future<Output = T>) -> T
where
    T: From<ExitCode>,
{
    install_crypto();
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    match tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build() {
        Ok(runtime) => {
            let output = runtime.block_on(future);
            // A provider that blocks its thread must not delay the end of the process.
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

/// Cancels `stop` on SIGTERM or SIGINT; a second signal ends the process at once with exit code 1 (APP-162).
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
            tracing::info!("stopping: work in progress is finished, then the lease is released");
            stop.cancel();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_ends_the_process_with_2() {
        let failure = caught(async { panic!("no {}", "zone") }).await.unwrap_err();
        assert_eq!((failure.code(), failure.to_string().contains("no zone")), (2, true), "{failure}");
        assert_eq!(caught(async { Err(Failure::Impatience) }).await.unwrap_err().code(), 1);
    }
}
