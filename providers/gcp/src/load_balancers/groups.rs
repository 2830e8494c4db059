//! Instance groups: one for each zone, which all load balancers with backend services share, and groups of others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Result, async_trait};
use futures::FutureExt;
use futures::future::BoxFuture;
use provider_kit::cached::Cached;
use provider_kit::inventory::SharedPriority;
use provider_kit::shared_document::{DocumentStore, Versioned};
use provider_kit::transport::{Call, Method};
use serde::Deserialize;
use serde_json::{Value, json};

use super::names::group;
use crate::api::{Api, GROUP, Place, name};

/// Longest age of the members of instance groups.
const MEMBERS_AGE: Duration = Duration::from_secs(30);
const LIST: &str = "/projects/{project}/zones/{zone}/instanceGroups/{name}/listInstances";
const ADD: &str = "/projects/{project}/zones/{zone}/instanceGroups/{name}/addInstances";
const REMOVE: &str = "/projects/{project}/zones/{zone}/instanceGroups/{name}/removeInstances";

/// Zone and name of a group.
pub(super) type GroupKey = (String, String);

/// The names of the instances of groups.
pub(super) type Members = BTreeMap<GroupKey, BTreeSet<String>>;

/// The group of one zone: as it was read, and as it shall be.
#[derive(Clone, PartialEq)]
pub(super) struct Group {
    exists: bool,
    seen: BTreeSet<String>,
    pub(super) members: BTreeSet<String>,
}

/// Reads and writes instance groups.
pub(super) struct Groups {
    pub(super) api: Api,
    pub(super) members: Cached<Members>,
}

#[derive(Deserialize)]
struct GroupMember {
    instance: String,
}

impl Groups {
    /// Reads the members of a group; `None` if there is none.
    fn find<'a>(
        &'a self,
        (zone, group): &'a GroupKey,
    ) -> BoxFuture<'a, Result<Option<BTreeSet<String>>>> {
        let read = async move {
            let place = self.api.place().await?;
            let call = place
                .action(Method::POST, GROUP, LIST, zone, group)
                .json(&json!({"instanceState": "ALL"}));
            let key = |group_member: &GroupMember| group_member.instance.clone();
            match self
                .api
                .list(call.reading(), &SharedPriority::default(), key)
                .await
            {
                Err(error) if error.is_not_found() => Ok(None),
                found => Ok(Some(
                    found?
                        .iter()
                        .map(|group_member| name(&group_member.instance).to_owned())
                        .collect(),
                )),
            }
        };
        read.boxed()
    }

    async fn find_all(&self, keys: &BTreeSet<GroupKey>) -> Result<Members> {
        let mut members = Members::new();
        for key in keys {
            members.extend(self.find(key).await?.map(|found| (key.clone(), found)));
        }
        Ok(members)
    }

    /// Returns the groups that exist, with their members.
    pub(super) async fn of(
        &self,
        keys: &BTreeSet<GroupKey>,
        age: Duration,
    ) -> Result<Arc<Members>> {
        let age = age.min(MEMBERS_AGE);
        let (known, _) = self
            .members
            .get(age, async || self.find_all(keys).await)
            .await?;
        if keys.iter().all(|key| known.contains_key(key)) || age.is_zero() {
            return Ok(known);
        }
        Ok(self
            .members
            .get(Duration::ZERO, async || self.find_all(keys).await)
            .await?
            .0)
    }

    /// Returns the groups whose names match a pattern.
    pub(super) async fn named(&self, pattern: &str) -> Result<BTreeSet<GroupKey>> {
        let place = self.api.place().await?;
        let call = Call::get(
            "/projects/{project}/aggregated/instanceGroups",
            &[&place.project],
        )
        .list();
        let found: Value = self
            .api
            .http
            .read(call.query("filter", format!("name eq {pattern}")))
            .await?;
        let mut groups = BTreeSet::new();
        for (scope, object) in found["items"].as_object().into_iter().flatten() {
            if object["warning"]["code"]
                .as_str()
                .is_some_and(|code| code != "NO_RESULTS_ON_PAGE")
            {
                return Err(Error::other(format!(
                    "the list of instance groups lacks {scope}, which did not answer"
                )));
            }
            let names = object["instanceGroups"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|instance_group| instance_group["name"].as_str());
            groups.extend(names.map(|names| (name(scope).to_owned(), names.to_owned())));
        }
        Ok(groups)
    }

    /// Returns the groups of others that serve the cluster as they are: an instance can be in one load-balanced group only.
    /// Each member is a Node (`zone:name`), or has the prefix of the cluster's instances.
    pub(super) async fn others(
        &self,
        cluster_id: &str,
        nodes: Option<&BTreeSet<String>>,
    ) -> Result<Members> {
        let config = &self.api.config;
        let own_group = group(cluster_id);
        let pattern = match &config.groups_prefix {
            _ if config.skips_groups => format!("{own_group}.*"),
            Some(prefix) => format!("{prefix}.*"),
            None => return Ok(Members::new()),
        };
        let mut keys = self.named(&pattern).await?;
        keys.retain(|(_, name)| config.skips_groups || *name != own_group);
        let mut members = self.find_all(&keys).await?;
        let prefix = Some(&*config.node_prefix).filter(|text| !text.is_empty());
        members.retain(|(zone, _), members| {
            let is_node = |text: &String| {
                nodes.is_some_and(|nodes| nodes.contains(&format!("{zone}:{text}")))
            };
            let is_all = members.iter().all(is_node);
            config.skips_groups
                || is_all
                || prefix
                    .is_some_and(|prefix| members.iter().all(|member| member.starts_with(prefix)))
        });
        Ok(members)
    }

    async fn write_group(
        &self,
        place: &Place,
        (zone, name): &GroupKey,
        group: &Group,
    ) -> Result<()> {
        if !group.exists {
            let call = place
                .all(Method::POST, GROUP, zone)
                .json(&json!({ "name": name }));
            match self.api.change(call).await {
                Err(error) if error.is_conflict() => {}
                outcome => outcome?,
            }
        }
        let url = |text: &String| json!({"instance": place.instance(zone, text)});
        let removed = group.seen.difference(&group.members);
        for (action, changed) in [
            (REMOVE, removed),
            (ADD, group.members.difference(&group.seen)),
        ] {
            let instances: Vec<Value> = changed.map(url).collect();
            if instances.is_empty() {
                continue;
            }
            let call = place
                .action(Method::POST, GROUP, action, zone, name)
                .json(&json!({ "instances": instances }));
            match self.api.change(call).await {
                // An instance that does not exist is in no group.
                Err(error) if error.is_not_found() && action == REMOVE => {}
                outcome => outcome?,
            }
        }
        Ok(())
    }

    /// Deletes the groups of the cluster. Those to which a backend service refers are an error, and stay.
    pub(super) async fn delete(&self, cluster_id: &str) -> Result<()> {
        let place = self.api.place().await?;
        let mut outcome = Ok(());
        for (zone, name) in self.named(&group(cluster_id)).await? {
            let call = place.action(Method::DELETE, GROUP, GROUP.one, &zone, &name);
            outcome = outcome.and(self.api.remove(call).await);
        }
        self.members.forget().await;
        outcome
    }
}

#[async_trait]
impl DocumentStore for Groups {
    type Key = GroupKey;
    type Document = Group;

    async fn read(&self, key: &GroupKey) -> Result<Versioned<Group>> {
        let found = self.find(key).await?;
        let exists = found.is_some();
        let seen = found.unwrap_or_default();
        Ok(Versioned {
            document: Group {
                exists,
                members: seen.clone(),
                seen,
            },
            version: None,
        })
    }

    async fn write(&self, key: &GroupKey, group: Group, _: Option<&str>) -> Result<()> {
        let place = self.api.place().await?;
        let outcome = self.write_group(&place, key, &group).await;
        self.members.forget().await;
        outcome
    }
}
