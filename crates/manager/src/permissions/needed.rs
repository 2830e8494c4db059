//! The permissions that the program needs, with the reason for each (DEP-1 … DEP-23).

use cloud_provider::names::{
    ControllerNames, NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER, ROUTE_CONTROLLER,
    SERVICE_CONTROLLER, VOLUME_LABEL_CONTROLLER,
};

use super::{Features, Identity, Rule, Scope};

const KUBE_SYSTEM: &str = "kube-system";

/// Returns the rules that the features need, grouped for readers. Several rules may grant the same permission for
/// different reasons.
#[must_use]
pub fn needed(features: &Features) -> Vec<Rule> {
    let mut rules = Vec::new();
    process(features, &mut rules);
    election(features, &mut rules);
    callers(features, &mut rules);
    service_accounts(features, &mut rules);
    for names in &features.controllers {
        let identity = match features.service_account_credentials {
            true => Identity::Controller(names.client_identity),
            false => Identity::Process,
        };
        rules.extend(controller(*names).into_iter().map(|rule| Rule {
            granted_by: bootstrap_role(*names).filter(|_| features.service_account_credentials),
            ..rule.of(identity)
        }));
    }
    rules
}

/// Adds the rules for the shared caches and for reading the cluster ID.
fn process(features: &Features, rules: &mut Vec<Rule>) {
    rules.push(
        Rule::cluster(
            "DEP-3",
            "nodes",
            &["list", "watch"],
            "every controller works on Nodes",
        )
        .vital(),
    );
    if features.runs(SERVICE_CONTROLLER) {
        rules.push(Rule::cluster(
            "DEP-4",
            "services",
            &["list", "watch"],
            "the service controller works on Services",
        ));
    }
    if features.runs(VOLUME_LABEL_CONTROLLER) {
        let why = "the volume controller works on PersistentVolumes";
        rules.push(Rule::cluster(
            "D-14",
            "persistentvolumes",
            &["list", "watch"],
            why,
        ));
    }
    let why =
        "its UID identifies this cluster in the cloud; without it, only the cluster name does";
    rules.push(
        Rule::cluster("D-11", "namespaces", &["get"], why)
            .named([KUBE_SYSTEM])
            .optional(),
    );
    let why = "waiting for the API server";
    rules.push(
        Rule {
            scope: Scope::NonResource,
            ..Rule::cluster("DEP-7", "/healthz", &["get"], why)
        }
        .optional()
        .granted_by("ClusterRole system:public-info-viewer"),
    );
}

/// Adds the rules for the leader election lease (DEP-1, D-13).
fn election(features: &Features, rules: &mut Vec<Rule>) {
    let Some(election) = &features.election else {
        return;
    };
    let lease = |verbs: &[&'static str], why| {
        let rule = Rule::kube_system("DEP-1", "leases", verbs, why).group("coordination.k8s.io");
        let scope = if election.namespace == KUBE_SYSTEM {
            Scope::KubeSystem
        } else {
            Scope::LeaseNamespace
        };
        Rule {
            scope,
            namespace: election.namespace.clone(),
            ..rule
        }
    };
    // RBAC cannot restrict "create" to object names.
    rules.push(lease(
        &["create"],
        "the first leader election creates the lease",
    ));
    rules.push(
        lease(&["get", "update"], "election")
            .named(&election.leases)
            .vital(),
    );
    if election.watch {
        let why = "a standby notices a free lease at once; without the permission, it polls every few seconds";
        rules.push(Rule {
            id: "D-13",
            ..lease(&["watch"], why).named(&election.leases).optional()
        });
    }
    rules.push(
        Rule::cluster(
            "DEP-2",
            "events",
            &["create", "patch"],
            "events of the election",
        )
        .optional(),
    );
}

/// Adds the rules for authenticating and authorizing the callers of the secure port (DEP-5, DEP-6).
fn callers(features: &Features, rules: &mut Vec<Rule>) {
    if !features.caller_reviews {
        return;
    }
    let delegator = "ClusterRole system:auth-delegator";
    let why = "authenticating callers of /metrics";
    rules.push(
        Rule::cluster("DEP-5", "tokenreviews", &["create"], why)
            .group("authentication.k8s.io")
            .granted_by(delegator)
            .optional(),
    );
    let why = "authorizing callers of /metrics";
    rules.push(
        Rule::cluster("DEP-5", "subjectaccessreviews", &["create"], why)
            .group("authorization.k8s.io")
            .granted_by(delegator)
            .optional(),
    );
    if features.authentication_lookup {
        let why = "the CAs of client certificates and of the front proxy; see --authentication-skip-lookup and \
                   --authentication-tolerate-lookup-failure";
        rules.push(
            Rule::kube_system("DEP-6", "configmaps", &["get", "list", "watch"], why)
                .named(["extension-apiserver-authentication"])
                .granted_by("Role kube-system/extension-apiserver-authentication-reader")
                // The start fails without this ConfigMap (APP-122).
                .vital_if(!features.tolerate_lookup_failure),
        );
    }
}

/// Adds the rules for creating ServiceAccounts and requesting their tokens (DEP-10 … DEP-12).
fn service_accounts(features: &Features, rules: &mut Vec<Rule>) {
    if !features.service_account_credentials {
        return;
    }
    let mut accounts: Vec<_> = features
        .controllers
        .iter()
        .map(|names| names.client_identity)
        .collect();
    accounts.sort_unstable();
    accounts.dedup();
    if accounts.is_empty() {
        return;
    }
    let why = "--use-service-account-credentials";
    rules.push(
        Rule::kube_system("DEP-10", "serviceaccounts", &["get"], why)
            .named(accounts.clone())
            .vital(),
    );
    let missing = "creating a controller's missing account";
    rules.push(Rule::kube_system("DEP-10", "serviceaccounts", &["create"], missing).optional());
    rules.push(
        Rule::kube_system("DEP-11", "serviceaccounts/token", &["create"], why)
            .named(accounts)
            .vital(),
    );
    rules.push(
        Rule::cluster("DEP-12", "namespaces", &["get"], missing)
            .named([KUBE_SYSTEM])
            .optional(),
    );
}

/// Returns the rules for the requests of a controller itself (DEP-20 … DEP-23, D-14). The shared caches of the process
/// read on its behalf (DEP-26).
fn controller(names: ControllerNames) -> Vec<Rule> {
    let mut rules = match names {
        NODE_CONTROLLER => vec![
            // Patches only: whole objects are never written (D-8).
            Rule::cluster("DEP-20", "nodes", &["get", "patch"], "initialising Nodes: provider id, labels, taint"),
            Rule::cluster("DEP-20", "nodes/status", &["patch"], "addresses of Nodes"),
        ],
        NODE_LIFECYCLE_CONTROLLER => vec![
            Rule::cluster("DEP-21", "nodes", &["get", "patch"], "the shutdown taint"),
            Rule::cluster("DEP-21", "nodes", &["delete"], "deleting Nodes whose machine does not exist"),
        ],
        SERVICE_CONTROLLER => vec![
            Rule::cluster(
                "DEP-22",
                "services",
                &["get"],
                "reading a Service that left the cache; without the permission, all Services are listed",
            )
            .optional(),
            Rule::cluster(
                "DEP-22",
                "services/status",
                &["patch"],
                "finalizer, addresses, condition and annotations of Services",
            ),
        ],
        ROUTE_CONTROLLER => {
            vec![Rule::cluster("DEP-23", "nodes/status", &["patch"], "condition NetworkUnavailable")]
        }
        VOLUME_LABEL_CONTROLLER => {
            vec![Rule::cluster("D-14", "persistentvolumes", &["get", "patch"], "topology labels of volumes")]
        }
        _ => Vec::new(),
    };
    rules.push(
        Rule::cluster(
            "DEP-2",
            "events",
            &["create", "patch"],
            "events of the controllers",
        )
        .optional(),
    );
    rules
}

/// Returns the ClusterRole that Kubernetes creates for this controller's ServiceAccount, if there is one.
fn bootstrap_role(names: ControllerNames) -> Option<&'static str> {
    match names {
        NODE_CONTROLLER | NODE_LIFECYCLE_CONTROLLER => {
            Some("ClusterRole system:controller:node-controller")
        }
        SERVICE_CONTROLLER => Some("ClusterRole system:controller:service-controller"),
        ROUTE_CONTROLLER => Some("ClusterRole system:controller:route-controller"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cloud_provider::names::CONTROLLERS;

    use super::super::grants;
    use super::*;

    /// `verb resource[.group][ "name"][ in namespace N]`, one for each permission.
    fn said(features: &Features) -> BTreeSet<String> {
        grants(&needed(features))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    fn set(lines: &[&str]) -> BTreeSet<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn the_default_needs_no_more_than_the_reference_role_and_what_ours_adds() {
        let expected = set(&[
            "create events",
            "create leases.coordination.k8s.io in namespace kube-system",
            "create subjectaccessreviews.authorization.k8s.io",
            "create tokenreviews.authentication.k8s.io",
            "delete nodes",
            "get /healthz",
            "get configmaps \"extension-apiserver-authentication\" in namespace kube-system",
            "get leases.coordination.k8s.io \"cloud-controller-manager\" in namespace kube-system",
            "get namespaces \"kube-system\"",
            "get nodes",
            "get services",
            "list configmaps \"extension-apiserver-authentication\" in namespace kube-system",
            "list nodes",
            "list services",
            "patch events",
            "patch nodes",
            "patch nodes/status",
            "patch services/status",
            "update leases.coordination.k8s.io \"cloud-controller-manager\" in namespace kube-system",
            "watch configmaps \"extension-apiserver-authentication\" in namespace kube-system",
            "watch leases.coordination.k8s.io \"cloud-controller-manager\" in namespace kube-system",
            "watch nodes",
            "watch services",
        ]);
        assert_eq!(said(&Features::default()), expected);
    }

    #[test]
    fn each_feature_asks_for_its_own_only() {
        let nothing = Features {
            controllers: vec![],
            election: None,
            service_account_credentials: false,
            caller_reviews: false,
            authentication_lookup: true,
            tolerate_lookup_failure: false,
        };
        let base = set(&[
            "get /healthz",
            "get namespaces \"kube-system\"",
            "list nodes",
            "watch nodes",
        ]);
        assert_eq!(said(&nothing), base);
        let more = |features: &Features| {
            said(features)
                .difference(&base)
                .cloned()
                .collect::<Vec<_>>()
        };
        let with = |names| {
            more(&Features {
                controllers: vec![names],
                ..nothing.clone()
            })
        };
        assert_eq!(
            CONTROLLERS.map(with),
            [
                vec![
                    "create events",
                    "get nodes",
                    "patch events",
                    "patch nodes",
                    "patch nodes/status"
                ],
                vec![
                    "create events",
                    "delete nodes",
                    "get nodes",
                    "patch events",
                    "patch nodes"
                ],
                vec!["create events", "patch events", "patch nodes/status"],
                vec![
                    "create events",
                    "get services",
                    "list services",
                    "patch events",
                    "patch services/status",
                    "watch services"
                ],
                vec![
                    "create events",
                    "get persistentvolumes",
                    "list persistentvolumes",
                    "patch events",
                    "patch persistentvolumes",
                    "watch persistentvolumes"
                ],
            ]
        );
        let election = super::super::Election {
            namespace: "ccm".into(),
            leases: vec!["a".into(), "b".into()],
            watch: false,
        };
        assert_eq!(
            more(&Features {
                election: Some(election),
                ..nothing.clone()
            }),
            [
                "create events",
                "create leases.coordination.k8s.io in namespace ccm",
                "get leases.coordination.k8s.io \"a\" in namespace ccm",
                "get leases.coordination.k8s.io \"b\" in namespace ccm",
                "patch events",
                "update leases.coordination.k8s.io \"a\" in namespace ccm",
                "update leases.coordination.k8s.io \"b\" in namespace ccm",
            ]
        );
    }

    /// The roles in the manifests of the programs whose image is swapped.
    #[test]
    fn roles_of_the_hetzner_and_openstack_programs_lack_only_optional_permissions() {
        let hetzners = |resource: &str, verb: &str| match resource {
            "nodes" => true,
            "nodes/status" => verb == "patch",
            "services" => ["list", "watch"].contains(&verb),
            "services/status" => ["patch", "update"].contains(&verb),
            "events" => ["create", "patch", "update"].contains(&verb),
            "configmaps" => ["get", "list", "watch"].contains(&verb),
            "leases" => ["create", "get", "list", "watch", "update"].contains(&verb),
            _ => false,
        };
        let openstacks = |resource: &str, verb: &str| match resource {
            "persistentvolumes" => true,
            "services/status" => verb == "patch",
            "leases" => ["create", "get", "update"].contains(&verb),
            other => hetzners(other, verb),
        };
        type Role<'a> = &'a dyn Fn(&str, &str) -> bool;
        let roles: [Role<'_>; 2] = [&hetzners, &openstacks];
        for (role, election) in roles.iter().flat_map(|role| {
            [
                (role, None),
                (role, Some(super::super::Election::default())),
            ]
        }) {
            for rule in needed(&Features {
                election,
                ..Features::default()
            }) {
                let is_enough = rule.verbs.iter().all(|verb| role(rule.resource, verb));
                assert!(
                    is_enough || rule.optional,
                    "{} {}: {}",
                    rule.verbs.join(","),
                    rule.resource,
                    rule.why
                );
            }
        }
    }

    #[test]
    fn controllers_with_accounts_of_their_own_need_no_permission_of_the_process() {
        let rules = needed(&Features {
            service_account_credentials: true,
            ..Features::default()
        });
        let of = |identity| -> Vec<String> {
            let rules: Vec<_> = rules
                .iter()
                .filter(|rule| rule.identity == identity)
                .cloned()
                .collect();
            let mut said: Vec<_> = grants(&rules).iter().map(ToString::to_string).collect();
            said.sort_unstable();
            said
        };
        let process = of(Identity::Process);
        for kept in [
            "list nodes",
            "create serviceaccounts in namespace kube-system",
            "get namespaces \"kube-system\"",
        ] {
            assert!(
                process.iter().any(|grant| grant == kept),
                "{kept}: {process:?}"
            );
        }
        assert!(
            process
                .iter()
                .any(|grant| grant.contains("serviceaccounts/token \"route-controller\""))
        );
        for given in [
            "patch nodes",
            "delete nodes",
            "patch services/status",
            "get services",
        ] {
            assert!(!process.iter().any(|grant| grant == given), "{given}");
        }
        assert_eq!(
            of(Identity::Controller("route-controller")),
            ["create events", "patch events", "patch nodes/status"]
        );
        assert_eq!(
            of(Identity::Controller("node-controller")),
            [
                "create events",
                "delete nodes",
                "get nodes",
                "patch events",
                "patch nodes",
                "patch nodes/status"
            ]
        );
    }

    #[test]
    fn permissions_that_everything_depends_on_are_vital() {
        let features = Features {
            service_account_credentials: true,
            ..Features::default()
        };
        let vital: Vec<_> = needed(&features)
            .into_iter()
            .filter(|rule| rule.vital)
            .collect();
        let vital: BTreeSet<_> = vital
            .iter()
            .map(|rule| format!("{} {}", rule.verbs.join(","), rule.resource))
            .collect();
        assert_eq!(
            vital,
            set(&[
                "list,watch nodes",
                "get,update leases",
                "get serviceaccounts",
                "create serviceaccounts/token",
                "get,list,watch configmaps"
            ])
        );
        let tolerant = Features {
            tolerate_lookup_failure: true,
            ..Features::default()
        };
        assert!(
            !needed(&tolerant)
                .iter()
                .any(|rule| rule.vital && rule.resource == "configmaps")
        );
    }
}
