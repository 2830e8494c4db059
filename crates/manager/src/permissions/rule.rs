//! One permission, as RBAC says it.

use std::collections::BTreeSet;
use std::fmt;

/// Where a rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// A ClusterRole, bound in the whole cluster.
    Cluster,
    /// A Role in the namespace `kube-system`.
    KubeSystem,
    /// A Role in the namespace of the lease, where that is another (`--leader-elect-resource-namespace`).
    LeaseNamespace,
    /// A ClusterRole's `nonResourceURLs`; the rule's resource is the path.
    NonResource,
}

/// Who needs it.
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

/// One rule, and why it is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The rule of the specification, such as `DEP-20`.
    pub id: &'static str,
    /// Who needs it.
    pub identity: Identity,
    /// Where.
    pub scope: Scope,
    /// Namespace that it is needed in; empty: all, or none has any part in it.
    pub namespace: String,
    /// API group; empty for the core's.
    pub group: &'static str,
    /// Resource or `resource/subresource`; for [`Scope::NonResource`] the path.
    pub resource: &'static str,
    /// Verbs.
    pub verbs: Vec<&'static str>,
    /// The objects, by name; empty: all.
    pub names: Vec<String>,
    /// What for, in a few words.
    pub why: &'static str,
    /// Without it nothing works; without another one feature does not.
    pub vital: bool,
    /// Without it everything works, but something less well.
    pub optional: bool,
    /// The role of every cluster that grants this and more, if there is one.
    pub granted_by: Option<&'static str>,
}

impl Rule {
    /// A rule for the whole cluster, core group, all objects.
    pub(super) fn cluster(id: &'static str, resource: &'static str, verbs: &[&'static str], why: &'static str) -> Self {
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

    /// As [`cluster`](Self::cluster), in `kube-system` alone.
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
        Self { names: names.into_iter().map(Into::into).collect(), ..self }
    }

    pub(super) fn vital(self) -> Self {
        self.vital_if(true)
    }

    pub(super) fn vital_if(self, vital: bool) -> Self {
        Self { vital, ..self }
    }

    pub(super) fn optional(self) -> Self {
        Self { optional: true, ..self }
    }

    pub(super) fn granted_by(self, role: &'static str) -> Self {
        Self { granted_by: Some(role), ..self }
    }

    /// What it allows, one by one.
    pub fn grants(&self) -> impl Iterator<Item = Grant> + '_ {
        let names = if self.names.is_empty() { vec![""] } else { self.names.iter().map(String::as_str).collect() };
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

/// The smallest thing that can be allowed: one verb on one resource, of one object or of all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Grant {
    /// Who needs it.
    pub identity: Identity,
    /// Where.
    pub scope: Scope,
    /// Namespace; empty: all.
    pub namespace: String,
    /// API group; empty for the core's.
    pub group: &'static str,
    /// Resource, `resource/subresource` or path.
    pub resource: &'static str,
    /// Verb.
    pub verb: &'static str,
    /// The object; empty: all.
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

/// All that some rules allow, each once.
#[must_use]
pub fn grants(rules: &[Rule]) -> BTreeSet<Grant> {
    rules.iter().flat_map(Rule::grants).collect()
}
