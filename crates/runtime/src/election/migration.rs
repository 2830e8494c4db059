//! Leader migration (APP-75 to APP-82): controllers move between kube-controller-manager and this program, one of which
//! holds a second Lease for them at any time.
//!
//! ```
//! use cloud_provider::names::{CONTROLLERS, NODE_CONTROLLER, SERVICE_CONTROLLER};
//! use runtime::election::migration::{Assignment, LeaderMigration, Under};
//!
//! // The names before they were renamed are understood, too (APP-80).
//! let assignment = Assignment::new(&LeaderMigration::default(), &CONTROLLERS.map(Into::into));
//! assert_eq!(assignment.of(SERVICE_CONTROLLER.canonical), Under::MigrationLease);
//! assert_eq!(assignment.of(NODE_CONTROLLER.canonical), Under::MainLease);
//! assert!(assignment.unknown().is_empty());
//! ```

use std::path::Path;

use cloud_provider::names::{ControllerNames, MANAGER_NAME, ROUTE_CONTROLLER, SERVICE_CONTROLLER};
use serde::Deserialize;

#[cfg(test)]
mod tests;

const GROUP: &str = "controllermanager.config.k8s.io";
const KIND: &str = "LeaderMigrationConfiguration";
/// Versions of the format, and whether it has `resourceLock`.
const VERSIONS: [(&str, bool); 3] = [("v1", false), ("v1beta1", true), ("v1alpha1", true)];
/// Names from before the controllers were renamed, which documentation and the default still have (APP-80).
const HISTORIC: [(&str, &str); 2] = [
    ("route-controller", ROUTE_CONTROLLER.canonical),
    ("service-controller", SERVICE_CONTROLLER.canonical),
];

/// Leader migration configuration: the controllers that run under the migration Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderMigration {
    /// Name of the migration Lease; it is in the namespace of the main one.
    pub leader_name: String,
    /// Controllers, and who runs them under that Lease.
    pub controller_leaders: Vec<ControllerLeader>,
}

/// A controller and the component that runs it under the migration Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerLeader {
    /// The controller, by any of its names.
    pub name: String,
    /// `cloud-controller-manager`, `kube-controller-manager`, or `*` for both.
    pub component: String,
}

/// Errors of a leader migration file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MigrationError {
    /// The file cannot be read.
    #[error(r#"unable to read leader migration configuration from "{path}": {cause}"#)]
    Unreadable {
        /// Path of the file.
        path: String,
        /// The operating system's error.
        cause: String,
    },
    /// The file is not a leader migration configuration.
    #[error("failed to parse leader migration configuration: {0}")]
    Malformed(String),
    /// Fields of the file are invalid; holds one sentence for each.
    #[error("the leader migration configuration is wrong: {}", .0.join("; "))]
    Invalid(Vec<String>),
}

/// Fields of a leader migration file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    api_version: String,
    kind: String,
    #[serde(default)]
    leader_name: String,
    resource_lock: Option<String>,
    #[serde(default)]
    controller_leaders: Option<Vec<Entry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default)]
    name: String,
    #[serde(default)]
    component: String,
}

impl Default for LeaderMigration {
    /// Returns the configuration that applies without a file (APP-78).
    fn default() -> Self {
        let all = [
            "route-controller",
            "service-controller",
            "cloud-node-lifecycle-controller",
        ];
        let entry = |name: &str| ControllerLeader {
            name: name.to_owned(),
            component: "*".to_owned(),
        };
        Self {
            leader_name: "cloud-provider-extraction-migration".to_owned(),
            controller_leaders: all.map(entry).to_vec(),
        }
    }
}

impl LeaderMigration {
    /// Reads a file.
    ///
    /// # Errors
    /// [`MigrationError`], with all that is wrong.
    pub fn read(path: &Path) -> Result<Self, MigrationError> {
        let text = cloud_provider::files::read_to_string(path).map_err(|error| {
            MigrationError::Unreadable {
                path: path.display().to_string(),
                cause: error.to_string(),
            }
        })?;
        Self::parse(&text)
    }

    /// Reads YAML or JSON, strictly: unknown and duplicate fields are errors (APP-76, APP-77).
    ///
    /// # Errors
    /// [`MigrationError`], with all that is wrong.
    pub fn parse(text: &str) -> Result<Self, MigrationError> {
        let value: serde_json::Value = serde_saphyr::from_str(text)
            .map_err(|error| MigrationError::Malformed(without_lines(&error)))?;
        let file: File = serde_json::from_value(value)
            .map_err(|error| MigrationError::Malformed(without_values(&error)))?;
        let version = file
            .api_version
            .strip_prefix(GROUP)
            .and_then(|rest| rest.strip_prefix('/'));
        let known = VERSIONS
            .iter()
            .find(|(name, _)| Some(*name) == version && file.kind == KIND);
        let Some((_, has_lock)) = known else {
            return Err(MigrationError::Malformed(format!(
                "kind {:?} of apiVersion {:?} is not known; use kind {KIND} of {GROUP}/v1",
                file.kind, file.api_version
            )));
        };
        if file.resource_lock.is_some() && !has_lock {
            return Err(MigrationError::Malformed(format!(
                "unknown field \"resourceLock\": {} has none, leases are always used",
                file.api_version
            )));
        }
        let wrong = file.mistakes();
        if !wrong.is_empty() {
            return Err(MigrationError::Invalid(wrong));
        }
        let entries = file.controller_leaders.unwrap_or_default().into_iter();
        Ok(Self {
            leader_name: file.leader_name,
            controller_leaders: entries
                .map(|Entry { name, component }| ControllerLeader { name, component })
                .collect(),
        })
    }
}

impl File {
    fn mistakes(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.leader_name.is_empty() {
            wrong.push("leaderName: Required value: name the migration lease".to_owned());
        }
        if let Some(lock) = self
            .resource_lock
            .as_deref()
            .filter(|lock| *lock != "leases")
        {
            wrong.push(format!(
                "resourceLock: Invalid value: {lock:?}: must be \"leases\""
            ));
        }
        for (index, entry) in self.controller_leaders.iter().flatten().enumerate() {
            for (field, value) in [("name", &entry.name), ("component", &entry.component)] {
                if value.is_empty() {
                    wrong.push(format!(
                        "controllerLeaders[{index}].{field}: Required value"
                    ));
                }
            }
        }
        wrong
    }
}

/// The names of a controller, as an entry may call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// Canonical name of the controller.
    pub canonical: String,
    /// Other accepted names of the controller.
    pub aliases: Vec<String>,
}

impl From<ControllerNames> for Names {
    fn from(names: ControllerNames) -> Self {
        let historic = HISTORIC
            .iter()
            .filter(|(_, canonical)| *canonical == names.canonical);
        let aliases = std::iter::once(names.alias).chain(historic.map(|(old, _)| *old));
        Self {
            canonical: names.canonical.to_owned(),
            aliases: aliases.map(str::to_owned).collect(),
        }
    }
}

/// Lease under which a controller runs in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Under {
    /// The Lease of the leader election.
    MainLease,
    /// The Lease of the leader migration.
    MigrationLease,
    /// None: it runs in another component.
    AnotherComponent,
}

/// Assignment of each controller to a Lease (APP-79).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    controllers: Vec<(String, Under)>,
    unknown: Vec<String>,
}

impl Assignment {
    /// Assigns all known controllers, also those that are disabled. The last of several entries for one controller
    /// applies, by whichever name.
    #[must_use]
    pub fn new(migration: &LeaderMigration, controllers: &[Names]) -> Self {
        let is_called = |names: &Names, name: &str| {
            names.canonical == name || names.aliases.iter().any(|a| a == name)
        };
        let decide = |names: &Names| {
            let last = migration
                .controller_leaders
                .iter()
                .rev()
                .find(|entry| is_called(names, &entry.name));
            match last.map(|entry| entry.component.as_str()) {
                None => Under::MainLease,
                Some("*" | MANAGER_NAME) => Under::MigrationLease,
                Some(_) => Under::AnotherComponent,
            }
        };
        let entries = migration.controller_leaders.iter();
        let unknown = entries.filter(|entry| {
            !controllers
                .iter()
                .any(|names| is_called(names, &entry.name))
        });
        Self {
            controllers: controllers
                .iter()
                .map(|names| (names.canonical.clone(), decide(names)))
                .collect(),
            unknown: unknown.map(|entry| entry.name.clone()).collect(),
        }
    }

    /// Returns the Lease of a controller, by its canonical name. A controller that was not passed to [`new`](Self::new)
    /// runs under the main one.
    #[must_use]
    pub fn of(&self, canonical: &str) -> Under {
        let found = self.controllers.iter().find(|(name, _)| name == canonical);
        found.map_or(Under::MainLease, |(_, under)| *under)
    }

    /// Returns the entries that match no controller: worth a warning, because the controllers that they mean do not
    /// move (APP-80).
    #[must_use]
    pub fn unknown(&self) -> &[String] {
        &self.unknown
    }
}

/// Returns the first line of the YAML parser's message: the following lines quote the file, which is a different one if
/// the flag names a wrong path.
fn without_lines(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().to_owned()
}

/// Returns the parse error without the value at fault.
fn without_values(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(", expected ") {
        Some((wrong, expected)) if wrong.starts_with("invalid ") => {
            format!("a value is not what belongs there, expected {expected}")
        }
        _ => text,
    }
}
