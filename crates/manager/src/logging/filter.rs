//! The filter of log records by verbosity and source.

use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};
use wildmatch::WildMatch;

use super::options::Vmodule;

/// Verbosity below that of all informational records.
pub(super) const WARNINGS_ONLY: i32 = -1;
/// Default verbosity of debug records.
const DEBUG: i32 = 4;
const TRACE: i32 = 6;

/// The verbosity by source file or module.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    pub(super) verbosity: i32,
    pub(super) vmodule: Vmodule,
}

impl Filter {
    /// Returns the highest verbosity of informational records that are written for this source.
    pub(super) fn highest(&self, metadata: &Metadata<'_>) -> i32 {
        let raised = self
            .vmodule
            .0
            .iter()
            .find(|(pattern, _)| fits(pattern, metadata))
            .map(|(_, level)| *level);
        raised.unwrap_or(self.verbosity).max(self.verbosity)
    }

    /// Returns `true` if a record of this kind may be written. A record with a field `v` needs a second check of that
    /// field.
    pub(super) fn may_write(&self, metadata: &Metadata<'_>) -> bool {
        if metadata.is_span() {
            return false;
        }
        // kube_client logs each failed attempt without the server's name; this program logs an explanation instead.
        if metadata.target() == "kube_client::client::builder" && self.highest(metadata) < DEBUG {
            return false;
        }
        if is_library(metadata.target()) {
            // kube_client warns with the whole body of an unreadable answer, which may hold a secret (INV-5).
            let least = if crate_of(metadata.target()) == "kube_client" {
                Level::ERROR
            } else {
                Level::WARN
            };
            return *metadata.level() <= least;
        }
        match lowest_verbosity(*metadata.level()) {
            Some(lowest) => lowest <= self.highest(metadata),
            None => true,
        }
    }

    /// Returns the level above which no record is written for any source.
    pub(super) fn ceiling(&self) -> LevelFilter {
        let highest = self
            .vmodule
            .0
            .iter()
            .map(|(_, level)| *level)
            .fold(self.verbosity, i32::max);
        match highest {
            TRACE.. => LevelFilter::TRACE,
            DEBUG.. => LevelFilter::DEBUG,
            0.. => LevelFilter::INFO,
            _ => LevelFilter::WARN,
        }
    }
}

/// Returns the verbosity of a record of this level that has no field `v`; `None` if the record is always written.
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

fn fits(text: &str, metadata: &Metadata<'_>) -> bool {
    let file = metadata.file().unwrap_or_default();
    let file = file.strip_suffix(".rs").unwrap_or(file);
    let module = metadata.module_path().unwrap_or(metadata.target());
    let pattern = WildMatch::new(text);
    if text.contains("::") {
        pattern.matches(module)
    } else if text.contains('/') {
        pattern.matches(file)
    } else {
        let base = file.rsplit('/').next().unwrap_or_default();
        pattern.matches(base) || module.split("::").any(|part| pattern.matches(part))
    }
}
