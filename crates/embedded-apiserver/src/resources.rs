//! Table of the resources that the server serves.

/// A resource: its path and its entry in discovery.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) short_names: &'static [&'static str],
    pub(crate) categories: &'static [&'static str],
    pub(crate) namespaced: bool,
    pub(crate) has_status: bool,
    pub(crate) verbs: Verbs,
    /// Name of the type in the schema.
    pub(crate) type_name: &'static str,
}

/// Verbs that a resource supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verbs {
    /// Stored objects, which support every verb.
    All,
    /// Stored objects, but no deletecollection (Namespaces).
    NoCollection,
    /// Objects that are never stored, so that lists are empty (Pods and other resources that `kubectl describe` and
    /// `get all` read).
    ReadOnly,
    /// Reviews, which are created and answered, but not stored.
    CreateOnly,
}

impl Verbs {
    /// Returns the verbs as discovery lists them.
    pub(crate) fn names(self) -> &'static [&'static str] {
        match self {
            Self::All => &[
                "create",
                "delete",
                "deletecollection",
                "get",
                "list",
                "patch",
                "update",
                "watch",
            ],
            Self::NoCollection => &[
                "create", "delete", "get", "list", "patch", "update", "watch",
            ],
            Self::ReadOnly => &["get", "list", "watch"],
            Self::CreateOnly => &["create"],
        }
    }
}

impl Resource {
    /// Returns `v1` or `coordination.k8s.io/v1`
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns the resource in error messages: `nodes`, `leases.coordination.k8s.io`
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// Returns the kind in error messages: `Node`, `Lease.coordination.k8s.io`
    pub(crate) fn qualified_kind(&self) -> String {
        if self.group.is_empty() {
            self.kind.to_owned()
        } else {
            format!("{}.{}", self.kind, self.group)
        }
    }

    /// Returns the resource whose objects this one shows. Both event APIs show one set of objects.
    pub(crate) fn storage(&self) -> &'static Self {
        match self.plural {
            "events" => by_path("", "v1", "events").unwrap_or(&RESOURCES[0]),
            _ => find_static(self),
        }
    }

    /// Returns `true` if a delete responds with the deleted object instead of a Status.
    pub(crate) fn delete_returns_object(&self) -> bool {
        matches!(
            self.plural,
            "services" | "serviceaccounts" | "persistentvolumes"
        )
    }
}

fn find_static(resource: &Resource) -> &'static Resource {
    by_path(resource.group, resource.version, resource.plural).unwrap_or(&RESOURCES[0])
}

/// Returns the resource at `/api/v1/PLURAL` (empty group) or `/apis/GROUP/VERSION/PLURAL`.
pub(crate) fn by_path(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    RESOURCES
        .iter()
        .find(|r| r.plural == plural && r.version == version && r.group == group)
}

/// Returns the resource with this kind and `apiVersion`.
pub(crate) fn by_kind(api_version: &str, kind: &str) -> Option<&'static Resource> {
    RESOURCES
        .iter()
        .find(|r| r.kind == kind && r.api_version() == api_version)
}

/// Returns the first resource with this plural name; core before groups.
pub(crate) fn by_plural(plural: &str) -> Option<&'static Resource> {
    RESOURCES.iter().find(|r| r.plural == plural)
}

/// The API groups except the core group, in discovery's order, each with its version.
pub(crate) const GROUPS: [(&str, &str); 7] = [
    ("apps", "v1"),
    ("events.k8s.io", "v1"),
    ("authentication.k8s.io", "v1"),
    ("authorization.k8s.io", "v1"),
    ("batch", "v1"),
    ("coordination.k8s.io", "v1"),
    ("discovery.k8s.io", "v1"),
];

const BASE: Resource = Resource {
    group: "",
    version: "v1",
    plural: "",
    singular: "",
    kind: "",
    short_names: &[],
    categories: &[],
    namespaced: true,
    has_status: false,
    verbs: Verbs::All,
    type_name: "",
};

const ALL_CATEGORY: &[&str] = &["all"];

/// Every resource, by group and name.
pub(crate) const RESOURCES: &[Resource] = &[
    Resource {
        plural: "configmaps",
        singular: "configmap",
        kind: "ConfigMap",
        short_names: &["cm"],
        type_name: "core.v1.ConfigMap",
        ..BASE
    },
    Resource {
        plural: "endpoints",
        singular: "endpoints",
        kind: "Endpoints",
        short_names: &["ep"],
        type_name: "core.v1.Endpoints",
        ..BASE
    },
    Resource {
        plural: "events",
        singular: "event",
        kind: "Event",
        short_names: &["ev"],
        type_name: "core.v1.Event",
        ..BASE
    },
    Resource {
        plural: "namespaces",
        singular: "namespace",
        kind: "Namespace",
        short_names: &["ns"],
        namespaced: false,
        has_status: true,
        verbs: Verbs::NoCollection,
        type_name: "core.v1.Namespace",
        ..BASE
    },
    Resource {
        plural: "nodes",
        singular: "node",
        kind: "Node",
        short_names: &["no"],
        namespaced: false,
        has_status: true,
        type_name: "core.v1.Node",
        ..BASE
    },
    Resource {
        plural: "persistentvolumeclaims",
        singular: "persistentvolumeclaim",
        kind: "PersistentVolumeClaim",
        short_names: &["pvc"],
        verbs: Verbs::ReadOnly,
        type_name: "",
        ..BASE
    },
    Resource {
        plural: "persistentvolumes",
        singular: "persistentvolume",
        kind: "PersistentVolume",
        short_names: &["pv"],
        namespaced: false,
        has_status: true,
        type_name: "core.v1.PersistentVolume",
        ..BASE
    },
    Resource {
        plural: "pods",
        singular: "pod",
        kind: "Pod",
        short_names: &["po"],
        categories: ALL_CATEGORY,
        verbs: Verbs::ReadOnly,
        ..BASE
    },
    Resource {
        plural: "replicationcontrollers",
        singular: "replicationcontroller",
        kind: "ReplicationController",
        short_names: &["rc"],
        categories: ALL_CATEGORY,
        verbs: Verbs::ReadOnly,
        ..BASE
    },
    Resource {
        plural: "resourcequotas",
        singular: "resourcequota",
        kind: "ResourceQuota",
        short_names: &["quota"],
        verbs: Verbs::ReadOnly,
        ..BASE
    },
    Resource {
        plural: "limitranges",
        singular: "limitrange",
        kind: "LimitRange",
        short_names: &["limits"],
        verbs: Verbs::ReadOnly,
        ..BASE
    },
    Resource {
        plural: "secrets",
        singular: "secret",
        kind: "Secret",
        type_name: "core.v1.Secret",
        ..BASE
    },
    Resource {
        plural: "serviceaccounts",
        singular: "serviceaccount",
        kind: "ServiceAccount",
        short_names: &["sa"],
        type_name: "core.v1.ServiceAccount",
        ..BASE
    },
    Resource {
        plural: "services",
        singular: "service",
        kind: "Service",
        short_names: &["svc"],
        categories: ALL_CATEGORY,
        has_status: true,
        type_name: "core.v1.Service",
        ..BASE
    },
    Resource {
        group: "apps",
        plural: "daemonsets",
        singular: "daemonset",
        kind: "DaemonSet",
        short_names: &["ds"],
        categories: ALL_CATEGORY,
        verbs: Verbs::ReadOnly,
        ..BASE
    },
    Resource {
        group: "apps",
        plural: "deployments",
        singular: "deployment",
        kind: "Deployment",
        short_names: &["deploy"],
        categories: ALL_CATEGORY,
        verbs: Verbs::ReadOnly,
        ..BASE
    },
    Resource {
        group: "apps",
        plural: "replicasets",
        singular: "replicaset",
        kind: "ReplicaSet",
        short_names: &["rs"],
        categories: ALL_CATEGORY,
        verbs: Verbs::ReadOnly,
        ..BASE
    },
    Resource {
        group: "apps",
        plural: "statefulsets",
        singular: "statefulset",
        kind: "StatefulSet",
        short_names: &["sts"],
        categories: ALL_CATEGORY,
        verbs: Verbs::ReadOnly,
        ..BASE
    },
    Resource {
        group: "events.k8s.io",
        plural: "events",
        singular: "event",
        kind: "Event",
        short_names: &["ev"],
        type_name: "events.v1.Event",
        ..BASE
    },
    Resource {
        group: "authentication.k8s.io",
        plural: "selfsubjectreviews",
        singular: "selfsubjectreview",
        kind: "SelfSubjectReview",
        namespaced: false,
        verbs: Verbs::CreateOnly,
        type_name: "authentication.v1.SelfSubjectReview",
        ..BASE
    },
    Resource {
        group: "authentication.k8s.io",
        plural: "tokenreviews",
        singular: "tokenreview",
        kind: "TokenReview",
        namespaced: false,
        verbs: Verbs::CreateOnly,
        type_name: "authentication.v1.TokenReview",
        ..BASE
    },
    Resource {
        group: "authorization.k8s.io",
        plural: "localsubjectaccessreviews",
        singular: "localsubjectaccessreview",
        kind: "LocalSubjectAccessReview",
        verbs: Verbs::CreateOnly,
        type_name: "authorization.v1.LocalSubjectAccessReview",
        ..BASE
    },
    Resource {
        group: "authorization.k8s.io",
        plural: "selfsubjectaccessreviews",
        singular: "selfsubjectaccessreview",
        kind: "SelfSubjectAccessReview",
        namespaced: false,
        verbs: Verbs::CreateOnly,
        type_name: "authorization.v1.SelfSubjectAccessReview",
        ..BASE
    },
    Resource {
        group: "authorization.k8s.io",
        plural: "selfsubjectrulesreviews",
        singular: "selfsubjectrulesreview",
        kind: "SelfSubjectRulesReview",
        namespaced: false,
        verbs: Verbs::CreateOnly,
        type_name: "authorization.v1.SelfSubjectRulesReview",
        ..BASE
    },
    Resource {
        group: "authorization.k8s.io",
        plural: "subjectaccessreviews",
        singular: "subjectaccessreview",
        kind: "SubjectAccessReview",
        namespaced: false,
        verbs: Verbs::CreateOnly,
        type_name: "authorization.v1.SubjectAccessReview",
        ..BASE
    },
    Resource {
        group: "batch",
        plural: "cronjobs",
        singular: "cronjob",
        kind: "CronJob",
        short_names: &["cj"],
        categories: ALL_CATEGORY,
        verbs: Verbs::ReadOnly,
        ..BASE
    },
    Resource {
        group: "batch",
        plural: "jobs",
        singular: "job",
        kind: "Job",
        categories: ALL_CATEGORY,
        verbs: Verbs::ReadOnly,
        ..BASE
    },
    Resource {
        group: "coordination.k8s.io",
        plural: "leases",
        singular: "lease",
        kind: "Lease",
        type_name: "coordination.v1.Lease",
        ..BASE
    },
    Resource {
        group: "discovery.k8s.io",
        plural: "endpointslices",
        singular: "endpointslice",
        kind: "EndpointSlice",
        type_name: "discovery.v1.EndpointSlice",
        ..BASE
    },
];
