//! Log records as they are written.
//!
//! Rules: FLAG-51.

use std::io::Write;
use std::sync::Arc;

use jiff::civil::date;
use jiff::tz::{TimeZone, offset};
use parking_lot::Mutex;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::options::Streams;
use super::record::{Record, Severity, Value as Field};
use super::*;

/// A stream that is kept in memory. Clones write to the same stream.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }

    /// The records without their headers and components.
    fn said(&self) -> Vec<String> {
        let message = |line: &str| {
            let rest = line.split_once("] ").map_or(line, |(_, rest)| rest);
            rest.split_once(" logger=")
                .map_or(rest, |(message, _)| message.trim_matches('"'))
                .to_owned()
        };
        self.text().lines().map(message).collect()
    }
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns the informational records and the errors that `say` logs with these options.
fn heard(options: &LoggingOptions, say: impl FnOnce(&Handle)) -> (Kept, Kept) {
    let info = Kept::default();
    let errors = Kept::default();
    let (log, handle) = subscriber(options, info.clone(), errors.clone());
    tracing::subscriber::with_default(log, || say(&handle));
    (info, errors)
}

fn with_verbosity(verbosity: i32) -> LoggingOptions {
    LoggingOptions {
        verbosity,
        ..LoggingOptions::default()
    }
}

fn json_options() -> LoggingOptions {
    LoggingOptions {
        format: Format::Json,
        ..LoggingOptions::default()
    }
}

fn record(severity: Severity, message: &str, fields: Vec<(&'static str, Field)>) -> Record {
    let file = "crates/controllers/src/node/shell.rs".to_owned();
    Record {
        severity,
        verbosity: 0,
        file,
        line: 42,
        component: None,
        message: message.to_owned(),
        fields,
    }
}

fn klog(record: &Record) -> String {
    let now = date(2026, 1, 2)
        .at(3, 4, 5, 6_789_000)
        .to_zoned(TimeZone::fixed(offset(1)))
        .unwrap();
    let mut line = String::new();
    text::write(&mut line, record, &now, 123);
    line
}

#[test]
fn a_record_has_the_layout_of_klog() {
    let text = |text: &str| Field::Text(text.to_owned());
    let table = [
        (
            record(Severity::Info, "Caches are synced", vec![]),
            "I0102 03:04:05.006789     123 shell.rs:42] Caches are synced\n",
        ),
        (
            record(
                Severity::Warning,
                "held",
                vec![("node", text("a")), ("nodes", Field::Bare("3".into()))],
            ),
            "W0102 03:04:05.006789     123 shell.rs:42] \"held\" node=\"a\" nodes=3\n",
        ),
        (
            record(
                Severity::Error,
                "failed",
                vec![("err", text("said \"no\" to\t\u{1b}[31m"))],
            ),
            "E0102 03:04:05.006789     123 shell.rs:42] \"failed\" err=\"said \\\"no\\\" to\\t\\x1b[31m\"\n",
        ),
        (
            record(
                Severity::Info,
                "done",
                vec![
                    ("patch", text("a: 1\n >\n\tb: 2\n")),
                    ("ok", Field::Bare("true".into())),
                ],
            ),
            "I0102 03:04:05.006789     123 shell.rs:42] \"done\" patch=<\n\ta: 1\n\t >\n\t\tb: 2\n > ok=true\n",
        ),
        (
            record(Severity::Fatal, "two\nE0102 lines\u{1b}[2J", vec![]),
            "F0102 03:04:05.006789     123 shell.rs:42] two\n\tE0102 lines\\x1b[2J\n",
        ),
        (
            record(
                Severity::Info,
                "two\nlines",
                vec![("why", Field::Quoted("\"so\"".into()))],
            ),
            "I0102 03:04:05.006789     123 shell.rs:42] \"two\\nlines\" why=\"so\"\n",
        ),
    ];
    for (record, expected) in table {
        assert_eq!(klog(&record), expected);
    }
    let of = |message: &str| Record {
        component: Some("routes"),
        ..record(Severity::Info, message, vec![])
    };
    assert_eq!(
        klog(&of("done")),
        "I0102 03:04:05.006789     123 shell.rs:42] \"done\" logger=\"routes\"\n"
    );
    assert!(
        klog(&of("two\nlines")).ends_with("] two\n\tlines\n"),
        "a paragraph for people stays one"
    );
    let module = Record {
        file: "crates/manager/src/logging/mod.rs".into(),
        ..record(Severity::Info, "x", vec![])
    };
    assert!(
        klog(&module).contains(" logging/mod.rs:42] x"),
        "a mod.rs comes with its directory"
    );
}

#[test]
fn a_record_in_json_has_the_fields_of_the_reference() {
    let write = |record: &Record| {
        let mut line = String::new();
        json::write(
            &mut line,
            record,
            "2026-01-02T03:04:05.006789Z".parse().unwrap(),
        );
        assert!(
            line.ends_with("}\n") && line.matches('\n').count() == 1,
            "{line}"
        );
        line
    };
    let fields = vec![
        ("err", Field::Text("a\n\"b\"".into())),
        ("count", Field::Bare("3".into())),
        ("why", Field::Quoted(r#""it\"s""#.into())),
        ("msg", Field::Text("taken".into())),
    ];
    let line = write(&record(Severity::Error, "failed", fields));
    let expected = json!({"ts": 1_767_323_045_006.789, "caller": "shell.rs:42", "msg": "failed", "err": "a\n\"b\"",
        "count": 3, "why": "it\"s", "msg_": "taken"});
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), expected);
    let info = write(&Record {
        verbosity: 4,
        ..record(Severity::Info, "ok", vec![])
    });
    assert_eq!(
        info,
        "{\"ts\":1767323045006.789,\"caller\":\"shell.rs:42\",\"msg\":\"ok\",\"v\":4}\n"
    );
    assert!(write(&record(Severity::Warning, "hm", vec![])).contains("\"v\":0"));
    let named = Record {
        component: Some("routes"),
        ..record(Severity::Info, "ok", vec![])
    };
    assert!(write(&named).ends_with("\"msg\":\"ok\",\"v\":0,\"logger\":\"routes\"}\n"));
}

#[test]
fn events_become_records() {
    let (_, log) = heard(&with_verbosity(6), |_| {
        let error = std::io::Error::other("no \"answer\"");
        tracing::info!("plain {}", 7);
        tracing::warn!(node = "a", %error, took = ?std::time::Duration::from_secs(2), name = ?"b\"c", "slow");
        tracing::error!(
            error = &error as &dyn std::error::Error,
            share = 0.5,
            nan = f64::NAN,
            none = Option::<u8>::None,
            big = u128::MAX,
            "bad"
        );
        tracing::trace!(r#type = "x", v = 7, "not at 6");
        tracing::info!(v = 5, type_ = "x", "five");
    });
    assert_eq!(
        log.said(),
        [
            "plain 7",
            r#""slow" err="no \"answer\"" node="a" took="2s" name="b\"c""#,
            r#""bad" err="no \"answer\"" share=0.5 nan="NaN" big=340282366920938463463374607431768211455"#,
            r#""five" type="x""#,
        ]
    );
}

const NO_CONNECTION: &str = "failed with error client error (Connect)";

/// Logs one record of each level and verbosity.
fn say_one_of_each() {
    tracing::error!("error");
    tracing::warn!("warning");
    tracing::info!("info");
    tracing::info!(v = 1, "one");
    tracing::info!(v = 3, "three");
    tracing::debug!("debug");
    tracing::trace!("trace");
    tracing::info!(target: "hyper::client", "library's info");
    tracing::warn!(target: "rustls", "library's warning");
    tracing::warn!(target: "kube_client::client", "body of an answer");
    tracing::error!(target: "kube_client::client", "kube's error");
    tracing::error!(target: "kube_client::client::builder", "{NO_CONNECTION}");
    tracing::info!(target: "provider_acme", "provider");
}

#[test]
fn verbosity_says_what_is_written() {
    let always = ["error", "warning", "library's warning", "kube's error"];
    let table: [(i32, &[&str]); 7] = [
        (filter::WARNINGS_ONLY, &[]),
        (0, &["info", "provider"]),
        (1, &["info", "one", "provider"]),
        (3, &["info", "one", "three", "provider"]),
        (
            4,
            &["info", "one", "three", "debug", NO_CONNECTION, "provider"],
        ),
        (
            5,
            &["info", "one", "three", "debug", NO_CONNECTION, "provider"],
        ),
        (
            10,
            &[
                "info",
                "one",
                "three",
                "debug",
                "trace",
                NO_CONNECTION,
                "provider",
            ],
        ),
    ];
    // One log for all records, as if an operator changed the verbosity.
    let (_, log) = heard(&with_verbosity(0), |handle| {
        for (verbosity, more) in table {
            handle.set_verbosity(verbosity);
            assert_eq!(handle.verbosity(), verbosity);
            tracing::error!("now {verbosity}");
            say_one_of_each();
            tracing::error!("expected {}", [&always[..], more].concat().join(","));
        }
    });
    let said = log.said();
    for of_one in said.split(|line| line.starts_with("now ")).skip(1) {
        let (last, said) = of_one.split_last().unwrap();
        let mut expected: Vec<&str> = last.strip_prefix("expected ").unwrap().split(',').collect();
        let mut said: Vec<&str> = said.iter().map(String::as_str).collect();
        expected.sort_unstable();
        said.sort_unstable();
        assert_eq!(said, expected, "{last}");
    }
}

#[test]
fn a_pattern_raises_the_verbosity_of_its_files_only() {
    let table = [
        ("tests=4", true),
        ("te?t*=4", true),
        ("logging=4", true),
        ("manager::logging::*=4", true),
        ("*/manager/src/logging/tests=9", true),
        ("other=9", false),
        ("manager::other::*=9", false),
        ("logg=9", false),
        ("tests=3", false),
        ("tests=1,tests=9", false),
    ];
    for (pattern, expected) in table {
        let options = LoggingOptions {
            vmodule: pattern.parse().unwrap(),
            ..with_verbosity(0)
        };
        let (_, log) = heard(&options, |_| say_one_of_each());
        assert_eq!(
            log.said().contains(&"debug".to_owned()),
            expected,
            "{pattern}"
        );
    }
    let raised = LoggingOptions {
        vmodule: "*=9".parse().unwrap(),
        ..with_verbosity(0)
    };
    let (_, log) = heard(&raised, |_| say_one_of_each());
    assert!(
        !log.text().contains("library's info"),
        "libraries' lines may quote secrets"
    );
    let lower = LoggingOptions {
        vmodule: "tests=0".parse().unwrap(),
        ..with_verbosity(4)
    };
    assert!(
        heard(&lower, |_| say_one_of_each())
            .1
            .text()
            .contains("debug"),
        "a pattern never lowers"
    );
}

#[test]
fn a_pattern_that_is_none_is_refused() {
    assert_eq!(
        "foo".parse::<Vmodule>().unwrap_err(),
        r#""foo" does not have the pattern=N format"#
    );
    assert_eq!(
        "a=1,b=x".parse::<Vmodule>().unwrap_err(),
        r#""b=x" does not have the pattern=N format"#
    );
    assert!(
        "=3".parse::<Vmodule>().is_err()
            && "a=-1".parse::<Vmodule>().unwrap_err().contains("negative")
    );
    assert!("".parse::<Vmodule>().unwrap().is_empty());
    assert_eq!(
        "xml".parse::<Format>().unwrap_err(),
        r#"Invalid value: "xml": Unsupported log format"#
    );
}

#[test]
fn split_streams_part_errors_from_information() {
    let streams = Streams {
        split: true,
        info_buffer_size: 0,
    };
    let text = LoggingOptions {
        text: streams,
        ..with_verbosity(0)
    };
    let (info, errors) = heard(&text, |_| say_one_of_each());
    assert!(
        info.said()
            .iter()
            .all(|line| ["info", "provider"].contains(&line.as_str())),
        "{}",
        info.text()
    );
    assert!(
        errors
            .text()
            .lines()
            .all(|line| line.starts_with(['W', 'E'])),
        "{}",
        errors.text()
    );
    let json = LoggingOptions {
        json: streams,
        ..json_options()
    };
    let (info, errors) = heard(&json, |_| say_one_of_each());
    assert!(info.text().contains("\"warning\"") && errors.text().contains("\"error\""));
    assert!(
        errors.text().lines().all(|line| !line.contains("\"v\":")),
        "{}",
        errors.text()
    );
}

#[test]
fn information_waits_in_its_buffer_until_an_error_or_a_flush() {
    let text = Streams {
        split: true,
        info_buffer_size: 200,
    };
    let info = Kept::default();
    let errors = Kept::default();
    let (log, handle) = subscriber(
        &LoggingOptions {
            text,
            ..with_verbosity(0)
        },
        info.clone(),
        errors.clone(),
    );
    tracing::subscriber::with_default(log, || {
        tracing::info!("first");
        assert_eq!(info.text(), "");
        tracing::error!("an error");
        assert_eq!(
            info.said(),
            ["first"],
            "what led to an error is written before it"
        );
        tracing::info!("second");
        handle.flush();
        assert_eq!(info.said(), ["first", "second"]);
        tracing::info!("third");
        tracing::info!("{}", "long".repeat(100));
        assert_eq!(
            info.said().len(),
            4,
            "a record that does not fit pushes the others out, in order"
        );
    });
    assert_eq!(info.said()[2], "third");
}

#[test]
fn a_fatal_line_names_its_caller() {
    let line = line!() + 1;
    let (_, log) = heard(&with_verbosity(0), |_| fatal("cannot go on:\nno cloud"));
    let text = log.text();
    assert!(
        text.starts_with('F')
            && text.ends_with(&format!(" tests.rs:{line}] cannot go on:\n\tno cloud\n")),
        "{text}"
    );
    let (_, log) = heard(&json_options(), |_| fatal("cannot go on"));
    assert!(!log.text().contains("\"v\""), "{}", log.text());
}

#[test]
fn flags_are_listed_in_order_at_verbosity_1() {
    let flags = || {
        [("v", "1"), ("cloud-provider", "a\"b")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    assert_eq!(
        heard(&with_verbosity(0), |_| log_flags(flags())).1.text(),
        ""
    );
    let (_, log) = heard(&with_verbosity(1), |_| log_flags(flags()));
    assert_eq!(
        log.said(),
        [r#"FLAG: --cloud-provider="a\"b""#, r#"FLAG: --v="1""#]
    );
}

#[test]
fn a_panic_is_one_error_with_its_place() {
    let own = std::thread::current().id();
    let standard = std::panic::take_hook();
    // Other tests of this process keep their panic report.
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().id() == own {
            panics::log_panic(info);
        } else {
            standard(info);
        }
    }));
    let line = line!() + 2;
    let (_, log) = heard(&with_verbosity(0), |_| {
        let caught = std::panic::catch_unwind(|| panic!("two\nlines of {}", "text"));
        assert!(caught.is_err());
    });
    let text = log.text();
    let first = text.lines().next().unwrap();
    let expected = format!(r#" tests.rs:{line}] "panic" err="two lines of text" thread=""#);
    assert!(
        first.starts_with('E') && first.contains(&expected),
        "{text}"
    );
}

proptest! {
    #[test]
    fn any_message_is_one_log_record(message in ".*", key in any::<String>(), structured: bool) {
        let fields = if structured { vec![("key", Field::Text(key.clone()))] } else { Vec::new() };
        let record = record(Severity::Info, &message, fields);
        let text = klog(&record);
        // Only the first line begins like a record; further lines are indented or end a text of several lines.
        prop_assert!(text.ends_with('\n'));
        prop_assert!(text.lines().skip(1).all(|line| line.starts_with(['\t', ' '])), "{}", text);
        prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
        let mut line = String::new();
        json::write(&mut line, &record, jiff::Timestamp::UNIX_EPOCH);
        let read: Value = serde_json::from_str(&line).unwrap();
        prop_assert_eq!(read["msg"].as_str(), Some(message.as_str()));
        prop_assert!(!structured || read["key"] == key.as_str());
    }
}

#[test]
fn log_beside_a_report_is_a_sentence_on_one_line() {
    let options = LoggingOptions {
        format: Format::Report,
        verbosity: -1,
        ..LoggingOptions::default()
    };
    let (_, errors) = heard(&options, |_| {
        tracing::info!(target: "manager", "not logged");
        tracing::warn!(target: "manager", path = "/etc/token", "every user may write the file");
        tracing::error!(target: "manager", "two\nlines \u{1b}[2J");
    });
    let expected = "Warning: every user may write the file (path=\"/etc/token\")\nError: two\\nlines \\x1b[2J\n";
    assert_eq!(errors.text(), expected);
}
