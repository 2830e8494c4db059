//! Rules in the security lists of subnets, which Services share.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Result, Service, async_trait};
use futures::future::try_join_all;
use parking_lot::Mutex;
use provider_kit::cached::Cached;
use provider_kit::cluster::ClusterView;
use provider_kit::json_path::place;
use provider_kit::load_balancers::{Attributes, ResourceKey};
use provider_kit::shared_document::{DocumentStore, SharedDocuments, Versioned};
use provider_kit::transport::Call;
use serde_json::{Value, json};

use super::reader::health_port;
use super::spec::LoadBalancerSpec;
use crate::annotations::SecurityMode;
use crate::api::Api;
use crate::config::Config;
use crate::subnets::{Subnet, Subnets};

/// The time for which a list is compared as it was read. Writes read it again.
const AGE: Duration = Duration::from_secs(5);

/// Direction of a rule, and the names of its list, of its peer and of the kind of the peer.
const INGRESS: (&str, &str) = ("ingressSecurityRules", "source");
const EGRESS: (&str, &str) = ("egressSecurityRules", "destination");

/// The resource of a Service's rules in security lists. They are written when the load balancer exists.
pub(crate) fn resource() -> ResourceKey {
    ResourceKey::created_after("security rules", "")
}

/// A rule: security list, direction, peer and port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rule {
    pub(crate) list: String,
    pub(crate) is_ingress: bool,
    pub(crate) peer: String,
    pub(crate) port: u16,
}

impl Rule {
    fn text(&self) -> String {
        let Self {
            list,
            is_ingress,
            peer,
            port,
        } = self;
        format!(
            "{} {peer} {port} in {list}",
            if *is_ingress { "ingress" } else { "egress" }
        )
    }

    fn parse(text: &str) -> Option<Self> {
        let [direction, peer, port, "in", list] = text.split(' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        let list = list.to_owned();
        let peer = peer.to_owned();
        let port = port.parse().ok()?;
        Some(Self {
            list,
            is_ingress: direction == "ingress",
            peer,
            port,
        })
    }

    fn direction(&self) -> (&'static str, &'static str) {
        if self.is_ingress { INGRESS } else { EGRESS }
    }

    fn written(&self) -> Value {
        let ports = json!({"destinationPortRange": {"min": self.port, "max": self.port}});
        let mut rule = json!({"protocol": "6", "isStateless": false, "tcpOptions": ports});
        let peer = self.direction().1;
        rule[peer] = self.peer.clone().into();
        rule[format!("{peer}Type")] = "CIDR_BLOCK".into();
        rule
    }
}

/// Returns the settings of the resource.
pub(crate) fn settings(rules: &BTreeSet<Rule>) -> Attributes {
    Attributes::default().set("rules", rules.iter().map(Rule::text).collect::<Vec<_>>())
}

/// Returns the rules in settings.
pub(crate) fn rules(settings: Option<&Attributes>) -> BTreeSet<Rule> {
    let rules = settings
        .and_then(|settings| settings.get("rules"))
        .and_then(Value::as_array);
    rules
        .into_iter()
        .flatten()
        .filter_map(|rule| Rule::parse(rule.as_str()?))
        .collect()
}

/// Returns peer and port of a rule that a cloud controller manager may have written: stateful TCP to one port, from any
/// port, without a description.
fn shape(rule: &Value, peer: &str) -> Option<(String, u16)> {
    let range = &rule["tcpOptions"]["destinationPortRange"];
    let is_ours = rule["protocol"] == "6"
        && rule["isStateless"] != true
        && rule["tcpOptions"]["sourcePortRange"].is_null()
        && rule["description"].as_str().is_none_or(str::is_empty)
        && range["min"] == range["max"];
    let port = range["min"]
        .as_u64()
        .and_then(|port| u16::try_from(port).ok())?;
    is_ours
        .then(|| Some((rule[peer].as_str()?.to_owned(), port)))
        .flatten()
}

fn list_of(document: &Value, direction: &str) -> Vec<Value> {
    document[direction].as_array().cloned().unwrap_or_default()
}

/// Security lists as the API has them.
pub(crate) struct Lists(Api);

#[async_trait]
impl DocumentStore for Lists {
    type Key = String;
    type Document = Value;

    async fn read(&self, key: &String) -> Result<Versioned<Value>> {
        let answer = self
            .0
            .iaas
            .send(Call::get("/20160918/securityLists/{id}", &[key]))
            .await?;
        let version = answer
            .headers
            .get("etag")
            .and_then(|header| header.to_str().ok())
            .map(str::to_owned);
        if version.is_none() {
            let text = format!(
                "the cloud shows security list {key} without an etag, so that no change of it is safe"
            );
            return Err(Error::other(text));
        }
        Ok(Versioned {
            document: answer.json()?,
            version,
        })
    }

    async fn write(&self, key: &String, document: Value, version: Option<&str>) -> Result<()> {
        let fields = [INGRESS.0, EGRESS.0].map(|key| (key.to_owned(), document[key].clone()));
        let body: serde_json::Map<_, _> = fields.into_iter().collect();
        let call = Call::put("/20160918/securityLists/{id}", &[key]).json(&body);
        let call = version
            .iter()
            .fold(call, |call, version| call.header("if-match", version));
        self.0.iaas.send(call).await.map(drop)
    }
}

/// The security lists of the cluster.
pub(crate) struct SecurityLists {
    documents: SharedDocuments<Lists>,
    /// Lists as they were read last, for comparisons.
    read: Mutex<HashMap<String, Arc<Cached<Value>>>>,
    subnets: Arc<Subnets>,
    api: Api,
    cluster: ClusterView,
}

/// The places of one load balancer's rules, and the ports that they are for.
pub(crate) struct Places {
    pub(crate) balancer: Vec<Arc<Subnet>>,
    pub(crate) nodes: Vec<Arc<Subnet>>,
    /// If not set, subnets of some Nodes are not known: no rule may be removed.
    pub(crate) is_complete: bool,
    pub(crate) listeners: BTreeSet<u16>,
    pub(crate) node_ports: BTreeSet<u16>,
    pub(crate) health_ports: BTreeSet<u16>,
    pub(crate) sources: BTreeSet<String>,
    /// Families of backends: IPv4, IPv6.
    pub(crate) families: [bool; 2],
    pub(crate) preserves_source: bool,
}

/// The ports whose rules other Services need: rules have no owner, so they stay.
#[derive(Default)]
pub(super) struct Retained {
    listeners: BTreeSet<u16>,
    node_ports: BTreeSet<u16>,
}

impl Retained {
    /// Returns the ports of all Services except for `service`, or of all with it if `with_own`. Ports count as they are in
    /// the Services, whatever mistakes their annotations have. Users write rules for other Services in mode `None` and for
    /// node ports, which look the same. In mode `NSG` a load balancer needs no rule of a security list.
    pub(super) fn by_others(
        all: &[Arc<Service>],
        service: &Service,
        with_own: bool,
        config: &Config,
    ) -> Self {
        let mut retained = Self::default();
        for other in all
            .iter()
            .filter(|entry| with_own || entry.metadata.uid != service.metadata.uid)
        {
            let Some(spec) = other
                .spec
                .as_ref()
                .filter(|_| other.metadata.deletion_timestamp.is_none())
            else {
                continue;
            };
            let is_balanced = spec.type_.as_deref() == Some("LoadBalancer");
            let needs_none = match LoadBalancerSpec::wanted_mode(other, config) {
                SecurityMode::Groups => is_balanced,
                SecurityMode::None => other.metadata.uid == service.metadata.uid,
                SecurityMode::All | SecurityMode::Frontend => false,
            };
            if needs_none {
                continue;
            }
            let port = |number: i32| u16::try_from(number).ok();
            let ports = || spec.ports.iter().flatten();
            retained
                .node_ports
                .extend(ports().filter_map(|other_port| port(other_port.node_port?)));
            if is_balanced {
                retained
                    .listeners
                    .extend(ports().filter_map(|other_port| port(other_port.port)));
                retained.node_ports.insert(health_port(other));
            }
        }
        retained
    }

    pub(super) fn needs(&self, rule: &Rule) -> bool {
        self.node_ports.contains(&rule.port)
            || rule.is_ingress && self.listeners.contains(&rule.port)
    }
}

impl SecurityLists {
    pub(crate) fn new(api: Api, subnets: Arc<Subnets>, cluster: ClusterView) -> Self {
        let documents = SharedDocuments::new(Lists(api.clone()));
        Self {
            documents,
            read: Mutex::default(),
            subnets,
            api,
            cluster,
        }
    }

    pub(crate) fn subnets(&self) -> &Subnets {
        &self.subnets
    }

    /// Reads a list; one read answers all that compare at the same time.
    async fn document(&self, id: &str) -> Result<Arc<Value>> {
        let cached = Arc::clone(self.read.lock().entry(id.to_owned()).or_default());
        let read = async || Ok(self.documents.store().read(&id.to_owned()).await?.document);
        Ok(cached.get(AGE, read).await?.0)
    }

    /// Returns the security list that is edited of a subnet: the configured one if it is attached, else the oldest. `None` if
    /// the subnet has none, or if all of them were deleted.
    async fn existing_list(&self, subnet: &Subnet) -> Result<Option<String>> {
        let configured = self.api.config.security_lists.get(&subnet.id);
        if let Some(list) =
            configured.filter(|configured| subnet.security_list_ids.contains(configured))
        {
            return Ok(Some(list.clone()));
        }
        if let [only] = &subnet.security_list_ids[..] {
            return Ok(Some(only.clone()));
        }
        let read = async |id: &String| match self.document(id).await {
            Err(error) if error.is_not_found() => Ok(None),
            document => Ok::<_, Error>(Some((document?["timeCreated"].to_string(), id.clone()))),
        };
        let oldest = try_join_all(subnet.security_list_ids.iter().map(read))
            .await?
            .into_iter()
            .flatten()
            .min();
        Ok(oldest.map(|(_, list)| list))
    }

    /// Returns the security list that rules of a subnet are written to.
    async fn list(&self, subnet: &Subnet) -> Result<String> {
        self.existing_list(subnet).await?.ok_or_else(|| {
            Error::invalid(format!(
                "subnet {} has no security list; use security-rule-management-mode NSG or None",
                subnet.id
            ))
        })
    }

    /// Returns the rules that a load balancer needs.
    pub(crate) async fn desired(&self, places: &Places) -> Result<BTreeSet<Rule>> {
        let mut rules = BTreeSet::new();
        let ranges = |subnets: &[Arc<Subnet>]| {
            let ranges = subnets
                .iter()
                .flat_map(|subnet| subnet.ranges())
                .filter(|network| places.families[usize::from(network.addr().is_ipv6())]);
            ranges
                .map(|network| network.to_string())
                .collect::<BTreeSet<_>>()
        };
        let balancer_ranges = ranges(&places.balancer);
        let nodes = ranges(&places.nodes);
        let mut add = |list: &str, is_ingress, peers: &BTreeSet<String>, ports: &BTreeSet<u16>| {
            for (peer, port) in peers
                .iter()
                .flat_map(|peer| ports.iter().map(move |port| (peer, *port)))
            {
                rules.insert(Rule {
                    list: list.to_owned(),
                    is_ingress,
                    peer: peer.clone(),
                    port,
                });
            }
        };
        for subnet in &places.balancer {
            let list = self.list(subnet).await?;
            add(&list, true, &places.sources, &places.listeners);
            add(&list, false, &nodes, &places.node_ports);
            add(&list, false, &nodes, &places.health_ports);
        }
        for subnet in &places.nodes {
            let list = self.list(subnet).await?;
            add(&list, true, &balancer_ranges, &places.node_ports);
            add(&list, true, &balancer_ranges, &places.health_ports);
            if places.preserves_source {
                add(&list, true, &places.sources, &places.node_ports);
            }
        }
        Ok(rules)
    }

    /// Returns the rules for the ports of a load balancer in the lists of its subnets and of those of the Nodes.
    pub(crate) async fn observed(&self, places: &Places) -> Result<BTreeSet<Rule>> {
        let mut lists: BTreeMap<String, [BTreeSet<u16>; 2]> = BTreeMap::new();
        for subnet in &places.balancer {
            let Some(list) = self.existing_list(subnet).await? else {
                continue;
            };
            let [ingress, egress] = lists.entry(list).or_default();
            ingress.extend(&places.listeners);
            egress.extend(places.node_ports.union(&places.health_ports));
        }
        for subnet in &places.nodes {
            let Some(list) = self.existing_list(subnet).await? else {
                continue;
            };
            lists.entry(list).or_default()[0].extend(places.node_ports.union(&places.health_ports));
        }
        let mut rules = BTreeSet::new();
        for (list, [ingress, egress]) in lists {
            let document = match self.document(&list).await {
                // A list that was deleted has no rules.
                Err(error) if error.is_not_found() => continue,
                document => document?,
            };
            for ((direction, peer), ports, is_ingress) in
                [(INGRESS, ingress, true), (EGRESS, egress, false)]
            {
                let shapes = list_of(&document, direction);
                let shapes = shapes
                    .iter()
                    .filter_map(|rule| shape(rule, peer))
                    .filter(|(_, port)| ports.contains(port));
                rules.extend(shapes.map(|(peer, port)| Rule {
                    list: list.clone(),
                    is_ingress,
                    peer,
                    port,
                }));
            }
        }
        Ok(rules)
    }

    /// Returns all Services. A command without caches, such as `orphans`, lists them: without them, no rule may be removed.
    async fn all_services(&self) -> Result<Vec<Arc<Service>>> {
        if let Some(all) = self.cluster.services() {
            return Ok(all);
        }
        let service = |object: &Value| serde_json::from_str(&object.to_string()).map(Arc::new);
        let all = self
            .cluster
            .list("/api/v1/services")
            .await?
            .iter()
            .map(service)
            .collect::<Result<_, _>>();
        all.map_err(|error| {
            Error::other(format!("a Service has another form than expected: {error}"))
        })
    }

    /// Adds and removes rules of a Service, with one write for each list and any number of Services. Rules that another
    /// Service needs by the time of the write stay; if `keeps_own`, those that the Service itself needs, too.
    pub(super) async fn write(
        &self,
        service: &Service,
        keeps_own: bool,
        add: &BTreeSet<Rule>,
        remove: &BTreeSet<Rule>,
    ) -> Result<()> {
        let listed = if remove.is_empty() {
            Vec::new()
        } else {
            self.all_services().await?
        };
        let lists: BTreeSet<_> = add
            .iter()
            .chain(remove)
            .map(|rule| rule.list.clone())
            .collect();
        let edits = lists.iter().map(|list| {
            let of = |rules: &BTreeSet<Rule>| {
                rules
                    .iter()
                    .filter(|rule| rule.list == *list)
                    .cloned()
                    .collect::<Vec<_>>()
            };
            let add = of(add);
            let remove = of(remove);
            let service = service.clone();
            let listed = listed.clone();
            let cluster = self.cluster.clone();
            let config = Arc::clone(&self.api.config);
            let adds = !add.is_empty();
            async move {
                let edited = self.documents.edit(list, move |document| {
                    let mut remove = remove.clone();
                    if !remove.is_empty() {
                        let services = cluster.services();
                        let services = services.as_ref().unwrap_or(&listed);
                        let retained = Retained::by_others(services, &service, keeps_own, &config);
                        remove.retain(|rule| !retained.needs(rule));
                    }
                    edit(document, &add, &remove);
                    Ok(())
                });
                let edited = match edited.await {
                    Err(error) if error.is_not_found() && !adds => Ok(()),
                    edited => edited,
                };
                let cached = self.read.lock().get(list).cloned();
                if let Some(cached) = cached {
                    cached.forget().await;
                }
                edited
            }
        });
        try_join_all(edits).await.map(drop)
    }
}

fn edit(document: &mut Value, add: &[Rule], remove: &[Rule]) {
    for (direction, peer) in [INGRESS, EGRESS] {
        let mut rules = list_of(document, direction);
        let of = |all: &[Rule]| {
            all.iter()
                .filter(|rule| rule.direction().0 == direction)
                .cloned()
                .collect::<Vec<_>>()
        };
        let is_one = |rule: &Value, all: &[Rule]| {
            shape(rule, peer).is_some_and(|(peer, port)| {
                all.iter()
                    .any(|rule| rule.peer == peer && rule.port == port)
            })
        };
        let add = of(add);
        let remove = of(remove);
        rules.retain(|rule| !is_one(rule, &remove));
        for rule in add {
            if !rules
                .iter()
                .any(|other_rule| is_one(other_rule, std::slice::from_ref(&rule)))
            {
                rules.push(rule.written());
            }
        }
        *place(document, &[direction]) = rules.into();
    }
}
