//! Load balancers with their listeners and targets, as they are read.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cloud_provider::{CompleteListing, Error, Result};
use futures::future::{BoxFuture, FutureExt, join_all, try_join_all};
use futures::try_join;
use jiff::Timestamp;
use provider_kit::coalescer::Coalescer;
use provider_kit::inventory::SharedPriority;
use provider_kit::load_balancers::{
    Attributes, Identity, ObservedLoadBalancer, OwnerTags, ResourceGraph, State, Targets,
};
use provider_kit::paging::ListResult;
use provider_kit::transport::Priority;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::listeners::UNNAMED;
use super::model::{Balancer, Listener};
use super::spec::pool;
use super::targets::target;
use super::{
    CLUSTER_TAG, CREATED_TAG, EXISTING, GO_NAME, ID, INTERNAL, PUBLIC, RANGES_TAG, SERVICE_TAG,
    TencentLoadBalancers, internal_kind,
};
use crate::action::{Action, CLB};
use crate::annotations as key;
use crate::api::{Api, list, text, texts};

/// Load balancers that a request can name.
const AT_ONCE: usize = 20;
/// Services whose load balancers a request can search for.
const OWNERS: usize = 50;
/// Time for which single reads wait for others, to share a request.
const WINDOW: Duration = Duration::from_millis(20);
/// The name that controllers of TKE give to the listeners of Services.
const TKE_LISTENER: &str = "TKE-DEDICATED-LISTENER";

/// Returns the tags of an object.
fn tags(object: &Value) -> BTreeMap<&str, &str> {
    list(&object["Tags"])
        .map(|tag| (text(tag, "TagKey"), text(tag, "TagValue")))
        .collect()
}

/// Returns the time of a creation, which the API shows in the time of Beijing: `2026-01-02 03:04:05`.
fn created(text: &str) -> Option<Timestamp> {
    format!("{}+08:00", text.replacen(' ', "T", 1)).parse().ok()
}

fn id_of(object: &Value) -> String {
    text(object, "LoadBalancerId").to_owned()
}

/// Returns `true` if a load balancer is in the VPC, or in none.
pub(super) fn is_in(object: &Value, vpc: &str) -> bool {
    ["", vpc].contains(&text(object, "VpcId"))
}

/// Returns the beginning of the names of a Service's listeners.
pub(super) fn listener_prefix(uid: &str) -> String {
    format!("{uid}_")
}

/// Returns the targets of a listener.
fn targets(all: &Value) -> Targets {
    let one = |object: &Value| {
        let instance = Some(text(object, "InstanceId")).filter(|_| text(object, "Type") == "CVM");
        let id = instance
            .or_else(|| object["PrivateIpAddresses"][0].as_str())
            .unwrap_or_default()
            .to_owned();
        let number = |key: &str| object[key].as_u64().unwrap_or_default();
        let port = u16::try_from(number("Port")).unwrap_or_default();
        target(
            &id,
            port,
            u32::try_from(number("Weight")).unwrap_or_default(),
        )
    };
    list(&all["Targets"]).map(one).collect()
}

/// Reads of load balancers by ID, and searches for those of a Service by its UID, which share requests.
pub(super) struct Reads {
    by_id: Coalescer<(), String, Option<Value>>,
    by_owner: Coalescer<Priority, String, Vec<Value>>,
}

impl Reads {
    pub(super) fn new(api: &Api) -> Self {
        let of_ids = api.clone();
        let of_owners = api.clone();
        let by_id = Coalescer::answering_each(move |(), ids: Vec<String>| {
            let api = of_ids.clone();
            async move {
                join_all(ids.chunks(AT_ONCE).map(|ids| at_once(&api, ids)))
                    .await
                    .concat()
            }
        });
        let by_owner = Coalescer::answering_each(move |priority, uids: Vec<String>| {
            let api = of_owners.clone();
            async move {
                join_all(
                    uids.chunks(OWNERS)
                        .map(|uids| of_owners_at_once(&api, uids, priority)),
                )
                .await
                .concat()
            }
        });
        Self { by_id, by_owner }
    }

    async fn by_id(&self, id: &str) -> Result<Option<Value>> {
        self.by_id
            .join_at((), id.to_owned(), |_| Instant::now() + WINDOW)
            .await
    }

    async fn by_owner(&self, uid: &str, priority: Priority) -> Result<Vec<Value>> {
        self.by_owner
            .join_at(priority, uid.to_owned(), |_| Instant::now() + WINDOW)
            .await
    }
}

/// Reads the load balancers with the owner tags of these Services.
async fn of_owners_at_once(
    api: &Api,
    uids: &[String],
    priority: Priority,
) -> Vec<Result<Vec<Value>>> {
    let filter = json!([{"Name": format!("tag:{SERVICE_TAG}"), "Values": uids}]);
    let action = Action::new(CLB, "DescribeLoadBalancers").set("Filters", filter);
    let found = api
        .pages(
            action,
            ("LoadBalancerSet", false),
            &SharedPriority::of(priority),
            id_of,
        )
        .await;
    let found = found
        .and_then(ListResult::complete)
        .map(CompleteListing::into_items);
    let of = |uid: &String| {
        let all: &Vec<Value> = found.as_ref().map_err(Clone::clone)?;
        Ok(all
            .iter()
            .filter(|object| tags(object).get(SERVICE_TAG) == Some(&&**uid))
            .cloned()
            .collect())
    };
    uids.iter().map(of).collect()
}

/// Reads the load balancers with these IDs. If the API refuses the request because of one that does not exist, each one
/// is read alone.
async fn at_once(api: &Api, ids: &[String]) -> Vec<Result<Option<Value>>> {
    let read = async |ids: &[String]| {
        let action = Action::new(CLB, "DescribeLoadBalancers").set("LoadBalancerIds", ids);
        let found = api
            .pages(
                action,
                ("LoadBalancerSet", false),
                &SharedPriority::default(),
                id_of,
            )
            .await;
        match found.and_then(ListResult::complete) {
            Err(error) if error.is_not_found() && ids.len() == 1 => Ok::<_, Error>(Vec::new()),
            found => Ok(found?.into_items()),
        }
    };
    let answer = |id: &String, found: &Result<Vec<Value>>| {
        let found = found.as_ref().map_err(Clone::clone)?;
        Ok(found.iter().find(|object| id_of(object) == *id).cloned())
    };
    match read(ids).await {
        Err(error) if error.is_not_found() => {
            join_all(
                ids.iter()
                    .map(async |id| answer(id, &read(std::slice::from_ref(id)).await)),
            )
            .await
        }
        found => ids.iter().map(|id| answer(id, &found)).collect(),
    }
}

impl TencentLoadBalancers {
    /// Returns a load balancer without its resources.
    pub(super) fn head(&self, object: &Value) -> ObservedLoadBalancer {
        let id = id_of(object);
        let name = text(object, "LoadBalancerName").to_owned();
        let tags = tags(object);
        let is_created = tags.get(CREATED_TAG) == Some(&"yes");
        let service = tags
            .get(SERVICE_TAG)
            .map(|service_tag| (*service_tag).to_owned());
        let cluster = tags.get(CLUSTER_TAG).map(|tag| {
            let is_ours = self.api.config.cluster_id.as_deref() == Some(tag);
            let own_cluster_tag = self.cluster_tag.lock().clone().filter(|_| is_ours);
            own_cluster_tag.unwrap_or_else(|| (*tag).to_owned())
        });
        let is_free = service.is_none() && cluster.is_none();
        let requested = self.requested.lock();
        let is_requested = requested.values().any(|requested| *requested == id);
        let is_requested_by_owner = service
            .as_ref()
            .is_some_and(|uid| requested.get(uid) == Some(&id));
        drop(requested);
        let is_of_go_program = name == GO_NAME || self.names.lock().contains(&name);
        let vips = texts(&object["LoadBalancerVips"]);
        let legacy_owner = match is_free {
            // Before the ID: no other Service can take the load balancer of a Service of the Go program.
            true if is_of_go_program => vips.first().cloned(),
            true if is_requested => Some(format!("ID {id}")),
            _ => None,
        };
        // A load balancer that an annotation names is the user's from then on, whoever created it.
        let is_of_user = is_requested_by_owner || is_free && is_requested && !is_of_go_program;
        let adopted = is_of_user || service.is_some() && !is_created;
        let ipv6 = Some(text(object, "AddressIPv6").to_owned()).filter(|ip| !ip.is_empty());
        let mut ingress: Vec<_> = vips
            .iter()
            .chain(&ipv6)
            .map(|ip| ObservedLoadBalancer::ip(ip))
            .collect();
        if ingress.is_empty() {
            let names = ["LoadBalancerDomain", "Domain"]
                .into_iter()
                .map(|key| text(object, key));
            ingress.extend(
                names
                    .filter(|name| !name.is_empty())
                    .take(1)
                    .map(ObservedLoadBalancer::host),
            );
        }
        ObservedLoadBalancer {
            id,
            name,
            owner_tags: OwnerTags { cluster, service },
            legacy_owner,
            kind: match text(object, "LoadBalancerType") {
                _ if adopted => EXISTING,
                INTERNAL => internal_kind(text(object, "SubnetId")),
                _ => PUBLIC,
            },
            state: if object["Status"] == 0 {
                State::Busy
            } else {
                State::Ready
            },
            ingress,
            labels: tags
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            adopted,
            created: created(text(object, "CreateTime")),
            ..ObservedLoadBalancer::default()
        }
    }

    fn list_of(
        &self,
        action: Action,
        priority: Priority,
    ) -> BoxFuture<'_, Result<ListResult<Value>>> {
        async move {
            self.api
                .pages(
                    action,
                    ("LoadBalancerSet", false),
                    &SharedPriority::of(priority),
                    id_of,
                )
                .await
        }
        .boxed()
    }

    /// Reads all load balancers of the VPC without their resources.
    pub(super) async fn all(&self) -> Result<ListResult<ObservedLoadBalancer>> {
        let action =
            Action::new(CLB, "DescribeLoadBalancers").set("VpcId", self.api.metadata.vpc().await?);
        let found = self.list_of(action, Priority::default()).await?;
        Ok(found.flat_map(|object| [self.head(&object)]))
    }

    /// Reads the load balancers that may be a Service's: by owner tag, by the IDs in its annotations, and by the
    /// address in its status. What was found before is not searched for again.
    pub(super) async fn of_service(
        &self,
        identity: &Identity<'_>,
    ) -> Result<Vec<ObservedLoadBalancer>> {
        let priority = if identity.is_leaving() {
            Priority::Urgent
        } else {
            Priority::Ordinary
        };
        let mut found = self.reads.by_owner(identity.uid(), priority).await?;
        let written = key::ID.text_on(identity.service).map(str::to_owned);
        let named: BTreeSet<_> = identity
            .requested_id
            .iter()
            .chain(&written)
            .filter(|id| id.starts_with("lb-"))
            .collect();
        let missing: Vec<_> = named
            .into_iter()
            .filter(|id| !found.iter().any(|object| id_of(object) == **id))
            .cloned()
            .collect();
        found.extend(self.with_ids(&missing).await?);
        let address = identity
            .legacy_owner
            .as_ref()
            .filter(|legacy_owner| legacy_owner.parse::<std::net::IpAddr>().is_ok());
        let has_address = |ip: &&String| {
            found
                .iter()
                .any(|object| texts(&object["LoadBalancerVips"]).contains(ip))
        };
        if let Some(ip) = address.filter(|ip| !has_address(ip)) {
            let action = Action::new(CLB, "DescribeLoadBalancers").set("LoadBalancerVips", [ip]);
            let by_address = action.set("VpcId", self.api.metadata.vpc().await?);
            found.extend(
                self.list_of(by_address, priority)
                    .await?
                    .complete()?
                    .into_items(),
            );
        }
        let is_its_load_balancer = |load_balancer: &ObservedLoadBalancer| {
            load_balancer.owner_tags.service.as_deref() == Some(identity.uid())
                || load_balancer.legacy_owner.is_some()
                    && load_balancer.legacy_owner == identity.legacy_owner
                || identity.requested_id.as_ref() == Some(&load_balancer.id)
        };
        // A load balancer of another VPC is none that the annotation can name.
        let vpc = self.api.metadata.vpc().await?;
        let is_near = |object: &&Value| {
            is_in(object, &vpc) || tags(object).get(SERVICE_TAG) == Some(&identity.uid())
        };
        Ok(found
            .iter()
            .filter(is_near)
            .map(|object| self.head(object))
            .filter(is_its_load_balancer)
            .collect())
    }

    /// Reads the load balancers with these IDs, in requests that concurrent callers share.
    pub(super) async fn with_ids(&self, ids: &[String]) -> Result<Vec<Value>> {
        Ok(try_join_all(ids.iter().map(|id| self.reads.by_id(id)))
            .await?
            .into_iter()
            .flatten()
            .collect())
    }

    /// Reads the load balancers with these IDs, with all their resources if `is_whole`.
    pub(super) async fn by_ids(
        &self,
        ids: &[String],
        is_whole: bool,
    ) -> Result<Vec<ObservedLoadBalancer>> {
        let found = self.with_ids(ids).await?;
        match is_whole {
            true => try_join_all(found.iter().map(|object| self.whole(object))).await,
            false => Ok(found.iter().map(|object| self.head(object)).collect()),
        }
    }

    async fn whole(&self, entry: &Value) -> Result<ObservedLoadBalancer> {
        let head = self.head(entry);
        let tags = tags(entry);
        if entry["Forward"] == 0 {
            return self.classic(entry, head).await;
        }
        let of = |action| {
            self.api
                .send::<Value>(Action::new(CLB, action).set("LoadBalancerId", &head.id))
        };
        let uid = head.owner_tags.service.clone().unwrap_or_default();
        let group = async {
            match tags.contains_key(RANGES_TAG) {
                true => self.group_of(&uid).await,
                false => Ok(None),
            }
        };
        let (listeners, backends, group) =
            try_join!(of("DescribeListeners"), of("DescribeTargets"), group)?;
        let prefix = listener_prefix(&uid);
        let is_ours = |object: &Value| {
            let name = text(object, "ListenerName");
            let protocol = text(object, "Protocol");
            let may_be_ours = name.is_empty() || name == TKE_LISTENER;
            let is_known = ["TCP", "UDP", "TCP_SSL"]
                .iter()
                .any(|tcp_ssl| protocol.eq_ignore_ascii_case(tcp_ssl));
            is_known
                && (!uid.is_empty() && name.starts_with(&prefix) || may_be_ours && !head.adopted)
        };
        let place = |object: &Value| {
            let is_udp = ["UDP", "QUIC"]
                .iter()
                .any(|name| text(object, "Protocol").eq_ignore_ascii_case(name));
            let port = object["Port"]
                .as_u64()
                .and_then(|port| u16::try_from(port).ok())
                .unwrap_or_default();
            (port, if is_udp { "UDP" } else { "TCP" })
        };
        let (ours, others): (Vec<_>, Vec<_>) =
            list(&listeners["Listeners"]).partition(|listener| is_ours(listener));
        let foreign: Vec<_> = others
            .into_iter()
            .map(place)
            .map(|(port, kind)| format!("{port}/{kind}"))
            .collect();
        let managed = group.as_ref().map_or("", |(id, _)| id);
        let settings = Attributes::observed(&Balancer::observed(entry, managed, &foreign))?;
        let mut graph = ResourceGraph::default().balancer(settings);
        if let Some((id, ranges)) = &group {
            let is_attached = list(&entry["SecureGroups"]).any(|group| group == id);
            let settings = Attributes::default()
                .set("Ranges", ranges)
                .set("IsAttached", is_attached)
                .set(ID, id);
            graph = graph.resource(super::group_key(), settings);
        }
        for listener in ours {
            let ((port, transport), id) = (place(listener), text(listener, "ListenerId"));
            let name = pool(transport, port);
            let backends = list(&backends["Listeners"])
                .find(|listener| text(listener, "ListenerId") == id)
                .map(targets);
            graph = graph.pool(
                &name,
                Attributes::default(),
                Some(backends.unwrap_or_default()),
            );
            let mut settings = Attributes::observed(&Listener::observed(listener))?.set(ID, id);
            if text(listener, "ListenerName").is_empty() {
                settings = settings.set(UNNAMED, true);
            }
            graph = graph.listener(port, transport, &name, settings);
        }
        Ok(ObservedLoadBalancer {
            graph: Some(graph),
            ..head
        })
    }
}
