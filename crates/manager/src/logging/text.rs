//! Log records in klog's text format (FLAG-51).

use std::fmt::Write as _;

use cloud_provider::{visible, write_visibly};
use jiff::Zoned;

use super::quote::quoted;
use super::record::{Record, Severity, Value};

/// Appends the record and a line break. A record with fields or a component is structured: its message is quoted.
pub(super) fn write(to: &mut String, record: &Record, now: &Zoned, pid: u32) {
    write_header(to, record, now, pid);
    // A text of several paragraphs stays readable.
    let component = record
        .component
        .filter(|_| !record.fields.is_empty() || !record.message.contains('\n'));
    if record.fields.is_empty() && component.is_none() {
        write_plain(to, &record.message);
    } else {
        _ = write!(to, "{}", quoted(&record.message));
    }
    if let Some(component) = component {
        _ = write!(to, " logger={}", quoted(component));
    }
    for (name, value) in &record.fields {
        _ = write!(to, " {name}=");
        match value {
            Value::Text(text) if text.contains('\n') => write_lines(to, text),
            Value::Text(text) => _ = write!(to, "{}", quoted(text)),
            Value::Bare(text) | Value::Quoted(text) => to.push_str(text),
        }
    }
    to.push('\n');
}

/// Appends the record as one line for a person who reads the output of a subcommand: no time, no source.
pub(super) fn write_sentence(to: &mut String, record: &Record) {
    to.push_str(match record.severity {
        Severity::Info => "Note: ",
        Severity::Warning => "Warning: ",
        Severity::Error | Severity::Fatal => "Error: ",
    });
    to.push_str(&visible(&record.message));
    for (index, (name, value)) in record.fields.iter().enumerate() {
        _ = write!(to, "{}{name}=", if index == 0 { " (" } else { ", " });
        match value {
            Value::Text(text) => _ = write!(to, "{}", quoted(text)),
            Value::Bare(text) | Value::Quoted(text) => to.push_str(text),
        }
    }
    to.push_str(if record.fields.is_empty() {
        "\n"
    } else {
        ")\n"
    });
}

fn write_header(to: &mut String, record: &Record, now: &Zoned, pid: u32) {
    let severity = match record.severity {
        Severity::Info => 'I',
        Severity::Warning => 'W',
        Severity::Error => 'E',
        Severity::Fatal => 'F',
    };
    let date = now.date();
    let time = now.time();
    let micros = now.subsec_nanosecond() / 1_000;
    _ = write!(
        to,
        "{severity}{:02}{:02} {:02}:{:02}:{:02}.{micros:06} {pid:>7} {}:{}] ",
        date.month(),
        date.day(),
        time.hour(),
        time.minute(),
        time.second(),
        record.caller(),
        record.line,
    );
}

/// Appends a message without quotes, indented and escaped so that no part of it can look like another record or move a
/// terminal's cursor.
fn write_plain(to: &mut String, message: &str) {
    for c in message.trim_end_matches('\n').chars() {
        match c {
            '\n' => to.push_str("\n\t"),
            '\t' => to.push('\t'),
            c => _ = write_visibly(to, c),
        }
    }
}

/// Appends each line indented by a tab, and a space before the closing mark, so that no line can be taken for the end.
fn write_lines(to: &mut String, text: &str) {
    to.push_str("<\n");
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        to.push('\t');
        for c in line.chars() {
            match c {
                '\t' => to.push('\t'),
                c => _ = write_visibly(to, c),
            }
        }
        to.push('\n');
    }
    to.push_str(" >");
}
