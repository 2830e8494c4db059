//! Error messages for arguments that cannot be parsed.

use clap::ArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::subcommand;

/// Joins the errors, each once and on a line of its own (FLAG-10). The printer writes `Error: ` before the text.
pub(super) fn together(errors: Vec<String>) -> String {
    let mut distinct: Vec<String> = Vec::new();
    for error in errors {
        if !distinct.contains(&error) {
            distinct.push(error);
        }
    }
    distinct.join("\nError: ")
}

/// Returns an error for positional arguments (FLAG-8). Empty arguments are tolerated.
pub(super) fn positional(matches: &ArgMatches, command: &str) -> Option<String> {
    let arguments = matches.try_get_many::<String>("arguments").ok()??;
    let arguments: Vec<_> = arguments.filter(|argument| !argument.is_empty()).collect();
    (!arguments.is_empty()).then(|| {
        let list = arguments
            .iter()
            .map(|argument| format!("{argument:?}"))
            .collect::<Vec<_>>()
            .join(" ");
        // The name of a subcommand contains a space, and there are no nested subcommands.
        let hint = match arguments.first() {
            Some(word) if !command.contains(' ') => subcommand::hint(word),
            _ => "write --name=value".to_owned(),
        };
        format!("{command:?} does not take any arguments, got [{list}]; {hint}")
    })
}

/// Returns the flag that an error is about, as `--name`.
pub(super) fn flag(error: &clap::Error) -> Option<String> {
    // clap shows the value's placeholder after the flag.
    let argument = context(error, ContextKind::InvalidArg)?;
    argument
        .split([' ', '=', '['])
        .next()
        .filter(|flag| flag.starts_with('-'))
        .map(str::to_owned)
}

fn context(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => texts.first().cloned(),
        _ => None,
    }
}

/// Returns the message for an error: a wording that scripts know, and the remedy (FLAG-9).
pub(super) fn message(error: &clap::Error, command: &str) -> String {
    let flag = flag(error).unwrap_or_default();
    let see = format!("see '{command} --help'");
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let like = context(error, ContextKind::SuggestedArg);
            let hint = like
                .map(|like| format!("did you mean {like}? "))
                .unwrap_or_default();
            format!("unknown flag: {flag}; {hint}{see}")
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let value = context(error, ContextKind::InvalidValue).unwrap_or_default();
            let why = std::error::Error::source(error)
                .map(ToString::to_string)
                .unwrap_or_default();
            if value.is_empty() && why.is_empty() {
                return format!("flag needs an argument: {flag}; {see}");
            }
            format!("invalid argument {value:?} for {flag:?} flag: {why}")
        }
        _ => error
            .render()
            .to_string()
            .trim_start_matches("error: ")
            .trim_end()
            .to_owned(),
    }
}
