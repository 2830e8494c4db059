//! Changes of the listeners of a load balancer.

use std::collections::{BTreeMap, BTreeSet};

use cloud_provider::{Error, EventSubject, Result, Service};
use parking_lot::Mutex;
use provider_kit::load_balancers::{
    Attributes, Difference, Operation, Port, ResourceGraph, ResourceKey,
};
use serde_json::{Value, json};

use super::apply::Work;
use super::model::default_health_check;
use super::read::listener_prefix;
use super::spec::pool;
use super::{ID, TencentLoadBalancers};
use crate::api::texts;

/// Listeners that a request can name.
const LISTENERS: usize = 20;
/// The setting of listeners without a name: those of the Go program, and those of users.
pub(super) const UNNAMED: &str = "IsUnnamed";

/// Listeners without a name that are the Service's: the ports that it has, or had in this run of the process.
#[derive(Default)]
pub(super) struct KnownPorts(Mutex<BTreeMap<String, BTreeSet<Port>>>);

impl KnownPorts {
    /// Notes the ports of a Service.
    fn note(&self, uid: &str, desired: &ResourceGraph) {
        self.0
            .lock()
            .entry(uid.to_owned())
            .or_default()
            .extend(desired.listeners().map(|(port, _)| port.clone()));
    }

    /// Returns the listeners without a name that are not known as the Service's.
    pub(super) fn of_users(&self, uid: &str, seen: &ResourceGraph) -> Vec<Port> {
        let known = self.0.lock().get(uid).cloned().unwrap_or_default();
        let unnamed = seen
            .listeners()
            .filter(|(_, settings)| settings.get(UNNAMED).is_some())
            .map(|(port, _)| port);
        unnamed
            .filter(|port| !known.contains(port))
            .cloned()
            .collect()
    }

    /// Forgets a Service whose load balancer is deleted.
    pub(super) fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }
}

/// Returns ports for people: `80/TCP, 53/UDP`.
pub(super) fn shown(ports: &[Port]) -> String {
    ports
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

impl TencentLoadBalancers {
    /// Keeps listeners without a name that were never the Service's. Listeners of the Go program have no name either:
    /// they are at the ports of their Service.
    pub(super) fn with_listeners_of_users(
        &self,
        mut desired: ResourceGraph,
        seen: &ResourceGraph,
        service: &Service,
        place: &str,
    ) -> ResourceGraph {
        if desired.balancer_attributes().is_none() {
            return desired;
        }
        let uid = service.metadata.uid.as_deref().unwrap_or_default();
        self.ports.note(uid, &desired);
        for port in self.ports.of_users(uid, seen) {
            let text = format!(
                "{place} has a listener without a name on port {port}, which this Service does not have: it stays. Delete \
                 the listener if nobody needs it"
            );
            self.deduplicator.warn(
                true,
                EventSubject::Service(service),
                "ListenerOfUser",
                &text,
            );
            let pool = ResourceKey::Pool(pool(&port.protocol, port.number));
            for resource in [pool, ResourceKey::Listener(port)] {
                if !desired.resources.contains_key(&resource) {
                    desired.resources.insert(resource, Attributes::default());
                }
            }
        }
        desired
    }
}

impl Work<'_> {
    pub(super) fn listener_id(&self, port: &Port) -> &str {
        let resource = ResourceKey::Listener(port.clone());
        self.before
            .resources
            .get(&resource)
            .and_then(|settings| settings.text(ID))
            .unwrap_or_default()
    }

    pub(super) fn deleted_listeners(&self) -> Vec<Port> {
        let port = |operation: &Operation| match operation {
            Operation::Delete {
                resource: ResourceKey::Listener(port),
            } => Some(port.clone()),
            _ => None,
        };
        self.change.operations.iter().filter_map(port).collect()
    }

    pub(super) async fn delete_listeners(&self, ports: impl Iterator<Item = &Port>) -> Result<()> {
        let ids: Vec<_> = ports
            .map(|port| self.listener_id(port))
            .filter(|id| !id.is_empty())
            .collect();
        let delete = async |ids: &[&str]| {
            self.send(
                self.action("DeleteLoadBalancerListeners")
                    .set("ListenerIds", ids),
            )
            .await
            .map(drop)
        };
        for ids in ids.chunks(LISTENERS) {
            match delete(ids).await {
                // One of several does not exist, and the request deleted none.
                Err(error) if error.is_not_found() => {
                    for id in ids.chunks(1) {
                        match delete(id).await {
                            Err(error) if error.is_not_found() => {}
                            outcome => outcome?,
                        }
                    }
                    // With a credential of another account, the load balancer is what was not found.
                    self.cloud.check_account().await?;
                }
                outcome => outcome?,
            }
        }
        Ok(())
    }

    /// Returns the settings of a listener as parameters of a request.
    fn listener(settings: &Attributes) -> Value {
        let mut body = settings
            .clone()
            .only(&["Scheduler", "SessionExpireTime", "IdleConnectTimeout"])
            .nested();
        body["HealthCheck"] = settings.nested()["HealthCheck"].take();
        if let Some(id) = settings.text("CertId") {
            body["Certificate"] = json!({"SSLMode": "UNIDIRECTIONAL", "CertId": id});
        }
        body
    }

    /// Creates the missing listeners, those with equal settings in one request, and returns their IDs.
    pub(super) async fn create_listeners(&self) -> Result<Vec<(Port, String)>> {
        let mut requests: Vec<(Value, Vec<&Port>)> = Vec::new();
        for operation in self.change.operations {
            let Operation::Create {
                resource: ResourceKey::Listener(port),
                attributes,
            } = operation
            else {
                continue;
            };
            let mut body = Self::listener(attributes);
            body["Protocol"] = attributes.text("Protocol").unwrap_or("TCP").into();
            let stated = body["HealthCheck"].take();
            body["HealthCheck"] = default_health_check();
            for (name, value) in stated.as_object().into_iter().flatten() {
                body["HealthCheck"][name] = value.clone();
            }
            match requests.iter_mut().find(|(known, _)| *known == body) {
                Some((_, ports)) => ports.push(port),
                None => requests.push((body, vec![port])),
            }
        }
        let mut created = Vec::new();
        let prefix = listener_prefix(self.change.identity.uid());
        for (body, ports) in requests {
            for ports in ports.chunks(LISTENERS) {
                let name = |port: &&Port| {
                    format!(
                        "{prefix}{}_{}",
                        port.protocol.to_ascii_lowercase(),
                        port.number
                    )
                };
                let action = self
                    .action("CreateListener")
                    .fields(self.spec.listener.clone().into());
                let action = action.fields(body.clone());
                let action = action.set(
                    "Ports",
                    ports.iter().map(|port| port.number).collect::<Vec<_>>(),
                );
                let action =
                    action.set("ListenerNames", ports.iter().map(name).collect::<Vec<_>>());
                let answer = self.send(action).await?;
                let ids = texts(&answer["ListenerIds"]);
                if ids.len() != ports.len() {
                    return Err(Error::conflict(format!(
                        "CreateListener answered {} IDs for {} ports",
                        ids.len(),
                        ports.len()
                    )));
                }
                created.extend(ports.iter().map(|port| (*port).clone()).zip(ids));
            }
        }
        Ok(created)
    }

    pub(super) async fn update_listener(
        &self,
        port: &Port,
        settings: &Attributes,
        changes: &[Difference],
    ) -> Result<()> {
        let mut body = Self::listener(settings);
        let is_changed = |field: &str| {
            changes.iter().any(|difference| {
                difference.key.split('.').next() == Some(field)
                    || field == "Certificate" && difference.key == "CertId"
            })
        };
        if let Some(fields) = body.as_object_mut() {
            fields.retain(|field, _| is_changed(field));
        }
        if body["HealthCheck"].is_object() && body["HealthCheck"]["CheckPort"].is_null() {
            // The port of the targets.
            body["HealthCheck"]["CheckPort"] = (-1).into();
        }
        let action = self
            .action("ModifyListener")
            .fields(self.spec.listener.clone().into());
        self.send(
            action
                .set("ListenerId", self.listener_id(port))
                .fields(body),
        )
        .await
        .map(drop)
    }
}
