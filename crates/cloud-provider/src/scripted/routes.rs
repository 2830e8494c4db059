//! Routes of the scripted cloud: the only capability with a state (PROV-86).

use std::collections::HashMap;

use async_trait::async_trait;

use crate::scripted::cloud::Cloud;
use crate::{Cluster, Error, Result, Route, Routes};

/// The routes of the cloud, for all clusters. A hash map, so that no test relies on an order.
#[derive(Default)]
pub(super) struct RouteTable {
    routes: HashMap<Key, Route>,
    /// Error of a wrong call; all later lists answer with it.
    stuck: Option<Error>,
}

/// The identity of a route: cluster, target Node and destination.
#[derive(PartialEq, Eq, Hash)]
struct Key(String, String, String);

impl Key {
    fn of(cluster: &str, route: &Route) -> Self {
        Self(
            cluster.to_owned(),
            route.target_node.clone(),
            route.destination_cidr.clone(),
        )
    }
}

impl RouteTable {
    pub(super) fn add(&mut self, cluster: &str, route: Route) {
        self.routes.insert(Key::of(cluster, &route), route);
    }

    fn list(&self, cluster: &str) -> Result<Vec<Route>> {
        match &self.stuck {
            Some(error) => Err(error.clone()),
            None => Ok(self
                .routes
                .iter()
                .filter(|(key, _)| key.0 == cluster)
                .map(|(_, r)| r.clone())
                .collect()),
        }
    }

    fn create(&mut self, cluster: &str, route: &Route) -> Result<()> {
        let name = format!("{cluster}-{}-{}", route.target_node, route.destination_cidr);
        let key = Key::of(cluster, route);
        if self.routes.contains_key(&key) {
            let error = Error::other(format!("route {name:?} already exists"));
            self.stuck = Some(error.clone());
            return Err(error);
        }
        self.routes.insert(
            key,
            Route {
                name,
                ..route.clone()
            },
        );
        Ok(())
    }

    fn delete(&mut self, cluster: &str, route: &Route) -> Result<()> {
        match self.routes.remove(&Key::of(cluster, route)) {
            Some(_) => Ok(()),
            None => Err(Error::not_found(format!(
                "cluster {cluster:?} has no route to {} for node {:?}",
                route.destination_cidr, route.target_node
            ))),
        }
    }
}

#[async_trait]
impl Routes for Cloud {
    async fn list(&self, cluster: &Cluster) -> Result<Vec<Route>> {
        self.begin("list_routes".to_owned()).await;
        let scripted = self.state().script.list_routes.clone();
        match scripted {
            Some(answer) => answer.result_for(&cluster.name),
            None => self.state().routes.list(&cluster.name),
        }
    }

    async fn create(&self, cluster: &Cluster, hint: &str, route: &Route) -> Result<()> {
        self.state()
            .created_routes
            .push((hint.to_owned(), route.clone()));
        self.begin("create_route".to_owned()).await;
        let scripted = self.state().script.create_route.clone();
        scripted.map_or(Ok(()), |answer| answer.result_for(route))?;
        self.state().routes.create(&cluster.name, route)
    }

    async fn delete(&self, cluster: &Cluster, route: &Route) -> Result<()> {
        self.state().deleted_routes.push(route.clone());
        self.begin("delete_route".to_owned()).await;
        let scripted = self.state().script.delete_route.clone();
        scripted.map_or(Ok(()), |answer| answer.result_for(route))?;
        self.state().routes.delete(&cluster.name, route)
    }
}
