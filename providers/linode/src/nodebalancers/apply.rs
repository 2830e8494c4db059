//! Changes of a NodeBalancer: the order of requests, and the handling of answers.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use cloud_provider::{Error, EventSubject, Result};
use provider_kit::load_balancers::{
    Applied, Attributes, Change, Identity, ObservedLoadBalancer, Operation, OwnerTags, Port,
    ResourceGraph, ResourceKey, Targets, check_account,
};
use provider_kit::text_tags::ADOPTED;
use provider_kit::transport::Call;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value, json};

use super::object::{Backend, FRONTEND, NodeBalancer, OWNER_TAGS, POOL};
use super::spec::{NodeBalancerSpec, PortSpec, Subnet};
use super::{ALL, CONFIGS, NodeBalancers, ONE, firewall};
use crate::annotations as key;

/// Settings that the engine compares, but that are not fields of the request.
const COMPARED: [&str; 3] = [
    provider_kit::load_balancers::POOL,
    "node_port",
    "ssl_fingerprint",
];

impl NodeBalancers {
    pub(super) async fn carry_out(
        &self,
        change: Change<'_>,
        spec: &NodeBalancerSpec,
    ) -> Result<Applied> {
        let Some(actual) = change.actual else {
            return self.create(change, spec).await;
        };
        if let Some(firewall) = firewall::left(&actual.id) {
            firewall::delete_unused(&self.source.api, firewall).await?;
            return Ok(Applied::Removed);
        }
        if change
            .operations
            .iter()
            .any(|operation| operation.deletes(|resource| *resource == ResourceKey::Balancer))
        {
            return self.remove(actual, change.identity, spec).await;
        }
        if change.operations.contains(&Operation::Untag) {
            return self.release(actual, change.identity, spec).await;
        }
        self.update(change, actual, spec).await
    }

    /// Creates a NodeBalancer with its ports and backends in one request. With an ACL, the ports are added after the
    /// firewall is attached, so that no traffic bypasses the ACL.
    async fn create(&self, change: Change<'_>, spec: &NodeBalancerSpec) -> Result<Applied> {
        let identity = change.identity;
        let graph = change
            .outcome_of_all()
            .and_then(|outcome| outcome.graph)
            .unwrap_or_default();
        if self.cluster.nodes().is_none_or(|nodes| nodes.is_empty()) {
            return Err(Error::other(
                "no nodes available: a NodeBalancer is created when the cluster has a Node",
            ));
        }
        self.check_account(&graph, spec).await?;
        let settings = graph.balancer_attributes().cloned().unwrap_or_default();
        let tags = self.tags(identity.cluster, spec);
        let mut body = settings
            .clone()
            .matching(|setting| setting != FRONTEND)
            .nested();
        body["label"] = identity.name.as_str().into();
        body["tags"] = json!(OWNER_TAGS.among(&identity.owner_tags(), tags));
        let subnet = self.backend_subnet(spec).await?;
        if let Some(subnet) = self.backend_range(spec, subnet).await? {
            body["vpcs"] = json!([subnet]);
        }
        if let Some(id) = self.frontend_subnet(spec).await? {
            let ranges = [
                ("ipv4_range", spec.frontend.range),
                ("ipv6_range", spec.frontend_v6),
            ];
            let mut entry = json!({ "subnet_id": id });
            for (key, range) in ranges
                .into_iter()
                .filter_map(|(key, range)| Some((key, range?)))
            {
                entry[key] = range.to_string().into();
            }
            body["frontend_vpcs"] = json!([entry]);
        }
        let mut configs = Vec::new();
        let mut secrets = Vec::new();
        if spec.acl.is_none() {
            for (port, settings) in graph.listeners() {
                let (mut config, secret) = self.config(identity, port, settings, spec).await?;
                config["nodes"] = self.nodes(&graph, (port, settings), spec, subnet, &[]);
                configs.push(config);
                secrets.extend(secret);
            }
        }
        body["configs"] = configs.into();
        let call = secrets
            .into_iter()
            .fold(Call::post(ALL, &[]).json(&body), Call::hide);
        let made: NodeBalancer = self.source.api.http.read(call).await?;
        let made = made.into_actual();
        if let Some(firewall) = spec.firewall_id {
            self.named_firewalls
                .lock()
                .insert(made.id.clone(), firewall);
        }
        if spec.acl.is_none() {
            return Ok(Applied::all(
                change,
                ObservedLoadBalancer {
                    graph: Some(graph),
                    ..made
                },
            ));
        }
        let mut begun = ResourceGraph::default().balancer(settings).pool(
            POOL,
            Attributes::default(),
            Some(Targets::default()),
        );
        if let Some(settings) = graph.resources.get(&firewall::resource()) {
            firewall::create(&self.source.api, identity, &made.id, &made.name, settings).await?;
            begun = begun.resource(firewall::resource(), settings.clone());
        }
        Ok(Applied::PlanAgain(Box::new(ObservedLoadBalancer {
            graph: Some(begun),
            ..made
        })))
    }

    /// Checks that the token is for the account of the Nodes: a NodeBalancer in another account would not be found
    /// again.
    async fn check_account(&self, graph: &ResourceGraph, spec: &NodeBalancerSpec) -> Result<()> {
        let targets = graph.targets_of(POOL);
        let mut nodes = self.cluster.nodes().unwrap_or_default();
        nodes.retain(|node| {
            spec.backend_address(node, &self.config)
                .is_some_and(|backend_address| targets.contains(&backend_address))
        });
        check_account(
            &self.source,
            nodes,
            "set LINODE_API_TOKEN to a token of the account that has them",
        )
        .await
    }

    async fn update(
        &self,
        change: Change<'_>,
        actual: &ObservedLoadBalancer,
        spec: &NodeBalancerSpec,
    ) -> Result<Applied> {
        let identity = change.identity;
        let api = &self.source.api;
        let before = actual.graph.clone().unwrap_or_default();
        let outcome = change.outcome_of_all();
        let Some(outcome) = outcome else {
            return Ok(Applied::all(change, actual.clone()));
        };
        let after = outcome.graph.clone().unwrap_or_default();
        let settings = after.balancer_attributes().cloned().unwrap_or_default();
        let changes: Vec<_> = change
            .operations
            .iter()
            .flat_map(Operation::changes)
            .collect();
        let changes_balancer = |key: &str| {
            let of_balancer = change.operations.iter().filter(|operation| {
                operation.updates(|resource| *resource == ResourceKey::Balancer)
            });
            of_balancer
                .flat_map(Operation::changes)
                .any(|difference| difference.key == key)
        };
        if change.operations.contains(&Operation::Tag)
            || changes_balancer("client_conn_throttle")
            || changes_balancer("tags")
        {
            let owner = if change.operations.contains(&Operation::Tag) {
                identity.owner_tags()
            } else {
                actual.owner_tags.clone()
            };
            let tags = if changes_balancer("tags") {
                self.tags(identity.cluster, spec)
            } else {
                actual.labels.keys().cloned().collect()
            };
            let mark = identity.is_adoption(actual).then(|| ADOPTED.to_owned());
            let tags = OWNER_TAGS.among(&owner, tags.into_iter().chain(mark).collect());
            let mut body = json!({"label": actual.name, "tags": tags});
            body["client_conn_throttle"] = settings
                .get("client_conn_throttle")
                .cloned()
                .unwrap_or_default();
            api.http
                .send(Call::put(ONE, &[&actual.id]).json(&stated(body)))
                .await?;
        }
        if let Some(wanted) = changes
            .iter()
            .find(|difference| difference.key == "firewall_id")
            .and_then(|difference| difference.to.as_u64())
        {
            firewall::attach(api, wanted, &actual.id).await?;
            // Only the firewall that the annotation named before is detached: a user may have attached another one.
            let former = self.named_firewalls.lock().get(&actual.id).copied();
            match (
                former.filter(|former| *former != wanted),
                before.balancer_attributes(),
            ) {
                (Some(former), _) => firewall::detach(api, former, &actual.id).await?,
                (None, Some(settings)) => self.report_attached(identity, actual, settings, wanted),
                (None, None) => {}
            }
            self.named_firewalls
                .lock()
                .insert(actual.id.clone(), wanted);
        }
        let had = before.resources.get(&firewall::resource());
        let wants = after.resources.get(&firewall::resource());
        if let Some(wants) = wants.filter(|wants| had != Some(*wants)) {
            self.write_firewall(identity, actual, wants).await?;
        }
        self.write_configs(identity, actual, (&before, &after), change.operations, spec)
            .await?;
        if had.is_some() && wants.is_none() {
            self.delete_firewall(actual).await?;
        }
        let adopted = identity.is_adoption(actual);
        Ok(Applied::all(
            change,
            ObservedLoadBalancer { adopted, ..outcome },
        ))
    }

    /// Reports a firewall that stays attached, because an annotation may not be what attached it.
    fn report_attached(
        &self,
        identity: &Identity<'_>,
        actual: &ObservedLoadBalancer,
        settings: &Attributes,
        wanted: u64,
    ) {
        let Some(stays) = settings
            .number::<u64>("firewall_id")
            .filter(|id| *id != wanted)
        else {
            return;
        };
        let text = format!(
            "firewall {stays} stays attached to {} beside firewall {wanted}: it is unknown if annotation {} named it; detach it if \
             its rules shall not apply",
            actual.place(),
            key::FIREWALL_ID.key()
        );
        self.deduplicator.warn(
            true,
            EventSubject::Service(identity.service),
            "FirewallStaysAttached",
            &text,
        );
    }

    async fn write_firewall(
        &self,
        identity: &Identity<'_>,
        actual: &ObservedLoadBalancer,
        wants: &Attributes,
    ) -> Result<()> {
        let api = &self.source.api;
        let existing_firewalls = firewall::of(&self.source.api, &actual.id).await?;
        match existing_firewalls
            .iter()
            .find(|firewall| firewall.is_own(actual))
        {
            Some(own_firewall) => firewall::update(api, identity, own_firewall.id, wants).await,
            None => firewall::create(api, identity, &actual.id, &actual.name, wants).await,
        }
    }

    pub(super) async fn delete_firewall(&self, actual: &ObservedLoadBalancer) -> Result<()> {
        let existing_firewalls = firewall::of(&self.source.api, &actual.id).await?;
        for firewall in existing_firewalls
            .iter()
            .filter(|firewall| firewall.is_own(actual))
        {
            firewall::delete(&self.source.api, firewall.id, &actual.id).await?;
        }
        Ok(())
    }

    /// Creates, rebuilds and deletes configurations. The request of a rebuild contains the IDs of existing backends,
    /// because without them connections would break.
    async fn write_configs(
        &self,
        identity: &Identity<'_>,
        actual: &ObservedLoadBalancer,
        (before, after): (&ResourceGraph, &ResourceGraph),
        operations: &[Operation],
        spec: &NodeBalancerSpec,
    ) -> Result<()> {
        let is_touched = |port: &Port| {
            let is_this_resource =
                |resource: &ResourceKey| *resource == ResourceKey::Listener(port.clone());
            operations.iter().any(|operation| {
                operation.targets_of().is_some()
                    || operation.resource().is_some_and(is_this_resource)
            })
        };
        let touched: Vec<_> = after
            .listeners()
            .filter(|(port, _)| is_touched(port))
            .collect();
        let gone: Vec<_> = before
            .listeners()
            .filter(|(port, _)| !after.listeners().any(|(listener, _)| listener == *port))
            .collect();
        if touched.is_empty() && gone.is_empty() {
            return Ok(());
        }
        let api = &self.source.api;
        let id = &*actual.id;
        let subnet = self.backend_subnet(spec).await?;
        let existing_configs = self.configs(id).await?;
        let of = |port: &Port| {
            existing_configs
                .iter()
                .find(|config| config.port == port.number && config.transport() == port.protocol)
        };
        for (port, settings) in touched {
            let (mut config, secret) = self.config(identity, port, settings, spec).await?;
            let (number, backends) = match of(port) {
                Some(existing_config) => (
                    existing_config.id,
                    self.backends(id, existing_config.id).await?,
                ),
                None => {
                    let call = secret
                        .iter()
                        .cloned()
                        .fold(Call::post(CONFIGS, &[id]).json(&config), Call::hide);
                    let made: Value = api.http.read(call).await?;
                    (made["id"].as_u64().unwrap_or_default(), Vec::new())
                }
            };
            config["nodes"] = self.nodes(after, (port, settings), spec, subnet, &backends);
            let rebuild = Call::post(
                "/nodebalancers/{id}/configs/{config}/rebuild",
                &[id, &number.to_string()],
            );
            let rebuild = secret
                .into_iter()
                .fold(rebuild.json(&config).repeatable(), Call::hide);
            api.http.send(rebuild).await?;
        }
        for config in gone.into_iter().filter_map(|(port, _)| of(port)) {
            let call = Call::delete(
                "/nodebalancers/{id}/configs/{config}",
                &[id, &config.id.to_string()],
            );
            api.http.remove(call).await?;
        }
        Ok(())
    }

    /// Returns a configuration without its backends, and the key of its certificate.
    async fn config(
        &self,
        identity: &Identity<'_>,
        port: &Port,
        settings: &Attributes,
        spec: &NodeBalancerSpec,
    ) -> Result<(Value, Option<SecretString>)> {
        let mut config = settings.nested();
        config["port"] = port.number.into();
        if let Some(fields) = config.as_object_mut() {
            fields.retain(|key, _| !COMPARED.contains(&&**key));
        }
        let Some(name) = wanted(spec, port).and_then(|port| port.secret.as_ref()) else {
            return Ok((config, None));
        };
        let pair = self.key_pair(identity.service, name).await?;
        config["ssl_cert"] = pair.certificate.into();
        config["ssl_key"] = pair.key.expose_secret().into();
        Ok((config, Some(pair.key)))
    }

    /// Returns the backends of one configuration.
    fn nodes(
        &self,
        graph: &ResourceGraph,
        (port, settings): (&Port, &Attributes),
        spec: &NodeBalancerSpec,
        subnet: Option<u64>,
        there: &[Backend],
    ) -> Value {
        let nodes = self.cluster.nodes().unwrap_or_default();
        let names = nodes
            .iter()
            .filter_map(|node| Some((spec.backend_address(node, &self.config)?, &*node.name)));
        let names: HashMap<_, _> = names.collect();
        let stated = wanted(spec, port).and_then(|port| port.config.node_port);
        let port = stated.or(settings.number("node_port")).unwrap_or_default();
        let ids: HashMap<_, _> = there
            .iter()
            .filter_map(|backend| Some((backend.socket()?, backend.id)))
            .collect();
        let backend = |address: &str| {
            let socket = SocketAddr::new(address.parse::<IpAddr>().ok()?, port);
            let mut entry = Map::new();
            entry.insert("address".to_owned(), socket.to_string().into());
            entry.insert(
                "label".to_owned(),
                label(names.get(address).copied().unwrap_or(address)).into(),
            );
            entry.insert("weight".to_owned(), 100.into());
            if settings.text("protocol") != Some("udp") {
                entry.insert("mode".to_owned(), "accept".into());
            }
            entry.extend(subnet.map(|subnet| ("subnet_id".to_owned(), subnet.into())));
            entry.extend(ids.get(&socket).map(|id| ("id".to_owned(), (*id).into())));
            Some(Value::Object(entry))
        };
        graph.targets_of(POOL).iter().filter_map(backend).collect()
    }

    /// Returns the subnet of the backends, if they are in a VPC.
    async fn backend_subnet(&self, spec: &NodeBalancerSpec) -> Result<Option<u64>> {
        let Subnet { id, vpc, label, .. } = &spec.backend;
        if !spec.uses_vpc(&self.config) {
            return Ok(None);
        }
        let is_named = vpc.is_some() || label.is_some();
        match (
            *id,
            is_named,
            self.config.backend_subnet_id,
            &self.config.backend_subnet_name,
        ) {
            (Some(id), ..) | (None, false, Some(id), _) => Ok(Some(id)),
            (None, false, None, Some(label)) => {
                self.source.vpcs.subnet(None, Some(label)).await.map(Some)
            }
            _ => self
                .source
                .vpcs
                .subnet(vpc.as_deref(), label.as_deref())
                .await
                .map(Some),
        }
    }

    /// Returns the VPC entry of a new NodeBalancer.
    async fn backend_range(
        &self,
        spec: &NodeBalancerSpec,
        subnet: Option<u64>,
    ) -> Result<Option<Value>> {
        let Some(subnet) = subnet else {
            return Ok(None);
        };
        let is_stated = spec.backend.vpc.is_some()
            || spec.backend.label.is_some()
            || self.config.backend_subnet_id.is_some();
        Ok(Some(
            match (
                spec.backend.range,
                self.config.backend_range.filter(|_| !is_stated),
            ) {
                (Some(range), _) => json!({"subnet_id": subnet, "ipv4_range": range.to_string()}),
                (None, Some(range)) => {
                    json!({"subnet_id": subnet, "ipv4_range": range.to_string(), "ipv4_range_auto_assign": true})
                }
                (None, None) => json!({"subnet_id": subnet}),
            },
        ))
    }

    pub(super) async fn frontend_subnet(&self, spec: &NodeBalancerSpec) -> Result<Option<u64>> {
        match (spec.frontend.id, spec.frontend.is_named()) {
            (Some(id), _) => Ok(Some(id)),
            (None, true) => {
                let Subnet { vpc, label, .. } = &spec.frontend;
                self.source
                    .vpcs
                    .subnet(vpc.as_deref(), label.as_deref())
                    .await
                    .map(Some)
            }
            (None, false) => Ok(None),
        }
    }

    pub(super) async fn untag(&self, actual: &ObservedLoadBalancer) -> Result<()> {
        let tags: Vec<_> = actual.labels.keys().collect();
        self.source
            .api
            .http
            .send(Call::put(ONE, &[&actual.id]).json(&json!({ "tags": tags })))
            .await
            .map(drop)
    }

    /// Deletes a NodeBalancer, and then its firewall: the API may refuse the first deletion, and a NodeBalancer must not be
    /// open to all meanwhile. A firewall that an interrupted deletion leaves is found by its owner tags.
    async fn remove(
        &self,
        actual: &ObservedLoadBalancer,
        identity: &Identity<'_>,
        spec: &NodeBalancerSpec,
    ) -> Result<Applied> {
        if spec.preserve {
            tracing::info!(
                id = actual.id,
                service = identity.service.metadata.name,
                "NodeBalancer is preserved"
            );
            if actual.owner_tags != OwnerTags::default() {
                self.untag(actual).await?;
            }
            return Ok(Applied::Protected);
        }
        let api = &self.source.api;
        let mut firewalls = Vec::new();
        if actual
            .graph
            .as_ref()
            .is_none_or(|graph| graph.resources.contains_key(&firewall::resource()))
        {
            match firewall::of(api, &actual.id).await {
                Err(error) if error.is_not_found() => return Ok(Applied::Gone),
                found => {
                    firewalls = found?
                        .into_iter()
                        .filter(|firewall| firewall.is_own(actual))
                        .map(|firewall| firewall.id)
                        .collect();
                }
            }
        }
        if let Some(ip) = actual
            .ingress
            .iter()
            .filter_map(|ingress| ingress.ip.as_deref())
            .find(|_| spec.releases_ip)
        {
            self.check_locks(actual).await?;
            api.http
                .remove(Call::delete("/networking/reserved/ips/{address}", &[ip]))
                .await?;
        }
        let applied = match api.http.send(Call::delete(ONE, &[&actual.id])).await {
            Ok(_) => Applied::Removed,
            Err(error) if error.is_not_found() => Applied::Gone,
            Err(error) => return Err(error),
        };
        for firewall in firewalls {
            firewall::delete_unused(api, firewall).await?;
        }
        Ok(applied)
    }

    /// Checks that no lock keeps the NodeBalancer from being deleted, before its reserved address is released.
    async fn check_locks(&self, actual: &ObservedLoadBalancer) -> Result<()> {
        let Some(found) = self
            .source
            .api
            .http
            .find::<NodeBalancer>(Call::get(ONE, &[&actual.id]))
            .await?
        else {
            return Ok(());
        };
        match found.locks.filter(|locks| !locks.is_empty()) {
            Some(locks) => Err(Error::invalid(format!(
                "{} has locks ({}) and cannot be deleted; remove them",
                actual.place(),
                locks.join(", ")
            ))),
            None => Ok(()),
        }
    }
}

/// Returns the port of the Service that a listener is for.
fn wanted<'a>(spec: &'a NodeBalancerSpec, port: &Port) -> Option<&'a PortSpec> {
    spec.ports.iter().find(|other_port| {
        other_port.number == port.number && other_port.config.transport() == port.protocol
    })
}

/// Removes `null` fields from a body.
fn stated(mut body: Value) -> Value {
    if let Some(fields) = body.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    body
}

/// Returns the label of a backend: 3 to 32 characters.
fn label(name: &str) -> String {
    let name = name.replace([':', '.'], "-");
    let name = if name.len() < 3 {
        format!("node-{name}")
    } else {
        name
    };
    name.chars().take(32).collect()
}
