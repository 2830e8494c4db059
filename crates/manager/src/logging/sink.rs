//! The output streams of the log.

use std::io::Write;

use parking_lot::{Mutex, MutexGuard};

use super::options::{Format, LoggingOptions};
use super::record::Severity;

/// An output stream of the log.
pub(super) type Stream = Box<dyn Write + Send>;

/// The output streams of the log. A record is written as a whole or, if the stream is broken, not at all: a failing log
/// must not end the process.
pub(super) struct Sink(Mutex<Inner>);

struct Inner {
    info: Stream,
    errors: Stream,
    buffer: Vec<u8>,
    /// Size of the buffer in bytes; 0 disables buffering.
    capacity: usize,
    /// Lowest severity that is written to `errors`.
    split_at: Severity,
}

impl Sink {
    pub(super) fn new(options: &LoggingOptions, info: Stream, errors: Stream) -> Self {
        let streams = options.streams();
        let split_at = match (streams.split, options.format) {
            (false, _) => Severity::Info,
            // Warnings are informational in JSON, which has no severities.
            (true, Format::Json) => Severity::Error,
            (true, Format::Text | Format::Report) => Severity::Warning,
        };
        let capacity = if streams.split {
            streams.info_buffer_size
        } else {
            0
        };
        Self(Mutex::new(Inner {
            info,
            errors,
            buffer: Vec::new(),
            capacity,
            split_at,
        }))
    }

    /// Returns `true` if records may be buffered.
    pub(super) fn is_buffered(&self) -> bool {
        self.lock().capacity > 0
    }

    pub(super) fn write(&self, severity: Severity, record: &str) {
        let mut inner = self.lock();
        if severity >= inner.split_at {
            // Records before an error are written before the error.
            inner.flush();
            _ = inner.errors.write_all(record.as_bytes());
            _ = inner.errors.flush();
            return;
        }
        if inner.buffer.len() + record.len() > inner.capacity {
            inner.flush();
        }
        if record.len() > inner.capacity {
            _ = inner.info.write_all(record.as_bytes());
            _ = inner.info.flush();
        } else {
            inner.buffer.extend_from_slice(record.as_bytes());
        }
    }

    pub(super) fn flush(&self) {
        self.lock().flush();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock()
    }
}

impl Inner {
    fn flush(&mut self) {
        if !self.buffer.is_empty() {
            _ = self.info.write_all(&self.buffer);
            _ = self.info.flush();
            self.buffer.clear();
        }
    }
}
