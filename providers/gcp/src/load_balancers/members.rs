//! The instances of load balancers: members of target pools and of instance groups.

use std::collections::{BTreeMap, BTreeSet};

use cloud_provider::{Error, Result};
use provider_kit::load_balancers::{Machines, Operation, ResourceKey, Targets};
use provider_kit::transport::{Call, Method};
use serde_json::{Value, json};

use super::apply::Session;
use super::objects::{Pool, body, service_description};
use super::{Attributes, snapshot};
use crate::api::{BACKEND_SERVICE, Kind, Place, TARGET_POOL, name};

/// Most instances with which a target pool is created, and most of one change.
const AT_CREATION: usize = 200;
const AT_ONCE: usize = 1000;
const ADD: &str = "/projects/{project}/regions/{region}/targetPools/{name}/addInstance";
const REMOVE: &str = "/projects/{project}/regions/{region}/targetPools/{name}/removeInstance";

impl Session<'_> {
    /// Creates a pool with these targets, without those whose instances do not exist, and returns its operation.
    pub(super) async fn create_pool(
        &mut self,
        kind: Kind,
        name: &str,
        settings: &Attributes,
        targets: &Targets,
    ) -> Result<Option<String>> {
        let refused = match self.begin_pool(kind, name, settings, targets).await {
            Err(refused) if refused.is_not_found() || refused.is_invalid() => refused,
            outcome => return outcome,
        };
        let existing = self.existing(targets, &refused).await?;
        if existing.is_empty() {
            return Err(refused);
        }
        let operation = self.begin_pool(kind, name, settings, &existing).await?;
        self.leave_out(targets.without(&existing));
        Ok(operation)
    }

    fn leave_out(&mut self, targets: Targets) {
        if targets.is_empty() {
            return;
        }
        self.cloud
            .warn_of_left_out(&targets, self.change.identity.service);
        self.left_out = targets;
    }

    async fn begin_pool(
        &mut self,
        kind: Kind,
        name: &str,
        settings: &Attributes,
        targets: &Targets,
    ) -> Result<Option<String>> {
        let call = self.new_pool(kind, name, settings, targets).await?;
        self.cloud.api.begin(call).await
    }

    /// Returns the targets whose instances exist; there may be none.
    ///
    /// # Errors
    /// The refusal of the targets, if it has another reason than an instance that does not exist.
    async fn existing(&self, targets: &Targets, refused: &Error) -> Result<Targets> {
        let known = Machines::ids(self.cloud.instances.source()).await?;
        let known: BTreeSet<_> = known.iter().filter_map(super::target).collect();
        let existing: Targets = targets
            .iter()
            .filter(|target| known.contains(*target))
            .collect();
        // A group is written for several Services at a time: the instance may be a target of another one.
        let is_of_others = refused.is_not_found() && existing.len() == targets.len();
        let is_about_one = is_of_others || existing.len() < targets.len();
        if is_about_one {
            Ok(existing)
        } else {
            Err(refused.clone())
        }
    }

    /// Returns the request for a new pool with these targets: a target pool takes the first of them, a backend service all.
    async fn new_pool(
        &mut self,
        kind: Kind,
        name: &str,
        settings: &Attributes,
        targets: &Targets,
    ) -> Result<Call> {
        let mut body = body(name, settings);
        if kind == TARGET_POOL {
            self.created = targets.iter().take(AT_CREATION).collect();
            body["instances"] = self
                .created
                .iter()
                .map(|target| self.instance(target))
                .collect();
            body["description"] = service_description(&self.spec.service).into();
        } else {
            self.created = targets.clone();
            body["backends"] = self.fill_groups(targets).await?.into();
        }
        self.expand_checks(&mut body);
        Ok(self.place.all(Method::POST, kind, "").json(&body))
    }

    pub(super) fn targets_to_add(&self, resource: &ResourceKey) -> Targets {
        let of = self
            .change
            .operations
            .iter()
            .find_map(|operation| match (operation, resource) {
                (Operation::AddTargets { pool, targets }, ResourceKey::Pool(name))
                    if pool == name =>
                {
                    Some(targets.clone())
                }
                _ => None,
            });
        of.unwrap_or_default()
    }

    /// Returns the URL of the instance that a target is.
    fn instance(&self, target: &str) -> String {
        let (zone, name) = target.split_once(':').unwrap_or_default();
        self.place.instance(zone, name)
    }

    pub(super) async fn add(&mut self, pool: &str, targets: &Targets) -> Result<()> {
        let rest = targets.without(&self.created).without(&self.left_out);
        if rest.is_empty() {
            return Ok(());
        }
        let refused = match self.add_all(pool, &rest).await {
            Err(refused) if refused.is_not_found() || refused.is_invalid() => refused,
            outcome => return outcome,
        };
        // The Node of an instance that does not exist must not keep others from being served.
        let existing = self.existing(&rest, &refused).await?;
        self.leave_out(rest.without(&existing));
        if existing.is_empty() {
            return Ok(());
        }
        self.add_all(pool, &existing).await
    }

    async fn add_all(&mut self, pool: &str, targets: &Targets) -> Result<()> {
        if pool.starts_with(TARGET_POOL.word) {
            return self.change_instances(ADD, pool, targets).await;
        }
        let all = self
            .graph()
            .map(|graph| graph.targets_of(pool))
            .unwrap_or_default()
            .with(targets);
        let backends = self.fill_groups(&all).await?;
        let service: Pool = match self
            .cloud
            .api
            .find(self.place, BACKEND_SERVICE, name(pool))
            .await?
        {
            Some(service) => service,
            None => {
                return Err(Error::conflict(format!(
                    "backend service {} does not exist any more",
                    name(pool)
                )));
            }
        };
        let known: BTreeSet<_> = service
            .backends
            .iter()
            .filter_map(|backend| snapshot::group_key(&backend.group))
            .collect();
        let has = |object: &Value| {
            object["group"]
                .as_str()
                .and_then(snapshot::group_key)
                .is_some_and(|group_key| known.contains(&group_key))
        };
        if backends.iter().all(has) {
            return Ok(());
        }
        let body = json!({"backends": backends, "fingerprint": service.fingerprint});
        self.begin(
            self.place
                .one(Method::PATCH, BACKEND_SERVICE, name(pool))
                .json(&body),
        )
        .await
    }

    pub(super) async fn remove(&mut self, pool: &str, targets: &Targets) -> Result<()> {
        if pool.starts_with(TARGET_POOL.word) {
            return self.change_instances(REMOVE, pool, targets).await;
        }
        for (zone, names) in by_zone(targets) {
            self.edit_group(zone, move |members| {
                members.retain(|member| !names.contains(member));
            })
            .await?;
        }
        Ok(())
    }

    async fn change_instances(
        &mut self,
        path: &'static str,
        pool: &str,
        targets: &Targets,
    ) -> Result<()> {
        let all: Vec<Value> = targets
            .iter()
            .map(|target| json!({"instance": self.instance(target)}))
            .collect();
        for some in all.chunks(AT_ONCE) {
            let call = self
                .place
                .action(Method::POST, TARGET_POOL, path, "", name(pool));
            self.begin(call.json(&json!({ "instances": some }))).await?;
        }
        Ok(())
    }

    async fn edit_group(
        &self,
        zone: String,
        edit: impl Fn(&mut BTreeSet<String>) + Send + Sync + 'static,
    ) -> Result<()> {
        let edit = move |group: &mut super::groups::Group| {
            edit(&mut group.members);
            Ok(())
        };
        self.cloud
            .groups
            .edit(&(zone, self.names.group()), edit)
            .await
            .map(drop)
    }

    /// Adds instances to the groups of their zones, unless a group of others has them, and returns all groups as backends of
    /// a backend service. Members that are no Nodes of the cluster any more are removed: a new load balancer would send
    /// traffic to them.
    async fn fill_groups(&self, targets: &Targets) -> Result<Vec<Value>> {
        let nodes = self.cloud.balanced_nodes();
        let zones = by_zone(targets);
        let mut others = self
            .cloud
            .groups
            .store()
            .others(&self.names.cluster_id, nodes.as_ref())
            .await?;
        others.retain(|(zone, _), _| zones.contains_key(zone));
        let mut groups: BTreeSet<_> = others.keys().cloned().collect();
        for (zone, mut names) in zones
            .into_iter()
            .filter(|_| !self.cloud.api.config.skips_groups)
        {
            names.retain(|name| {
                !others
                    .iter()
                    .any(|((other, _), members)| *other == zone && members.contains(name))
            });
            if names.is_empty() {
                continue;
            }
            groups.insert((zone.clone(), self.names.group()));
            let nodes = nodes.clone();
            let prefix = format!("{zone}:");
            let edit = move |members: &mut BTreeSet<String>| {
                members.retain(|member| {
                    nodes
                        .as_ref()
                        .is_none_or(|nodes| nodes.contains(&(prefix.clone() + member)))
                });
                members.extend(names.iter().cloned());
            };
            self.edit_group(zone, edit).await?;
        }
        let Place { base, project, .. } = self.place;
        let url =
            |(zone, name)| format!("{base}/projects/{project}/zones/{zone}/instanceGroups/{name}");
        Ok(groups
            .into_iter()
            .map(|key| json!({"group": url(key)}))
            .collect())
    }
}

fn by_zone(targets: &Targets) -> BTreeMap<String, BTreeSet<String>> {
    let mut zones: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (zone, name) in targets.iter().filter_map(|target| target.split_once(':')) {
        zones
            .entry(zone.to_owned())
            .or_default()
            .insert(name.to_owned());
    }
    zones
}
