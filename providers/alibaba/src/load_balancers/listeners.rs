//! Requests that create, start and change listeners.

use cloud_provider::{Error, EventSubject, Result};
use provider_kit::load_balancers::{Attributes, Difference, POOL, Port, ResourceKey};
use serde_json::{Value, json};

use super::apply::{Made, Work};
use super::certificates::{ADDITIONAL, DOMAINS};
use super::read::{created_id, list, span, text};
use super::{ID, OWNER};
use crate::annotations as key;
use crate::api::{NLB, Query, SLB};

/// Settings of the PROXY protocol, which are sent together.
const PROXY: &str = "ProxyProtocolV2Config";

impl Work<'_> {
    /// Returns the settings of a CLB's listener as parameters of a request.
    pub(super) fn classic_listener(&self, settings: &Attributes, is_new: bool) -> (String, Value) {
        let protocol = settings.text("Protocol").unwrap_or("tcp").to_owned();
        let mut all = serde_json::to_value(settings).unwrap_or_default();
        if let Some(all) = all.as_object_mut() {
            ["Protocol", "Status", "AclIds", DOMAINS, POOL, ID, OWNER]
                .into_iter()
                .for_each(|key| drop(all.remove(key)));
        }
        if let Some(ids) = settings.get("AclIds").and_then(Value::as_array) {
            all["AclId"] = json!(
                ids.iter()
                    .filter_map(Value::as_str)
                    .collect::<Vec<_>>()
                    .join(",")
            );
        }
        if is_new && ["tcp", "udp"].contains(&&*protocol) && all["HealthCheckInterval"].is_number()
        {
            all["healthCheckInterval"] = all["HealthCheckInterval"].take();
        }
        (protocol, all)
    }

    pub(super) async fn create_listener(&self, port: &Port, settings: &Attributes) -> Made {
        let pool = settings.text(POOL).unwrap_or_default();
        if self.is_network {
            return self.create_network_listener(port, settings).await;
        }
        let (protocol, all) = self.classic_listener(settings, true);
        let action = match &*protocol {
            "udp" => "CreateLoadBalancerUDPListener",
            "http" => "CreateLoadBalancerHTTPListener",
            "https" => "CreateLoadBalancerHTTPSListener",
            _ => "CreateLoadBalancerTCPListener",
        };
        let is_http = protocol.starts_with("http");
        let off = is_http.then(|| json!({"HealthCheck": "off", "StickySession": "off"}));
        let query = self
            .query(action)
            .fields(off)
            .set("Bandwidth", -1)
            .fields(all)
            .set("ListenerPort", port.number);
        let query = query.set("Description", self.part_name(&port.number.to_string()));
        let query = match settings.get("ForwardPort") {
            Some(_) => query.set("ListenerForward", "on"),
            None => query.set("VServerGroupId", self.pool_id(pool)),
        };
        match self.cloud.api.create(query).await {
            Err(error) if error.is_conflict() && error.code().contains("AlreadyExist") => {
                let query = Query::new(SLB, "DescribeLoadBalancerListeners")
                    .set("LoadBalancerId", [self.id]);
                let is_this_object = |object: &&Value| {
                    let is_same = (object["ListenerProtocol"] == "udp") == (protocol == "udp");
                    is_same && super::read::port(&object["ListenerPort"]) == port.number
                };
                let answer: Value = self.cloud.api.read(query.set("MaxResults", 100)).await?;
                let existing_listener = list(&answer, "Listeners")
                    .find(is_this_object)
                    .cloned()
                    .unwrap_or_default();
                let name = self.part_name(&port.number.to_string());
                self.check_takeover(
                    port,
                    &name,
                    [
                        text(&existing_listener, "Description"),
                        text(&existing_listener, "VServerGroupId"),
                    ],
                )?;
                let query = self
                    .query(set_action(&protocol))
                    .fields(self.classic_listener(settings, false).1);
                let query = query
                    .set("ListenerPort", port.number)
                    .set("VServerGroup", "on");
                let query = query.set("VServerGroupId", self.pool_id(pool));
                self.send(query.set("Description", self.part_name(&port.number.to_string())))
                    .await?;
            }
            outcome => drop(outcome?),
        }
        self.set_domains(port, settings).await?;
        self.start(port, &protocol).await
    }

    /// Checks that a listener on a port of the Service, which is not named for the Service, may be taken over: one with a
    /// name of an old version of the Go program, or one of the user, if the annotation says so.
    fn check_takeover(
        &self,
        port: &Port,
        name: &str,
        [description, group]: [&str; 2],
    ) -> Result<()> {
        let service = self.change.identity.service;
        if self.share.is_some() && self.spec.overrides {
            let text = format!(
                "listener {port} ({description:?}) of load balancer {} is taken over, as annotation {} says, and deleted with \
                 the Service",
                self.id,
                key::OVERRIDE.key()
            );
            self.cloud.events.warn(
                true,
                EventSubject::Service(service),
                "ListenerTakenOver",
                &text,
            );
            return Ok(());
        }
        let is_ours = |(resource, settings): (&ResourceKey, &Attributes)| {
            matches!(resource, ResourceKey::Pool(_)) && settings.text(ID) == Some(group)
        };
        if self.before.resources.iter().any(is_ours) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "port {} of load balancer {} has a listener with the description {description:?}, which is not this Service's; \
             delete the listener, choose another port, or give it the description {name:?} to hand it over",
            port.number, self.id
        )))
    }

    pub(super) async fn create_network_listener(&self, port: &Port, settings: &Attributes) -> Made {
        let pool = settings.text(POOL).unwrap_or_default();
        let plain = settings
            .clone()
            .matching(|key| ![POOL, ID, OWNER, ADDITIONAL, "ListenerStatus"].contains(&key));
        let protocol = settings.text("ListenerProtocol").unwrap_or("TCP");
        let ends = span(&plain.nested());
        let ports = if ends[0] == ends[1] {
            port.number.to_string()
        } else {
            format!("{}_{}", ends[0], ends[1])
        };
        let description = self.part_name(&format!("{ports}.{protocol}"));
        let query = Query::new(NLB, "CreateListener")
            .set("LoadBalancerId", self.id)
            .fields(listener_fields(&plain));
        let query = query.set("ListenerDescription", &description);
        let answer = match self
            .cloud
            .api
            .create(query.set("ServerGroupId", self.pool_id(pool)))
            .await
        {
            Err(error) if error.is_conflict() && error.code().contains("AlreadyExist") => {
                let query = Query::new(NLB, "ListListeners").set("LoadBalancerIds", [self.id]);
                let answer: Value = self.cloud.api.read(query.set("MaxResults", 100)).await?;
                let is_this_object = |object: &&Value| {
                    span(object) == ends && object["ListenerProtocol"] == *protocol
                };
                let Some(listeners) = list(&answer, "Listeners").find(is_this_object) else {
                    return Err(error);
                };
                self.check_takeover(
                    port,
                    &description,
                    [
                        text(listeners, "ListenerDescription"),
                        text(listeners, "ServerGroupId"),
                    ],
                )?;
                let plain = plain.matching(|key| {
                    !["ListenerProtocol", "ListenerPort", "StartPort", "EndPort"].contains(&key)
                });
                let query = Query::new(NLB, "UpdateListenerAttribute")
                    .set("ListenerId", &listeners["ListenerId"]);
                let query = query
                    .fields(listener_fields(&plain))
                    .set("ServerGroupId", self.pool_id(pool));
                self.send(query.set("ListenerDescription", description))
                    .await?;
                listeners.clone()
            }
            answer => self.cloud.api.wait(answer?).await?,
        };
        let id = created_id(&answer, "ListenerId")?;
        self.set_additional(&id, settings).await?;
        Ok(Some(id))
    }

    pub(super) async fn start(&self, port: &Port, protocol: &str) -> Made {
        let query = self
            .query("StartLoadBalancerListener")
            .set("ListenerPort", port.number);
        self.send(query.set("ListenerProtocol", protocol)).await
    }

    pub(super) async fn update_listener(
        &self,
        port: &Port,
        settings: &Attributes,
        changes: &[Difference],
    ) -> Made {
        let is_changed = |key: &str| changes.iter().any(|difference| difference.key == key);
        let pool = settings.text(POOL).unwrap_or_default();
        let is_other = changes.iter().any(|difference| {
            !["Status", "ListenerStatus", DOMAINS, ADDITIONAL].contains(&&*difference.key)
        });
        if self.is_network {
            let id = self
                .id_of(&ResourceKey::Listener(port.clone()))
                .unwrap_or_default();
            if is_other {
                let is_sent = |key: &str| {
                    let of_proxy = key.starts_with(PROXY)
                        && changes
                            .iter()
                            .any(|difference| difference.key.starts_with(PROXY));
                    ![POOL, ADDITIONAL, "ListenerStatus"].contains(&key)
                        && (of_proxy || is_changed(key))
                };
                let plain = listener_fields(&settings.clone().matching(is_sent));
                let query = Query::new(NLB, "UpdateListenerAttribute")
                    .set("ListenerId", id)
                    .fields(plain);
                let group = is_changed(POOL).then(|| self.pool_id(pool));
                self.send(query.set("ServerGroupId", group)).await?;
            }
            if is_changed(ADDITIONAL) {
                self.set_additional(id, settings).await?;
            }
            return match is_changed("ListenerStatus") {
                true => {
                    self.send(Query::new(NLB, "StartListener").set("ListenerId", id))
                        .await
                }
                false => Ok(None),
            };
        }
        let (protocol, mut all) = self.classic_listener(settings, false);
        if is_changed("ServerCertificateId") {
            self.check_certificate(settings).await?;
        }
        if is_other {
            if let Some(all) = all.as_object_mut() {
                all.retain(|key, _| {
                    is_changed(key)
                        || key.starts_with("Acl")
                            && ["AclIds", "AclStatus", "AclType"]
                                .into_iter()
                                .any(is_changed)
                });
            }
            let query = self
                .query(set_action(&protocol))
                .fields(all)
                .set("ListenerPort", port.number);
            let query = query
                .set("VServerGroup", "on")
                .set("VServerGroupId", self.pool_id(pool));
            self.send(query).await?;
        }
        if is_changed(DOMAINS) {
            self.set_domains(port, settings).await?;
        }
        if is_changed("Status") {
            self.start(port, &protocol).await
        } else {
            Ok(None)
        }
    }
}

/// Returns the settings of an NLB's listener as parameters; one of them is JSON in a text.
fn listener_fields(settings: &Attributes) -> Value {
    let mut all = settings.nested();
    if all[PROXY].is_object() {
        all[PROXY] = json!(all[PROXY].to_string());
    }
    all
}

fn set_action(protocol: &str) -> &'static str {
    match protocol {
        "udp" => "SetLoadBalancerUDPListenerAttribute",
        "http" => "SetLoadBalancerHTTPListenerAttribute",
        "https" => "SetLoadBalancerHTTPSListenerAttribute",
        _ => "SetLoadBalancerTCPListenerAttribute",
    }
}
