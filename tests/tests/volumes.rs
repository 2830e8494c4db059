//! The volume label controller over a whole world: what a volume costs, and what becomes of it when things go wrong.
//!
//! Rules: PROV-64, D-14, D-129 to D-132.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{CloudProvider, PersistentVolume};
use controllers::{ControllerContext, VolumeLabelController};
use embedded_apiserver::{Action, ApiServer, Matcher};
use kube::{Api, Client};
use parking_lot::Mutex;
use provider_kit::transport::{Credential, Transport};
use provider_simulated::cloud::{Cloud, DEFAULT_PROJECT, DEFAULT_TOKEN, Fault, FaultKind, Volume};
use provider_simulated::provider::Simulated;
use runtime::cache::{Cache, Resync, WatchConfig, watch};
use runtime::clock::SystemClock;
use runtime::events::{EventRecorder, RecordedEvent};
use runtime::pulse::Pulse;
use runtime::queue::NoMetrics;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const ZONE_BETA: &str = "failure-domain.beta.kubernetes.io/zone";
const REGION_BETA: &str = "failure-domain.beta.kubernetes.io/region";
const VOLUME_ROUTE: &str = "GET /v1/volumes/{id}";

/// Resync period of the volumes.
const RESYNC: Duration = Duration::from_secs(600);

struct World {
    api: ApiServer,
    cloud: Cloud,
}

/// A controller, running or called for single syncs, and its events.
struct Controller {
    controller: Arc<VolumeLabelController>,
    events: Arc<Mutex<Vec<RecordedEvent>>>,
}

impl World {
    fn new() -> Self {
        Self {
            api: ApiServer::new(),
            cloud: Cloud::default(),
        }
    }

    /// Creates a controller that sees the volumes through `volumes`.
    fn controller(&self, volumes: Cache<PersistentVolume>) -> Controller {
        let transport = Transport::builder("http://simulated")
            .credential(Credential::token(DEFAULT_TOKEN))
            .service(self.cloud.router())
            .build()
            .expect("the address is an address");
        let provider: Arc<dyn CloudProvider> = Arc::new(Simulated::new(transport, None));
        let client = Client::new(self.api.service(), "default");
        let clock = Arc::new(SystemClock);
        let context = ControllerContext {
            client,
            nodes: Cache::with([]),
            provider,
            clock: clock.clone(),
            pulse: Pulse::default(),
        };
        let (events, told) = EventRecorder::to_memory("persistent-volume-label-controller", clock);
        let controller =
            VolumeLabelController::new(context, volumes, events).expect("the cloud has volumes");
        Controller {
            controller: Arc::new(controller),
            events: told,
        }
    }

    /// Starts a process: a watch and a controller, until the guard is dropped.
    fn start(&self) -> (Controller, DropGuard) {
        let (started, _, until) = self.start_task();
        (started, until)
    }

    /// Starts the controller like [`start`](Self::start), and returns its task as well.
    fn start_task(&self) -> (Controller, JoinHandle<()>, DropGuard) {
        let volumes = Cache::new();
        let shutdown = CancellationToken::new();
        let started = self.controller(volumes.clone());
        let run = Arc::clone(&started.controller).run(
            Arc::new(NoMetrics),
            Resync::every(RESYNC),
            shutdown.clone(),
        );
        let task = tokio::spawn(run);
        let api = Api::all(Client::new(self.api.service(), "default"));
        tokio::spawn(watch(
            api,
            WatchConfig::default(),
            volumes,
            shutdown.clone(),
        ));
        (started, task, shutdown.drop_guard())
    }

    /// Adds a volume in the cloud, called `v-<name>`.
    fn in_cloud(&self, name: &str, zones: &[&str]) {
        self.cloud.add_volume(Volume {
            id: format!("v-{name}"),
            zones: zones.iter().map(ToString::to_string).collect(),
            region: "r".into(),
            project: DEFAULT_PROJECT.into(),
        });
    }

    /// Adds a volume in both.
    fn both(&self, name: &str, zones: &[&str], labels: Value) {
        self.in_cloud(name, zones);
        self.put(&volume(name, labels));
    }

    fn put(&self, volume: &Value) {
        self.api
            .seed(volume.clone())
            .expect("a volume that the API takes");
    }

    fn get(&self, name: &str) -> Value {
        self.api
            .get("persistentvolumes", None, name)
            .expect("it is there")
    }

    fn labels(&self, name: &str) -> Value {
        self.get(name)["metadata"]["labels"].clone()
    }

    /// Waits until a volume has its zone label.
    async fn labelled(&self, name: &str) {
        until(name, || self.labels(name)[ZONE].is_string()).await;
    }

    fn patches(&self) -> u64 {
        self.api.requests().count("patch", "persistentvolumes")
    }

    fn writes(&self) -> usize {
        self.api.requests().writes().len()
    }

    fn cloud_reads(&self) -> u64 {
        self.cloud.requests().values().sum()
    }
}

impl Controller {
    /// Returns `reason of volume: message` of all events so far.
    fn events(&self) -> Vec<String> {
        let events = self.events.lock();
        events
            .iter()
            .map(|e| {
                format!(
                    "{} {} {}: {}",
                    e.type_, e.reason, e.regarding.name, e.message
                )
            })
            .collect()
    }
}

fn volume(name: &str, labels: Value) -> Value {
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "simulated.csi", "volumeHandle": format!("v-{name}")},
        },
    });
    volume["metadata"]["labels"] = labels;
    volume
}

fn affinity(requirements: &[(&str, &[&str])]) -> Value {
    let requirements: Vec<_> = requirements
        .iter()
        .map(|(key, values)| json!({"key": key, "operator": "In", "values": values}))
        .collect();
    json!({"required": {"nodeSelectorTerms": [{"matchExpressions": requirements}]}})
}

/// Waits, in virtual time.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(3600);
    while !is_so() {
        assert!(Instant::now() < end, "waited an hour for {what}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Waits long enough for any late change.
async fn long() {
    sleep(3 * RESYNC).await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_of_this_cloud_gets_labels_and_affinity_by_one_write() {
    let world = World::new();
    world.both("a", &["z1"], json!({"app": "web"}));
    let (controller, _until) = world.start();
    world.labelled("a").await;
    world.both("b", &["z2", "z1"], Value::Null);
    world.labelled("b").await;
    long().await;

    assert_eq!(
        world.labels("a"),
        json!({"app": "web", ZONE: "z1", REGION: "r"})
    );
    assert_eq!(
        world.get("a")["spec"]["nodeAffinity"],
        affinity(&[(ZONE, &["z1"]), (REGION, &["r"])])
    );
    assert_eq!(world.labels("b"), json!({ZONE: "z1__z2", REGION: "r"}));
    assert_eq!(
        world.get("b")["spec"]["nodeAffinity"],
        affinity(&[(ZONE, &["z1", "z2"]), (REGION, &["r"])])
    );
    assert_eq!(
        (world.writes(), world.cloud_reads()),
        (2, 2),
        "one each, and none at the resyncs"
    );
    assert_eq!(controller.events(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_restart_over_labelled_volumes_asks_and_writes_nothing() {
    let world = World::new();
    for n in 0..20 {
        world.both(&format!("pv-{n}"), &["z1"], Value::Null);
    }
    let (_, first) = world.start();
    for n in 0..20 {
        world.labelled(&format!("pv-{n}")).await;
    }
    drop(first);
    assert_eq!((world.writes(), world.cloud_reads()), (20, 20));

    let (controller, _until) = world.start();
    long().await;
    assert_eq!((world.writes(), world.cloud_reads()), (20, 20));
    assert_eq!(controller.events(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn volumes_of_others_and_those_that_come_or_go_are_left_alone() {
    let world = World::new();
    let mut other = volume("other", Value::Null);
    other["spec"]["csi"]["driver"] = json!("other.csi");
    let mut placeholder = volume("placeholder", Value::Null);
    placeholder["spec"]["csi"]["volumeHandle"] = json!("placeholder-for-provisioning");
    let mut terminating = volume("terminating", Value::Null);
    terminating["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
    terminating["metadata"]["finalizers"] = json!(["kubernetes.io/pv-protection"]);
    world.in_cloud("terminating", &["z1"]);
    for volume in [&other, &placeholder, &terminating] {
        world.put(volume);
    }
    let before: Vec<Value> = ["other", "placeholder", "terminating"]
        .map(|name| world.get(name))
        .into();

    let (controller, _until) = world.start();
    long().await;
    assert_eq!(
        before,
        ["other", "placeholder", "terminating"].map(|name| world.get(name))
    );
    assert_eq!((world.writes(), world.cloud_reads()), (0, 0));
    assert_eq!(controller.events(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_label_of_a_user_is_told_and_stays_until_the_user_removes_it() {
    let world = World::new();
    world.both("a", &["z1"], json!({ZONE: "z9"}));
    let (controller, _until) = world.start();
    until("an event", || !controller.events().is_empty()).await;
    long().await;
    let told = format!(
        "Warning VolumeTopologyConflict a: label {ZONE} is \"z9\", but the cloud says \"z1\": correct the label or \
         remove it. Nothing was changed"
    );
    assert_eq!(controller.events(), [told], "once, whatever the resyncs");
    assert_eq!((world.writes(), world.cloud_reads()), (0, 1));

    // Something else changes: nothing new. Then the label goes.
    let mut volume = world.get("a");
    volume["status"]["phase"] = json!("Bound");
    world.put(&volume);
    long().await;
    assert_eq!((world.writes(), world.cloud_reads()), (0, 1));
    volume["metadata"]["labels"] = json!({});
    world.put(&volume);
    world.labelled("a").await;
    assert_eq!(world.labels("a"), json!({ZONE: "z1", REGION: "r"}));
}

#[tokio::test(start_paused = true)]
async fn a_label_that_a_user_sets_at_the_same_time_is_not_overwritten() {
    let world = World::new();
    world.both("a", &["z1"], Value::Null);
    let stale: PersistentVolume = serde_json::from_value(world.get("a")).expect("a volume");
    world.put(&volume("a", json!({ZONE: "z9"})));
    let mut now = world.get("a");
    now["metadata"]["uid"] = json!(stale.metadata.uid);
    world.put(&now);

    let controller = world.controller(Cache::with([stale]));
    controller
        .controller
        .sync("a")
        .await
        .expect("a conflict is no failure");
    assert_eq!(world.labels("a"), json!({ZONE: "z9"}));
    assert_eq!(world.get("a")["spec"].get("nodeAffinity"), None);
    assert!(
        controller.events()[0].starts_with("Warning VolumeTopologyConflict a: "),
        "{:?}",
        controller.events()
    );
    assert_eq!(world.patches(), 1, "the one that lost");
}

#[tokio::test(start_paused = true)]
async fn another_volume_of_the_same_name_is_not_given_the_labels_of_the_first() {
    let world = World::new();
    world.both("a", &["z1"], Value::Null);
    let stale: PersistentVolume = serde_json::from_value(world.get("a")).expect("a volume");
    world.api.remove("persistentvolumes", None, "a");
    world.put(&volume("a", Value::Null));
    let cache = Cache::with([stale]);
    let controller = world.controller(cache.clone());
    controller
        .controller
        .sync("a")
        .await
        .expect("nothing failed");
    assert_eq!(world.labels("a"), Value::Null);
    cache.insert(serde_json::from_value(world.get("a")).expect("a volume"));
    controller
        .controller
        .sync("a")
        .await
        .expect("nothing failed");
    assert_eq!(world.labels("a")[ZONE], "z1");
}

#[tokio::test(start_paused = true)]
async fn an_affinity_that_is_there_stays_and_the_labels_come() {
    let world = World::new();
    world.in_cloud("a", &["z1"]);
    let mut own = volume("a", Value::Null);
    own["spec"]["nodeAffinity"] = affinity(&[("topology.simulated.csi/zone", &["z1"])]);
    world.put(&own);
    world.in_cloud("b", &["z1"]);
    let mut wrong = volume("b", Value::Null);
    wrong["spec"]["nodeAffinity"] = affinity(&[(ZONE, &["z8", "z9"])]);
    world.put(&wrong);

    let (controller, _until) = world.start();
    world.labelled("a").await;
    until("an event", || !controller.events().is_empty()).await;
    long().await;
    assert_eq!(
        world.get("a")["spec"]["nodeAffinity"],
        own["spec"]["nodeAffinity"]
    );
    assert_eq!(world.labels("b"), Value::Null);
    let told = format!(
        "Warning VolumeTopologyConflict b: the node affinity demands {ZONE} In [z8, z9], but the cloud says \"z1\": \
         the affinity cannot be changed, so create the PersistentVolume again. Nothing was changed"
    );
    assert_eq!(controller.events(), [told]);
    assert_eq!((world.writes(), world.cloud_reads()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn old_volumes_with_deprecated_labels_only_get_what_they_lack() {
    let world = World::new();
    world.both("a", &["z1"], json!({ZONE_BETA: "z1", REGION_BETA: "r"}));
    let (controller, _until) = world.start();
    until("the affinity", || {
        world.get("a")["spec"]["nodeAffinity"].is_object()
    })
    .await;
    long().await;
    assert_eq!(
        world.labels("a"),
        json!({ZONE_BETA: "z1", REGION_BETA: "r"})
    );
    assert_eq!((world.writes(), world.cloud_reads()), (1, 1));
    assert_eq!(controller.events(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_fails_is_asked_again_and_does_not_stop_others() {
    let world = World::new();
    world.put(&volume("missing", Value::Null));
    world.both("a", &["z1"], Value::Null);
    let (controller, _until) = world.start();
    world.labelled("a").await;
    until("an event", || !controller.events().is_empty()).await;
    assert!(
        controller.events()[0].starts_with("Warning VolumeTopologyFailed missing: "),
        "{:?}",
        controller.events()
    );
    // The volume appears late.
    world.in_cloud("missing", &["z2"]);
    world.labelled("missing").await;
    assert_eq!(world.labels("missing")[ZONE], "z2");

    let before = world.cloud_reads();
    world.cloud.inject(Fault::status(500).on(VOLUME_ROUTE));
    world.both("b", &["z1"], Value::Null);
    sleep(Duration::from_secs(1200)).await;
    let tries = world.cloud_reads() - before;
    assert!((5..60).contains(&tries), "{tries} requests in 20 minutes");
    assert_eq!(
        controller.events().len(),
        3,
        "missing, and b after some failures and once again: {:?}",
        controller.events()
    );
    world.cloud.clear_faults();
    world.labelled("b").await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_hangs_holds_up_only_its_own_volume() {
    let world = World::new();
    world
        .cloud
        .inject(Fault::new(FaultKind::Hang).on(VOLUME_ROUTE).times(1));
    for n in 0..3 {
        world.both(&format!("pv-{n}"), &["z1"], Value::Null);
    }
    let start = Instant::now();
    let (_controller, _until) = world.start();
    until("two of three", || {
        (0..3)
            .filter(|n| world.labels(&format!("pv-{n}"))[ZONE].is_string())
            .count()
            == 2
    })
    .await;
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
    for n in 0..3 {
        world.labelled(&format!("pv-{n}")).await;
    }
    assert!(
        start.elapsed() < Duration::from_secs(120),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_request_that_hangs() {
    let world = World::new();
    world
        .cloud
        .inject(Fault::new(FaultKind::Hang).on(VOLUME_ROUTE));
    world.both("pv", &["z1"], Value::Null);
    let (_controller, task, until) = world.start_task();
    sleep(Duration::from_secs(2)).await;
    let start = Instant::now();
    drop(until);
    task.await.expect("a controller that stops");
    assert!(
        start.elapsed() <= Duration::from_secs(6),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn many_volumes_are_asked_for_a_few_at_a_time() {
    let world = World::new();
    world.cloud.inject(Fault::latency(1000).on(VOLUME_ROUTE));
    for n in 0..80 {
        world.both(&format!("pv-{n}"), &["z1"], Value::Null);
    }
    let start = Instant::now();
    let (_controller, _until) = world.start();
    for n in 0..80 {
        world.labelled(&format!("pv-{n}")).await;
    }
    let took = start.elapsed().as_secs();
    assert!(
        (10..14).contains(&took),
        "80 volumes, 8 at a time, 1 s each, took {took} s"
    );
    assert_eq!((world.writes(), world.cloud_reads()), (80, 80));
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_is_lost_is_seen_and_not_sent_again() {
    let world = World::new();
    world.api.faults().add(
        Matcher::any()
            .verb("patch")
            .resource("persistentvolumes")
            .times(1),
        Action::AnswerLost,
    );
    world.both("a", &["z1"], Value::Null);
    let (controller, _until) = world.start();
    world.labelled("a").await;
    long().await;
    assert_eq!(world.patches(), 1);
    assert_eq!(controller.events(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_is_asked_again() {
    let world = World::new();
    let busy = Action::Status {
        code: 500,
        reason: "InternalError".into(),
        message: "etcd is away".into(),
        retry_after_seconds: None,
    };
    world.api.faults().add(
        Matcher::any()
            .verb("patch")
            .resource("persistentvolumes")
            .times(3),
        busy,
    );
    world.both("a", &["z1"], Value::Null);
    let (controller, _until) = world.start();
    world.labelled("a").await;
    assert_eq!(world.patches(), 4);
    assert_eq!(controller.events(), [""; 0], "it healed by itself");
}
