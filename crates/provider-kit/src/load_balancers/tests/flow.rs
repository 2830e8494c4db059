//! Whole syncs, against a cloud that carries out one operation after the other.

use std::sync::Arc;

use cloud_provider::names::ANNOTATION_SUPERSEDED;
use cloud_provider::{Caches, Cluster, Goal, LoadBalancerRequest, LoadBalancers, Node, Service};
use k8s_openapi::api::core::v1::ServiceStatus;
use tokio::time::Instant;

use super::super::{LoadBalancerEngine, OwnerTags, Port, ResourceGraph, ResourceKey, plan};
use super::cloud::{StepByStep, TAKES, wish};

struct Scene {
    cloud: StepByStep,
    balancers: LoadBalancerEngine,
    cluster: Cluster,
    service: Service,
}

impl Scene {
    fn new(wanted: ResourceGraph) -> Self {
        let cloud = StepByStep::default();
        cloud.model().wanted = wanted;
        let balancers = cloud.balancers();
        let cluster = Cluster {
            name: "kubernetes".into(),
            id: Some("c1".into()),
        };
        Self {
            cloud,
            balancers,
            cluster,
            service: service("s1"),
        }
    }

    fn restart(&mut self) {
        self.cloud.model().breaks_at = None;
        self.balancers = self.cloud.balancers();
    }

    fn request(&self) -> LoadBalancerRequest<'_> {
        LoadBalancerRequest {
            cluster: &self.cluster,
            service: &self.service,
            nodes: &[],
            callbacks: &(),
        }
    }

    fn want(&self, wanted: ResourceGraph) {
        self.cloud.model().wanted = wanted;
    }

    async fn ensure(&self) -> cloud_provider::Result<()> {
        self.balancers.ensure(self.request()).await.map(drop)
    }

    async fn delete(&self) -> cloud_provider::Result<()> {
        self.balancers.delete(self.request()).await
    }

    fn writes(&self) -> usize {
        std::mem::take(&mut self.cloud.model().writes).len()
    }

    fn reads(&self) -> Vec<String> {
        std::mem::take(&mut self.cloud.model().reads)
    }

    /// Checks that there is exactly one load balancer, in the desired state.
    fn check(&self) {
        let model = self.cloud.model();
        assert_eq!(model.balancers.len(), 1, "{:?}", model.balancers);
        let actual = model.balancers.values().next().unwrap();
        assert_eq!(plan(&model.wanted, actual.graph.as_ref().unwrap()), []);
        assert_eq!(actual.owner_tags, owner_tags("s1"));
    }
}

fn service(uid: &str) -> Service {
    serde_json::from_value(serde_json::json!({"metadata": {"uid": uid}})).unwrap()
}

fn owner_tags(service: &str) -> OwnerTags {
    OwnerTags {
        cluster: Some("c1".into()),
        service: Some(service.into()),
    }
}

#[tokio::test(start_paused = true)]
async fn each_operation_is_awaited_before_the_next() {
    let scene = Scene::new(wish(&[80, 443], &["a", "b"]));
    let began = Instant::now();
    scene.ensure().await.unwrap();
    scene.check();
    // The order: firewall, load balancer, two pools, their targets, two listeners.
    assert_eq!(scene.writes(), 8);
    assert!(began.elapsed() >= 8 * TAKES);
    scene.reads();
    scene.ensure().await.unwrap();
    assert_eq!((scene.writes(), scene.reads()), (0, vec![]));
    scene.want(wish(&[443], &["b", "c"]));
    scene
        .balancers
        .update_targets(scene.request())
        .await
        .unwrap();
    assert_eq!(scene.writes(), 2, "only the pool that is still wanted");
    scene.ensure().await.unwrap();
    scene.check();
    assert_eq!(scene.writes(), 2, "listener 80 and its pool go");
    let plan = scene
        .balancers
        .plan(scene.request(), Goal::Deleted)
        .await
        .unwrap();
    assert_eq!((plan.steps.len(), scene.writes()), (4, 0));
    scene.delete().await.unwrap();
    assert_eq!(
        (scene.writes(), scene.cloud.model().balancers.len()),
        (4, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn end_of_the_process_at_any_write_leaks_and_duplicates_nothing() {
    let wishes = [
        wish(&[80, 443], &["a", "b"]),
        wish(&[443, 8443], &["b", "c"]),
    ];
    for names_are_not_unique in [false, true] {
        for is_applied in [false, true] {
            for at in 0.. {
                let mut scene = Scene::new(wishes[0].clone());
                scene.cloud.model().names_are_not_unique = names_are_not_unique;
                scene.cloud.model().breaks_at = Some((at, is_applied));
                let mut died = false;
                for wish in &wishes {
                    scene.want(wish.clone());
                    died = died || scene.ensure().await.is_err();
                }
                died = died || scene.delete().await.is_err();
                if !died {
                    assert!(at > 15, "so many writes: {at}");
                    break;
                }
                scene.restart();
                scene.ensure().await.unwrap();
                scene.check();
                scene.restart();
                scene.delete().await.unwrap();
                assert!(scene.cloud.model().balancers.is_empty());
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lost_answer_leads_to_a_read_in_the_same_process() {
    for is_applied in [false, true] {
        for at in 0..8 {
            let scene = Scene::new(wish(&[80, 443], &["a"]));
            scene.cloud.model().breaks_at = Some((at, is_applied));
            scene.ensure().await.unwrap_err();
            scene.cloud.model().breaks_at = None;
            scene.ensure().await.unwrap();
            scene.check();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn surplus_listeners_are_deleted_first_at_a_limit() {
    let scene = Scene::new(wish(&[80, 443], &["a"]));
    scene.cloud.model().most_listeners = Some(2);
    scene.ensure().await.unwrap();
    scene.want(wish(&[8080, 8443], &["b"]));
    scene.ensure().await.unwrap();
    scene.check();
    scene.want(wish(&[1, 2, 3], &["b"]));
    assert!(
        scene.ensure().await.unwrap_err().is_quota(),
        "the quota stays exceeded"
    );
}

#[tokio::test(start_paused = true)]
async fn twin_of_a_published_load_balancer_stays_until_the_service_is_deleted() {
    let mut scene = Scene::new(wish(&[80], &["a"]));
    scene.cloud.model().names_are_not_unique = true;
    scene
        .cloud
        .model()
        .add("as1", owner_tags("s1"), wish(&[80], &["a"]));
    let second = scene
        .cloud
        .model()
        .add("as1", owner_tags("s1"), wish(&[80], &["a"]));
    let status = serde_json::json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.2"}]}});
    scene.service.status = serde_json::from_value(status).unwrap();
    scene.ensure().await.unwrap();
    assert!(scene.cloud.model().balancers.contains_key(&second));
    assert_eq!(scene.cloud.model().balancers.len(), 2);
    assert_eq!(scene.writes(), 0);
    scene.restart();
    scene.delete().await.unwrap();
    assert!(
        scene.cloud.model().balancers.is_empty(),
        "of ours nothing stays"
    );
}

#[tokio::test(start_paused = true)]
async fn foreign_part_stays_and_keeps_its_load_balancer() {
    let scene = Scene::new(wish(&[80], &["a"]));
    scene.ensure().await.unwrap();
    let theirs = ResourceKey::Listener(Port {
        number: 443,
        protocol: "TCP".into(),
    });
    scene
        .cloud
        .model()
        .foreign
        .insert(theirs, "Service default/other's".into());
    scene.want(wish(&[80, 443], &["a"]));
    tokio::time::sleep(super::super::MAX_AGE).await;
    scene.writes();
    let err = scene.ensure().await.unwrap_err();
    assert!(
        err.is_invalid() && err.to_string().contains("listener 443/TCP"),
        "{err}"
    );
    assert_eq!(scene.writes(), 0);
    scene.delete().await.unwrap();
    let model = scene.cloud.model();
    let left = model.balancers.values().next().unwrap();
    assert_eq!(
        (
            left.owner_tags.clone(),
            left.known_graph().listeners().count()
        ),
        (OwnerTags::default(), 0)
    );
}

#[tokio::test(start_paused = true)]
async fn hundred_services_share_lists_and_polls() {
    let scene = Scene::new(wish(&[80], &["a"]));
    let services: Vec<_> = (0..100).map(|n| service(&format!("s{n}"))).collect();
    let ensure = |service| {
        scene.balancers.ensure(LoadBalancerRequest {
            service,
            ..scene.request()
        })
    };
    futures::future::try_join_all(services.iter().map(ensure))
        .await
        .unwrap();
    assert_eq!(
        (scene.writes(), scene.cloud.model().balancers.len()),
        (500, 100)
    );
    let reads = scene.reads();
    assert_eq!(
        reads.iter().filter(|read| *read == "list").count(),
        1,
        "one for all"
    );
    let scene = Scene {
        balancers: scene.cloud.balancers(),
        ..scene
    };
    let ensure = |service| {
        scene.balancers.ensure(LoadBalancerRequest {
            service,
            ..scene.request()
        })
    };
    futures::future::try_join_all(services.iter().map(ensure))
        .await
        .unwrap();
    assert_eq!(
        (scene.writes(), scene.reads().len()),
        (0, 101),
        "a list without resources, and the resources of each"
    );
}

#[tokio::test(start_paused = true)]
async fn call_without_a_uid_is_refused_without_a_request() {
    let scene = Scene {
        service: Service::default(),
        ..Scene::new(wish(&[80], &[]))
    };
    assert!(scene.ensure().await.unwrap_err().is_invalid());
    assert!(scene.reads().is_empty());
    assert_eq!(
        Arc::strong_count(&scene.cloud.0),
        3,
        "the scene, the cloud and its machines"
    );
}

#[tokio::test(start_paused = true)]
async fn surplus_that_cannot_be_deleted_at_once_costs_the_other_nothing() {
    let mut scene = Scene::new(wish(&[80], &["a"]));
    scene.cloud.model().names_are_not_unique = true;
    let first = scene
        .cloud
        .model()
        .add("as1", owner_tags("s1"), wish(&[80], &["a"]));
    let second = scene
        .cloud
        .model()
        .add("as1", owner_tags("s1"), wish(&[80], &["a"]));
    scene.service.status = published("192.0.2.1");
    scene.service.metadata.annotations =
        Some([(ANNOTATION_SUPERSEDED.to_owned(), second.clone())].into());
    scene.cloud.model().contested.insert(second.clone());
    let plan = scene
        .balancers
        .plan(scene.request(), Goal::Ensured)
        .await
        .unwrap();
    assert!(
        !plan.is_empty(),
        "the removal of the second is part of the plan"
    );
    assert!(
        scene
            .balancers
            .ensure(scene.request())
            .await
            .unwrap()
            .is_some()
    );
    scene.check();
    assert!(scene.cloud.model().balancers.contains_key(&first));
}

#[tokio::test(start_paused = true)]
async fn unreadable_load_balancer_does_not_fail_the_others_of_a_poll() {
    let scene = Scene::new(wish(&[80], &["a"]));
    let bad = scene
        .cloud
        .model()
        .add("other", owner_tags("s2"), wish(&[80], &["a"]));
    scene.ensure().await.unwrap();
    scene.cloud.model().unreadable.insert(bad.clone());
    scene.want(wish(&[80, 81], &["a"]));
    let theirs = service("s2");
    let (ours, theirs) = futures::future::join(
        scene.ensure(),
        scene.balancers.ensure(LoadBalancerRequest {
            service: &theirs,
            ..scene.request()
        }),
    )
    .await;
    assert!(ours.is_ok() && theirs.is_err());
}

#[tokio::test]
async fn control_read_uses_a_machine_of_this_cloud() {
    let nodes = || ["edge", "gone", "there"].map(node).to_vec();
    type Row<'a> = (&'a [(&'a str, Option<bool>)], bool);
    let table: [Row<'_>; 4] = [
        (
            &[("edge", None), ("gone", Some(false)), ("there", Some(true))],
            true,
        ),
        (
            &[
                ("edge", None),
                ("gone", Some(false)),
                ("there", Some(false)),
            ],
            false,
        ),
        (&[("edge", None), ("gone", None), ("there", None)], true),
        (
            &[
                ("edge", Some(true)),
                ("gone", Some(false)),
                ("there", Some(false)),
            ],
            true,
        ),
    ];
    for (machines, is_believed) in table {
        let mut scene = Scene::new(wish(&[80], &["a"]));
        scene.service.status = published("192.0.2.1");
        scene.balancers.set_caches(Arc::new(TheseNodes(nodes())));
        scene.cloud.model().machines = machines
            .iter()
            .map(|(name, known)| ((*name).to_owned(), *known))
            .collect();
        let answer = scene.balancers.get(scene.request()).await;
        assert_eq!(answer.is_ok(), is_believed, "{machines:?}: {answer:?}");
        assert!(answer.is_ok() || answer.unwrap_err().is_unauthorized());
    }
}

#[tokio::test]
async fn orphan_is_adopted_only_with_a_cluster_id() {
    for (id, mark, is_taken) in [
        (Some("c1"), "c1", true),
        (None, "kubernetes", false),
        (Some("c1"), "kubernetes", false),
    ] {
        let mut scene = Scene::new(wish(&[80], &["a"]));
        scene.cluster.id = id.map(str::to_owned);
        scene
            .balancers
            .set_caches(Arc::new(TheseServices(vec![Arc::new(service("s1"))])));
        let dead = OwnerTags {
            cluster: Some(mark.into()),
            service: Some("dead".into()),
        };
        scene
            .cloud
            .model()
            .add("as1", dead.clone(), wish(&[80], &["a"]));
        let answer = scene.ensure().await;
        assert_eq!(answer.is_ok(), is_taken, "{id:?} {mark}: {answer:?}");
        let model = scene.cloud.model();
        assert_eq!(
            model
                .balancers
                .values()
                .any(|load_balancer| load_balancer.owner_tags == dead),
            !is_taken,
            "{id:?} {mark}"
        );
    }
}

fn published(ip: &str) -> Option<ServiceStatus> {
    serde_json::from_value(serde_json::json!({"loadBalancer": {"ingress": [{"ip": ip}]}})).unwrap()
}

fn node(name: &str) -> Arc<Node> {
    Arc::new(Node {
        name: name.into(),
        provider_id: format!("cloud://{name}").into(),
        ..Node::default()
    })
}

struct TheseNodes(Vec<Arc<Node>>);
struct TheseServices(Vec<Arc<Service>>);

impl Caches for TheseNodes {
    fn nodes(&self) -> Vec<Arc<Node>> {
        self.0.clone()
    }
    fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.0.iter().find(|node| &*node.name == name).cloned()
    }
    fn services(&self) -> Vec<Arc<Service>> {
        Vec::new()
    }
}

impl Caches for TheseServices {
    fn nodes(&self) -> Vec<Arc<Node>> {
        Vec::new()
    }
    fn node(&self, _name: &str) -> Option<Arc<Node>> {
        None
    }
    fn services(&self) -> Vec<Arc<Service>> {
        self.0.clone()
    }
}
