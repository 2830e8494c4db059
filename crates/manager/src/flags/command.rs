//! Parsing of arguments with the rules that all commands share (FLAG-1 … FLAG-9).

use std::any::TypeId;
use std::ffi::OsString;

use clap::builder::ValueHint;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, FromArgMatches};
use runtime::go_duration::GoDuration;

use super::Parsed;
use super::parse_errors::{self, message};
use super::program::Program;
use super::quantity::Quantity;
use super::tls::{Numbers, SniFlag};
use super::values::{List, ListenAddress, PathFlag, with_hyphens};
use super::version::VersionFlag;

/// Sets the options that all flags of a type share, and the program's own defaults.
pub(super) fn prepare(command: Command, program: &Program) -> Command {
    let command = command
        .disable_help_flag(true)
        .disable_version_flag(true)
        .disable_help_subcommand(true)
        .args_override_self(true)
        .max_term_width(120);
    program.apply(command).mut_args(by_type)
}

fn by_type(argument: Arg) -> Arg {
    if argument.is_positional() || argument.get_id() == "help" {
        return argument;
    }
    let nothing = argument
        .get_default_values()
        .iter()
        .all(|value| value.is_empty());
    // Flags are in alphabetical order within a section.
    let argument = argument.display_order(0).hide_default_value(nothing);
    match kind(&argument) {
        "bool" => switch(argument).value_name("BOOL"),
        "version" => switch(argument),
        kind => {
            let placeholder = match kind {
                "int" | "int32" => "INT",
                "float32" | "float64" => "FLOAT",
                "duration" => "DURATION",
                "strings" => "LIST",
                "int32 list" => "NUMBERS",
                "ip" => "IP",
                "path" => "PATH",
                "address" => "IP:PORT",
                "quantity" => "BYTES",
                "pair" => "CERT,KEY[:NAME,...]",
                _ => "",
            };
            let argument = if kind == "path" {
                argument.value_hint(ValueHint::AnyPath)
            } else {
                argument
            };
            let argument = if placeholder.is_empty() {
                argument
            } else {
                argument.value_name(placeholder)
            };
            // The argument after a flag is its value, even if it looks like a flag.
            argument.allow_hyphen_values(true)
        }
    }
}

/// Allows a Boolean flag without a value, which means `true` (FLAG-2).
fn switch(argument: Arg) -> Arg {
    argument
        .num_args(0..=1)
        .require_equals(true)
        .default_missing_value("true")
}

/// Returns the type of a flag's value, as the documentation names it.
pub(super) fn kind(argument: &Arg) -> &'static str {
    let id = argument.get_value_parser().type_id();
    let kinds = [
        (TypeId::of::<bool>(), "bool"),
        (TypeId::of::<i32>(), "int32"),
        // The verbosity, an int32 that is kept in eight bits.
        (TypeId::of::<u8>(), "int32"),
        (TypeId::of::<i64>(), "int"),
        (TypeId::of::<f32>(), "float32"),
        (TypeId::of::<f64>(), "float64"),
        (TypeId::of::<GoDuration>(), "duration"),
        (TypeId::of::<List>(), "strings"),
        (TypeId::of::<Numbers>(), "int32 list"),
        (TypeId::of::<std::net::IpAddr>(), "ip"),
        (TypeId::of::<PathFlag>(), "path"),
        (TypeId::of::<ListenAddress>(), "address"),
        (TypeId::of::<Quantity>(), "quantity"),
        (TypeId::of::<SniFlag>(), "pair"),
        (TypeId::of::<super::FeatureGates>(), "map"),
        (TypeId::of::<VersionFlag>(), "version"),
    ];
    kinds
        .into_iter()
        .find(|(known, _)| id == *known)
        .map_or("string", |(_, name)| name)
}

/// The parsed values, and the errors of arguments that could not be parsed.
pub(super) struct Read<T> {
    pub(super) values: T,
    pub(super) errors: Vec<String>,
}

/// Parses arguments into `T`. The first argument is the program's name. To report all errors at once, an argument that
/// cannot be parsed is removed and the rest is parsed again.
///
/// # Errors
/// The message to print if there are no values.
pub(super) fn read<T: FromArgMatches>(
    command: &Command,
    name: &str,
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<Read<T>, Parsed<T>> {
    let mut arguments: Vec<_> = arguments.into_iter().map(with_hyphens).collect();
    let mut errors = Vec::new();
    loop {
        let error = match command.clone().try_get_matches_from(&arguments) {
            Ok(matches) => {
                errors.extend(parse_errors::positional(&matches, name));
                let version = matches
                    .try_get_one::<VersionFlag>("version")
                    .ok()
                    .flatten()
                    .and_then(VersionFlag::text);
                if let (Some(text), []) = (version, errors.as_slice()) {
                    return Err(Parsed::Say(text));
                }
                match T::from_arg_matches(&matches) {
                    Ok(values) => return Ok(Read { values, errors }),
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        if matches!(
            error.kind(),
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
        ) {
            return Err(Parsed::Say(error.render().to_string()));
        }
        errors.push(message(&error, name));
        if !remove_flag(&mut arguments, &error) {
            return Err(Parsed::Wrong(parse_errors::together(errors)));
        }
    }
}

/// Removes the flag that an error is about, with its value. Returns `true` if the flag was found.
fn remove_flag(arguments: &mut Vec<OsString>, error: &clap::Error) -> bool {
    let before = arguments.len();
    let Some(flag) = parse_errors::flag(error) else {
        return false;
    };
    let value = match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let mut kept = Vec::with_capacity(before);
    let mut rest = arguments.drain(..).peekable();
    while let Some(argument) = rest.next() {
        let text = argument.to_string_lossy();
        let (name, attached) = text
            .split_once('=')
            .map_or((&*text, false), |(name, _)| (name, true));
        // The argument `-v4` means `--v=4`.
        if name != flag && !(flag == "--v" && text.starts_with("-v")) {
            kept.push(argument);
            continue;
        }
        if !attached {
            let is_value = |next: &OsString| match value.filter(|value| !value.is_empty()) {
                Some(value) => next == value,
                None => {
                    error.kind() == ErrorKind::UnknownArgument
                        && !next.to_string_lossy().starts_with('-')
                }
            };
            _ = rest.next_if(is_value);
        }
    }
    drop(rest);
    *arguments = kept;
    arguments.len() < before
}
