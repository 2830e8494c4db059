//! An RBAC rule that the program needs, and the permissions in it.

use std::collections::BTreeSet;
use std::fmt;

/// The scope of a rule: cluster, namespace or non-resource URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// A ClusterRole, bound in the whole cluster.
    Cluster,
    /// A Role in the namespace `kube-system`.
    KubeSystem,
    /// A Role in the namespace of the lease, if that is not `kube-system` (`--leader-elect-resource-namespace`).
    LeaseNamespace,
    /// A ClusterRole's `nonResourceURLs`; the rule's resource is the path.
    NonResource,
}

/// The identity that needs a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Identity {
    /// The Pod's ServiceAccount, or the kubeconfig's user.
    Process,
    /// The ServiceAccount of this name in `kube-system` (`--use-service-account-credentials`).
    Controller(&'static str),
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process => f.write_str("this process"),
            Self::Controller(name) => write!(f, "ServiceAccount kube-system/{name}"),
        }
    }
}

/// An RBAC rule that the program needs, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// ID of the rule in docs/rules that requires the permission, such as `DEP-20`.
    pub id: &'static str,
    /// Identity that needs the permission.
    pub identity: Identity,
    /// Scope of the rule.
    pub scope: Scope,
    /// Namespace of the resources; empty for all namespaces and for cluster-scoped resources.
    pub namespace: String,
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Resource or `resource/subresource`; for [`Scope::NonResource`] the path.
    pub resource: &'static str,
    /// Verbs that the rule allows.
    pub verbs: Vec<&'static str>,
    /// Names of the objects; empty for all objects.
    pub names: Vec<String>,
    /// Short reason why the permission is needed.
    pub why: &'static str,
    /// If set, the manager cannot work at all without the permission; otherwise only one feature fails.
    pub vital: bool,
    /// If set, everything works without the permission, but less well.
    pub optional: bool,
    /// The built-in ClusterRole that grants this permission among others, if there is one.
    pub granted_by: Option<&'static str>,
}

impl Rule {
    /// Returns a rule for all objects of a core resource in the whole cluster.
    pub(super) fn cluster(
        id: &'static str,
        resource: &'static str,
        verbs: &[&'static str],
        why: &'static str,
    ) -> Self {
        Self {
            id,
            identity: Identity::Process,
            scope: Scope::Cluster,
            namespace: String::new(),
            group: "",
            resource,
            verbs: verbs.to_vec(),
            names: Vec::new(),
            why,
            vital: false,
            optional: false,
            granted_by: None,
        }
    }

    /// Returns a rule like [`cluster`](Self::cluster), limited to the namespace `kube-system`.
    pub(super) fn kube_system(
        id: &'static str,
        resource: &'static str,
        verbs: &[&'static str],
        why: &'static str,
    ) -> Self {
        Self {
            scope: Scope::KubeSystem,
            namespace: "kube-system".to_owned(),
            ..Self::cluster(id, resource, verbs, why)
        }
    }

    pub(super) fn of(self, identity: Identity) -> Self {
        Self { identity, ..self }
    }

    pub(super) fn group(self, group: &'static str) -> Self {
        Self { group, ..self }
    }

    pub(super) fn named(self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            names: names.into_iter().map(Into::into).collect(),
            ..self
        }
    }

    pub(super) fn vital(self) -> Self {
        self.vital_if(true)
    }

    pub(super) fn vital_if(self, vital: bool) -> Self {
        Self { vital, ..self }
    }

    pub(super) fn optional(self) -> Self {
        Self {
            optional: true,
            ..self
        }
    }

    pub(super) fn granted_by(self, role: &'static str) -> Self {
        Self {
            granted_by: Some(role),
            ..self
        }
    }

    /// Returns each single permission that the rule allows.
    pub fn grants(&self) -> impl Iterator<Item = Grant> + '_ {
        let names = if self.names.is_empty() {
            vec![""]
        } else {
            self.names.iter().map(String::as_str).collect()
        };
        self.verbs.iter().flat_map(move |verb| {
            names.clone().into_iter().map(move |name| Grant {
                identity: self.identity,
                scope: self.scope,
                namespace: self.namespace.clone(),
                group: self.group,
                resource: self.resource,
                verb,
                name: name.to_owned(),
            })
        })
    }
}

/// A single permission: one verb on one resource, for one object or for all objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Grant {
    /// Identity that needs the permission.
    pub identity: Identity,
    /// Scope of the permission.
    pub scope: Scope,
    /// Namespace of the resource; empty for all namespaces.
    pub namespace: String,
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Resource, `resource/subresource` or path.
    pub resource: &'static str,
    /// Verb, such as `get`.
    pub verb: &'static str,
    /// Name of the object; empty for all objects.
    pub name: String,
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if !self.name.is_empty() {
            write!(f, " {:?}", self.name)?;
        }
        if !self.namespace.is_empty() {
            write!(f, " in namespace {}", self.namespace)?;
        }
        Ok(())
    }
}

/// Returns the permissions that the rules allow, without duplicates.
#[must_use]
pub fn grants(rules: &[Rule]) -> BTreeSet<Grant> {
    rules.iter().flat_map(Rule::grants).collect()
}
