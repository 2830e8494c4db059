//! The extra routes of a Neutron router.

use std::sync::Arc;

use cloud_provider::{Error, Result, async_trait};
use provider_kit::coalescer::Coalescer;
use provider_kit::routes::{Change, CloudRoute};
use provider_kit::shared_document::{DocumentStore, SharedDocuments, Versioned};
use provider_kit::transport::Call;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::services::{Services, based_on};

/// A router. Cheap to clone.
#[derive(Clone)]
pub(super) struct Router(Arc<Inner>);

struct Inner {
    services: Services,
    id: String,
    /// For a Neutron that takes only whole lists.
    documents: SharedDocuments<Routers>,
}

#[derive(Deserialize)]
struct RouterResponse {
    #[serde(default)]
    routes: Vec<RouteResponse>,
    #[serde(default)]
    revision_number: Option<u64>,
}

#[derive(Deserialize)]
struct RouteResponse {
    destination: String,
    nexthop: String,
}

impl From<RouteResponse> for CloudRoute {
    fn from(RouteResponse { destination, nexthop }: RouteResponse) -> Self {
        Self { name: destination.clone(), destination, next_hops: vec![nexthop], ..Self::default() }
    }
}

/// Returns the body of a PUT.
fn body(routes: &[CloudRoute]) -> Value {
    let route = |it: &CloudRoute| json!({ "destination": it.destination, "nexthop": it.next_hops.first() });
    json!({ "router": { "routes": routes.iter().map(route).collect::<Vec<_>>() } })
}

impl Router {
    pub(super) fn new(services: Services, id: String) -> Self {
        let documents = SharedDocuments::new(Routers(services.clone()));
        Self(Arc::new(Inner { services, id, documents }))
    }

    pub(super) fn id(&self) -> &str {
        &self.0.id
    }

    /// Returns a batch of changes: concurrent changes share a request.
    pub(super) fn changes(&self) -> Coalescer<Change, CloudRoute> {
        let router = self.clone();
        Coalescer::retrying_alone(move |change, routes| {
            let router = router.clone();
            async move { router.change(change, routes).await }
        })
    }

    /// Reads all routes, whoever made them.
    pub(super) async fn routes(&self) -> Result<Vec<CloudRoute>> {
        Ok(self.0.documents.store().read(&self.0.id).await?.document)
    }

    async fn change(&self, change: Change, routes: Vec<CloudRoute>) -> Result<()> {
        let Inner { services, id, documents } = &*self.0;
        if !services.has_extension("extraroute-atomic").await? {
            let edit = move |all: &mut Vec<CloudRoute>| {
                edit(all, change, &routes);
                Ok(())
            };
            return documents.edit(id, edit).await;
        }
        let path = match change {
            Change::Add => "/routers/{id}/add_extraroutes",
            Change::Remove => "/routers/{id}/remove_extraroutes",
        };
        services.network.send(Call::put(path, &[id]).json(&body(&routes))).await.map(drop)
    }
}

/// Routers whose list of routes is written as a whole. Neutron refuses a list that is based on an older one.
struct Routers(Services);

#[async_trait]
impl DocumentStore for Routers {
    type Key = String;
    type Document = Vec<CloudRoute>;

    async fn read(&self, id: &String) -> Result<Versioned<Vec<CloudRoute>>> {
        let call = Call::get("/routers/{id}", &[id]).inside("router");
        let found: Option<RouterResponse> = self.0.network.find(call).await?;
        // A missing router says nothing about its routes.
        let missing =
            || Error::invalid(format!("there is no router {id:?} in the project; correct router-id in [Route]"));
        let RouterResponse { routes, revision_number } = found.ok_or_else(missing)?;
        let document = routes.into_iter().map(CloudRoute::from).collect();
        Ok(Versioned { document, version: revision_number.map(|number| number.to_string()) })
    }

    async fn write(&self, id: &String, routes: Vec<CloudRoute>, version: Option<&str>) -> Result<()> {
        let call = Call::put("/routers/{id}", &[id]).json(&body(&routes));
        self.0.network.send(based_on(version, call)).await.map(drop)
    }
}

/// Applies a change to a list of routes. Routes that are there already, or are not there, are left as they are.
fn edit(all: &mut Vec<CloudRoute>, change: Change, routes: &[CloudRoute]) {
    all.retain(|it| change == Change::Add || !routes.iter().any(|other| it.is_same(other)));
    for route in routes.iter().filter(|_| change == Change::Add) {
        if !all.iter().any(|it| it.is_same(route)) {
            all.push(route.clone());
        }
    }
}
