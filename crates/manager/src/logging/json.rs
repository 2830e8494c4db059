//! Log records in JSON format (FLAG-51).

use std::fmt::Write as _;

use jiff::Timestamp;
use serde_json::Value as Json;

use super::record::{Record, Severity, Value};

/// Keys that each record writes itself.
const OWN: [&str; 5] = ["ts", "caller", "msg", "v", "logger"];

/// Appends the record and a line break. Errors have no `v`.
pub(super) fn write(to: &mut String, record: &Record, now: Timestamp) {
    // Milliseconds with three decimals fit a double exactly enough for some 280,000 years.
    let milliseconds = Json::from(now.as_microsecond() as f64 / 1_000.0);
    let caller = Json::from(format!("{}:{}", record.caller(), record.line));
    _ = write!(
        to,
        r#"{{"ts":{milliseconds},"caller":{caller},"msg":{}"#,
        Json::from(record.message.as_str())
    );
    if record.severity < Severity::Error {
        _ = write!(to, r#","v":{}"#, record.verbosity);
    }
    if let Some(component) = record.component {
        _ = write!(to, r#","logger":{}"#, Json::from(component));
    }
    for (name, value) in &record.fields {
        let suffix = if OWN.contains(name) { "_" } else { "" };
        _ = write!(to, ",{}:", Json::from(format!("{name}{suffix}")));
        match value {
            Value::Bare(text) => to.push_str(text),
            Value::Text(text) => _ = write!(to, "{}", Json::from(text.as_str())),
            Value::Quoted(text) => _ = write!(to, "{}", Json::from(unquoted(text))),
        }
    }
    to.push_str("}\n");
}

/// Returns the text inside a quoted literal; a literal with an escape that JSON does not know is returned unchanged.
fn unquoted(text: &str) -> String {
    serde_json::from_str(text).unwrap_or_else(|_| text.to_owned())
}
