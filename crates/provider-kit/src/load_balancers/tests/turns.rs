//! Load balancers that take long, fail, or are shared by several Services.

use std::time::Duration;

use cloud_provider::{
    Cluster, Goal, LoadBalancerRequest, LoadBalancers, Plan, Service, SyncCallbacks, async_trait,
};
use parking_lot::Mutex;
use serde_json::json;

use super::super::{Auxiliary, LoadBalancerEngine, OwnerTags, ResourceKey, State};
use super::cloud::{StepByStep, wish};

/// Callbacks that record their calls.
#[derive(Default)]
struct Listener(Mutex<Vec<String>>);

impl Listener {
    fn hear(&self, what: impl Into<String>) {
        self.0.lock().push(what.into());
    }

    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

#[async_trait]
impl SyncCallbacks for Listener {
    fn on_plan(&self, _plan: &Plan) {}
    fn annotate(&self, key: &'static str, value: Option<String>) {
        self.hear(format!("{key}={}", value.unwrap_or_default()));
    }
    fn release_permit(&self) {
        self.hear("waits");
    }
    async fn reacquire_permit(&self) {
        self.hear("goes on");
    }
}

struct Scene {
    cloud: StepByStep,
    balancers: LoadBalancerEngine,
    cluster: Cluster,
    listener: Listener,
}

impl Scene {
    fn new() -> Self {
        let cloud = StepByStep::default();
        cloud.model().wanted = wish(&[80], &["a"]);
        let balancers = cloud.balancers();
        let cluster = Cluster {
            name: "kubernetes".into(),
            id: Some("c1".into()),
        };
        Self {
            cloud,
            balancers,
            cluster,
            listener: Listener::default(),
        }
    }

    fn request<'a>(&'a self, service: &'a Service) -> LoadBalancerRequest<'a> {
        LoadBalancerRequest {
            cluster: &self.cluster,
            service,
            nodes: &[],
            callbacks: &self.listener,
        }
    }

    async fn ensure(&self, uid: &str) -> cloud_provider::Result<()> {
        self.balancers
            .ensure(self.request(&service(uid)))
            .await
            .map(drop)
    }

    fn writes(&self) -> Vec<String> {
        std::mem::take(&mut self.cloud.model().writes)
    }

    fn reads(&self) -> Vec<String> {
        std::mem::take(&mut self.cloud.model().reads)
    }
}

fn service(uid: &str) -> Service {
    serde_json::from_value(json!({"metadata": {"uid": uid}})).unwrap()
}

fn owner_tags(service: &str) -> OwnerTags {
    OwnerTags {
        cluster: Some("c1".into()),
        service: Some(service.into()),
    }
}

#[tokio::test(start_paused = true)]
async fn observer_is_notified_before_and_after_each_wait() {
    let scene = Scene::new();
    scene.ensure("s1").await.unwrap();
    let writes = scene.writes().len();
    let waits: Vec<String> = scene
        .listener
        .heard()
        .into_iter()
        .filter(|text| !text.contains('='))
        .collect();
    assert_eq!(waits, ["waits", "goes on"].repeat(writes));
    scene.ensure("s1").await.unwrap();
    assert!(
        !scene.listener.heard().contains(&"waits".to_owned()),
        "there is nothing to wait for"
    );
}

#[tokio::test(start_paused = true)]
async fn only_the_state_is_read_while_the_cloud_is_busy() {
    let scene = Scene::new();
    scene.cloud.model().is_read_in_short = true;
    scene.ensure("s1").await.unwrap();
    assert_eq!(scene.writes().len(), 5);
    let reads = scene.reads();
    assert!(
        reads.len() > 10 && !reads.contains(&"read lb-1".to_owned()),
        "the outcome is cached: {reads:?}"
    );
    scene.ensure("s1").await.unwrap();
    assert_eq!(
        (scene.writes(), scene.reads()),
        (vec![], vec![]),
        "the short answers are not taken for the whole"
    );

    // The load balancer is found busy, during a change that began in an earlier run.
    let scene = Scene {
        balancers: scene.cloud.balancers(),
        ..scene
    };
    scene.cloud.model().begin_work("lb-1");
    scene.ensure("s1").await.unwrap();
    let mut reads = scene.reads();
    reads.dedup();
    assert_eq!(reads, ["list", "read lb-1", "look lb-1", "read lb-1"]);
}

#[tokio::test(start_paused = true)]
async fn annotations_are_requested_on_success_and_failure_but_not_on_deletion() {
    let scene = Scene::new();
    let asked = |scene: &Scene| {
        let mut heard = scene.listener.heard();
        heard.retain(|text| text.contains('='));
        heard.dedup();
        heard
    };
    scene.cloud.model().breaks_at = Some((2, false));
    scene.ensure("s1").await.unwrap_err();
    assert_eq!(asked(&scene), ["example.com/id=lb-1"]);
    scene.cloud.model().breaks_at = None;
    scene.ensure("s1").await.unwrap();
    assert_eq!(asked(&scene), ["example.com/id=lb-1"]);
    scene.ensure("s1").await.unwrap();
    assert_eq!(
        asked(&scene),
        ["example.com/id=lb-1"],
        "the annotation may have been removed"
    );
    scene
        .balancers
        .update_targets(scene.request(&service("s1")))
        .await
        .unwrap();
    scene
        .balancers
        .delete(scene.request(&service("s1")))
        .await
        .unwrap();
    assert_eq!(asked(&scene), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn failed_new_load_balancer_is_created_again_in_the_same_sync() {
    let scene = Scene::new();
    scene.cloud.model().fails = 1;
    scene.cloud.model().is_replaced = true;
    scene.ensure("s1").await.unwrap();
    let ids: Vec<_> = scene.cloud.model().balancers.keys().cloned().collect();
    assert_eq!(ids, ["lb-2"]);
    assert_eq!(
        scene.listener.heard().last().unwrap(),
        "example.com/id=lb-2"
    );

    // The load balancer is found in this state, as after a restart.
    scene.cloud.model().balancers.get_mut("lb-2").unwrap().state =
        State::Failed("no compute host".into());
    let scene = Scene {
        balancers: scene.cloud.balancers(),
        ..scene
    };
    scene.ensure("s1").await.unwrap();
    let ids: Vec<_> = scene.cloud.model().balancers.keys().cloned().collect();
    assert_eq!(ids, ["lb-3"]);
}

#[tokio::test(start_paused = true)]
async fn load_balancer_that_fails_again_is_deleted_for_the_next_sync() {
    let scene = Scene::new();
    scene.cloud.model().fails = 2;
    scene.cloud.model().is_replaced = true;
    let error = scene.ensure("s1").await.unwrap_err().to_string();
    assert!(error.contains("no compute host"), "{error}");
    assert!(scene.cloud.model().balancers.is_empty());
    scene.ensure("s1").await.unwrap();
    assert_eq!(scene.cloud.model().balancers.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn failed_load_balancer_stays_if_it_worked_or_is_shared() {
    for is_shared in [false, true] {
        let scene = Scene::new();
        scene.ensure("s1").await.unwrap();
        {
            let mut model = scene.cloud.model();
            model.balancers.get_mut("lb-1").unwrap().state =
                State::Failed("no compute host".into());
            model.is_replaced = is_shared;
            if is_shared {
                let resource = ResourceKey::CreatedBefore(Auxiliary {
                    rank: 1,
                    kind: "rule".into(),
                    name: "other".into(),
                });
                model.foreign.insert(resource, "another's".into());
            }
        }
        let scene = Scene {
            balancers: scene.cloud.balancers(),
            ..scene
        };
        let error = scene.ensure("s1").await.unwrap_err().to_string();
        assert!(
            error.contains("lb-1") && error.contains("no compute host"),
            "{error}"
        );
        assert!(scene.cloud.model().balancers.contains_key("lb-1"));
        assert!(
            scene
                .balancers
                .update_targets(scene.request(&service("s1")))
                .await
                .is_err()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn shared_load_balancer_is_changed_for_one_service_at_a_time() {
    let scene = Scene::new();
    for uid in ["s1", "s2"] {
        scene.ensure(uid).await.unwrap();
    }
    scene.cloud.model().turns.clear();
    scene.cloud.model().lock = Some("shared".into());
    scene.cloud.model().wanted = wish(&[80, 443], &["a"]);
    let (one, two) = tokio::join!(scene.ensure("s1"), scene.ensure("s2"));
    one.and(two).unwrap();
    let model = scene.cloud.model();
    let turns: Vec<_> = model
        .turns
        .chunk_by(|a, b| a == b)
        .map(|turn| &*turn[0])
        .collect();
    assert_eq!(turns, ["s1", "s2"], "{:?}", model.turns);
    assert_eq!(
        model
            .balancers
            .values()
            .filter(|load_balancer| load_balancer.owner_tags == owner_tags("s1"))
            .count(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn shared_load_balancer_is_read_again_after_another_services_change() {
    let scene = Scene::new();
    scene.cloud.model().lock = Some("shared".into());
    for uid in ["s1", "s2"] {
        scene.ensure(uid).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    scene.reads();
    scene.ensure("s1").await.unwrap();
    assert_eq!(scene.reads(), ["read lb-1"], "s2 came after");
    tokio::time::sleep(Duration::from_secs(1)).await;
    scene.ensure("s1").await.unwrap();
    assert_eq!(scene.reads(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn desired_state_is_fitted_to_the_observed_one() {
    let scene = Scene::new();
    scene.ensure("s1").await.unwrap();
    scene.writes();
    scene.cloud.model().wanted = wish(&[80, 443], &["a"]);
    scene.cloud.model().keeps = vec![443];
    let service = service("s1");
    let plan = scene
        .balancers
        .plan(scene.request(&service), Goal::Ensured)
        .await
        .unwrap();
    assert!(plan.is_empty(), "{plan:?}");
    scene.ensure("s1").await.unwrap();
    assert_eq!(scene.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn partial_progress_is_planned_again_while_less_is_left() {
    let scene = Scene::new();
    scene.cloud.model().adds_singly = true;
    let targets: Vec<String> = (0..40).map(|n| format!("t{n}")).collect();
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    scene.cloud.model().wanted = wish(&[80], &targets);
    scene.ensure("s1").await.unwrap();
    let model = scene.cloud.model();
    assert_eq!(
        model.balancers["lb-1"]
            .graph
            .as_ref()
            .unwrap()
            .targets_of("pool-80")
            .len(),
        40
    );
}
