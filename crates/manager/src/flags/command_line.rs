//! The flags that are set on the command line, for warnings, for the log and for the provider.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use clap::error::Error;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use cloud_provider::Environment;
use runtime::go_duration::GoDuration;

use super::controllers::{NODE_IPAM, TAGGING};
use super::gates::FeatureGates;
use super::provider_flags::USER_AGENT;
use super::values::List;
use super::{COMMAND, Flags, provider_flags, removed};

/// Names and values of the flags on the command line. Its clap implementation declares the removed and the vendor
/// flags.
#[derive(Clone, Default, PartialEq)]
pub struct CommandLineFlags {
    /// Names of the flags that are set.
    names: BTreeSet<String>,
    /// Values of all flags as text, including defaults.
    values: BTreeMap<String, String>,
}

/// Formats only the names, because a vendor's flag may be secret (INV-5).
impl fmt::Debug for CommandLineFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandLineFlags")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

impl CommandLineFlags {
    /// Returns `true` if this flag is set.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    pub(super) fn values(&self) -> &BTreeMap<String, String> {
        &self.values
    }
}

impl Args for CommandLineFlags {
    fn augment_args(command: Command) -> Command {
        let removed = removed::REMOVED
            .iter()
            .map(|flag| flag.kind.argument(flag.name));
        let vendors = provider_flags::all().map(|flag| flag.kind.argument(flag.name));
        command.args(removed).args(vendors)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for CommandLineFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut given = Self::default();
        for id in matches.ids().map(clap::Id::as_str) {
            let Some(value) = text(matches, id) else {
                continue;
            };
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
    fn last<T: Clone + Send + Sync + ToString + 'static>(
        matches: &ArgMatches,
        id: &str,
    ) -> Option<String> {
        matches
            .try_get_many::<T>(id)
            .ok()??
            .next_back()
            .map(ToString::to_string)
    }
    fn joined<T: Clone + Send + Sync + ToString + 'static>(
        matches: &ArgMatches,
        id: &str,
    ) -> Option<String> {
        let values: Vec<_> = matches
            .try_get_many::<T>(id)
            .ok()??
            .map(ToString::to_string)
            .collect();
        Some(
            values
                .into_iter()
                .filter(|value| !value.is_empty())
                .collect::<Vec<_>>()
                .join(","),
        )
    }
    if matches
        .try_get_many::<clap::Id>(id)
        .is_ok_and(|group| group.is_some())
    {
        return None;
    }
    joined::<List>(matches, id)
        .map(|items| format!("[{items}]"))
        .or_else(|| {
            let all: Vec<_> = matches
                .try_get_many::<FeatureGates>(id)
                .ok()??
                .cloned()
                .collect();
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
            Some(
                raw.map(|value| value.to_string_lossy())
                    .collect::<Vec<_>>()
                    .join(","),
            )
        })
}

impl Flags {
    /// Returns the value of any flag as text, including a vendor's own flags
    /// ([`Program::with_flag`](super::Program::with_flag)).
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        self.command_line.values().get(name).map(String::as_str)
    }

    /// Returns all values of `--user-agent`, which the provider appends to the `User-Agent` of its requests to the
    /// cloud.
    pub(super) fn cloud_user_agent(&self) -> Vec<String> {
        let given = self
            .value(USER_AGENT)
            .filter(|_| self.command_line.has(USER_AGENT))
            .unwrap_or_default();
        given
            .split(',')
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// Returns the flags that are set and that this provider reads, such as `--linodego-debug`, by name.
    pub(super) fn cloud_flags(&self) -> Environment {
        let given = provider_flags::read_by(&self.cloud.cloud_provider)
            .into_iter()
            .filter(|(name, _)| self.command_line.has(name) && self.is_wanted(name));
        Environment::of(
            given.filter_map(|(name, _)| Some((format!("--{name}"), self.value(name)?))),
        )
    }

    /// Returns `false` for a flag of a controller that `--controllers` leaves out.
    fn is_wanted(&self, name: &str) -> bool {
        match name {
            "allocate-node-cidrs" | "cidr-allocator-type" => self.has_node_ipam(),
            "controllers" => self.has_tagging(),
            _ => true,
        }
    }

    /// Returns `true` if the cloud's provider assigns Pod ranges to Nodes.
    pub(super) fn has_node_ipam(&self) -> bool {
        provider_flags::is_shared_with("allocate-node-cidrs", &self.cloud.cloud_provider)
            && !self.controllers.excludes(&NODE_IPAM)
    }

    /// Returns `true` if `--controllers` selects the tagging of instances, which only provider `aws` does.
    pub(super) fn has_tagging(&self) -> bool {
        self.cloud.cloud_provider == "aws"
            && self.controllers.reserved("aws").any(|name| name == TAGGING)
    }

    /// Returns the base name of the program.
    #[must_use]
    pub fn binary(&self) -> &str {
        if self.binary.is_empty() {
            COMMAND
        } else {
            &self.binary
        }
    }
}
