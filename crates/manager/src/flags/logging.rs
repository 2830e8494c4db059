//! Flags of the log.

use clap::{ArgAction, Args};
use runtime::go_duration::GoDuration;

use super::gates::FeatureGates;
use super::quantity::Quantity;
use super::values::{duration, go_bool};
use crate::logging::{Format, LoggingOptions, Streams, Vmodule};

/// Flags of the log.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Global")]
pub struct LoggingFlags {
    /// Verbosity of some source files as PATTERN=N,... with shell patterns for the file's name; for the text format
    /// only.
    #[arg(long, default_value = "", value_name = "PATTERN=N,...", value_parser = str::parse::<Vmodule>)]
    pub vmodule: Vmodule,
    /// Maximum time that log records are buffered.
    #[arg(long, default_value_t = LoggingOptions::default().flush_frequency.into(), value_parser = duration)]
    pub log_flush_frequency: GoDuration,
    /// Format of the log: text or json.
    #[arg(long, default_value_t = LoggingOptions::default().format.to_string(), value_name = "FORM")]
    pub logging_format: String,
    /// Write informational records to standard output and errors to standard error, instead of all records to standard
    /// error. Requires the feature gate LoggingAlphaOptions.
    #[arg(long, default_value_t = Streams::default().split, value_parser = go_bool, action = ArgAction::Set)]
    pub log_text_split_stream: bool,
    /// Size of the buffer for informational records with --log-text-split-stream, in bytes. Requires the feature gate
    /// LoggingAlphaOptions.
    #[arg(long, default_value = "0", value_parser = str::parse::<Quantity>)]
    pub log_text_info_buffer_size: Quantity,
    /// Like --log-text-split-stream, for the json format.
    #[arg(long, default_value_t = Streams::default().split, value_parser = go_bool, action = ArgAction::Set)]
    pub log_json_split_stream: bool,
    /// Like --log-text-info-buffer-size, for the json format.
    #[arg(long, default_value = "0", value_parser = str::parse::<Quantity>)]
    pub log_json_info_buffer_size: Quantity,
}

impl LoggingFlags {
    pub(super) fn options(&self, verbosity: i32) -> LoggingOptions {
        let LoggingFlags {
            vmodule,
            log_flush_frequency,
            logging_format,
            log_text_split_stream,
            log_text_info_buffer_size,
            log_json_split_stream,
            log_json_info_buffer_size,
        } = self;
        let streams = |split: &bool, size: &Quantity| Streams {
            split: *split,
            info_buffer_size: size.0,
        };
        LoggingOptions {
            // Checked by `validate`.
            format: logging_format.parse().unwrap_or_default(),
            verbosity,
            vmodule: vmodule.clone(),
            flush_frequency: log_flush_frequency.to_std_or_zero(),
            text: streams(log_text_split_stream, log_text_info_buffer_size),
            json: streams(log_json_split_stream, log_json_info_buffer_size),
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
