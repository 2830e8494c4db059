//! Requests to the cloud and the Kubernetes API, by sender and purpose.

use std::collections::BTreeMap;

use super::tally::Tally;

/// The sender of a request to the Kubernetes API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sender {
    /// The node controller and the lifecycle controller, which share an identity.
    NodeControllers,
    /// The service controller of the demo.
    ServiceController,
    /// The route controller of the demo.
    RouteController,
    /// The parts that the controllers share: start-up and caches.
    Shared,
    /// The demo's kubelets and kube-controller-manager.
    Kubelets,
    /// The demo's user, who creates and changes Services.
    User,
    /// The demo's own watches.
    Observer,
    /// Any other client, such as kubectl.
    Others,
}

/// Binary names in the `User-Agent` of the demo's own clients.
pub(super) const KUBELETS: &str = "demo-kubelets";
pub(super) const USER: &str = "demo-user";
pub(super) const OBSERVER: &str = "demo-observer";

impl Sender {
    /// Returns the sender with this user agent, which consists of a program and a component.
    pub(super) fn of(agent: &str) -> Self {
        match agent.split_once('/').unwrap_or((agent, "")) {
            ("cloud-controller-manager", "node-controller") => Self::NodeControllers,
            ("cloud-controller-manager", "service-controller") => Self::ServiceController,
            ("cloud-controller-manager", "route-controller") => Self::RouteController,
            ("cloud-controller-manager", _) => Self::Shared,
            (KUBELETS, _) => Self::Kubelets,
            (USER, _) => Self::User,
            (OBSERVER, _) => Self::Observer,
            _ => Self::Others,
        }
    }

    /// Returns the name of the sender, for people and programs.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::NodeControllers => "node controllers",
            Self::ServiceController => "service controller",
            Self::RouteController => "route controller",
            Self::Shared => "controllers, shared",
            Self::Kubelets => "the demo's kubelets",
            Self::User => "the demo's user",
            Self::Observer => "the demo's observer",
            Self::Others => "others",
        }
    }

    /// Returns `true` if the sender is part of the cloud controller manager.
    fn is_ours(self) -> bool {
        matches!(
            self,
            Self::NodeControllers | Self::ServiceController | Self::RouteController | Self::Shared
        )
    }
}

/// The numbers of requests so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Requests {
    /// Requests to the cloud, by method and path template.
    pub(super) cloud: BTreeMap<String, u64>,
    /// Requests to the Kubernetes API, by sender, resource and verb.
    pub(super) kubernetes: BTreeMap<(Sender, String, String), u64>,
}

impl Requests {
    /// Returns the numbers of reads and of changes that were requested from the cloud.
    pub(super) fn to_cloud(&self) -> [u64; 2] {
        self.to_cloud_about("/v1/")
    }

    /// Returns the same numbers as [`to_cloud`](Self::to_cloud) for paths that begin with `prefix`.
    pub(super) fn to_cloud_about(&self, prefix: &str) -> [u64; 2] {
        let mut counts = [0; 2];
        for (route, count) in &self.cloud {
            if let Some((method, path)) = route.split_once(' ')
                && path.starts_with(prefix)
            {
                counts[usize::from(method != "GET")] += count;
            }
        }
        counts
    }

    /// Returns the cloud controller manager's requests for changes in the cloud.
    pub(super) fn changes(&self) -> Tally {
        let mut tally = Tally::default();
        for (route, count) in self
            .cloud
            .iter()
            .filter(|(route, _)| !route.starts_with("GET "))
        {
            tally.add(route, *count);
        }
        tally
    }

    /// Returns the cloud controller manager's writes to the Kubernetes API, including events.
    pub(super) fn writes(&self) -> Tally {
        let mut tally = Tally::default();
        for ((by, resource, verb), count) in self
            .kubernetes
            .iter()
            .filter(|((by, _, verb), _)| by.is_ours() && is_write(verb))
        {
            tally.add(&format!("{verb} {resource} by {}", by.name()), *count);
        }
        tally
    }

    /// Returns the number of the cloud controller manager's requests to the cloud about Services and routes, and of its
    /// writes to the Kubernetes API. Reads of machines are not counted, because every pass reads the machine of a Node
    /// that is not ready.
    pub(super) fn asked(&self) -> u64 {
        let about = |prefix| self.to_cloud_about(prefix).into_iter().sum::<u64>();
        about("/v1/load-balancers") + about("/v1/routes") + self.writes().total()
    }

    /// Returns the cloud controller manager's writes to a resource and its subresources.
    pub(super) fn writes_to(&self, resource: &str) -> u64 {
        self.written(|sender, name| sender.is_ours() && name == resource)
    }

    /// Returns the writes of one sender to a resource and its subresources.
    pub(super) fn writes_of(&self, by: Sender, resource: &str) -> u64 {
        self.written(|sender, name| sender == by && name == resource)
    }

    fn written(&self, counts: impl Fn(Sender, &str) -> bool) -> u64 {
        let resource = |name: &str| name.split('/').next().unwrap_or_default().to_owned();
        let writes = self.kubernetes.iter();
        let writes =
            writes.filter(|((by, name, verb), _)| is_write(verb) && counts(*by, &resource(name)));
        writes.map(|(_, count)| count).sum()
    }
}

fn is_write(verb: &str) -> bool {
    !matches!(verb, "get" | "list" | "watch")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_are_told_apart_by_program_and_component() {
        assert_eq!(
            Sender::of("cloud-controller-manager/node-controller"),
            Sender::NodeControllers
        );
        assert_eq!(
            Sender::of("cloud-controller-manager/service-controller"),
            Sender::ServiceController
        );
        assert_eq!(
            Sender::of("cloud-controller-manager/shared-informers"),
            Sender::Shared
        );
        assert_eq!(Sender::of("demo-kubelets"), Sender::Kubelets);
        assert_eq!(Sender::of("kubectl"), Sender::Others);
    }

    #[test]
    fn reads_and_changes_are_counted_apart() {
        let cloud = [
            ("GET /v1/machines", 3),
            ("POST /v1/load-balancers", 1),
            ("DELETE /v1/load-balancers/{id}", 2),
        ];
        let by =
            |sender, resource: &str, verb: &str| (sender, resource.to_owned(), verb.to_owned());
        let requests = Requests {
            cloud: cloud.map(|(route, count)| (route.to_owned(), count)).into(),
            kubernetes: [
                (by(Sender::ServiceController, "services/status", "patch"), 2),
                (by(Sender::ServiceController, "services", "watch"), 1),
                (by(Sender::RouteController, "nodes/status", "patch"), 4),
                (by(Sender::NodeControllers, "nodes", "patch"), 8),
                (by(Sender::User, "services", "create"), 16),
            ]
            .into(),
        };
        assert_eq!(requests.to_cloud(), [3, 3]);
        assert_eq!(requests.to_cloud_about("/v1/load-balancers"), [0, 3]);
        assert_eq!(
            (requests.writes().total(), requests.writes_to("nodes")),
            (14, 12)
        );
        assert_eq!((requests.changes().total(), requests.asked()), (3, 17));
        assert_eq!(requests.writes_of(Sender::ServiceController, "services"), 2);
    }
}
