//! The object to explain, as named on the command line.

use std::fmt;

/// Maximum number of similar names.
const SIMILAR: usize = 3;

/// A Node or a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A Node of this name.
    Node(String),
    /// A Service of this namespace and name.
    Service {
        /// Namespace of the Service.
        namespace: String,
        /// Name of the Service.
        name: String,
    },
}

impl Subject {
    /// Parses `node NAME`, `service NAME`, `service NAMESPACE/NAME` and kubectl's `svc/NAME`.
    ///
    /// # Errors
    /// The argument that is missing or unknown, and the accepted forms.
    pub fn parse(
        kind: Option<&str>,
        name: Option<&str>,
        namespace: Option<&str>,
    ) -> Result<Self, String> {
        let accepted = "write `explain node NAME`, `explain service NAME --namespace=NAMESPACE` or `explain service \
                        NAMESPACE/NAME`";
        let (kind, name) = match (kind, name) {
            (Some(kind), Some(name)) => (kind, name),
            (Some(both), None) => both
                .split_once('/')
                .ok_or_else(|| format!("no name is given; {accepted}"))?,
            (None, _) => return Err(format!("no object is given; {accepted}")),
        };
        let of_namespace = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        match kind.to_ascii_lowercase().as_str() {
            "node" | "nodes" | "no" if name.contains('/') || name.is_empty() => {
                Err(format!("{name:?} is no name of a Node; {accepted}"))
            }
            "node" | "nodes" | "no" => Ok(Self::Node(name.to_owned())),
            "service" | "services" | "svc" => {
                let (given, name) = name
                    .split_once('/')
                    .map_or((None, name), |(given, name)| (Some(given), name));
                if name.is_empty() || name.contains('/') {
                    return Err(format!("{name:?} is no name of a Service; {accepted}"));
                }
                if let (Some(given), Some(flag)) = (given, namespace)
                    && given != flag
                {
                    return Err(format!(
                        "namespace {given:?} and --namespace={flag:?} differ; give one of them"
                    ));
                }
                let namespace = given
                    .or(namespace)
                    .and_then(of_namespace)
                    .unwrap_or_else(|| "default".to_owned());
                Ok(Self::Service {
                    namespace,
                    name: name.to_owned(),
                })
            }
            other => Err(format!("{other:?} cannot be explained; {accepted}")),
        }
    }

    /// Returns those of `names`, the names of all objects of this kind, that are most similar to this one's: first those
    /// of the same name in another namespace.
    pub(super) fn similar(&self, names: impl Iterator<Item = String>) -> Vec<String> {
        let own_name = match self {
            Self::Node(name) => name.clone(),
            Self::Service { namespace, name } => format!("{namespace}/{name}"),
        };
        let likeness = |name: &str| match name.rsplit('/').next() == own_name.rsplit('/').next() {
            true => 1.0,
            false => strsim::jaro_winkler(name, &own_name),
        };
        let mut names: Vec<(f64, String)> = names.map(|name| (likeness(&name), name)).collect();
        names.sort_by(|(a, one), (b, other)| b.total_cmp(a).then_with(|| one.cmp(other)));
        names
            .into_iter()
            .take(SIMILAR)
            .map(|(_, name)| name)
            .collect()
    }

    /// Returns the kind of the object.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Node(_) => "Node",
            Self::Service { .. } => "Service",
        }
    }

    /// Returns the namespace; empty for a Node.
    #[must_use]
    pub fn namespace(&self) -> &str {
        match self {
            Self::Node(_) => "",
            Self::Service { namespace, .. } => namespace,
        }
    }

    /// Returns the name of the object.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Node(name) | Self::Service { name, .. } => name,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => write!(f, "Node {name}"),
            Self::Service { namespace, name } => write!(f, "Service {namespace}/{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_as_kubectl_users_name_them() {
        for (kind, name, namespace, expected) in [
            ("node", Some("worker-1"), None, "Node worker-1"),
            ("no/worker-1", None, None, "Node worker-1"),
            ("service", Some("web"), None, "Service default/web"),
            ("svc", Some("web"), Some("shop"), "Service shop/web"),
            ("Service", Some("shop/web"), None, "Service shop/web"),
            ("svc", Some("shop/web"), Some("shop"), "Service shop/web"),
            ("svc/web", None, Some("shop"), "Service shop/web"),
        ] {
            let subject = Subject::parse(Some(kind), name, namespace).unwrap();
            assert_eq!(subject.to_string(), expected);
        }
    }

    #[test]
    fn similar_names_are_those_that_a_person_may_have_meant() {
        let similar = |subject: Subject, names: &[&str]| {
            subject.similar(names.iter().map(|name| (*name).to_owned()))
        };
        let nodes = ["db-7", "worker-2", "worker-1", "worker-12", "control-1"];
        assert_eq!(
            similar(Subject::Node("worker1".into()), &nodes),
            ["worker-1", "worker-12", "worker-2"]
        );
        assert_eq!(similar(Subject::Node("nope".into()), &[]), [""; 0]);
        let web = Subject::Service {
            namespace: "default".into(),
            name: "web".into(),
        };
        assert_eq!(similar(web, &["default/api", "shop/web"])[0], "shop/web");
    }

    #[test]
    fn a_wrong_object_is_refused_with_what_is_accepted() {
        for (kind, name, namespace, text) in [
            (None, None, None, "no object is given"),
            (Some("node"), None, None, "no name is given"),
            (
                Some("pod"),
                Some("web"),
                None,
                "\"pod\" cannot be explained",
            ),
            (
                Some("node"),
                Some("a/b"),
                None,
                "\"a/b\" is no name of a Node",
            ),
            (
                Some("svc"),
                Some("shop/"),
                None,
                "\"\" is no name of a Service",
            ),
            (
                Some("svc"),
                Some("shop/web"),
                Some("other"),
                "\"shop\" and --namespace=\"other\" differ",
            ),
        ] {
            let error = Subject::parse(kind, name, namespace).unwrap_err();
            assert!(error.contains(text), "{error}");
        }
    }
}
