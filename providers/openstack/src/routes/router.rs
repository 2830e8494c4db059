//! The extra routes of a Neutron router.

use std::net::IpAddr;
use std::sync::Arc;

use cloud_provider::{Error, Result, async_trait};
use ipnet::IpNet;
use provider_kit::batch::Batch;
use provider_kit::shared_document::{DocumentStore, SharedDocuments, Versioned};
use provider_kit::transport::Call;
use serde::{Deserialize, Serialize};
use serde_json::json;

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

/// A route, as Neutron writes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Gateway {
    pub(super) destination: String,
    pub(super) nexthop: String,
}

/// What is done with routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Change {
    Add,
    Remove,
}

impl Change {
    pub(super) fn undone(self) -> Self {
        if self == Self::Add { Self::Remove } else { Self::Add }
    }
}

#[derive(Deserialize)]
struct RouterResponse {
    #[serde(default)]
    routes: Vec<Gateway>,
    #[serde(default)]
    revision_number: Option<u64>,
}

impl Gateway {
    /// The same route, perhaps in another spelling.
    pub(super) fn is(&self, other: &Gateway) -> bool {
        let parsed =
            |it: &Gateway| Some((it.destination.parse::<IpNet>().ok()?.trunc(), it.nexthop.parse::<IpAddr>().ok()?));
        self == other || parsed(self).is_some_and(|it| parsed(other) == Some(it))
    }
}

impl Router {
    pub(super) fn new(services: Services, id: String) -> Self {
        let documents = SharedDocuments::new(Routers(services.clone()));
        Self(Arc::new(Inner { services, id, documents }))
    }

    pub(super) fn id(&self) -> &str {
        &self.0.id
    }

    /// Its changes, which go together as far as they come together.
    pub(super) fn changes(&self) -> Batch<Change, Gateway> {
        let router = self.clone();
        Batch::new(move |change, routes| {
            let router = router.clone();
            async move { router.change(change, routes).await }
        })
    }

    /// All routes, whosesoever.
    pub(super) async fn routes(&self) -> Result<Vec<Gateway>> {
        Ok(self.0.documents.store().read(&self.0.id).await?.document)
    }

    async fn change(&self, change: Change, routes: Vec<Gateway>) -> Result<()> {
        let Inner { services, id, documents } = &*self.0;
        if !services.has_extension("extraroute-atomic").await? {
            let edit = move |all: &mut Vec<Gateway>| {
                edit(all, change, &routes);
                Ok(())
            };
            return documents.edit(id, edit).await;
        }
        let path = match change {
            Change::Add => "/routers/{id}/add_extraroutes",
            Change::Remove => "/routers/{id}/remove_extraroutes",
        };
        let call = Call::put(path, &[id]).json(&json!({ "router": { "routes": routes } }));
        services.network.send(call).await.map(drop)
    }
}

/// Routers whose list of routes is written whole. Neutron refuses what is based on an older list.
struct Routers(Services);

#[async_trait]
impl DocumentStore for Routers {
    type Key = String;
    type Document = Vec<Gateway>;

    async fn read(&self, id: &String) -> Result<Versioned<Vec<Gateway>>> {
        let call = Call::get("/routers/{id}", &[id]).inside("router");
        let found: Option<RouterResponse> = self.0.network.find(call).await?;
        // No answer about any of its routes.
        let missing =
            || Error::invalid(format!("there is no router {id:?} in the project; correct router-id in [Route]"));
        let RouterResponse { routes, revision_number } = found.ok_or_else(missing)?;
        Ok(Versioned { document: routes, version: revision_number.map(|number| number.to_string()) })
    }

    async fn write(&self, id: &String, routes: Vec<Gateway>, version: Option<&str>) -> Result<()> {
        let call = Call::put("/routers/{id}", &[id]).json(&json!({ "router": { "routes": routes } }));
        self.0.network.send(based_on(version, call)).await.map(drop)
    }
}

/// Applies a change to a list of routes; routes that are there already, or are not there, are left as they are.
fn edit(all: &mut Vec<Gateway>, change: Change, routes: &[Gateway]) {
    match change {
        Change::Remove => all.retain(|route| !routes.iter().any(|other| route.is(other))),
        Change::Add => {
            for route in routes {
                if !all.iter().any(|there| there.is(route)) {
                    all.push(route.clone());
                }
            }
        }
    }
}
