//! Load balancers of the provider: idempotent changes, owner tags, and no changes to objects of others (INV-2, INV-3,
//! INV-7).

use cloud_provider::{
    Goal, LoadBalancerRequest, LoadBalancerStatus, LoadBalancers, Plan, SyncCallbacks,
    default_load_balancer_name,
};
use parking_lot::Mutex;
use provider_simulated::cloud::{Fault, FaultKind, LoadBalancerChange, LoadBalancerSpec, Options};
use serde_json::{Value, json};

use super::*;

#[derive(Default)]
struct Seen(Mutex<Vec<String>>);

impl SyncCallbacks for Seen {
    fn on_plan(&self, plan: &Plan) {
        self.0
            .lock()
            .extend(plan.steps.iter().map(ToString::to_string));
    }
}

impl Seen {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

/// Harness: a Service, 17-c0, of a cluster with three Nodes.
pub(super) struct Scene {
    pub(super) cloud: Cloud,
    provider: Simulated,
    nodes: Vec<Arc<Node>>,
    service: Service,
    cluster: Cluster,
    seen: Seen,
}

const NAME: &str = "a17c0";
const PUT: &str = "PUT /v1/load-balancers/{id}";
const DELETE: &str = "DELETE /v1/load-balancers/{id}";

pub(super) fn service(uid: &str, spec: &Value) -> Service {
    let mut service = json!({
        "metadata": {"name": format!("web-{uid}"), "namespace": "default", "uid": uid},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30080}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        service["spec"][key] = value.clone();
    }
    serde_json::from_value(service).unwrap()
}

impl Scene {
    pub(super) fn new() -> Self {
        Self::with(Options {
            operation_milliseconds: 3000,
            ..Options::default()
        })
    }

    pub(super) fn with(options: Options) -> Self {
        let cloud = Cloud::new(options);
        let nodes = nodes(&cloud.create_machines("w-", 3));
        let ports = json!([{"port": 80, "nodePort": 30080}, {"port": 53, "nodePort": 30053, "protocol": "UDP"}]);
        let service = service("17-c0", &json!({"ports": ports}));
        let provider = provider(&cloud);
        let seen = Seen::default();
        Self {
            cloud,
            provider,
            nodes,
            service,
            cluster: cluster(),
            seen,
        }
    }

    fn request(&self, nodes: usize) -> LoadBalancerRequest<'_> {
        let Self {
            cluster,
            service,
            seen,
            ..
        } = self;
        LoadBalancerRequest {
            cluster,
            service,
            nodes: &self.nodes[..nodes],
            callbacks: seen,
        }
    }

    fn balancers(&self) -> &dyn LoadBalancers {
        self.provider.load_balancers().unwrap()
    }

    async fn ensure(&self, nodes: usize) -> Result<Option<LoadBalancerStatus>> {
        self.balancers().ensure(self.request(nodes)).await
    }

    async fn update_targets(&self, nodes: usize) -> Result<()> {
        self.balancers().update_targets(self.request(nodes)).await
    }

    async fn get(&self) -> Option<LoadBalancerStatus> {
        self.balancers().get(self.request(0)).await.unwrap()
    }

    async fn delete(&self) -> Result<()> {
        self.balancers().delete(self.request(0)).await
    }

    async fn plan(&self, nodes: usize, goal: Goal) -> Result<Vec<String>> {
        let plan = self.balancers().plan(self.request(nodes), goal).await?;
        Ok(plan.steps.iter().map(ToString::to_string).collect())
    }

    /// Returns the requests since the last call.
    fn requests(&self) -> Vec<String> {
        let requests = self
            .cloud
            .requests()
            .into_iter()
            .map(|(route, count)| format!("{count} {route}"))
            .collect();
        self.cloud.reset_requests();
        requests
    }

    /// Restarts the program, so that its caches are empty.
    fn restart(&mut self) {
        self.provider = provider(&self.cloud);
    }

    fn somebody_elses(&self, labels: &[(&str, &str)]) {
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        self.cloud.add_load_balancer(LoadBalancerSpec {
            name: NAME.into(),
            labels,
            ..LoadBalancerSpec::default()
        });
    }

    fn only(&self) -> LoadBalancerSpec {
        let mut all = self.cloud.load_balancers();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0).spec
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_gets_an_address_and_what_is_well_is_left_alone() {
    let mut scene = Scene::new();
    assert_eq!(default_load_balancer_name(&scene.service), NAME);
    assert_eq!(scene.get().await, None);
    let status = scene.ensure(2).await.unwrap().unwrap();
    let ingress = status.ingress.as_deref().unwrap();
    assert_eq!(ingress[0].ip, scene.cloud.load_balancers()[0].ip);
    let told = scene.seen.take();
    assert_eq!(
        told[0],
        "create load balancer \"a17c0\": address none, source_ranges none, sticky false, simulated.ccm-rs/tier basic"
    );
    assert_eq!(
        told[2],
        "create 2 targets of pool \"main\" of load balancer \"a17c0\": m-000001, m-000002"
    );
    assert_eq!(
        told[4],
        "create listener 80/TCP of load balancer \"a17c0\": pool main, target_port 30080"
    );
    assert_eq!(scene.only().listeners.len(), 2);
    for _ in 0..2 {
        scene.requests();
        assert_eq!(scene.ensure(2).await.unwrap().unwrap(), status);
        scene.update_targets(2).await.unwrap();
        assert_eq!(scene.get().await, Some(status.clone()));
        assert!(scene.plan(2, Goal::Ensured).await.unwrap().is_empty());
        scene.restart();
    }
    assert_eq!(
        scene.requests(),
        ["1 GET /v1/load-balancers"],
        "one list after the restart"
    );
    assert!(scene.seen.take().is_empty(), "an empty plan is not told");
}

#[tokio::test(start_paused = true)]
async fn targets_follow_and_a_change_waits_for_the_one_before() {
    let scene = Scene::new();
    scene.ensure(2).await.unwrap();
    scene.update_targets(3).await.unwrap();
    scene.update_targets(1).await.unwrap();
    assert_eq!(scene.only().targets.len(), 1);
    assert_eq!(scene.cloud.requests()[PUT], 2);
    let expected =
        ["create 2 targets of pool \"main\" of load balancer \"a17c0\": m-000002, m-000003"];
    assert_eq!(scene.plan(3, Goal::Ensured).await.unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn nodes_whose_machine_nobody_knows_are_no_targets_and_take_none_away() {
    let scene = Scene::new();
    let joining = joining(["n".to_owned()]);
    let ask = |nodes| LoadBalancerRequest {
        nodes,
        ..scene.request(0)
    };
    scene.balancers().ensure(ask(&joining)).await.unwrap();
    assert!(
        scene.only().targets.is_empty(),
        "there may be a load balancer before the first Node is known"
    );
    scene.ensure(2).await.unwrap();
    scene.requests();
    scene
        .balancers()
        .update_targets(ask(&joining))
        .await
        .unwrap();
    scene.balancers().ensure(ask(&joining)).await.unwrap();
    assert_eq!(scene.requests(), [""; 0]);
    let mixed = [joining.clone(), scene.nodes.clone()].concat();
    scene.balancers().update_targets(ask(&mixed)).await.unwrap();
    assert_eq!(scene.only().targets.len(), 3);
    scene.update_targets(0).await.unwrap();
    assert!(
        scene.only().targets.is_empty(),
        "no Node at all is what the controller says"
    );
}

#[tokio::test(start_paused = true)]
async fn settings_of_a_service_become_settings_of_the_cloud() {
    let mut scene = Scene::new();
    let spec = json!({
        "externalTrafficPolicy": "Local", "healthCheckNodePort": 32000, "sessionAffinity": "ClientIP",
        "loadBalancerSourceRanges": ["192.0.2.7/24"], "loadBalancerIP": "203.0.113.9",
        "ports": [{"port": 53, "nodePort": 30053, "protocol": "UDP"}, {"port": 53, "nodePort": 30054}],
    });
    scene.service = service("17-c0", &spec);
    let status = scene.ensure(1).await.unwrap().unwrap();
    assert_eq!(
        status.ingress.unwrap()[0].ip.as_deref(),
        Some("203.0.113.9")
    );
    let made = scene.only();
    assert_eq!(
        (
            made.listeners.len(),
            made.sticky,
            made.health_check.clone().unwrap().port
        ),
        (2, true, 32000)
    );
    assert_eq!(made.source_ranges, ["192.0.2.0/24".to_owned()].into());
    scene.service = service("17-c0", &json!({"loadBalancerIP": "203.0.113.10"}));
    scene.service.metadata.annotations =
        Some([("simulated.ccm-rs/tier".to_owned(), "premium".to_owned())].into());
    scene.seen.take();
    scene.ensure(1).await.unwrap();
    let changed = scene.only();
    assert_eq!(
        (&*changed.tier, changed.sticky, changed.health_check),
        ("premium", false, None)
    );
    assert_eq!(
        (changed.listeners.len(), &*changed.address),
        (1, "203.0.113.9"),
        "an address stays"
    );
    let told = scene.seen.take();
    let first = "update load balancer \"a17c0\": health_check: {\"path\":\"/healthz\",\"port\":32000} → none, \
                 source_ranges: [192.0.2.0/24] → none, sticky: true → false, simulated.ccm-rs/tier: basic → premium";
    assert_eq!(told[0], first);
    assert_eq!(
        told.last().unwrap(),
        "delete listener 53/TCP of load balancer \"a17c0\""
    );
}

#[tokio::test(start_paused = true)]
async fn what_the_user_must_change_is_said_with_key_value_and_what_is_accepted() {
    let mut scene = Scene::new();
    scene.service.metadata.annotations =
        Some([("simulated.ccm-rs/tier".to_owned(), "gold".to_owned())].into());
    let err = scene.ensure(1).await.unwrap_err();
    assert_eq!(
        err.to_string(),
        "annotation simulated.ccm-rs/tier: \"gold\" is not one of basic, premium"
    );
    scene.service = service(
        "17-c0",
        &json!({"ports": [{"port": 7, "protocol": "SCTP", "nodePort": 30007}]}),
    );
    assert!(err.is_invalid() && scene.ensure(1).await.unwrap_err().is_invalid());
    assert_eq!(scene.requests(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_delete_is_done_once_and_is_well_with_nothing_to_do() {
    let scene = Scene::new();
    scene.delete().await.unwrap();
    scene.ensure(1).await.unwrap();
    scene
        .cloud
        .inject(Fault::new(FaultKind::LostAnswer).on(DELETE).times(1));
    assert_eq!(
        scene.plan(0, Goal::Deleted).await.unwrap().last().unwrap(),
        "delete load balancer \"a17c0\""
    );
    scene.seen.take();
    scene.delete().await.unwrap();
    assert_eq!(scene.seen.take().len(), 4);
    assert!(scene.cloud.load_balancers().is_empty());
    scene.delete().await.unwrap();
    assert!(scene.plan(0, Goal::Deleted).await.unwrap().is_empty());
    scene.update_targets(1).await.unwrap();
    assert!(
        scene.cloud.load_balancers().is_empty(),
        "targets of what is not there are nobody's business"
    );
    scene.ensure(1).await.unwrap();
    assert_eq!(scene.cloud.load_balancers().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_lags_behind_does_not_overrule_what_is_certain() {
    let mut scene = Scene::with(Options {
        list_delay_milliseconds: 600_000,
        ..Options::default()
    });
    let after = async |seconds| tokio::time::sleep(std::time::Duration::from_secs(seconds)).await;
    scene.plan(1, Goal::Ensured).await.unwrap();
    after(50).await;
    scene.ensure(1).await.unwrap();
    after(20).await;
    let first = std::mem::replace(&mut scene.service, service("18", &json!({})));
    scene.requests();
    scene.plan(1, Goal::Ensured).await.unwrap();
    assert_eq!(
        scene.requests(),
        ["1 GET /v1/load-balancers"],
        "the list, without the first one"
    );
    scene.service = first;
    scene.ensure(1).await.unwrap();
    assert_eq!(scene.requests(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn somebody_elses_load_balancer_is_refused_and_left_alone() {
    let mut scene = Scene::new();
    let table: [(&[(&str, &str)], &str); 5] = [
        (&[], "carries no owner tags of this cluster"),
        (
            &[("simulated/service-uid", "another")],
            "add owner tags to have it adopted: ccm-rs/cluster=5c1d",
        ),
        (
            &[("ccm-rs/cluster", "another"), ("ccm-rs/service", "17-c0")],
            "carries the owner tags of another cluster, \"another\"",
        ),
        (
            &[
                ("ccm-rs/cluster", "another"),
                ("simulated/service-uid", "17-c0"),
            ],
            "the owner tags of another cluster",
        ),
        (
            &[("ccm-rs/cluster", "5c1d"), ("ccm-rs/service", "another")],
            "another Service of this cluster",
        ),
    ];
    for (marks, expected) in table {
        scene.cloud.reset(Options::default());
        scene.restart();
        scene.somebody_elses(marks);
        let before = scene.cloud.load_balancers();
        let err = scene.ensure(0).await.unwrap_err();
        assert!(
            err.is_invalid() && err.to_string().contains(expected),
            "{err:?}"
        );
        assert!(scene.update_targets(0).await.unwrap_err().is_invalid());
        assert!(scene.plan(0, Goal::Ensured).await.unwrap_err().is_invalid());
        assert_eq!(scene.get().await, None);
        scene.delete().await.unwrap();
        assert_eq!(scene.cloud.load_balancers(), before);
    }
}

#[tokio::test(start_paused = true)]
async fn taking_over_from_the_reference_writes_nothing_until_something_changes() {
    let mut scene = Scene::new();
    scene.ensure(1).await.unwrap();
    let labels = [("simulated/service-uid", "17-c0"), ("team", "blue")];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let change = LoadBalancerChange {
        labels: Some(labels.into()),
        ..LoadBalancerChange::default()
    };
    scene.cloud.edit_load_balancer(NAME, change);
    scene.restart();
    scene.requests();
    assert!(scene.get().await.is_some());
    scene.ensure(1).await.unwrap();
    scene.update_targets(1).await.unwrap();
    assert_eq!(scene.requests(), ["1 GET /v1/load-balancers"]);
    scene.update_targets(2).await.unwrap();
    let labels = scene.only().labels;
    assert_eq!(
        (&*labels["ccm-rs/service"], &*labels["ccm-rs/cluster"]),
        ("17-c0", "5c1d")
    );
    assert_eq!(
        (&*labels["team"], &*labels["simulated/service-uid"]),
        ("blue", "17-c0")
    );
    assert_eq!(scene.cloud.requests()[PUT], 1);
    scene.delete().await.unwrap();
    assert!(scene.cloud.load_balancers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_cluster_whose_id_becomes_readable_keeps_what_it_has() {
    let mut scene = Scene::new();
    scene.cluster.id = None;
    scene.ensure(1).await.unwrap();
    for (id, nodes) in [(Some("5c1d"), 1), (None, 2)] {
        scene.cluster.id = id.map(str::to_owned);
        scene.restart();
        scene.cloud.reset_requests();
        scene.ensure(nodes).await.unwrap();
        assert_eq!(
            scene.cloud.requests().get(PUT),
            None,
            "another mark is no reason to write"
        );
        scene.update_targets(nodes + 1).await.unwrap();
        assert_eq!(
            scene.only().labels["ccm-rs/cluster"],
            id.unwrap_or("kubernetes")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_gone_is_left_out_and_keeps_no_other_from_being_a_target() {
    let scene = Scene::new();
    assert!(scene.cloud.terminate("m-000002"));
    scene.ensure(2).await.unwrap();
    assert_eq!(scene.only().targets.len(), 1, "it was made");
    scene.ensure(3).await.unwrap();
    assert_eq!(scene.only().targets.len(), 2, "it was changed");
    scene.update_targets(2).await.unwrap();
    assert_eq!(scene.only().targets.len(), 1, "its targets were changed");
}
