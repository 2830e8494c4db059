//! The `tracing` subscriber that writes the log.

use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use parking_lot::RwLock;
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record as SpanRecord};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

use super::filter::Filter;
use super::options::{Format, LoggingOptions};
use super::record::{NamedVerbosity, Record};
use super::sink::{Sink, Stream};
use super::{json, text};

/// The `tracing` subscriber that writes the log. Spans are ignored.
///
/// A record that is filtered out costs one comparison: each callsite caches the filter's answer until the verbosity
/// changes.
pub struct Logger {
    shared: Arc<Shared>,
    format: Format,
    pid: u32,
}

/// A handle that changes the log at runtime. Clones refer to the same log.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

struct Shared {
    filter: RwLock<Filter>,
    sink: Sink,
}

impl Shared {
    fn filter<T>(&self, read: impl FnOnce(&Filter) -> T) -> T {
        read(&self.filter.read())
    }
}

impl Handle {
    /// Returns the verbosity of sources for which `--vmodule` sets no higher one.
    #[must_use]
    pub fn verbosity(&self) -> i32 {
        self.0.filter(|filter| filter.verbosity)
    }

    /// Sets the verbosity for all later records (APP-103).
    pub fn set_verbosity(&self, verbosity: i32) {
        self.0.filter.write().verbosity = verbosity;
        tracing::callsite::rebuild_interest_cache();
    }

    /// Writes buffered records to the streams.
    pub fn flush(&self) {
        self.0.sink.flush();
    }

    /// Starts the thread of `--log-flush-frequency` if records are buffered. The thread ends with the log.
    pub(super) fn flush_regularly(&self, options: &LoggingOptions) {
        if !self.0.sink.is_buffered() || options.flush_frequency.is_zero() {
            return;
        }
        let shared = Arc::downgrade(&self.0);
        let period = options.flush_frequency;
        let thread = std::thread::Builder::new()
            .name("log-flush".into())
            .spawn(move || flush_each(&shared, period));
        if let Err(error) = thread {
            tracing::warn!(%error, "the log is written when its buffer is full, not each {period:?}: there is no thread for it");
        }
    }
}

fn flush_each(shared: &Weak<Shared>, period: Duration) {
    loop {
        std::thread::sleep(period);
        let Some(shared) = shared.upgrade() else {
            return;
        };
        shared.sink.flush();
    }
}

impl Logger {
    pub(super) fn new(options: &LoggingOptions, info: Stream, errors: Stream) -> (Self, Handle) {
        let filter = Filter {
            verbosity: options.verbosity,
            vmodule: options.vmodule.clone(),
        };
        let shared = Arc::new(Shared {
            filter: RwLock::new(filter),
            sink: Sink::new(options, info, errors),
        });
        let logger = Self {
            shared: Arc::clone(&shared),
            format: options.format,
            pid: std::process::id(),
        };
        (logger, Handle(shared))
    }
}

impl Subscriber for Logger {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if !self.enabled(metadata) {
            Interest::never()
        } else if names_verbosity(metadata) {
            Interest::sometimes()
        } else {
            Interest::always()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.shared.filter(|filter| filter.may_write(metadata))
    }

    fn event_enabled(&self, event: &Event<'_>) -> bool {
        if !names_verbosity(event.metadata()) {
            return true;
        }
        let mut named = NamedVerbosity::default();
        event.record(&mut named);
        let highest = self
            .shared
            .filter(|filter| filter.highest(event.metadata()));
        named.0.is_none_or(|verbosity| verbosity <= highest)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.shared.filter(Filter::ceiling))
    }

    fn event(&self, event: &Event<'_>) {
        // Values are formatted without a lock, because one that panics is logged by this same log.
        let record = Record::of(event);
        let now = Timestamp::now();
        let mut line = String::with_capacity(256);
        match self.format {
            Format::Text => text::write(
                &mut line,
                &record,
                &now.to_zoned(TimeZone::system()),
                self.pid,
            ),
            Format::Report => text::write_sentence(&mut line, &record),
            Format::Json => json::write(&mut line, &record, now),
        }
        self.shared.sink.write(record.severity, &line);
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &SpanRecord<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

fn names_verbosity(metadata: &Metadata<'_>) -> bool {
    metadata.fields().field("v").is_some()
}
