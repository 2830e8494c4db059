//! Changes of server groups and their backends.

use cloud_provider::{Error, EventSubject, Result};
use provider_kit::load_balancers::{
    Applied, Attributes, Difference, ObservedLoadBalancer, Operation, Targets, without_refused,
};
use serde_json::{Value, json};

use super::ID;
use super::apply::{Made, Work};
use super::backends::{is_unresolved, server_of};
use super::names::is_of_kubernetes;
use super::read::{created_id, list, text};
use crate::api::{ECS, NLB, Query, tag_list};
use crate::instances::AT_ONCE;

/// Backends that a CLB takes in one request.
const CLASSIC_BACKENDS: usize = 20;

impl Work<'_> {
    /// Returns backends as the API takes them.
    pub(super) fn servers<'t>(
        &self,
        pool: &str,
        targets: impl Iterator<Item = &'t str>,
        is_whole: bool,
    ) -> Vec<Value> {
        let part = self
            .spec
            .ports
            .iter()
            .find(|port| port.pool == pool)
            .map_or(pool, |port| &*port.part);
        let description = self.part_name(part);
        let server = |target: &str| {
            let mut parts = target.split(' ');
            let [weight, kind, port, id] =
                std::array::from_fn(|_| parts.next().unwrap_or_default());
            let (id, ip) = match kind {
                "eni" | "Eni" => id
                    .split_once('/')
                    .map_or((id, None), |(id, ip)| (id, Some(ip))),
                "Ip" => (id, Some(id)),
                _ => (id.split_once('.').map_or(id, |(_, id)| id), None),
            };
            let [port, weight] = [port, weight].map(|text| text.parse::<u32>().unwrap_or_default());
            let key = if self.is_network {
                "ServerType"
            } else {
                "Type"
            };
            let mut object = json!({"ServerId": id, key: kind, "Port": port});
            if let Some(ip) = ip {
                object["ServerIp"] = json!(ip);
            }
            if is_whole {
                (object["Weight"], object["Description"]) = (json!(weight), json!(description));
            }
            object
        };
        targets
            .filter(|target| !is_unresolved(target))
            .map(server)
            .collect()
    }

    pub(super) async fn send_servers(
        &self,
        action: &'static str,
        pool_id: &str,
        parameter: &str,
        servers: &[Value],
    ) -> Made {
        let (key, size) = match self.is_network {
            false => ("VServerGroupId", CLASSIC_BACKENDS),
            true => ("ServerGroupId", self.cloud.api.config.batch),
        };
        for servers in servers.chunks(size.min(self.cloud.api.config.batch)) {
            let query = |servers: &[Value]| {
                let query = Query::new(self.product(), action).set(key, pool_id);
                match self.is_network {
                    false => query.set(parameter, json!(servers).to_string()),
                    true => query.set(parameter, servers),
                }
            };
            match self.send(query(servers)).await {
                Err(error) if is_missing_server(&error) => {
                    // An instance that no longer exists is left out, so that the others are still added.
                    let existing = self.existing(servers).await?;
                    if existing.len() == servers.len() {
                        return Err(error);
                    }
                    if !existing.is_empty() {
                        self.send(query(&existing)).await?;
                    }
                }
                Err(error) if error.is_invalid() && action.starts_with("Add") => {
                    if servers.len() == 1 && !self.has_backends() {
                        return Err(error);
                    }
                    let send = async |part: Vec<Value>| self.send(query(&part)).await.map(drop);
                    for (server, error) in
                        without_refused(servers, self.has_backends(), send).await?
                    {
                        self.report_refused(&server, &error);
                    }
                }
                outcome => drop(outcome?),
            }
        }
        Ok(None)
    }

    /// Returns `true` if the load balancer has backends, so that a refused one does not mean that all are refused.
    fn has_backends(&self) -> bool {
        self.before.targets.iter().any(|(_, all)| !all.is_empty())
    }

    fn report_refused(&self, server: &Value, error: &Error) {
        let id = text(server, "ServerId");
        let place = self.id;
        let text = format!(
            "{id} is no backend of load balancer {place}, because the cloud refuses it: {error}"
        );
        let subject = EventSubject::Service(self.change.identity.service);
        self.cloud
            .events
            .warn(true, subject, "BackendRefused", &text);
    }

    /// Returns the backends whose instances exist, and those that are no instances.
    pub(super) async fn existing(&self, servers: &[Value]) -> Result<Vec<Value>> {
        let is_instance = |object: &Value| {
            ["Type", "ServerType"]
                .iter()
                .any(|key| text(object, key).eq_ignore_ascii_case("ecs"))
        };
        let ids: Vec<_> = servers
            .iter()
            .filter(|server| is_instance(server))
            .map(|server| text(server, "ServerId"))
            .collect();
        let query = Query::new(ECS, "DescribeInstances").set("InstanceIds", json!(ids).to_string());
        let answer: Value = self
            .cloud
            .api
            .read(query.set("MaxResults", AT_ONCE))
            .await?;
        let known: Vec<_> = list(&answer["Instances"], "Instance")
            .map(|instance| text(instance, "InstanceId"))
            .collect();
        let exists =
            |object: &&Value| !is_instance(object) || known.contains(&text(object, "ServerId"));
        Ok(servers.iter().filter(exists).cloned().collect())
    }

    /// Adds backends, and changes the weights of those that are there.
    pub(super) async fn add(&self, pool: &str, targets: &Targets) -> Made {
        let existing_targets = self.before.targets_of(pool);
        let old = |target: &str| {
            existing_targets
                .iter()
                .find(|text| server_of(text) == server_of(target))
                .map(str::to_owned)
        };
        let (changed, new): (Vec<&str>, Vec<&str>) =
            targets.iter().partition(|target| old(target).is_some());
        let id = self.pool_id(pool).to_owned();
        let new = self.servers(pool, new.into_iter(), true);
        let actions = match self.is_network {
            false => ["AddVServerGroupBackendServers", "BackendServers"],
            true => ["AddServersToServerGroup", "Servers"],
        };
        self.send_servers(actions[0], &id, actions[1], &new).await?;
        if changed.is_empty() {
            return Ok(None);
        }
        let whole = self.servers(pool, changed.into_iter(), true);
        match self.is_network {
            false => {
                self.send_servers("SetVServerGroupAttribute", &id, "BackendServers", &whole)
                    .await
            }
            true => {
                self.send_servers("UpdateServerGroupServersAttribute", &id, "Servers", &whole)
                    .await
            }
        }
    }

    /// Removes backends; one whose weight was changed stays.
    pub(super) async fn remove(&self, pool: &str, targets: &Targets) -> Made {
        let stay = self.after.targets_of(pool);
        let is_gone = |target: &&str| !stay.iter().any(|text| server_of(text) == server_of(target));
        self.remove_servers(pool, targets.iter().filter(is_gone))
            .await
    }

    async fn remove_servers<'t>(&self, pool: &str, targets: impl Iterator<Item = &'t str>) -> Made {
        let servers = self.servers(pool, targets, false);
        let id = self.pool_id(pool).to_owned();
        match self.is_network {
            false => {
                self.send_servers(
                    "RemoveVServerGroupBackendServers",
                    &id,
                    "BackendServers",
                    &servers,
                )
                .await
            }
            true => {
                self.send_servers("RemoveServersFromServerGroup", &id, "Servers", &servers)
                    .await
            }
        }
    }

    /// Removes the backends of a full server group that are to be removed later, so that there is room for others.
    pub(super) async fn remove_first(&self, pool: &str, error: Error) -> Result<Applied> {
        let of_pool = self
            .change
            .operations
            .iter()
            .find_map(|operation| match operation {
                Operation::RemoveTargets { pool: of, targets } if of == pool => Some(targets),
                _ => None,
            });
        let Some(targets) = of_pool else {
            return Err(error);
        };
        let mut graph = self.before.clone();
        let is_new = |target: &str| {
            self.after.targets_of(pool).iter().any(|targets_of| {
                targets_of != target && server_of(targets_of) == server_of(target)
            })
        };
        let gone: Targets = targets.iter().filter(|target| !is_new(target)).collect();
        self.remove_servers(pool, gone.iter()).await?;
        let stay: Targets = graph
            .targets_of(pool)
            .iter()
            .filter(|targets_of| !gone.contains(targets_of))
            .collect();
        graph.targets.insert(pool.to_owned(), stay);
        let observed = self.change.actual.cloned().unwrap_or_default();
        Ok(Applied::PlanAgain(Box::new(ObservedLoadBalancer {
            graph: Some(graph),
            ..observed
        })))
    }

    /// Creates a server group; that of a CLB with its first backends.
    pub(super) async fn create_pool(&self, pool: &str, settings: &Attributes) -> Result<Applied> {
        if is_of_user(pool) {
            return self.use_pool(pool).await;
        }
        if !self.is_network {
            let targets = match self.change.operations.get(1) {
                Some(Operation::AddTargets { pool: of, targets }) if of == pool => targets.clone(),
                _ => Targets::default(),
            };
            let first: Targets = targets.iter().take(CLASSIC_BACKENDS).collect();
            let query = self
                .query("CreateVServerGroup")
                .set("VServerGroupName", self.part_name(pool));
            let servers = json!(self.servers(pool, first.iter(), true)).to_string();
            let servers = (!first.is_empty()).then_some(servers);
            let (answer, first) = match self
                .cloud
                .api
                .create(query.clone().set("BackendServers", servers))
                .await
            {
                // The backends are added afterwards, without the one that no longer exists.
                Err(error)
                    if is_missing_server(&error) || error.is_invalid() && !first.is_empty() =>
                {
                    (self.cloud.api.create(query).await?, Targets::default())
                }
                answer => (answer?, first),
            };
            let id = Some(created_id(&answer, "VServerGroupId")?);
            let is_whole = !first.is_empty() && first.len() == targets.len();
            return Ok(match self.shown(1 + usize::from(is_whole), id) {
                Applied::Shown(_, mut observed) if !is_whole && !first.is_empty() => {
                    let graph = observed.graph.get_or_insert_default();
                    graph.targets.insert(pool.to_owned(), first);
                    Applied::PlanAgain(observed)
                }
                applied => applied,
            });
        }
        let tags = self.group_tags();
        let query =
            Query::new(NLB, "CreateServerGroup").set("ServerGroupName", self.part_name(pool));
        let query = query
            .fields(settings.nested())
            .set("VpcId", self.cloud.api.metadata.vpc().await?);
        let query = query
            .set("ResourceGroupId", &self.cloud.api.config.resource_group)
            .set("Tag", tag_list(&tags));
        let answer = self.cloud.api.create(query).await?;
        let answer = self.cloud.api.wait(answer).await?;
        Ok(self.shown(1, Some(created_id(&answer, "ServerGroupId")?)))
    }

    pub(super) async fn update_pool(
        &self,
        pool: &str,
        settings: &Attributes,
        changes: &[Difference],
    ) -> Made {
        if !self.is_network {
            return Ok(None);
        }
        let is_sent = |key: &str| {
            changes.iter().any(|difference| {
                difference.key == key
                    || key.starts_with("HealthCheckConfig")
                        && difference.key.starts_with("HealthCheckConfig")
            })
        };
        let query =
            Query::new(NLB, "UpdateServerGroupAttribute").set("ServerGroupId", self.pool_id(pool));
        self.send(query.fields(settings.clone().matching(is_sent).nested()))
            .await
    }

    /// Finds a server group of the user. Its backends of the Service are planned next.
    pub(super) async fn use_pool(&self, pool: &str) -> Result<Applied> {
        let wrong = |text: &str| {
            let key = crate::annotations::GROUPS.key();
            Error::invalid(format!(
                "annotation {key}: server group {pool} {text}; name a server group of yours"
            ))
        };
        let Some(share) = &self.share else {
            return Err(wrong("needs a load balancer of yours"));
        };
        let found = self
            .cloud
            .group_of_user(self.is_network, pool, share)
            .await?;
        let found = found.ok_or_else(|| wrong("does not exist"))?;
        if is_of_kubernetes(self.kind, &found.name) {
            return Err(wrong("was created by Kubernetes"));
        }
        let is_free = self.is_network && found.balancers.is_empty();
        if !is_free && !found.balancers.iter().any(|id| id == self.id) {
            return Err(wrong(&format!("is not of load balancer {}", self.id)));
        }
        let mut observed = self.change.actual.cloned().unwrap_or_default();
        let graph = observed.graph.take().unwrap_or_default();
        observed.graph = Some(graph.pool(
            pool,
            Attributes::default().set(ID, pool),
            Some(found.targets),
        ));
        Ok(Applied::PlanAgain(Box::new(observed)))
    }
}

/// Returns `true` if a backend was refused because its instance does not exist.
fn is_missing_server(error: &Error) -> bool {
    [
        "ObtainIpFail",
        "ResourceNotFound.server",
        "InvalidInstanceId.NotFound",
    ]
    .contains(&error.code())
}

/// Returns `true` for the ID of a server group of the user; pools of the cluster are named for their port.
pub(super) fn is_of_user(pool: &str) -> bool {
    pool.starts_with("rsp-") || pool.starts_with("sgp-")
}
