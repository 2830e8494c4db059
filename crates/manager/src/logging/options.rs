//! What operators choose about the log; the flags fill it in.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How the log is written (FLAG-50: in every binary).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggingOptions {
    /// `--logging-format`.
    pub format: Format,
    /// `-v`: records of this verbosity and below are written.
    pub verbosity: i32,
    /// `--vmodule`: a higher verbosity for some source files.
    pub vmodule: Vmodule,
    /// `--log-flush-frequency`: what is buffered is written at least this often. It must be longer than zero.
    pub flush_frequency: Duration,
    /// `--log-text-split-stream` and `--log-text-info-buffer-size`.
    pub text: Streams,
    /// `--log-json-split-stream` and `--log-json-info-buffer-size`.
    pub json: Streams,
}

impl Default for LoggingOptions {
    /// Text on standard error, verbosity 0.
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
    /// The streams of the chosen format.
    pub(super) fn streams(&self) -> Streams {
        match self.format {
            Format::Text => self.text,
            Format::Json => self.json,
        }
    }
}

/// The form of a record (FLAG-51).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// klog's text: `Lmmdd hh:mm:ss.uuuuuu <pid> file:line] message`.
    #[default]
    Text,
    /// One JSON object on each line.
    Json,
}

impl Format {
    /// As `--logging-format` and `/configz` spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
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

    /// The error is what follows `format: ` in the message that operators know.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(format!("Invalid value: {other:?}: Unsupported log format")),
        }
    }
}

/// Where records of a format go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// Information on standard output, errors on standard error; else everything on standard error.
    pub split: bool,
    /// Bytes of information that may wait to be written; 0: none. Only where the streams are split.
    pub info_buffer_size: usize,
}

/// Verbosity of some source files: `pattern=N,…`, the first pattern that fits counts.
///
/// A pattern (`*` and `?` as in a shell) is compared with the file's name without `.rs` and with each part of the
/// module's path; one with a `::` in it with the whole path, one with a `/` with the whole path of the file. It can only
/// raise the verbosity that `-v` gives.
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
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        let parsed = items.map(|item| {
            let fits = item.split_once('=').filter(|(pattern, _)| !pattern.trim().is_empty());
            let level = fits.and_then(|(pattern, level)| Some((pattern.trim(), level.trim().parse::<i32>().ok()?)));
            match level {
                Some((pattern, level)) if level >= 0 => Ok((pattern.to_owned(), level)),
                Some(_) => Err(format!("{item:?} asks for a negative verbosity; write a number from 0 on")),
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
    /// Whether nothing is asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Patterns and their verbosity, in order (for `/configz`).
    pub fn iter(&self) -> impl Iterator<Item = (&str, i32)> {
        self.0.iter().map(|(pattern, level)| (pattern.as_str(), *level))
    }
}
