//! The flags that are set on the command line, for warnings and for the log.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use clap::error::Error;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use runtime::go_duration::GoDuration;

use super::gates::FeatureGates;
use super::values::List;
use super::{historic, provider_flags};

/// Names and values of the flags on the command line. Its clap implementation declares the historic and the vendor
/// flags.
#[derive(Clone, Default, PartialEq)]
pub struct Given {
    /// Names of the flags that are set.
    names: BTreeSet<String>,
    /// Values of all flags as text, including defaults.
    values: BTreeMap<String, String>,
}

/// Formats only the names, because a vendor's flag may be secret (INV-5).
impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Given").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Given {
    /// Returns `true` if this flag is set.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    pub(super) fn values(&self) -> &BTreeMap<String, String> {
        &self.values
    }
}

impl Args for Given {
    fn augment_args(command: Command) -> Command {
        let historic = historic::HISTORIC.iter().map(|flag| flag.kind.argument(flag.name));
        let vendors = provider_flags::all().map(|flag| flag.kind.argument(flag.name));
        command.args(historic).args(vendors)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut given = Self::default();
        for id in matches.ids().map(clap::Id::as_str) {
            let Some(value) = text(matches, id) else { continue };
            let name = id.replace('_', "-");
            if matches.value_source(id) == Some(ValueSource::CommandLine) {
                given.names.insert(name.clone());
            }
            given.values.insert(name, value);
        }
        Ok(given)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Returns a flag's value in its canonical form; `None` for clap's groups, which are not flags.
fn text(matches: &ArgMatches, id: &str) -> Option<String> {
    fn last<T: Clone + Send + Sync + ToString + 'static>(matches: &ArgMatches, id: &str) -> Option<String> {
        matches.try_get_many::<T>(id).ok()??.next_back().map(ToString::to_string)
    }
    fn joined<T: Clone + Send + Sync + ToString + 'static>(matches: &ArgMatches, id: &str) -> Option<String> {
        let values: Vec<_> = matches.try_get_many::<T>(id).ok()??.map(ToString::to_string).collect();
        Some(values.into_iter().filter(|value| !value.is_empty()).collect::<Vec<_>>().join(","))
    }
    if matches.try_get_many::<clap::Id>(id).is_ok_and(|group| group.is_some()) {
        return None;
    }
    joined::<List>(matches, id)
        .map(|items| format!("[{items}]"))
        .or_else(|| {
            let all: Vec<_> = matches.try_get_many::<FeatureGates>(id).ok()??.cloned().collect();
            Some(FeatureGates::merged(&all).to_string())
        })
        .or_else(|| last::<bool>(matches, id))
        .or_else(|| last::<i32>(matches, id))
        .or_else(|| last::<i64>(matches, id))
        .or_else(|| last::<f32>(matches, id))
        .or_else(|| last::<GoDuration>(matches, id))
        .or_else(|| last::<IpAddr>(matches, id))
        .or_else(|| {
            let raw = matches.get_raw(id)?;
            Some(raw.map(|value| value.to_string_lossy()).collect::<Vec<_>>().join(","))
        })
}
