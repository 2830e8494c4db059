use std::sync::Arc;

use cloud_provider::{Caches, Service};
use parking_lot::Mutex;

use super::*;

/// A cloud that answers its next changes with `errors`; a change whose error begins with `lost` was carried out.
#[derive(Default)]
struct Fake {
    routes: Mutex<Vec<CloudRoute>>,
    errors: Mutex<Vec<Error>>,
    prepared: Mutex<Vec<Change>>,
    port_error: Option<Error>,
    has_tags: bool,
}

#[async_trait]
impl RouteCloud for Fake {
    fn has_owner_tags(&self) -> bool {
        self.has_tags
    }

    async fn list(&self) -> Result<Vec<CloudRoute>> {
        Ok(self.routes.lock().clone())
    }
    async fn change_auxiliaries(&self, change: Change, _route: &CloudRoute) -> Result<bool> {
        self.prepared.lock().push(change);
        self.port_error.clone().map_or(Ok(true), Err)
    }
    async fn change(&self, change: Change, route: &CloudRoute) -> Result<()> {
        let error = self.errors.lock().pop();
        if error
            .as_ref()
            .is_none_or(|error| error.to_string().starts_with("lost"))
        {
            let mut routes = self.routes.lock();
            routes.retain(|other_route| !other_route.is_same(route));
            routes.extend((change == Change::Add).then(|| route.clone()));
        }
        error.map_or(Ok(()), Err)
    }
}

struct Known(Arc<Node>);

impl Caches for Known {
    fn nodes(&self) -> Vec<Arc<Node>> {
        vec![Arc::clone(&self.0)]
    }
    fn node(&self, name: &str) -> Option<Arc<Node>> {
        (*self.0.name == *name).then(|| Arc::clone(&self.0))
    }
    fn services(&self) -> Vec<Arc<Service>> {
        Vec::new()
    }
}

fn table(cloud: Fake) -> RouteTable<Fake> {
    let addresses = [NodeAddress::new(AddressType::InternalIP, "10.0.0.1")];
    let cluster = ClusterView::new("test");
    cluster.set_pod_cidrs(&["10.244.0.0/16".to_owned()]);
    cluster.set_caches(Arc::new(Known(Arc::new(Node {
        name: "a".into(),
        addresses: addresses.into(),
        ..Node::default()
    }))));
    RouteTable::new(cloud, cluster)
}

fn cluster() -> Cluster {
    Cluster {
        name: "kubernetes".into(),
        id: None,
    }
}

fn wanted() -> Route {
    Route {
        target_node: "a".into(),
        target_node_addresses: vec![NodeAddress::new(AddressType::InternalIP, "10.0.0.1")],
        destination_cidr: "10.244.1.0/24".into(),
        ..Route::default()
    }
}

fn there(hop: &str, owner: Option<&str>) -> CloudRoute {
    let destination = "10.244.1.0/24".into();
    let next_hops = vec![hop.to_owned()];
    CloudRoute {
        destination,
        next_hops,
        owner: owner.map(str::to_owned),
        ..CloudRoute::default()
    }
}

#[tokio::test]
async fn change_whose_answer_was_lost_succeeds() {
    let table = table(Fake::default());
    for expected in [1, 0] {
        table.cloud.errors.lock().push(Error::other("lost"));
        match expected {
            1 => table.create(&cluster(), "uid", &wanted()).await.unwrap(),
            _ => table
                .delete(&cluster(), &table.list(&cluster()).await.unwrap()[0])
                .await
                .unwrap(),
        }
        assert_eq!(table.cloud.routes.lock().len(), expected);
    }
    assert_eq!(*table.cloud.prepared.lock(), [Change::Add, Change::Remove]);
}

#[tokio::test]
async fn preparation_of_a_refused_change_is_undone() {
    let table = table(Fake {
        errors: Mutex::new(vec![Error::quota("full")]),
        ..Fake::default()
    });
    assert!(
        table
            .create(&cluster(), "uid", &wanted())
            .await
            .unwrap_err()
            .is_quota()
    );
    assert_eq!(*table.cloud.prepared.lock(), [Change::Add, Change::Remove]);
}

#[tokio::test]
async fn refused_preparation_stops_all_but_removals_of_black_holes() {
    let errors = [
        (Error::invalid("port"), true),
        (Error::unauthorized("port"), true),
        (Error::other("port"), false),
    ];
    for (error, is_removed) in errors {
        let cloud = Fake {
            port_error: Some(error),
            ..Fake::default()
        };
        cloud
            .routes
            .lock()
            .extend([there("10.0.0.1", None), there("10.0.0.9", None)]);
        let table = table(cloud);
        let listed = table.list(&cluster()).await.unwrap();
        assert_eq!([listed[0].blackhole, listed[1].blackhole], [false, true]);
        assert!(table.delete(&cluster(), &listed[0]).await.is_err());
        assert_eq!(
            table.delete(&cluster(), &listed[1]).await.is_ok(),
            is_removed
        );
    }
}

#[tokio::test]
async fn foreign_route_is_never_removed_and_named_where_it_is_in_the_way() {
    let cloud = Fake {
        errors: Mutex::new(vec![Error::conflict("exists"); 2]),
        ..Fake::default()
    };
    cloud.routes.lock().push(there("10.0.0.9", Some("another")));
    let table = table(cloud);
    let listed = table.list(&cluster()).await.unwrap();
    assert!(
        table
            .delete(&cluster(), &listed[0])
            .await
            .unwrap_err()
            .is_invalid()
    );
    let error = table
        .create(&cluster(), "uid", &wanted())
        .await
        .unwrap_err();
    assert!(
        error.is_invalid() && error.to_string().contains("ccm-rs/cluster=kubernetes"),
        "{error}"
    );
    table.cloud.routes.lock()[0].owner = None;
    assert!(
        table
            .create(&cluster(), "uid", &wanted())
            .await
            .unwrap_err()
            .is_conflict(),
        "routes have no tags here"
    );
}

#[tokio::test]
async fn only_routes_with_the_clusters_owner_tag_are_orphans() {
    let cluster = Cluster {
        id: Some("c1".into()),
        ..cluster()
    };
    for has_tags in [true, false] {
        let table = table(Fake {
            has_tags,
            ..Fake::default()
        });
        let all = [
            ("10.0.0.2", Some("c1")),
            ("10.0.0.3", Some("kubernetes")),
            ("10.0.0.4", Some("c2")),
            ("10.0.0.5", None),
        ];
        table
            .cloud
            .routes
            .lock()
            .extend(all.map(|(hop, owner)| CloudRoute {
                name: hop.into(),
                ..there(hop, owner)
            }));
        let owned = table.owned(&cluster).await.unwrap();
        let told: Vec<_> = owned
            .iter()
            .map(|resource| (&*resource.id, &*resource.cluster))
            .collect();
        if !has_tags {
            assert_eq!(told, [], "routes have no tags here");
            continue;
        }
        assert_eq!(told, [("10.0.0.2", "c1"), ("10.0.0.3", "kubernetes")]);
        assert_eq!(
            table.delete_owned(&cluster, &owned[0]).await.unwrap(),
            RemovalOutcome::Deleted
        );
        assert_eq!(
            table.delete_owned(&cluster, &owned[0]).await.unwrap(),
            RemovalOutcome::NotFound
        );
        assert!(
            table
                .delete_owned(&cluster, &owned[1])
                .await
                .unwrap_err()
                .is_invalid(),
            "another cluster may have that name"
        );
        assert_eq!(table.cloud.routes.lock().len(), 3);
    }
}

#[test]
fn next_hop_is_the_first_internal_address_of_the_ranges_family() {
    use AddressType::{ExternalIP, InternalIP};
    let addresses = [
        (ExternalIP, "192.0.2.1"),
        (InternalIP, "fd00::1"),
        (InternalIP, "10.0.0.1"),
        (InternalIP, "10.0.0.2"),
    ]
    .map(|(kind, ip)| NodeAddress::new(kind, ip));
    let hop = |range: &str| next_hop(&addresses, range.parse().unwrap()).map(|ip| ip.to_string());
    assert_eq!(hop("10.244.1.0/24").as_deref(), Some("10.0.0.1"));
    assert_eq!(hop("fd00:244::/64").as_deref(), Some("fd00::1"));
    assert_eq!(
        next_hop(&addresses[..1], "10.244.1.0/24".parse().unwrap()),
        None
    );
}

#[test]
fn spelling_does_not_make_another_route() {
    let route = |destination: &str, hop: &str| CloudRoute {
        destination: destination.into(),
        ..there(hop, None)
    };
    assert!(route("fd00:0:0:5::1/64", "fd00:0::1").is_same(&route("fd00:0:0:5::/64", "fd00::1")));
    assert!(!route("10.0.0.0/24", "10.0.0.1").is_same(&route("10.0.0.0/24", "10.0.0.2")));
    let on = |id: &str| CloudRoute {
        target: Target::Gone(id.into()),
        ..there("10.0.0.1", None)
    };
    assert!(!on("1").is_same(&on("2")) && on("1").is_same(&there("10.0.0.1", None)));
}
