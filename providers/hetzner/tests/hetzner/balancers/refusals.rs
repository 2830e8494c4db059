//! Error codes of the API and their meaning.

use cloud_provider::{Plan, SyncCallbacks, async_trait};
use hetzner_fake::Fault;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::*;

/// Errors that a user must correct cause an event and slow retries.
#[tokio::test(start_paused = true)]
async fn faults_of_configuration_are_the_users_to_mend() {
    for code in [
        "server_not_attached_to_network",
        "ip_not_owned",
        "cloud_resource_ip_not_allowed",
        "missing_ipv4",
        "targets_without_use_private_ip",
    ] {
        let mut scene = Scene::new();
        scene.ensure().await;
        scene.add_node("worker-3");
        scene.fake.fail(Fault::code(&action("add_target"), code));
        let err = scene.try_update().await.unwrap_err();
        assert!(err.is_invalid(), "{code}: {err}");
    }
    for code in ["no_subnet_available", "ip_not_available"] {
        let mut scene = Scene::new();
        scene.network();
        scene.annotate("private-ipv4", "10.0.0.77");
        scene
            .fake
            .fail(Fault::code(&action("attach_to_network"), code));
        assert!(scene.refused().await.is_invalid(), "{code}");
    }
}

/// The error codes are those of an action that failed later.
#[tokio::test(start_paused = true)]
async fn an_action_that_fails_is_told_with_its_reason() {
    let mut scene = Scene::new();
    scene.ensure().await;
    scene.add_node("worker-3");
    scene.fake.fail(
        Fault::ends_in_error(&action("add_target"), "server_not_attached_to_network").times(1),
    );
    let err = scene.try_update().await.unwrap_err();
    assert!(
        err.is_invalid() && err.to_string().contains("server_not_attached_to_network"),
        "{err}"
    );
    scene.try_update().await.unwrap();
    assert_eq!(scene.targets(), scene.servers());
}

/// Errors for existing objects count as success, once the objects were read.
#[tokio::test(start_paused = true)]
async fn what_is_there_already_is_success_after_it_was_read() {
    let mut scene = Scene::new();
    scene.ensure().await;
    let id = scene.add_node("worker-3");
    // Another client added the target first, unknown to the provider.
    scene.fake.change_load_balancer(NAME, |load_balancer| {
        load_balancer.targets.push(Target::Server {
            id,
            use_private_ip: false,
        });
    });
    scene.try_update().await.unwrap();
    assert_eq!(scene.targets(), scene.servers());

    let service = scene.balancer().services[0].clone();
    let mut other = service.clone();
    (
        other.listen_port,
        other.destination_port,
        other.health_check.port,
    ) = (81, 30081, 30081);
    scene
        .fake
        .change_load_balancer(NAME, |load_balancer| load_balancer.services.push(other));
    scene.ports(json!([{"port": 80, "nodePort": 30080}, {"port": 81, "nodePort": 30081}]));
    scene.ensure().await;
    assert_eq!(scene.balancer().services.len(), 2);

    let mut scene = Scene::new();
    scene.ensure().await;
    let network = scene.network();
    scene.start().await;
    scene.fake.fail(
        Fault::code(
            &action("attach_to_network"),
            "load_balancer_already_attached",
        )
        .times(1),
    );
    scene.ensure().await;
    assert_eq!(scene.balancer().private_net[0].network, network);
}

/// Fields are shown to the user.
#[tokio::test(start_paused = true)]
async fn fields_that_the_api_refuses_are_named() {
    let mut scene = Scene::new();
    scene.annotate("health-check-interval", "1h");
    let err = scene.refused().await;
    assert!(
        err.is_invalid() && err.to_string().contains("health_check.interval: must be"),
        "{err}"
    );
}

/// The server of one Node cannot be reached by the load balancer, here because it is not attached to the network.
#[tokio::test(start_paused = true)]
async fn one_target_that_cannot_be_had_does_not_keep_the_others_out() {
    let mut scene = Scene::new();
    scene.network();
    let outside = scene.fake.add_server("outside").id;
    scene.nodes.insert(
        0,
        node("outside", &format!("hcloud://{outside}"), &json!({})),
    );
    scene.annotate("use-private-ip", "true");
    let err = scene.refused().await;
    assert!(
        err.is_invalid()
            && err
                .to_string()
                .contains("not attached to the load balancer's network"),
        "{err}"
    );
    let [one, two, _] = &scene.servers()[..] else {
        panic!()
    };
    assert_eq!(
        scene.targets(),
        [format!("{one} private"), format!("{two} private")]
    );
    assert_eq!(scene.balancer().services.len(), 1);
    let network = scene.fake.networks()[0].id;
    scene.fake.attach("outside", network);
    scene.ensure().await;
    assert_eq!(scene.targets().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn create_that_is_refused_for_anything_but_a_target_is_sent_once() {
    for code in [
        "invalid_input",
        "not_found",
        "resource_limit_exceeded",
        "forbidden",
    ] {
        let mut scene = Scene::new();
        scene.fake.fail(Fault::code(CREATE, code));
        scene.refused().await;
        assert_eq!(
            (scene.fake.count(CREATE), scene.fake.load_balancers().len()),
            (1, 0),
            "{code}"
        );
    }
    // A server is missing, too, but that is not why.
    let mut scene = Scene::new();
    scene.fake.terminate("worker-1");
    scene.fake.fail(Fault::code(CREATE, "invalid_input"));
    scene.refused().await;
    assert_eq!(scene.fake.count(CREATE), 1);
}

#[tokio::test(start_paused = true)]
async fn create_with_a_server_that_no_longer_exists_is_sent_again_with_the_others() {
    let mut scene = Scene::new();
    scene.fake.terminate("worker-1");
    scene.ensure().await;
    let [first, second] = &scene.sent(CREATE)[..] else {
        panic!()
    };
    assert_eq!(
        [first, second].map(|sent| sent["targets"].as_array().map(Vec::len)),
        [Some(2), Some(1)]
    );
}

/// A worker of a controller that has one.
struct Worker {
    permits: Arc<Semaphore>,
    held: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Worker {
    async fn of(permits: &Arc<Semaphore>) -> Self {
        let worker = Self {
            permits: Arc::clone(permits),
            held: Mutex::default(),
        };
        worker.reacquire_permit().await;
        worker
    }
}

#[async_trait]
impl SyncCallbacks for Worker {
    fn on_plan(&self, _plan: &Plan) {}

    fn release_permit(&self) {
        self.held.lock().take();
    }

    async fn reacquire_permit(&self) {
        let permit = Arc::clone(&self.permits).acquire_owned().await.unwrap();
        *self.held.lock() = Some(permit);
    }
}

#[tokio::test(start_paused = true)]
async fn locked_load_balancer_is_tried_six_times_and_holds_up_no_other_service() {
    for code in ["locked", "conflict"] {
        let mut scene = Scene::new();
        scene.network();
        let other = scene.service.clone();
        scene.annotate("private-ipv4", "10.0.0.77");
        let attach = action("attach_to_network");
        scene.fake.fail(Fault::code(&attach, code));
        let mut locked = scene.service.clone();
        locked.metadata.uid = Some("another-uid".to_owned());
        let nodes = scene.nodes.clone();
        let cluster = kubernetes();
        let permits = Arc::new(Semaphore::new(1));
        let balancers = scene.balancers().await;
        let begun = Instant::now();
        let ensure = async |service: &Service| {
            let callbacks = Worker::of(&permits).await;
            let request = LoadBalancerRequest {
                cluster: &cluster,
                service,
                nodes: &nodes,
                callbacks: &callbacks,
            };
            (balancers.ensure(request).await, begun.elapsed())
        };
        let ((refused, long), (ensured, short)) = tokio::join!(ensure(&locked), ensure(&other));
        ensured.unwrap();
        let err = refused.unwrap_err();
        assert!(err.retry_after().is_some() && !err.is_conflict(), "{err}");
        assert_eq!(scene.fake.count(&attach), 6, "{code}");
        assert!(
            short < Duration::from_secs(5) && long < Duration::from_secs(40),
            "{code}: {short:?} {long:?}"
        );
        scene.fake.clear_faults();
    }
}
