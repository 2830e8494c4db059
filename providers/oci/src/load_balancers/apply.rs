//! Changes of a load balancer: the order of requests, and the handling of answers.

use std::collections::BTreeSet;

use cloud_provider::{Error, Result};
use provider_kit::load_balancers::{
    Applied, Attributes, Change, Identity, ObservedLoadBalancer, Operation, POOL, Port,
    ResourceGraph, ResourceKey, State,
};
use provider_kit::transport::Call;
use serde_json::{Value, json};

use super::create::is_missing_target;
use super::objects::{Form, RULES, backends, local};
use super::security::Rule;
use super::spec::LoadBalancerSpec;
use super::work::{busy, named};
use super::{LoadBalancers, desired, groups, security};

/// The settings of a load balancer that one request changes, in the order of the requests: shape, groups, families,
/// and the mode of security rules.
const UPDATES: [&[&str]; 4] = [
    &["shapeName", "shapeDetails"],
    &["networkSecurityGroupIds"],
    &["ipMode", "nlbIpVersion"],
    &[RULES],
];

/// The settings of backends that users set in the cloud, of both kinds of load balancers.
const SETTINGS_OF_BACKENDS: [&str; 8] = [
    "weight",
    "maxConnections",
    "backup",
    "drain",
    "offline",
    "isBackup",
    "isDrain",
    "isOffline",
];

impl LoadBalancers {
    pub(super) async fn carry_out(
        &self,
        change: Change<'_>,
        spec: &LoadBalancerSpec,
    ) -> Result<Applied> {
        let Some(actual) = change.actual else {
            return self.create(change, spec).await;
        };
        if change
            .operations
            .iter()
            .any(|operation| operation.deletes(|resource| *resource == ResourceKey::Balancer))
        {
            return self.remove(change, actual, spec).await;
        }
        if actual
            .graph
            .as_ref()
            .is_none_or(|graph| graph.balancer_attributes().is_none())
        {
            return match change
                .outcome_of_all()
                .and_then(|load_balancer| load_balancer.graph)
            {
                // The group of a load balancer that was never created, or no longer exists.
                Some(graph) if graph.balancer_attributes().is_some() => {
                    self.create(change, spec).await
                }
                _ => match self
                    .groups
                    .delete(&actual.id, change.identity.uid())
                    .await?
                {
                    true => Ok(Applied::Removed),
                    false => Ok(Applied::Gone),
                },
            };
        }
        self.update(change, actual, spec)
            .await
            .map_err(|error| self.refused(error, &actual.id))
    }

    /// Notes that a work request of another program is in the way, if that is the error.
    pub(super) fn refused(&self, error: Error, id: &str) -> Error {
        // The API of network load balancers has a code of its own.
        if error.code() != "IncorrectState"
            && (error.code() != "Conflict" || !Form::of_id(id).is_network())
        {
            return error;
        }
        self.work.begin(id, String::new(), "");
        busy(id)
    }

    /// Returns a backend set with its backends.
    pub(super) fn set(
        &self,
        graph: &ResourceGraph,
        name: &str,
        settings: &Attributes,
        spec: &LoadBalancerSpec,
    ) -> Value {
        let nodes = self
            .cluster
            .nodes()
            .filter(|_| spec.is_network())
            .unwrap_or_default();
        let mut set = settings.nested();
        set["backends"] = backends(&graph.targets_of(name), &desired::instances(&nodes)).into();
        set
    }

    /// Keeps what a user set on backends that stay, such as a weight: the request replaces all backends.
    async fn keep_settings_of_backends(
        &self,
        form: &Form,
        id: &str,
        pool: &str,
        set: &mut Value,
    ) -> Result<()> {
        let existing_object: Option<Value> = form
            .http(&self.api)
            .find(Call::get(form.set, &[id, pool]))
            .await?;
        let existing_settings = existing_object
            .as_ref()
            .and_then(|object| object["backends"].as_array())
            .into_iter()
            .flatten();
        let place = |object: &Value| (object["ipAddress"].clone(), object["port"].clone());
        let known: Vec<_> = existing_settings
            .map(|object| (place(object), object))
            .collect();
        for backend in set["backends"].as_array_mut().into_iter().flatten() {
            let Some((_, existing_backend)) =
                known.iter().find(|(known, _)| *known == place(backend))
            else {
                continue;
            };
            for key in SETTINGS_OF_BACKENDS
                .iter()
                .filter(|key| !existing_backend[**key].is_null())
            {
                backend[*key] = existing_backend[*key].clone();
            }
        }
        Ok(())
    }

    /// Creates the load balancer's own network security group, and writes its rules.
    pub(super) async fn ensure_group(
        &self,
        identity: &Identity<'_>,
        spec: &LoadBalancerSpec,
        graph: &ResourceGraph,
    ) -> Result<String> {
        let compartment = self.compartment(identity.service).await?;
        let vcn = self.vcn(spec).await?;
        let (own_group, rules) = self.groups.ensure(identity, &compartment, &vcn).await?;
        let wanted = graph
            .resources
            .get(&groups::resource())
            .cloned()
            .unwrap_or_default();
        self.groups
            .write(&own_group, identity.uid(), &wanted, Some(&rules))
            .await?;
        Ok(own_group)
    }

    async fn update(
        &self,
        change: Change<'_>,
        actual: &ObservedLoadBalancer,
        spec: &LoadBalancerSpec,
    ) -> Result<Applied> {
        let form = Form::of_id(&actual.id);
        let id = &*actual.id;
        let operations = change.operations;
        let seen = actual.graph.clone().unwrap_or_default();
        if let Some(applied) = self.update_rules(change, actual).await? {
            return Ok(applied);
        }
        let first = &operations[0];
        let mut count = 1;
        match first {
            Operation::Tag => return self.tag(change, actual, spec).await,
            Operation::Untag => return self.release(change, actual, spec).await,
            _ if first.resource() == Some(&groups::resource()) => {
                return self.update_group(change, actual, spec).await;
            }
            _ if first.resource() == Some(&ResourceKey::Balancer) => {
                return self.update_balancer(change, actual).await;
            }
            _ => match pool_of(first).filter(|_| !first.deletes(|_| true)) {
                Some(pool) => {
                    // Rules for ports of old targets are removed while the load balancer still shows these ports.
                    let has_rules = operations
                        .iter()
                        .any(|operation| operation.resource() == Some(&security::resource()));
                    let is_together = |operation: &&Operation| {
                        let removes = matches!(operation, Operation::RemoveTargets { .. });
                        pool_of(operation) == Some(pool)
                            && !operation.deletes(|_| true)
                            && !(has_rules && removes && *operation != first)
                    };
                    count = operations.iter().take_while(is_together).count();
                    let after = change
                        .outcome(count)
                        .and_then(|load_balancer| load_balancer.graph)
                        .unwrap_or_default();
                    let settings = after.pool_attributes(pool).cloned().unwrap_or_default();
                    let mut set = self.set(&after, pool, &settings, spec);
                    let is_new = matches!(first, Operation::Create { .. });
                    if !is_new {
                        self.keep_settings_of_backends(form, id, pool, &mut set)
                            .await?;
                    }
                    let paths = [form.sets, form.set];
                    match self
                        .write_part(form, id, is_new, paths, (pool, set.clone()))
                        .await
                    {
                        Err(error) if is_missing_target(&error) && form.is_network() => {
                            let mut sets = json!({ pool: set });
                            self.forget_missing_targets(&mut sets).await?;
                            self.write_part(form, id, is_new, paths, (pool, sets[pool].take()))
                                .await?;
                        }
                        outcome => outcome?,
                    }
                }
                None => self.change_part(form, id, first, &seen, spec).await?,
            },
        }
        let outcome = change.outcome(count).unwrap_or_default();
        Ok(Applied::Shown(
            count,
            Box::new(ObservedLoadBalancer {
                state: State::Busy,
                ..outcome
            }),
        ))
    }

    /// Writes rules of security lists when it is their time; `None` if it is not. New rules come first of all. Surplus
    /// rules go before the load balancer stops showing the port that they are for, by which they are found.
    async fn update_rules(
        &self,
        change: Change<'_>,
        actual: &ObservedLoadBalancer,
    ) -> Result<Option<Applied>> {
        let is_this_operation =
            |operation: &&Operation| operation.resource() == Some(&security::resource());
        let Some(operation) = change.operations.iter().find(is_this_operation) else {
            return Ok(None);
        };
        let wanted = match operation {
            Operation::Create { attributes, .. } | Operation::Update { attributes, .. } => {
                Some(attributes)
            }
            _ => None,
        };
        let mut graph = actual.graph.clone().unwrap_or_default();
        let wanted = security::rules(wanted);
        let seen = security::rules(graph.resources.get(&security::resource()));
        let difference = |a: &BTreeSet<Rule>, b| a.difference(b).cloned().collect::<BTreeSet<_>>();
        let add = difference(&wanted, &seen);
        let remove = difference(&seen, &wanted);
        let first = &change.operations[0];
        let hides_port = match first {
            Operation::RemoveTargets { .. } | Operation::Delete { .. } => true,
            Operation::Update {
                resource: ResourceKey::Pool(_),
                changes,
                ..
            } => changes
                .iter()
                .any(|difference| difference.key == "healthChecker.port"),
            // The rules of another mode are found by the tag.
            Operation::Update {
                resource: ResourceKey::Balancer,
                changes,
                ..
            } => changes.iter().any(|difference| difference.key == RULES),
            _ => is_this_operation(&first),
        };
        let (rules, count) = match () {
            () if !add.is_empty() => (&wanted | &seen, 0),
            () if hides_port => (wanted, usize::from(is_this_operation(&first))),
            () => return Ok(None),
        };
        let remove = if add.is_empty() {
            remove
        } else {
            BTreeSet::new()
        };
        self.lists
            .write(change.identity.service, false, &add, &remove)
            .await?;
        graph.resources.remove(&security::resource());
        if !rules.is_empty() {
            graph
                .resources
                .insert(security::resource(), security::settings(&rules));
        }
        let shown = Box::new(ObservedLoadBalancer {
            graph: Some(graph),
            ..actual.clone()
        });
        Ok(Some(if count == 1 {
            Applied::Shown(1, shown)
        } else {
            Applied::PlanAgain(shown)
        }))
    }

    pub(super) async fn send(&self, form: &Form, id: &str, call: Call) -> Result<()> {
        let is_deletion = call.route().starts_with("DELETE");
        let answer = match form.http(&self.api).send(call).await {
            Err(error) if is_deletion && error.is_not_found() => return Ok(()),
            answer => answer?,
        };
        let request = named(&answer);
        if !request.is_empty() {
            self.work.begin(id, request, "UPDATE");
        }
        Ok(())
    }

    async fn write_part(
        &self,
        form: &Form,
        id: &str,
        is_new: bool,
        [all, one]: [&'static str; 2],
        (name, mut part): (&str, Value),
    ) -> Result<()> {
        let call = if is_new {
            part["name"] = name.into();
            Call::post(all, &[id])
        } else {
            Call::put(one, &[id, name])
        };
        self.send(form, id, call.json(&part)).await
    }

    /// Creates, changes or deletes a listener, a certificate or a rule set, or deletes a backend set.
    pub(super) async fn change_part(
        &self,
        form: &Form,
        id: &str,
        operation: &Operation,
        seen: &ResourceGraph,
        spec: &LoadBalancerSpec,
    ) -> Result<()> {
        const CERTIFICATES: &str = "/20170115/loadBalancers/{id}/certificates";
        const CERTIFICATE: &str = "/20170115/loadBalancers/{id}/certificates/{name}";
        const RULE_SETS: [&str; 2] = [
            "/20170115/loadBalancers/{id}/ruleSets",
            "/20170115/loadBalancers/{id}/ruleSets/{name}",
        ];
        let Some(resource) = operation.resource() else {
            return Ok(());
        };
        let settings = match operation {
            Operation::Create { attributes, .. } | Operation::Update { attributes, .. } => {
                Some(attributes)
            }
            _ => None,
        };
        let is_new = matches!(operation, Operation::Create { .. });
        let (paths, part) = match (resource, settings) {
            (ResourceKey::Listener(port), Some(settings)) => (
                [form.listeners, form.listener],
                listener(port, settings, spec),
            ),
            (ResourceKey::CreatedBefore(it), Some(settings)) if it.kind == "rule set" => {
                (RULE_SETS, (it.name.clone(), settings.nested()))
            }
            (ResourceKey::CreatedBefore(it), Some(_)) => {
                let (body, secrets) = self.certificates.body(&it.name, spec).await?;
                let call = Call::post(CERTIFICATES, &[id]).json(&body);
                return self
                    .send(form, id, secrets.into_iter().fold(call, Call::hide))
                    .await;
            }
            (ResourceKey::Listener(port), None) => {
                let (name, _) = listener(
                    port,
                    seen.resources
                        .get(resource)
                        .unwrap_or(&Attributes::default()),
                    spec,
                );
                return self
                    .send(form, id, Call::delete(form.listener, &[id, &name]))
                    .await;
            }
            (ResourceKey::Pool(name), _) => {
                return self
                    .send(form, id, Call::delete(form.set, &[id, name]))
                    .await;
            }
            (ResourceKey::CreatedBefore(it), None) => {
                let path = if it.kind == "rule set" {
                    RULE_SETS[1]
                } else {
                    CERTIFICATE
                };
                return self
                    .send(form, id, Call::delete(path, &[id, &it.name]))
                    .await;
            }
            _ => return Ok(()),
        };
        self.write_part(form, id, is_new, paths, (&part.0, part.1))
            .await
    }

    /// Changes settings of the load balancer itself, one request at a time.
    async fn update_balancer(
        &self,
        change: Change<'_>,
        actual: &ObservedLoadBalancer,
    ) -> Result<Applied> {
        let form = Form::of_id(&actual.id);
        let id = &*actual.id;
        let outcome = change.outcome(1).unwrap_or_default();
        let after = outcome
            .graph
            .as_ref()
            .and_then(ResourceGraph::balancer_attributes)
            .cloned()
            .unwrap_or_default();
        let is_in = |key: &str, keys: &[&str]| keys.iter().any(|prefix| key.starts_with(prefix));
        let changes = change.operations[0].changes();
        let number = UPDATES
            .iter()
            .position(|keys| {
                changes
                    .iter()
                    .any(|difference| is_in(&difference.key, keys))
            })
            .unwrap_or(2);
        let done = UPDATES[number];
        let mut body = after.clone().matching(|key| is_in(key, done)).nested();
        let path = match number {
            0 => "/20170115/loadBalancers/{id}/updateShape",
            1 => {
                body["networkSecurityGroupIds"] = group_ids(&after, groups::own(actual))?;
                form.groups
            }
            3 => {
                let mut labels = local(&actual.labels);
                labels.extend(
                    after
                        .text(RULES)
                        .map(|mode| (RULES.to_owned(), mode.to_owned())),
                );
                body = json!({ "freeformTags": change.identity.owner_tags().among(labels) });
                form.one
            }
            _ => form.one,
        };
        self.send(form, id, Call::put(path, &[id]).json(&body))
            .await?;
        if changes
            .iter()
            .all(|difference| is_in(&difference.key, done))
        {
            return Ok(Applied::Shown(
                1,
                Box::new(ObservedLoadBalancer {
                    state: State::Busy,
                    ..outcome
                }),
            ));
        }
        let graph = actual.graph.clone().unwrap_or_default();
        let before = graph.balancer_attributes().cloned().unwrap_or_default();
        let changed = after.iter().filter(|(key, _)| is_in(key, done));
        let settings = changed.fold(before, |all, (key, value)| all.set(key.to_owned(), value));
        let graph = Some(graph.balancer(settings));
        Ok(Applied::PlanAgain(Box::new(ObservedLoadBalancer {
            graph,
            state: State::Busy,
            ..actual.clone()
        })))
    }
}

/// Returns the groups of a load balancer: those in its settings, which a user chose, and its own.
pub(super) fn group_ids(settings: &Attributes, own_group: Option<&str>) -> Result<Value> {
    let chosen = settings
        .get("networkSecurityGroupIds")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let ids: Vec<_> = chosen.filter_map(Value::as_str).chain(own_group).collect();
    if ids.len() > 5 {
        return Err(Error::invalid(format!(
            "the load balancer would be in {} network security groups, one of them its own; at most 5 are possible",
            ids.len()
        )));
    }
    Ok(json!(ids))
}

/// Returns the pool of an operation.
fn pool_of(operation: &Operation) -> Option<&str> {
    match (operation.targets_of(), operation.resource()) {
        (Some(pool), _) => Some(pool),
        (None, Some(ResourceKey::Pool(pool))) => Some(pool),
        _ => None,
    }
}

/// Returns the name of a listener, and the listener in the form of the API.
pub(super) fn listener(
    port: &Port,
    settings: &Attributes,
    spec: &LoadBalancerSpec,
) -> (String, Value) {
    let wanted = spec
        .ports
        .iter()
        .find(|other_port| other_port.number == port.number)
        .filter(|_| !spec.is_network());
    let protocol = wanted.map_or(&*port.protocol, |port| port.protocol);
    let (protocol, suffix) = protocol
        .split_once('-')
        .map_or((protocol, ""), |(protocol, _)| (protocol, "-IPv6"));
    let name = settings.text("name").map_or_else(
        || format!("{protocol}-{}{suffix}", port.number),
        str::to_owned,
    );
    let mut listener = settings
        .clone()
        .matching(|key| ![POOL, "name"].contains(&key))
        .nested();
    listener["port"] = port.number.into();
    listener["defaultBackendSetName"] = settings.text(POOL).into();
    (name, listener)
}
