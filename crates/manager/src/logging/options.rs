//! Options of the log, set by flags.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The options of the log (FLAG-50: in every binary).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggingOptions {
    /// Format of records (`--logging-format`).
    pub format: Format,
    /// Value of `-v`: records up to this verbosity are written.
    pub verbosity: i32,
    /// Value of `--vmodule`: a higher verbosity for some source files.
    pub vmodule: Vmodule,
    /// Value of `--log-flush-frequency`: maximum time that records are buffered. Must be greater than zero.
    pub flush_frequency: Duration,
    /// Values of `--log-text-split-stream` and `--log-text-info-buffer-size`.
    pub text: Streams,
    /// Values of `--log-json-split-stream` and `--log-json-info-buffer-size`.
    pub json: Streams,
}

impl Default for LoggingOptions {
    /// Returns text on standard error with verbosity 0.
    fn default() -> Self {
        Self {
            format: Format::Text,
            verbosity: 0,
            vmodule: Vmodule::default(),
            flush_frequency: Duration::from_secs(5),
            text: Streams::default(),
            json: Streams::default(),
        }
    }
}

impl LoggingOptions {
    /// Returns the streams of the chosen format.
    pub(super) fn streams(&self) -> Streams {
        match self.format {
            Format::Text | Format::Report => self.text,
            Format::Json => self.json,
        }
    }
}

/// The format of a record (FLAG-51).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// klog's text format: `Lmmdd hh:mm:ss.uuuuuu <pid> file:line] message`.
    #[default]
    Text,
    /// JSON with one object on each line.
    Json,
    /// Sentences beside the output of a subcommand: `Warning: message (key=value)`. No flag chooses this format.
    Report,
}

impl Format {
    /// Returns the format as `--logging-format` and `/configz` spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Report => "report",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Format {
    type Err = String;

    /// Parses a format. The error text is the part after `format: ` of the message that operators know.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(format!("Invalid value: {other:?}: Unsupported log format")),
        }
    }
}

/// The output streams of a format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// If set, informational records go to standard output and errors to standard error; otherwise all records go to
    /// standard error.
    pub split: bool,
    /// Size of the buffer for informational records in bytes; 0 disables buffering. Has no effect unless the streams
    /// are split.
    pub info_buffer_size: usize,
}

/// Verbosity of some source files: `pattern=N,…`. The first matching pattern applies.
///
/// A pattern (`*` and `?` as in a shell) is matched against the file name without `.rs` and against each part of the
/// module path. A pattern with `::` is matched against the whole module path, a pattern with `/` against the whole file
/// path. Patterns can only raise the verbosity of `-v`.
///
/// ```
/// use manager::logging::Vmodule;
///
/// let vmodule: Vmodule = "route=4, controllers::node::*=6".parse().unwrap();
/// assert_eq!(vmodule.to_string(), "route=4,controllers::node::*=6");
/// let error = "foo".parse::<Vmodule>().unwrap_err();
/// assert_eq!(error, r#""foo" does not have the pattern=N format"#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vmodule(pub(super) Vec<(String, i32)>);

impl FromStr for Vmodule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let items = text
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty());
        let parsed = items.map(|item| {
            let fits = item
                .split_once('=')
                .filter(|(pattern, _)| !pattern.trim().is_empty());
            let level = fits.and_then(|(pattern, level)| {
                Some((pattern.trim(), level.trim().parse::<i32>().ok()?))
            });
            match level {
                Some((pattern, level)) if level >= 0 => Ok((pattern.to_owned(), level)),
                Some(_) => Err(format!(
                    "{item:?} asks for a negative verbosity; write a number from 0 on"
                )),
                None => Err(format!("{item:?} does not have the pattern=N format")),
            }
        });
        parsed.collect::<Result<Vec<_>, _>>().map(Self)
    }
}

impl fmt::Display for Vmodule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (pattern, level)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{pattern}={level}")?;
        }
        Ok(())
    }
}

impl Vmodule {
    /// Returns `true` if no pattern is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the patterns and their verbosity, in order (for `/configz`).
    pub fn iter(&self) -> impl Iterator<Item = (&str, i32)> {
        self.0
            .iter()
            .map(|(pattern, level)| (pattern.as_str(), *level))
    }
}
