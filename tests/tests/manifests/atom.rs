//! The smallest thing that RBAC allows: one verb on one resource, of one object or of all, somewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Result, bail, ensure};
use manager::permissions::{Features, Identity, Scope, grants, needed};
use serde_json::{Value, json};

/// A permission: verb and resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Atom {
    pub(crate) group: String,
    /// Resource, or `resource/subresource`; a path, if it begins with a slash.
    pub(crate) resource: String,
    pub(crate) verb: String,
    /// The object; empty: all.
    pub(crate) name: String,
    /// Namespace; every namespace if empty.
    pub(crate) namespace: String,
}

/// Permissions by ServiceAccount (`namespace/name`).
pub(crate) type ByAccount = BTreeMap<String, BTreeSet<Atom>>;

/// The manager's own account.
pub(crate) const ACCOUNT: &str = "kube-system/cloud-controller-manager";

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if !self.name.is_empty() {
            write!(f, " {:?}", self.name)?;
        }
        if !self.namespace.is_empty() {
            write!(f, " in {}", self.namespace)?;
        }
        Ok(())
    }
}

impl Atom {
    /// Returns the permission as a rule of a role.
    pub(crate) fn rule(&self) -> Value {
        if self.resource.starts_with('/') {
            return json!({"nonResourceURLs": [self.resource], "verbs": [self.verb]});
        }
        let mut rule =
            json!({"apiGroups": [self.group], "resources": [self.resource], "verbs": [self.verb]});
        if !self.name.is_empty() {
            rule["resourceNames"] = json!([self.name]);
        }
        rule
    }
}

/// Returns the permissions of a role's rules, bound in this namespace or in all.
pub(crate) fn of_rules(rules: &Value, namespace: &str) -> BTreeSet<Atom> {
    let strings = |value: &Value| -> Vec<String> {
        value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|item| item.as_str().map(str::to_owned))
            .collect()
    };
    let or_one = |list: Vec<String>| {
        if list.is_empty() {
            vec![String::new()]
        } else {
            list
        }
    };
    let mut atoms = BTreeSet::new();
    for rule in rules.as_array().into_iter().flatten() {
        let resources = [
            strings(&rule["resources"]),
            strings(&rule["nonResourceURLs"]),
        ]
        .concat();
        for (group, resource, verb, name) in combinations(
            &or_one(strings(&rule["apiGroups"])),
            &resources,
            &strings(&rule["verbs"]),
            &or_one(strings(&rule["resourceNames"])),
        ) {
            atoms.insert(Atom {
                group,
                resource,
                verb,
                name,
                namespace: namespace.to_owned(),
            });
        }
    }
    atoms
}

fn combinations(
    groups: &[String],
    resources: &[String],
    verbs: &[String],
    names: &[String],
) -> Vec<(String, String, String, String)> {
    let mut all = Vec::new();
    for group in groups {
        for resource in resources {
            for verb in verbs {
                all.extend(
                    names
                        .iter()
                        .map(|name| (group.clone(), resource.clone(), verb.clone(), name.clone())),
                );
            }
        }
    }
    all
}

/// Roles of every cluster to which our manifests bind, and what they allow.
fn of_every_cluster(kind: &str, name: &str) -> Option<Value> {
    match (kind, name) {
        ("ClusterRole", "system:auth-delegator") => Some(json!([
            {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
            {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
        ])),
        ("Role", "extension-apiserver-authentication-reader") => Some(json!([{
            "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"],
            "resourceNames": ["extension-apiserver-authentication"],
        }])),
        _ => None,
    }
}

/// Returns the permissions that the bindings among these documents grant.
///
/// # Errors
/// A binding to a missing role, or of a missing account; a role without a binding.
pub(crate) fn granted(documents: &[Value]) -> Result<ByAccount> {
    let mut all = ByAccount::new();
    let mut used = BTreeSet::new();
    for binding in documents {
        let kind = binding["kind"].as_str().unwrap_or_default();
        let namespace = match kind {
            "ClusterRoleBinding" => "",
            "RoleBinding" => binding["metadata"]["namespace"]
                .as_str()
                .unwrap_or_default(),
            _ => continue,
        };
        let role = (
            binding["roleRef"]["kind"].as_str().unwrap_or_default(),
            binding["roleRef"]["name"].as_str().unwrap_or_default(),
        );
        let ours = documents
            .iter()
            .find(|document| document["kind"] == role.0 && document["metadata"]["name"] == role.1);
        let rules = match ours
            .map(|object| object["rules"].clone())
            .or_else(|| of_every_cluster(role.0, role.1))
        {
            Some(rules) => rules,
            None => bail!(
                "{} refers to {role:?}, which is nowhere",
                crate::documents::title(binding)
            ),
        };
        used.insert((role.0.to_owned(), role.1.to_owned()));
        for subject in binding["subjects"].as_array().into_iter().flatten() {
            let of = |key: &str| subject[key].as_str().unwrap_or_default();
            let account = format!("{}/{}", of("namespace"), of("name"));
            all.entry(account)
                .or_default()
                .extend(of_rules(&rules, namespace));
        }
    }
    for role in documents
        .iter()
        .filter(|document| document["kind"] == "Role" || document["kind"] == "ClusterRole")
    {
        let key = |object: &Value| object.as_str().unwrap_or_default().to_owned();
        let bound = used.contains(&(key(&role["kind"]), key(&role["metadata"]["name"])));
        ensure!(
            bound,
            "nobody is bound to {}",
            crate::documents::title(role)
        );
    }
    Ok(all)
}

/// Returns the permissions that these features need, without those that every cluster grants by default.
pub(crate) fn wanted(features: &Features) -> ByAccount {
    let mut all = ByAccount::new();
    let given = |role: &str| {
        role.contains("system:controller:") || role.contains("system:public-info-viewer")
    };
    let rules: Vec<_> = needed(features)
        .into_iter()
        .filter(|rule| !rule.granted_by.is_some_and(given))
        .collect();
    for grant in grants(&rules) {
        let account = match grant.identity {
            Identity::Process => ACCOUNT.to_owned(),
            Identity::Controller(name) => format!("kube-system/{name}"),
        };
        let namespace = match grant.scope {
            Scope::Cluster | Scope::NonResource => String::new(),
            Scope::KubeSystem | Scope::LeaseNamespace => grant.namespace.clone(),
        };
        all.entry(account).or_default().insert(Atom {
            group: grant.group.to_owned(),
            resource: grant.resource.to_owned(),
            verb: grant.verb.to_owned(),
            name: grant.name.clone(),
            namespace,
        });
    }
    all
}

/// Checks that two sets are equal; the error lists superfluous and missing permissions.
pub(crate) fn same(granted: &ByAccount, wanted: &ByAccount, what: &str) -> Result<()> {
    let accounts: BTreeSet<_> = granted.keys().chain(wanted.keys()).collect();
    let mut complaints = Vec::new();
    let none = BTreeSet::new();
    for account in accounts {
        let has = granted.get(account).unwrap_or(&none);
        let needs = wanted.get(account).unwrap_or(&none);
        complaints.extend(
            has.difference(needs)
                .map(|atom| format!("{account} may {atom} and does not need it")),
        );
        complaints.extend(
            needs
                .difference(has)
                .map(|atom| format!("{account} needs {atom} and may not")),
        );
    }
    ensure!(complaints.is_empty(), "{what}:\n{}", complaints.join("\n"));
    Ok(())
}
