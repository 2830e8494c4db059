//! Global flags and the log: §12.

use super::*;

/// §12: global and logging.
pub(super) const GLOBAL: [Row; 10] = [
    row("Global", ("help", "bool", "", Must), &["--help"], Says),
    row(
        "Global",
        ("version", "version", "false", Must),
        &["--version=v1.35.0-acme.1"],
        Opt(|flags| flags.client_options().user_agent.version == "v1.35.0-acme.1"),
    ),
    row("Global", ("v", "int32", "0", Must), &["-v", "4"], Opt(|flags| flags.logging().verbosity == 4)),
    row(
        "Global",
        ("vmodule", "string", "", Should),
        &["--vmodule=route*=4"],
        Opt(|flags| flags.logging().vmodule.iter().eq([("route*", 4)])),
    ),
    row(
        "Global",
        ("log-flush-frequency", "duration", "5s", Should),
        &["--log-flush-frequency=1s"],
        Opt(|flags| flags.logging().flush_frequency == secs(1)),
    ),
    row(
        "Global",
        ("logging-format", "string", "text", Must),
        &["--logging-format=json"],
        Opt(|flags| flags.logging().format == crate::logging::Format::Json),
    ),
    row(
        "Global",
        ("log-text-split-stream", "bool", "false", Should),
        &["--log-text-split-stream", "--feature-gates=LoggingAlphaOptions=true"],
        Opt(|flags| flags.logging().text.split),
    ),
    row(
        "Global",
        ("log-text-info-buffer-size", "quantity", "0", Should),
        &["--log-text-info-buffer-size=2Ki", "--feature-gates=LoggingAlphaOptions=true"],
        Opt(|flags| flags.logging().text.info_buffer_size == 2048),
    ),
    row(
        "Global",
        ("log-json-split-stream", "bool", "false", Should),
        &["--log-json-split-stream", "--feature-gates=AllAlpha=true"],
        Opt(|flags| flags.logging().json.split),
    ),
    row(
        "Global",
        ("log-json-info-buffer-size", "quantity", "0", Should),
        &["--log-json-info-buffer-size=1K", "--feature-gates=LoggingAlphaOptions=true"],
        Opt(|flags| flags.logging().json.info_buffer_size == 1000),
    ),
];
