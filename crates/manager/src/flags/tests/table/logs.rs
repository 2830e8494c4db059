//! Global flags and the log.

use super::*;

/// Section "Global" of `--help`, which includes logging.
pub(super) const GLOBAL: [Row; 10] = [
    row("help", "bool", "", &["--help"], Says),
    row(
        "version",
        "version",
        "false",
        &["--version=v1.37.0-acme.1"],
        Opt(|config| config.client_options.user_agent.version == "v1.37.0-acme.1"),
    ),
    row(
        "v",
        "int32",
        "0",
        &["-v", "4"],
        Opt(|config| config.logging.verbosity == 4),
    ),
    row(
        "vmodule",
        "string",
        "",
        &["--vmodule=route*=4"],
        Opt(|config| config.logging.vmodule.iter().eq([("route*", 4)])),
    ),
    row(
        "log-flush-frequency",
        "duration",
        "5s",
        &["--log-flush-frequency=1s"],
        Opt(|config| config.logging.flush_frequency == secs(1)),
    ),
    row(
        "logging-format",
        "string",
        "text",
        &["--logging-format=json"],
        Opt(|config| config.logging.format == crate::logging::Format::Json),
    ),
    row(
        "log-text-split-stream",
        "bool",
        "false",
        &[
            "--log-text-split-stream",
            "--feature-gates=LoggingAlphaOptions=true",
        ],
        Opt(|config| config.logging.text.split),
    ),
    row(
        "log-text-info-buffer-size",
        "quantity",
        "0",
        &[
            "--log-text-info-buffer-size=2Ki",
            "--feature-gates=LoggingAlphaOptions=true",
        ],
        Opt(|config| config.logging.text.info_buffer_size == 2048),
    ),
    row(
        "log-json-split-stream",
        "bool",
        "false",
        &["--log-json-split-stream", "--feature-gates=AllAlpha=true"],
        Opt(|config| config.logging.json.split),
    ),
    row(
        "log-json-info-buffer-size",
        "quantity",
        "0",
        &[
            "--log-json-info-buffer-size=1K",
            "--feature-gates=LoggingAlphaOptions=true",
        ],
        Opt(|config| config.logging.json.info_buffer_size == 1000),
    ),
];
