//! The output of the scenario while it runs: lines for people, objects for programs.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::time::Duration;

use serde_json::json;

use super::arguments::Output;
use super::observed::ObservedEvent;
use super::report::Report;
use super::runner::{Progress, StepOutcome};
use super::scenario::ScenarioStep;

const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[31m";
const DIM: &str = "\x1b[2m";
const BOLD: &str = "\x1b[1m";
const RESET: &str = "\x1b[0m";

/// Width of the progress bar in characters.
const BAR: usize = 24;
/// Columns of a terminal that does not report its width.
const WIDTH: usize = 100;
/// Minimum number of columns for text.
const NARROWEST: usize = 40;
/// Indentation of titles and details.
const INDENT: &str = "                   ";
/// Indentation of the further lines of a text that is wrapped.
const HANGING: &str = "    ";
/// A space at which no line is broken.
const NO_BREAK: char = '\u{a0}';

/// The capabilities of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Style {
    /// If set, colours are written as escape codes.
    pub(super) colour: bool,
    /// If set, a line is overwritten while a step runs.
    pub(super) live: bool,
    /// If set, the output is JSON instead of text.
    pub(super) json: bool,
}

impl Style {
    /// Returns the style for an output: plain lines for a file or pipe, colours and a live line for a terminal.
    /// `no_color` and `term` are the values of `NO_COLOR` and `TERM`.
    pub(super) fn new(
        output: Output,
        terminal: bool,
        no_color: Option<&OsStr>,
        term: Option<&OsStr>,
    ) -> Self {
        let json = output == Output::Json;
        let live = terminal && !json && term != Some(OsStr::new("dumb"));
        Self {
            colour: live && no_color.is_none_or(OsStr::is_empty),
            live,
            json,
        }
    }
}

/// The number of columns of the terminal, which may change while the scenario runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Width(fn() -> Option<u16>);

impl Width {
    /// Returns the width of the terminal that standard output is connected to.
    pub(super) fn of_terminal() -> Self {
        Self(|| {
            rustix::termios::tcgetwinsize(std::io::stdout())
                .ok()
                .map(|size| size.ws_col)
        })
    }

    /// Returns the number of columns for text after `indent`.
    fn of_text(self, indent: &str) -> usize {
        let columns = (self.0)()
            .map(usize::from)
            .filter(|columns| *columns > 0)
            .unwrap_or(WIDTH);
        columns.saturating_sub(indent.len()).max(NARROWEST)
    }
}

/// A writer of the scenario. After a failure to write, nothing more is written. A closed pipe is not a failure: the exit
/// code tells the result.
pub(super) struct Timeline<W> {
    out: W,
    /// First error of the output.
    error: Option<io::Error>,
    style: Style,
    width: Width,
    /// Number of characters in the current live line.
    live: usize,
}

impl<W: Write> Timeline<W> {
    pub(super) fn new(out: W, style: Style, width: Width) -> Self {
        Self {
            out,
            error: None,
            style,
            width,
            live: 0,
        }
    }

    /// Returns the message about output that could not be written; `None` also after a closed pipe.
    pub(super) fn failure(&self) -> Option<String> {
        let error = self
            .error
            .as_ref()
            .filter(|error| error.kind() != io::ErrorKind::BrokenPipe);
        error.map(manager::unwritable)
    }

    /// Writes an event of the cluster.
    pub(super) fn event(&mut self, event: &ObservedEvent) {
        let ObservedEvent {
            kind,
            about,
            reason,
            message,
            ..
        } = event;
        match self.style.json {
            true => {
                let event =
                    json!({"kind": kind, "name": about, "reason": reason, "message": message});
                self.line(&json!({ "event": event }).to_string());
            }
            false => self.wrap("", HANGING, &format!("{kind} {about}: {reason}: {message}")),
        }
    }

    /// Writes a line outside the scenario; not written for programs.
    pub(super) fn write_line(&mut self, text: &str) {
        if !self.style.json {
            self.clear();
            self.line(text);
        }
    }

    /// Writes a line for people, or `object` for programs.
    pub(super) fn announce(&mut self, text: &str, object: &serde_json::Value) {
        if self.style.json {
            self.line(&object.to_string());
        } else {
            self.write_line(text);
        }
    }

    /// Writes the progress of a step, `at` after the start of the scenario.
    pub(super) fn progress(&mut self, at: Duration, step: &ScenarioStep, progress: &Progress) {
        if !self.style.live {
            return;
        }
        let filled = BAR * progress.done.min(progress.of) / progress.of.max(1);
        let bar = format!("{}{}", "#".repeat(filled), ".".repeat(BAR - filled));
        let text = format!(
            "{:8.2} s  ...   {:<10} [{bar}] {} of {}",
            at.as_secs_f64(),
            step.name,
            progress.done,
            progress.of
        );
        let width = text.chars().count();
        let blanks = self.live.saturating_sub(width);
        self.write(&format!("\r{text}{}", " ".repeat(blanks)));
        self.live = width + blanks;
    }

    /// Writes the result of a step.
    pub(super) fn step(&mut self, at: Duration, step: &ScenarioStep, outcome: &StepOutcome) {
        if self.style.json {
            return self.line(&step_object(at, step, outcome).to_string());
        }
        self.clear();
        let (colour, word) = if outcome.result.is_ok() {
            (GREEN, "ok    ")
        } else {
            (RED, "FAILED")
        };
        let word = self.paint(colour, word);
        let took = format!("({:.2}{NO_BREAK}s)", outcome.took.as_secs_f64());
        let mut prefix = format!("{:8.2} s  {word} ", at.as_secs_f64());
        for part in wrapped(&format!("{} {took}", step.title), self.columns(INDENT)) {
            let part = match part.strip_suffix(&took) {
                None => part,
                Some(title) => format!("{title}{}", self.paint(DIM, &took.replace(NO_BREAK, " "))),
            };
            self.line(&format!("{prefix}{part}"));
            INDENT.clone_into(&mut prefix);
        }
        for detail in outcome.result.as_deref().unwrap_or_default() {
            for part in wrapped(detail, self.columns(INDENT)) {
                let part = self.paint(DIM, &part);
                self.line(&format!("{INDENT}{part}"));
            }
        }
    }

    /// Writes the end of the scenario.
    pub(super) fn report(&mut self, report: &Report) {
        if self.style.json {
            return self.line(&json!({ "summary": report.object() }).to_string());
        }
        self.clear();
        for section in report.sections() {
            let heading = self.paint(BOLD, &section.heading);
            self.line(&format!("\n{heading}"));
            for row in section.rows {
                match section.is_table {
                    true => self.line(&format!("  {row}")),
                    false => self.wrap("  ", HANGING, &row),
                }
            }
        }
    }

    /// Removes the live line to make room for other writers.
    pub(super) fn clear(&mut self) {
        if self.live > 0 {
            self.write(&format!("\r{}\r", " ".repeat(self.live)));
            self.live = 0;
        }
    }

    /// Writes a text that is wrapped on a terminal: `first` precedes its first line, and `next` the others.
    fn wrap(&mut self, first: &str, next: &str, text: &str) {
        let mut prefix = first;
        for part in wrapped(text, self.columns(next)) {
            self.line(&format!("{prefix}{part}"));
            prefix = next;
        }
    }

    /// Returns the number of columns for text after `indent`. Readers of a file or a pipe, such as grep, expect one line
    /// for each text.
    fn columns(&self, indent: &str) -> usize {
        if self.style.live {
            self.width.of_text(indent)
        } else {
            usize::MAX
        }
    }

    fn line(&mut self, text: &str) {
        self.write(&format!("{text}\n"));
    }

    fn write(&mut self, text: &str) {
        if self.error.is_none() {
            self.error = self
                .out
                .write_all(text.as_bytes())
                .and_then(|()| self.out.flush())
                .err();
        }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.style.colour {
            format!("{code}{text}{RESET}")
        } else {
            text.to_owned()
        }
    }
}

/// Wraps text into lines of at most `width` characters, broken between words.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.pop().unwrap_or_default();
        if line.is_empty() {
            lines.push(word.to_owned());
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            lines.push(format!("{line} {word}"));
        } else {
            lines.extend([line, word.to_owned()]);
        }
    }
    lines
}

fn step_object(at: Duration, step: &ScenarioStep, outcome: &StepOutcome) -> serde_json::Value {
    let mut object = json!({
        "step": step.name,
        "title": step.title,
        "ok": outcome.result.is_ok(),
        "seconds": super::report::rounded(outcome.took),
        "at": super::report::rounded(at),
    });
    match &outcome.result {
        Ok(shown) => object["seen"] = json!(shown),
        Err(failure) => {
            object["expected"] = json!(failure.expected);
            object["seen"] = json!([failure.seen]);
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::runner::Failure;

    const PLAIN: Style = Style {
        colour: false,
        live: false,
        json: false,
    };

    fn step() -> ScenarioStep {
        crate::demo::scenario::scenario(5, 3)
            .into_iter()
            .find(|step| step.name == "stop")
            .unwrap()
    }

    fn output_of(style: Style, run: impl FnOnce(&mut Timeline<&mut Vec<u8>>)) -> String {
        let mut out = Vec::new();
        run(&mut Timeline::new(&mut out, style, Width(|| Some(60))));
        String::from_utf8(out).unwrap()
    }

    fn outcome() -> StepOutcome {
        StepOutcome {
            took: Duration::from_millis(420),
            result: Ok(vec!["Node worker-2 is so".to_owned()]),
        }
    }

    fn failed() -> StepOutcome {
        let failure = Failure {
            expected: "a taint".to_owned(),
            seen: "no taint, after 30 s".to_owned(),
        };
        StepOutcome {
            took: Duration::from_secs(30),
            result: Err(failure),
        }
    }

    #[test]
    fn a_step_is_a_plain_line_with_what_shows_it() {
        let text = output_of(PLAIN, |timeline| {
            timeline.progress(
                Duration::from_secs(1),
                &step(),
                &Progress { done: 1, of: 2 },
            );
            timeline.step(Duration::from_millis(1500), &step(), &outcome());
        });
        assert_eq!(
            text,
            "    1.50 s  ok     the machine of worker-2 is stopped: its Node is tainted (0.42 s)\n                   Node worker-2 is so\n"
        );
    }

    #[test]
    fn a_failed_step_says_so_in_red() {
        let text = output_of(
            Style {
                colour: true,
                ..PLAIN
            },
            |timeline| {
                timeline.step(Duration::from_secs(31), &step(), &failed());
            },
        );
        assert!(text.contains("\x1b[31mFAILED\x1b[0m"), "{text:?}");
    }

    #[test]
    fn the_live_line_is_overwritten_without_escape_codes() {
        let text = output_of(
            Style {
                live: true,
                ..PLAIN
            },
            |timeline| {
                timeline.progress(
                    Duration::from_secs(1),
                    &step(),
                    &Progress { done: 10, of: 20 },
                );
                timeline.progress(
                    Duration::from_secs(2),
                    &step(),
                    &Progress { done: 9, of: 20 },
                );
                timeline.step(Duration::from_secs(3), &step(), &outcome());
            },
        );
        assert!(
            text.starts_with(
                "\r    1.00 s  ...   stop       [############............] 10 of 20\r"
            ),
            "{text:?}"
        );
        assert!(!text.contains('\x1b'));
        let last = text.rsplit('\r').next().unwrap();
        assert!(last.starts_with("    3.00 s  ok"), "{last:?}");
    }

    #[test]
    fn long_explanations_are_broken_between_words_on_a_terminal() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("unbreakable words", 3), ["unbreakable", "words"]);
        assert_eq!(wrapped("one line", usize::MAX), ["one line"]);
    }

    #[test]
    fn explanations_are_as_wide_as_the_terminal() {
        let text = output_of(
            Style {
                live: true,
                ..PLAIN
            },
            |timeline| {
                let detail =
                    "Node worker-2 has the taint of a Node whose machine was shut down".to_owned();
                timeline.step(
                    Duration::ZERO,
                    &step(),
                    &StepOutcome {
                        took: Duration::ZERO,
                        result: Ok(vec![detail]),
                    },
                );
            },
        );
        let longest = text.lines().skip(1).map(str::len).max();
        assert!(
            longest.is_some_and(|longest| (50..=60).contains(&longest)),
            "{text}"
        );
        let of_text = |columns: fn() -> Option<u16>| Width(columns).of_text(INDENT);
        assert_eq!(
            (of_text(|| None), of_text(|| Some(20))),
            (WIDTH - INDENT.len(), NARROWEST)
        );
    }

    #[test]
    fn no_line_of_the_scenario_is_wider_than_a_terminal_of_80_columns() {
        let mut out = Vec::new();
        let mut timeline = Timeline::new(
            &mut out,
            Style {
                live: true,
                ..PLAIN
            },
            Width(|| Some(80)),
        );
        for step in crate::demo::scenario::scenario(5, 3) {
            timeline.step(Duration::from_secs(31), &step, &outcome());
        }
        timeline.report(&crate::demo::report::tests::report());
        timeline.event(&ObservedEvent {
            message: "3 of 5 Nodes are without a machine; they are deleted if this lasts for 300 s"
                .to_owned(),
            ..event()
        });
        let text = String::from_utf8(out).unwrap();
        let wide: Vec<_> = text
            .lines()
            .filter(|line| line.chars().count() > 80)
            .collect();
        assert!(wide.is_empty(), "{wide:#?}");
        let broken = format!("worker-2 is stopped: its Node is tainted\n{INDENT}(0.42 s)\n");
        assert!(text.contains(&broken), "{text}");
    }

    #[test]
    fn a_full_disk_is_a_failure_and_a_closed_pipe_is_none() {
        struct Broken(io::ErrorKind);
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(self.0.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let failure = |kind| {
            let mut timeline = Timeline::new(Broken(kind), PLAIN, Width(|| Some(80)));
            assert_eq!(timeline.failure(), None);
            timeline.write_line("text");
            timeline.failure()
        };
        let full = failure(io::ErrorKind::StorageFull);
        assert!(full.is_some_and(|text| text.starts_with("cannot write to standard output: ")));
        assert_eq!(failure(io::ErrorKind::BrokenPipe), None);
    }

    fn event() -> ObservedEvent {
        ObservedEvent {
            kind: "Service".to_owned(),
            about: "web-1".to_owned(),
            reason: "EnsuredLoadBalancer".to_owned(),
            message: "Ensured load balancer".to_owned(),
            passes: 0,
        }
    }

    #[test]
    fn event_is_a_line_or_an_object() {
        let event = event();
        assert_eq!(
            output_of(PLAIN, |timeline| timeline.event(&event)),
            "Service web-1: EnsuredLoadBalancer: Ensured load balancer\n"
        );
        let object: serde_json::Value = serde_json::from_str(&output_of(
            Style {
                json: true,
                ..PLAIN
            },
            |timeline| timeline.event(&event),
        ))
        .unwrap();
        assert_eq!(
            (&object["event"]["name"], &object["event"]["kind"]),
            (&json!("web-1"), &json!("Service"))
        );
    }

    #[test]
    fn a_program_gets_one_object_for_each_step() {
        let text = output_of(
            Style {
                json: true,
                ..PLAIN
            },
            |timeline| {
                timeline.write_line("nothing");
                timeline.progress(
                    Duration::from_secs(1),
                    &step(),
                    &Progress { done: 1, of: 2 },
                );
                timeline.step(Duration::from_millis(1500), &step(), &outcome());
                timeline.step(Duration::from_secs(40), &step(), &failed());
            },
        );
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(
            (&lines[0]["step"], &lines[0]["ok"], &lines[0]["at"]),
            (&json!("stop"), &json!(true), &json!(1.5))
        );
        assert_eq!(
            (&lines[1]["ok"], &lines[1]["expected"]),
            (&json!(false), &json!("a taint"))
        );
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn colour_and_the_live_line_need_a_terminal_that_can_do_it() {
        let style = |terminal, no_color: Option<&str>, term: &str| {
            let style = Style::new(
                Output::Text,
                terminal,
                no_color.map(OsStr::new),
                Some(OsStr::new(term)),
            );
            (style.colour, style.live)
        };
        assert_eq!(style(true, None, "xterm"), (true, true));
        assert_eq!(
            style(true, Some(""), "xterm"),
            (true, true),
            "an empty NO_COLOR says nothing"
        );
        assert_eq!(style(true, Some("1"), "xterm"), (false, true));
        assert_eq!(style(true, None, "dumb"), (false, false));
        assert_eq!(style(false, None, "xterm"), (false, false));
        let json = Style::new(Output::Json, true, None, None);
        assert_eq!(
            json,
            Style {
                colour: false,
                live: false,
                json: true
            }
        );
    }
}
