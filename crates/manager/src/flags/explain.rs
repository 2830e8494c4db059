//! What a user is told of arguments that cannot be read.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// FLAG-8, FLAG-9: the stems that scripts know, and what to do.
pub(super) fn explain(error: &clap::Error, command: &str) -> String {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => texts.first().cloned(),
        _ => None,
    };
    let argument = context(ContextKind::InvalidArg).unwrap_or_default();
    // clap shows the value's placeholder behind the flag.
    let flag = argument.split([' ', '=', '[']).next().unwrap_or_default();
    let see = format!("see '{command} --help'");
    match error.kind() {
        ErrorKind::UnknownArgument if argument.starts_with('-') => {
            let hint =
                context(ContextKind::SuggestedArg).map(|like| format!("did you mean {like}? ")).unwrap_or_default();
            format!("unknown flag: {flag}; {hint}{see}")
        }
        ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand => {
            format!("{command:?} does not take any arguments, got [{argument:?}]")
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let value = context(ContextKind::InvalidValue).unwrap_or_default();
            let why = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            if value.is_empty() && why.is_empty() {
                return format!("flag needs an argument: {flag}; {see}");
            }
            format!("invalid argument {value:?} for {flag:?} flag: {why}")
        }
        _ => error.render().to_string().trim_start_matches("error: ").trim_end().to_owned(),
    }
}
