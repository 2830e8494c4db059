//! Load balancers with their listeners and targets, as they are read.

use std::collections::BTreeMap;

use cloud_provider::Result;
use futures::future::{BoxFuture, FutureExt, try_join_all};
use futures::try_join;
use provider_kit::inventory::SharedPriority;
use provider_kit::load_balancers::{
    Attributes, Identity, ObservedLoadBalancer, OwnerTags, ResourceGraph, State, Targets,
};
use provider_kit::paging::ListResult;
use provider_kit::transport::Priority;
use serde_json::{Value, json};

use super::model::{Balancer, Listener};
use super::spec::pool;
use super::targets::target;
use super::{
    CLUSTER_TAG, CREATED_TAG, EXISTING, GO_NAME, ID, INTERNAL, PUBLIC, RANGES_TAG, SERVICE_TAG, TencentLoadBalancers,
    internal_kind,
};
use crate::action::{Action, CLB};
use crate::annotations as key;
use crate::api::{list, text, texts};

/// Load balancers that a request can name.
const AT_ONCE: usize = 20;
/// The name that controllers of TKE give to the listeners of Services.
const TKE_LISTENER: &str = "TKE-DEDICATED-LISTENER";

/// Returns the tags of an object.
fn tags(it: &Value) -> BTreeMap<&str, &str> {
    list(&it["Tags"]).map(|tag| (text(tag, "TagKey"), text(tag, "TagValue"))).collect()
}

fn id_of(it: &Value) -> String {
    text(it, "LoadBalancerId").to_owned()
}

/// Returns the beginning of the names of a Service's listeners.
pub(super) fn listener_prefix(uid: &str) -> String {
    format!("{uid}_")
}

/// Returns the targets of a listener.
fn targets(all: &Value) -> Targets {
    let one = |it: &Value| {
        let instance = Some(text(it, "InstanceId")).filter(|_| text(it, "Type") == "CVM");
        let id = instance.or_else(|| it["PrivateIpAddresses"][0].as_str()).unwrap_or_default().to_owned();
        let number = |key: &str| it[key].as_u64().unwrap_or_default();
        let port = u16::try_from(number("Port")).unwrap_or_default();
        target(&id, port, u32::try_from(number("Weight")).unwrap_or_default())
    };
    list(&all["Targets"]).map(one).collect()
}

impl TencentLoadBalancers {
    /// Returns a load balancer without its resources.
    pub(super) fn head(&self, it: &Value) -> ObservedLoadBalancer {
        let (id, name, tags) = (id_of(it), text(it, "LoadBalancerName").to_owned(), tags(it));
        let is_created = tags.get(CREATED_TAG) == Some(&"yes");
        let service = tags.get(SERVICE_TAG).map(|it| (*it).to_owned());
        let cluster = tags.get(CLUSTER_TAG).map(|tag| {
            let is_ours = self.api.config.cluster_id.as_deref() == Some(tag);
            let own = self.cluster_tag.lock().clone().filter(|_| is_ours);
            own.unwrap_or_else(|| (*tag).to_owned())
        });
        let is_free = service.is_none() && cluster.is_none();
        let requested = self.requested.lock();
        let is_requested = requested.values().any(|it| *it == id);
        let is_requested_by_owner = service.as_ref().is_some_and(|uid| requested.get(uid) == Some(&id));
        drop(requested);
        let is_of_go_program = name == GO_NAME || self.names.lock().contains(&name);
        let vips = texts(&it["LoadBalancerVips"]);
        let legacy_owner = match is_free {
            // Before the ID: no other Service can take the load balancer of a Service of the Go program.
            true if is_of_go_program => vips.first().cloned(),
            true if is_requested => Some(format!("ID {id}")),
            _ => None,
        };
        // A load balancer that an annotation names is the user's from then on, whoever created it.
        let is_of_user = is_requested_by_owner || is_free && is_requested && !is_of_go_program;
        let adopted = is_of_user || service.is_some() && !is_created;
        let ipv6 = Some(text(it, "AddressIPv6").to_owned()).filter(|ip| !ip.is_empty());
        let mut ingress: Vec<_> = vips.iter().chain(&ipv6).map(|ip| ObservedLoadBalancer::ip(ip)).collect();
        if ingress.is_empty() {
            let names = ["LoadBalancerDomain", "Domain"].into_iter().map(|key| text(it, key));
            ingress.extend(names.filter(|name| !name.is_empty()).take(1).map(ObservedLoadBalancer::host));
        }
        ObservedLoadBalancer {
            id,
            name,
            owner_tags: OwnerTags { cluster, service },
            legacy_owner,
            kind: match text(it, "LoadBalancerType") {
                _ if adopted => EXISTING,
                INTERNAL => internal_kind(text(it, "SubnetId")),
                _ => PUBLIC,
            },
            state: if it["Status"] == 0 { State::Busy } else { State::Ready },
            ingress,
            adopted,
            ..ObservedLoadBalancer::default()
        }
    }

    fn list_of(&self, action: Action, priority: Priority) -> BoxFuture<'_, Result<ListResult<Value>>> {
        async move { self.api.pages(action, ("LoadBalancerSet", false), &SharedPriority::of(priority), id_of).await }
            .boxed()
    }

    /// Reads all load balancers of the VPC without their resources.
    pub(super) async fn all(&self) -> Result<ListResult<ObservedLoadBalancer>> {
        let action = Action::new(CLB, "DescribeLoadBalancers").set("VpcId", self.api.metadata.vpc().await?);
        let found = self.list_of(action, Priority::default()).await?;
        Ok(found.flat_map(|it| [self.head(&it)]))
    }

    /// Reads the load balancers that may be a Service's: by owner tag, by the IDs in its annotations, and by the
    /// address in its status.
    pub(super) async fn of_service(&self, identity: &Identity<'_>) -> Result<Vec<ObservedLoadBalancer>> {
        let priority = if identity.is_leaving() { Priority::Urgent } else { Priority::Ordinary };
        let action = || Action::new(CLB, "DescribeLoadBalancers");
        let filter = json!([{"Name": format!("tag:{SERVICE_TAG}"), "Values": [identity.uid()]}]);
        let by_tag = self.list_of(action().set("Filters", filter), priority);
        let written = key::ID.text_on(identity.service).map(str::to_owned);
        let mut ids: Vec<_> = identity.requested_id.iter().chain(&written).filter(|id| id.starts_with("lb-")).collect();
        ids.dedup();
        let by_id = try_join_all(ids.into_iter().map(|id| self.with_ids(std::slice::from_ref(id))));
        let vpc = self.api.metadata.vpc().await?;
        let address = identity.legacy_owner.as_ref().filter(|it| it.parse::<std::net::IpAddr>().is_ok());
        let by_address = try_join_all(
            address.map(|ip| self.list_of(action().set("LoadBalancerVips", [ip]).set("VpcId", &vpc), priority)),
        );
        let (by_tag, by_id, by_address) = try_join!(by_tag, by_id, by_address)?;
        let mut found = by_tag.complete()?.into_items();
        let others = by_address.into_iter().map(|it| Ok(it.complete()?.into_items())).collect::<Result<Vec<_>>>()?;
        for it in by_id.into_iter().chain(others).flatten() {
            if !found.iter().any(|known| id_of(known) == id_of(&it)) {
                found.push(it);
            }
        }
        let is_its = |it: &ObservedLoadBalancer| {
            it.owner_tags.service.as_deref() == Some(identity.uid())
                || it.legacy_owner.is_some() && it.legacy_owner == identity.legacy_owner
                || identity.requested_id.as_ref() == Some(&it.id)
        };
        Ok(found.iter().map(|it| self.head(it)).filter(is_its).collect())
    }

    /// Reads the load balancers with these IDs.
    fn with_ids<'a>(&'a self, ids: &'a [String]) -> BoxFuture<'a, Result<Vec<Value>>> {
        async move {
            if ids.is_empty() {
                // Without IDs, the answer would be all load balancers.
                return Ok(Vec::new());
            }
            let action = Action::new(CLB, "DescribeLoadBalancers").set("LoadBalancerIds", ids);
            match self.list_of(action, Priority::Ordinary).await.and_then(ListResult::complete) {
                Err(error) if error.is_not_found() && ids.len() > 1 => {
                    // One of several does not exist.
                    let each: Vec<BoxFuture<'_, _>> = ids.chunks(1).map(|id| self.with_ids(id)).collect();
                    Ok(try_join_all(each).await?.concat())
                }
                Err(error) if error.is_not_found() => Ok(Vec::new()),
                found => Ok(found?.into_items()),
            }
        }
        .boxed()
    }

    /// Reads the load balancers with these IDs, with all their resources if `is_whole`.
    pub(super) async fn by_ids(&self, ids: &[String], is_whole: bool) -> Result<Vec<ObservedLoadBalancer>> {
        let found = try_join_all(ids.chunks(AT_ONCE).map(|ids| self.with_ids(ids))).await?.concat();
        match is_whole {
            true => try_join_all(found.iter().map(|it| self.whole(it))).await,
            false => Ok(found.iter().map(|it| self.head(it)).collect()),
        }
    }

    async fn whole(&self, it: &Value) -> Result<ObservedLoadBalancer> {
        let (head, tags) = (self.head(it), tags(it));
        if it["Forward"] == 0 {
            return self.classic(it, head).await;
        }
        let of = |action| self.api.send::<Value>(Action::new(CLB, action).set("LoadBalancerId", &head.id));
        let uid = head.owner_tags.service.clone().unwrap_or_default();
        let group = async {
            match tags.contains_key(RANGES_TAG) {
                true => self.group_of(&uid).await,
                false => Ok(None),
            }
        };
        let (listeners, backends, group) = try_join!(of("DescribeListeners"), of("DescribeTargets"), group)?;
        let prefix = listener_prefix(&uid);
        let is_ours = |it: &Value| {
            let (name, protocol) = (text(it, "ListenerName"), text(it, "Protocol"));
            let is_unnamed = name.is_empty() || name == TKE_LISTENER;
            let is_known = ["TCP", "UDP", "TCP_SSL"].iter().any(|it| protocol.eq_ignore_ascii_case(it));
            is_known && (!uid.is_empty() && name.starts_with(&prefix) || is_unnamed && !head.adopted)
        };
        let place = |it: &Value| {
            let is_udp = ["UDP", "QUIC"].iter().any(|name| text(it, "Protocol").eq_ignore_ascii_case(name));
            let port = it["Port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or_default();
            (port, if is_udp { "UDP" } else { "TCP" })
        };
        let (ours, others): (Vec<_>, Vec<_>) = list(&listeners["Listeners"]).partition(|it| is_ours(it));
        let foreign: Vec<_> = others.into_iter().map(place).map(|(port, kind)| format!("{port}/{kind}")).collect();
        let managed = group.as_ref().map_or("", |(id, _)| id);
        let settings = Attributes::observed(&Balancer::observed(it, managed, &foreign))?;
        let mut graph = ResourceGraph::default().balancer(settings);
        if let Some((id, ranges)) = &group {
            let is_attached = list(&it["SecureGroups"]).any(|group| group == id);
            let settings = Attributes::default().set("Ranges", ranges).set("IsAttached", is_attached).set(ID, id);
            graph = graph.resource(super::group_key(), settings);
        }
        for listener in ours {
            let ((port, transport), id) = (place(listener), text(listener, "ListenerId"));
            let name = pool(transport, port);
            let backends = list(&backends["Listeners"]).find(|it| text(it, "ListenerId") == id).map(targets);
            graph = graph.pool(&name, Attributes::default(), Some(backends.unwrap_or_default()));
            let settings = Attributes::observed(&Listener::observed(listener))?.set(ID, id);
            graph = graph.listener(port, transport, &name, settings);
        }
        Ok(ObservedLoadBalancer { graph: Some(graph), ..head })
    }
}
