//! The extra routes of a Neutron router.

use std::net::IpAddr;
use std::sync::Arc;

use cloud_provider::{Error, Result};
use ipnet::IpNet;
use provider_kit::batch::Batch;
use provider_kit::transport::Call;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::Mutex;

use crate::services::{Services, based_on};

/// How often somebody else may change the router between our reading and our writing it.
const ATTEMPTS: usize = 5;

/// A router. Cheap to clone.
#[derive(Clone)]
pub(super) struct Router(Arc<Inner>);

struct Inner {
    services: Services,
    id: String,
    /// Where the list is written whole, one after the other reads and writes it.
    turn: Mutex<()>,
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
struct State {
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
        Self(Arc::new(Inner { services, id, turn: Mutex::default() }))
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
        Ok(self.read().await?.routes)
    }

    async fn read(&self) -> Result<State> {
        let Inner { services, id, .. } = &*self.0;
        let found: Option<State> = services.network.find(Call::get("/routers/{id}", &[id]).inside("router")).await?;
        // No answer about any of its routes.
        let missing =
            || Error::invalid(format!("there is no router {id:?} in the project; correct router-id in [Route]"));
        found.ok_or_else(missing)
    }

    async fn change(&self, change: Change, routes: Vec<Gateway>) -> Result<()> {
        let Inner { services, id, .. } = &*self.0;
        if !services.has_extension("extraroute-atomic").await? {
            return self.rewrite(change, &routes).await;
        }
        let path = match change {
            Change::Add => "/routers/{id}/add_extraroutes",
            Change::Remove => "/routers/{id}/remove_extraroutes",
        };
        let call = Call::put(path, &[id]).json(&json!({ "router": { "routes": routes } }));
        services.network.send(call).await.map(drop)
    }

    /// Writes the whole list: nobody else's change of it is lost, as Neutron refuses what is based on an older one.
    async fn rewrite(&self, change: Change, routes: &[Gateway]) -> Result<()> {
        let Inner { services, id, turn } = &*self.0;
        let _turn = turn.lock().await;
        for attempt in 1.. {
            let State { routes: mut all, revision_number } = self.read().await?;
            let before = all.len();
            all.retain(|route| change == Change::Add || !routes.iter().any(|other| route.is(other)));
            if change == Change::Add {
                let missing = routes.iter().filter(|route| !all.iter().any(|there| there.is(route)));
                let missing: Vec<_> = missing.cloned().collect();
                all.extend(missing);
            }
            if all.len() == before {
                break;
            }
            let call = Call::put("/routers/{id}", &[id]).json(&json!({ "router": { "routes": all } }));
            match services.network.send(based_on(revision_number, call)).await {
                Err(error) if error.is_conflict() && attempt < ATTEMPTS => {}
                answer => return answer.map(drop),
            }
        }
        Ok(())
    }
}
