//! Instance groups: one for each zone, which all internal load balancers of the cluster share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Result, async_trait};
use futures::FutureExt;
use futures::future::BoxFuture;
use provider_kit::cached::Cached;
use provider_kit::inventory::SharedPriority;
use provider_kit::shared_document::{DocumentStore, Versioned};
use provider_kit::transport::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::names::group;
use crate::api::{Api, GROUP, Place, name};

/// Longest age of the members of instance groups.
const MEMBERS_AGE: Duration = Duration::from_secs(30);
const ACTIONS: [&str; 3] = [
    "/projects/{project}/zones/{zone}/instanceGroups/{name}/listInstances",
    "/projects/{project}/zones/{zone}/instanceGroups/{name}/addInstances",
    "/projects/{project}/zones/{zone}/instanceGroups/{name}/removeInstances",
];

/// The instances of the group of each zone.
pub(super) type Members = BTreeMap<String, BTreeSet<String>>;

/// The group of one zone: as it was read, and as it shall be.
#[derive(Clone, PartialEq)]
pub(super) struct Group {
    exists: bool,
    seen: BTreeSet<String>,
    pub(super) members: BTreeSet<String>,
}

/// Reads and writes instance groups, by zone and name.
pub(super) struct Groups {
    pub(super) api: Api,
    pub(super) members: Cached<Members>,
}

#[derive(Deserialize)]
struct GroupMember {
    instance: String,
}

impl Groups {
    fn list<'a>(&'a self, place: &'a Place, zone: &'a str, name: &'a str) -> BoxFuture<'a, Result<Vec<GroupMember>>> {
        let call = place.action(Method::POST, GROUP, ACTIONS[0], zone, name).json(&json!({"instanceState": "ALL"}));
        async move {
            self.api.list(call.reading(), &SharedPriority::default(), |it: &GroupMember| it.instance.clone()).await
        }
        .boxed()
    }

    async fn read_all(&self, zones: &BTreeSet<String>, cluster_id: &str) -> Result<Members> {
        let (place, group, mut members) = (self.api.place().await?, group(cluster_id), Members::new());
        for zone in zones {
            match self.list(&place, zone, &group).await {
                Err(error) if error.is_not_found() => {}
                found => {
                    let names = found?.iter().map(|it| name(&it.instance).to_owned()).collect();
                    members.insert(zone.clone(), names);
                }
            }
        }
        Ok(members)
    }

    /// Returns the groups of these zones that exist, with their members.
    pub(super) async fn of(&self, zones: &BTreeSet<String>, cluster_id: &str, age: Duration) -> Result<Arc<Members>> {
        let age = age.min(MEMBERS_AGE);
        let (known, _) = self.members.get(age, async || self.read_all(zones, cluster_id).await).await?;
        if zones.iter().all(|zone| known.contains_key(zone)) || age.is_zero() {
            return Ok(known);
        }
        Ok(self.members.get(Duration::ZERO, async || self.read_all(zones, cluster_id).await).await?.0)
    }
}

#[async_trait]
impl DocumentStore for Groups {
    type Key = (String, String);
    type Document = Group;

    async fn read(&self, (zone, name): &(String, String)) -> Result<Versioned<Group>> {
        let place = self.api.place().await?;
        let (exists, seen) = match self.list(&place, zone, name).await {
            Err(error) if error.is_not_found() => (false, BTreeSet::new()),
            found => (true, found?.iter().map(|it| crate::api::name(&it.instance).to_owned()).collect::<BTreeSet<_>>()),
        };
        Ok(Versioned { document: Group { exists, members: seen.clone(), seen }, version: None })
    }

    async fn write(&self, (zone, name): &(String, String), group: Group, _: Option<&str>) -> Result<()> {
        let place = self.api.place().await?;
        let outcome = self.write_group(&place, zone, name, &group).await;
        self.members.forget().await;
        outcome
    }
}

impl Groups {
    async fn write_group(&self, place: &Place, zone: &str, name: &str, group: &Group) -> Result<()> {
        if !group.exists {
            let call = place.all(Method::POST, GROUP, zone).json(&json!({ "name": name }));
            match self.api.change(call).await {
                Err(error) if error.is_conflict() => {}
                outcome => outcome?,
            }
        }
        let url = |it: &String| json!({"instance": place.instance(zone, it)});
        let removed = group.seen.difference(&group.members);
        for (action, changed) in [(ACTIONS[2], removed), (ACTIONS[1], group.members.difference(&group.seen))] {
            let instances: Vec<Value> = changed.map(url).collect();
            if instances.is_empty() {
                continue;
            }
            let call = place.action(Method::POST, GROUP, action, zone, name).json(&json!({ "instances": instances }));
            match self.api.change(call).await {
                // An instance that does not exist is in no group.
                Err(error) if error.is_not_found() && action == ACTIONS[2] => {}
                outcome => outcome?,
            }
        }
        Ok(())
    }

    /// Returns the zones that have a group of the cluster.
    pub(super) async fn zones(&self, place: &Place, cluster_id: &str) -> Result<Vec<String>> {
        let filter = format!("name = \"{}\"", group(cluster_id));
        let path = "/projects/{project}/aggregated/instanceGroups";
        let call = provider_kit::transport::Call::get(path, &[&place.project]).list().query("filter", filter);
        let found: Value = self.api.http.read(call).await?;
        let has_group =
            |(_, it): &(&String, &Value)| it["instanceGroups"].as_array().is_some_and(|all| !all.is_empty());
        let scopes = found["items"].as_object().into_iter().flatten().filter(has_group);
        Ok(scopes.map(|(scope, _)| name(scope).to_owned()).collect())
    }

    /// Deletes the groups of the cluster. Those to which a backend service refers are an error, and stay.
    pub(super) async fn delete(&self, cluster_id: &str) -> Result<()> {
        let (place, mut outcome) = (self.api.place().await?, Ok(()));
        for zone in self.zones(&place, cluster_id).await? {
            let call = place.action(Method::DELETE, GROUP, GROUP.one, &zone, &group(cluster_id));
            match self.api.change(call).await {
                Err(error) if error.is_not_found() => {}
                Err(error) => outcome = Err(error),
                Ok(()) => {}
            }
        }
        self.members.forget().await;
        outcome
    }
}
