//! Which records are written.

use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};

use super::glob;
use super::options::Vmodule;

/// A verbosity below that of any information.
pub(super) const WARNINGS_ONLY: i32 = -1;
/// Verbosity of debug and of trace lines.
const DEBUG: i32 = 4;
const TRACE: i32 = 6;

/// Verbosity by place.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    pub(super) verbosity: i32,
    pub(super) vmodule: Vmodule,
}

impl Filter {
    /// The highest verbosity of information that is written for this place.
    pub(super) fn highest(&self, metadata: &Metadata<'_>) -> i32 {
        let raised = self.vmodule.0.iter().find(|(pattern, _)| fits(pattern, metadata)).map(|(_, level)| *level);
        raised.unwrap_or(self.verbosity).max(self.verbosity)
    }

    /// Whether a record of this kind may be written. One that has a field `v` must be asked of again.
    pub(super) fn may_write(&self, metadata: &Metadata<'_>) -> bool {
        if metadata.is_span() {
            return false;
        }
        // It says of each attempt that there is no connection, and not to what; we say what that means.
        if metadata.target() == "kube_client::client::builder" && self.highest(metadata) < DEBUG {
            return false;
        }
        if is_library(metadata.target()) {
            // kube_client warns with the whole body of an answer that it cannot read, which may hold a secret (INV-5).
            let least = if crate_of(metadata.target()) == "kube_client" { Level::ERROR } else { Level::WARN };
            return *metadata.level() <= least;
        }
        match lowest_verbosity(*metadata.level()) {
            Some(lowest) => lowest <= self.highest(metadata),
            None => true,
        }
    }

    /// A level above which nothing is written anywhere.
    pub(super) fn ceiling(&self) -> LevelFilter {
        let highest = self.vmodule.0.iter().map(|(_, level)| *level).fold(self.verbosity, i32::max);
        match highest {
            TRACE.. => LevelFilter::TRACE,
            DEBUG.. => LevelFilter::DEBUG,
            0.. => LevelFilter::INFO,
            _ => LevelFilter::WARN,
        }
    }
}

/// The verbosity of a record of this level that names none; `None`: it is written at any.
pub(super) fn lowest_verbosity(level: Level) -> Option<i32> {
    match level {
        Level::ERROR | Level::WARN => None,
        Level::INFO => Some(0),
        Level::DEBUG => Some(DEBUG),
        _ => Some(TRACE),
    }
}

fn crate_of(target: &str) -> &str {
    target.split("::").next().unwrap_or_default()
}

fn is_library(target: &str) -> bool {
    let name = crate_of(target);
    let ours = matches!(
        name,
        "manager"
            | "controllers"
            | "runtime"
            | "cloud_provider"
            | "provider_kit"
            | "serving"
            | "metrics"
            | "cloud_controller_manager"
    );
    !ours && !name.starts_with("provider_")
}

fn fits(pattern: &str, metadata: &Metadata<'_>) -> bool {
    let file = metadata.file().unwrap_or_default();
    let file = file.strip_suffix(".rs").unwrap_or(file);
    let module = metadata.module_path().unwrap_or(metadata.target());
    if pattern.contains("::") {
        glob::fits(pattern, module)
    } else if pattern.contains('/') {
        glob::fits(pattern, file)
    } else {
        let base = file.rsplit('/').next().unwrap_or_default();
        glob::fits(pattern, base) || module.split("::").any(|part| glob::fits(pattern, part))
    }
}
