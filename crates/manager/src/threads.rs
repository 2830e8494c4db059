//! The threads of the process, and its TLS library.

use std::process::ExitCode;

use tokio::runtime::{Builder, Runtime};

use crate::output::print_error;

/// Maximum number of worker threads. More threads only cost memory.
const MAX_THREADS: usize = 4;

/// Creates a tokio runtime with one thread per CPU, at most four. Returns `None` if the threads cannot be started,
/// after printing the error.
pub(crate) fn new_runtime() -> Option<Runtime> {
    install_crypto();
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(MAX_THREADS);
    let runtime = Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build();
    runtime
        .inspect_err(|error| print_error(&format!("cannot start threads: {error}")))
        .ok()
}

/// Runs a future on a new tokio runtime with one thread per CPU, at most four. Prints an error and returns
/// `T::from(ExitCode::FAILURE)` if the threads cannot be started.
pub fn block_on<T>(future: impl Future<Output = T>) -> T
where
    T: From<ExitCode>,
{
    let Some(runtime) = new_runtime() else {
        return T::from(ExitCode::FAILURE);
    };
    let output = runtime.block_on(future);
    // A provider that blocks its thread must not delay the end of the process.
    runtime.shutdown_background();
    output
}

/// Installs the TLS crypto provider of the process.
pub fn install_crypto() {
    // Fails only if one is installed already.
    _ = rustls::crypto::ring::default_provider().install_default();
}
