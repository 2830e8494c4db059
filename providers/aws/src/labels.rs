//! Labels of Nodes: the zone's ID, and the place in the network.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use aws_protocol::Query;
use cloud_provider::{Error, InstanceMetadata, InstanceState, Node, Result};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::api::{Api, wire};
use crate::instances::machine_id;

/// ID of the zone, which is the same in all accounts.
pub(crate) const ZONE_ID: &str = "topology.k8s.aws/zone-id";
/// Prefix of the labels of the layers of the network, of which 1 is the outermost.
pub(crate) const LAYER: &str = "topology.k8s.aws/network-node-layer-";
/// Time for which "no topology" is believed.
const ABSENCE: Duration = Duration::from_secs(86_400);
/// IDs of one request for topology.
const MOST: usize = 100;

/// Answers "no topology" that are believed for a while.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Absent {
    Region,
    Type(String),
    Instance(String),
}

wire! { "camelCase";
    Topologies { instance_set: Vec<Topology> }
    Topology { instance_id: String, network_node_set: Vec<String> }
}

/// Adds labels to the metadata of new Nodes.
pub(crate) struct Labels {
    api: Api,
    absent: Mutex<HashMap<Absent, Instant>>,
}

/// A Node that lacks the labels of the network: its place among the answers, instance ID and type.
struct Lacking {
    at: usize,
    id: String,
    kind: String,
}

impl Labels {
    pub(crate) fn new(api: Api) -> Self {
        Self {
            api,
            absent: Mutex::default(),
        }
    }

    /// Completes the metadata of these Nodes. A failure replaces the answer where the label is required.
    pub(crate) async fn add(&self, nodes: &[Arc<Node>], states: &mut [Result<InstanceState>]) {
        for (node, state) in nodes.iter().zip(states.iter_mut()) {
            let zone = metadata(state)
                .map(|metadata| metadata.zone.clone())
                .unwrap_or_default();
            if !zone.is_empty() && !node.labels.contains_key(ZONE_ID) {
                match self
                    .api
                    .zones
                    .named(&zone, |zone| &zone.zone_name, |zone| zone.zone_id.clone())
                    .await
                {
                    Ok((id, _)) => label(state, ZONE_ID.to_owned(), id),
                    Err(error) if error.is_unauthorized() || error.is_invalid() => {
                        tracing::warn!(node = &*node.name, %error, "Node gets no label with the ID of its zone");
                    }
                    Err(error) => {
                        *state =
                            Err(error.context(format!("ID of zone {zone} of Node {}", node.name)));
                    }
                }
            }
        }
        let lacks = |(at, (node, state)): (usize, (&Arc<Node>, &mut Result<InstanceState>))| {
            let object = metadata(state).filter(|metadata| !metadata.instance_type.is_empty())?;
            let lacks = !node.labels.contains_key(&format!("{LAYER}1"));
            let id = machine_id(&object.provider_id).ok().filter(|_| lacks)?;
            Some(Lacking {
                at,
                id: id.to_owned(),
                kind: object.instance_type.clone(),
            })
        };
        let lacking = nodes
            .iter()
            .zip(states.iter_mut())
            .enumerate()
            .filter_map(lacks)
            .collect();
        self.add_topology(lacking, states).await;
    }

    /// Asks for the places of these instances, as few at a time as are not known to have none.
    async fn add_topology(&self, mut lacking: Vec<Lacking>, states: &mut [Result<InstanceState>]) {
        loop {
            lacking.retain(|mistake| !self.is_absent(mistake));
            // An unknown type is asked about once: the answer is the same for all instances of the type.
            let mut kinds = HashSet::new();
            let is_first = |mistake: &&Lacking| {
                self.is_required(mistake) || kinds.insert(mistake.kind.clone())
            };
            let asked: Vec<_> = lacking
                .iter()
                .filter(is_first)
                .take(MOST)
                .map(|mistake| mistake.id.clone())
                .collect();
            if asked.is_empty() {
                return;
            }
            let all = self.read(&asked).await;
            let (asked, rest): (Vec<_>, Vec<_>) = lacking
                .into_iter()
                .partition(|mistake| asked.contains(&mistake.id));
            lacking = rest;
            for object in asked {
                match &all {
                    Ok(all) => match all.get(&object.id) {
                        Some(layers) => layers.iter().zip(1..).for_each(|(layer, number)| {
                            label(
                                &mut states[object.at],
                                format!("{LAYER}{number}"),
                                layer.clone(),
                            );
                        }),
                        None if self.is_required(&object) => {
                            self.believe(Absent::Instance(object.id));
                        }
                        None => self.believe(Absent::Type(object.kind)),
                    },
                    Err(error) if self.is_required(&object) => {
                        states[object.at] = Err(error.clone());
                    }
                    Err(error) => {
                        tracing::debug!(id = object.id, %error, "Node gets no labels of the network");
                    }
                }
            }
            if all.is_err() {
                let required = lacking.iter().filter(|mistake| self.is_required(mistake));
                let error = all.err().unwrap_or_else(Error::not_implemented);
                required.for_each(|mistake| states[mistake.at] = Err(error.clone()));
                return;
            }
        }
    }

    /// Reads the layers of these instances. A region or a role without topology has none.
    async fn read(&self, ids: &[String]) -> Result<HashMap<String, Vec<String>>> {
        let query = Query::new("DescribeInstanceTopology").set("InstanceId", ids);
        match self.api.aws.ec2.read::<Topologies>(query).await {
            Ok(all) => Ok(all
                .instance_set
                .into_iter()
                .map(|topology| (topology.instance_id, topology.network_node_set))
                .collect()),
            Err(error)
                if ["UnsupportedOperation", "UnauthorizedOperation"].contains(&error.code()) =>
            {
                tracing::info!(%error, "Nodes get no labels of the network");
                self.believe(Absent::Region);
                Ok(HashMap::new())
            }
            Err(error) => Err(error.context("place in the network")),
        }
    }

    fn is_required(&self, mistake: &Lacking) -> bool {
        self.api.config.topology_types.is_match(&mistake.kind)
    }

    fn is_absent(&self, object: &Lacking) -> bool {
        let mut absent = self.absent.lock();
        absent.retain(|_, since| since.elapsed() < ABSENCE);
        let keys = [
            Absent::Region,
            Absent::Type(object.kind.clone()),
            Absent::Instance(object.id.clone()),
        ];
        keys.iter().any(|key| absent.contains_key(key))
    }

    fn believe(&self, absent: Absent) {
        self.absent.lock().insert(absent, Instant::now());
    }
}

fn metadata(state: &mut Result<InstanceState>) -> Option<&mut InstanceMetadata> {
    match state {
        Ok(InstanceState::Present { metadata, .. }) => metadata.as_deref_mut(),
        _ => None,
    }
}

fn label(state: &mut Result<InstanceState>, key: String, value: String) {
    let labels: Option<&mut BTreeMap<_, _>> =
        metadata(state).map(|metadata| &mut metadata.additional_labels);
    if let Some(labels) = labels.filter(|_| !value.is_empty()) {
        labels.insert(key, value);
    }
}
