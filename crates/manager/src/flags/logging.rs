//! The log.

use clap::{ArgAction, Args};
use runtime::go_duration::GoDuration;

use super::gates::FeatureGates;
use super::quantity::Quantity;
use super::values::{duration, go_bool};
use crate::logging::{Format, LoggingOptions, Streams, Vmodule};

/// The log.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Global")]
pub struct LoggingFlags {
    /// Another verbosity for some source files: PATTERN=N,... with shell patterns for the file's name; text only.
    #[arg(long, default_value = "", value_name = "PATTERN=N,...", value_parser = str::parse::<Vmodule>)]
    pub vmodule: Vmodule,
    /// What is buffered of the log is written at least this often.
    #[arg(long, default_value = "5s", value_parser = duration)]
    pub log_flush_frequency: GoDuration,
    /// Form of the log: text or json.
    #[arg(long, default_value = "text", value_name = "FORM")]
    pub logging_format: String,
    /// Write information to standard output and errors to standard error, not everything to standard error. Needs the
    /// feature gate LoggingAlphaOptions.
    #[arg(long, default_value = "false", value_parser = go_bool, action = ArgAction::Set)]
    pub log_text_split_stream: bool,
    /// Bytes of information that may wait to be written with --log-text-split-stream. Needs the feature gate
    /// LoggingAlphaOptions.
    #[arg(long, default_value = "0", value_parser = str::parse::<Quantity>)]
    pub log_text_info_buffer_size: Quantity,
    /// As --log-text-split-stream, for json.
    #[arg(long, default_value = "false", value_parser = go_bool, action = ArgAction::Set)]
    pub log_json_split_stream: bool,
    /// As --log-text-info-buffer-size, for json.
    #[arg(long, default_value = "0", value_parser = str::parse::<Quantity>)]
    pub log_json_info_buffer_size: Quantity,
}

impl LoggingFlags {
    pub(super) fn options(&self, verbosity: i32) -> LoggingOptions {
        let streams = |split, size: Quantity| Streams { split, info_buffer_size: size.0 };
        LoggingOptions {
            // Checked by `validate`.
            format: self.logging_format.parse().unwrap_or_default(),
            verbosity,
            vmodule: self.vmodule.clone(),
            flush_frequency: self.log_flush_frequency.to_std_or_zero(),
            text: streams(self.log_text_split_stream, self.log_text_info_buffer_size),
            json: streams(self.log_json_split_stream, self.log_json_info_buffer_size),
        }
    }

    pub(super) fn validate(&self, gates: &FeatureGates) -> Vec<String> {
        let mut errors = Vec::new();
        match self.logging_format.parse::<Format>() {
            Err(error) => errors.push(format!("format: {error}; --logging-format is text or json")),
            Ok(Format::Json) if !gates.enabled("LoggingBetaOptions") => {
                errors.push("format: Forbidden: Feature LoggingBetaOptions is disabled".to_owned());
            }
            Ok(Format::Json) if !self.vmodule.is_empty() => {
                errors.push("vmodule: Forbidden: Only supported for text log format".to_owned());
            }
            Ok(_) => {}
        }
        if !self.log_flush_frequency.is_positive() {
            errors.push(format!(
                "flushFrequency: Invalid value: \"{}\": Must be greater than zero",
                self.log_flush_frequency
            ));
        }
        if !gates.enabled("LoggingAlphaOptions") {
            let alpha = [
                ("text.splitStream", self.log_text_split_stream),
                ("text.infoBufferSize", self.log_text_info_buffer_size.0 > 0),
                ("json.splitStream", self.log_json_split_stream),
                ("json.infoBufferSize", self.log_json_info_buffer_size.0 > 0),
            ];
            errors.extend(alpha.into_iter().filter(|(_, set)| *set).map(|(field, _)| {
                format!(
                    "options.{field}: Forbidden: Feature LoggingAlphaOptions is disabled; pass \
                     --feature-gates=LoggingAlphaOptions=true"
                )
            }));
        }
        errors
    }
}
