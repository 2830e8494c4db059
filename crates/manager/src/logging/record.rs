//! A log record, independent of its format.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing::{Event, Level};

use super::{component, fatal, filter};

/// The severity of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    Info,
    Warning,
    Error,
    Fatal,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// Text, to be quoted.
    Text(String),
    /// A number or Boolean, as JSON writes it.
    Bare(String),
    /// Text that `Debug` has already quoted.
    Quoted(String),
}

/// A log record, independent of its format.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Record {
    pub(super) severity: Severity,
    /// Verbosity of the record; 0 for warnings and errors.
    pub(super) verbosity: i32,
    /// Path and line of the statement that logged the record.
    pub(super) file: String,
    pub(super) line: u32,
    /// Source of the record: a controller, the provider or another component.
    pub(super) component: Option<&'static str>,
    pub(super) message: String,
    /// Fields in order, the error first.
    pub(super) fields: Vec<(&'static str, Value)>,
}

impl Record {
    pub(super) fn of(event: &Event<'_>) -> Self {
        let metadata = event.metadata();
        let severity = match *metadata.level() {
            _ if metadata.target() == fatal::TARGET => Severity::Fatal,
            Level::ERROR => Severity::Error,
            Level::WARN => Severity::Warning,
            _ => Severity::Info,
        };
        let mut record = Self {
            severity,
            verbosity: filter::lowest_verbosity(*metadata.level()).unwrap_or_default(),
            file: metadata.file().unwrap_or("unknown").to_owned(),
            line: metadata.line().unwrap_or_default(),
            component: component::of(metadata.target()),
            message: String::new(),
            fields: Vec::new(),
        };
        event.record(&mut record);
        record.fields.sort_by_key(|(name, _)| *name != "err");
        record
    }

    /// Returns the name of the file, with its directory if the name alone says nothing, such as `mod.rs`.
    pub(super) fn caller(&self) -> &str {
        let Some((path, name)) = self.file.rsplit_once('/') else {
            return &self.file;
        };
        let start = match name {
            "mod.rs" => path.rfind('/').map_or(0, |slash| slash + 1),
            _ => path.len() + 1,
        };
        &self.file[start..]
    }

    fn take(&mut self, field: &Field, value: Value) {
        let name = match field.name() {
            // Parsers of klog lines look for this key.
            "error" => "err",
            // The field has another spelling because the plain word is a keyword of Rust.
            name => name
                .strip_prefix("r#")
                .unwrap_or(name)
                .trim_end_matches('_'),
        };
        match (name, value) {
            ("message", Value::Text(text) | Value::Bare(text) | Value::Quoted(text)) => {
                self.message = text;
            }
            // The location of the caller for whom another function logs.
            ("log.file", Value::Text(text)) => self.file = text,
            ("log.line", Value::Bare(text)) => self.line = text.parse().unwrap_or_default(),
            ("v", Value::Bare(text)) => self.verbosity = text.parse().unwrap_or_default(),
            (name, value) => self.fields.push((name, value)),
        }
    }
}

impl Visit for Record {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        let value = if field.name() != "message" && is_literal(&text) {
            Value::Quoted(text)
        } else {
            Value::Text(text)
        };
        self.take(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, Value::Text(value.to_owned()));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.take(field, Value::Text(value.to_string()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.take(field, Value::Bare(value.to_string()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.take(field, Value::Bare(value.to_string()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.take(field, Value::Bare(value.to_string()));
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.take(field, Value::Bare(value.to_string()));
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.take(field, Value::Bare(value.to_string()));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        let number =
            serde_json::Number::from_f64(value).map(|number| Value::Bare(number.to_string()));
        self.take(
            field,
            number.unwrap_or_else(|| Value::Text(value.to_string())),
        );
    }
}

/// The verbosity in a record's field `v`.
#[derive(Default)]
pub(super) struct NamedVerbosity(pub(super) Option<i32>);

impl Visit for NamedVerbosity {
    fn record_debug(&mut self, _field: &Field, _value: &dyn fmt::Debug) {}

    fn record_i64(&mut self, field: &Field, value: i64) {
        if field.name() == "v" {
            self.0 = Some(i32::try_from(value).unwrap_or(i32::MAX));
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "v" {
            self.0 = Some(i32::try_from(value).unwrap_or(i32::MAX));
        }
    }
}

/// Returns `true` if the text is a single `Debug` literal, which would be hard to read if quoted again.
fn is_literal(text: &str) -> bool {
    let Some(inner) = text
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
    else {
        return false;
    };
    let mut escaped = false;
    for c in inner.chars() {
        match c {
            '"' if !escaped => return false,
            c if c.is_control() => return false,
            c => escaped = c == '\\' && !escaped,
        }
    }
    !escaped
}
