//! Machines of Nodes: one batched lookup, which returns *present*, *gone* or an error for each Node (D-6).

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use crate::listing::Gone;
use crate::{Error, Node, NodeAddress, Result};

/// The properties that a lookup requests. A property that is not requested must not cost a request.
///
/// ```
/// use cloud_provider::LookupRequest;
///
/// let lifecycle = LookupRequest::EXISTENCE.and_shutdown().fresh();
/// assert!(lifecycle.existence && lifecycle.shutdown && lifecycle.fresh);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LookupRequest {
    /// If set, checks if the instance exists. Used before a Node is deleted.
    pub existence: bool,
    /// If set, checks if the instance is shut down.
    pub shutdown: bool,
    /// Level of metadata to return.
    pub metadata: MetadataLevel,
    /// If set, the answer must come from requests that are sent after this call began. Otherwise a provider may answer
    /// from a recent read (about a minute old), as long as that read was complete.
    pub fresh: bool,
}

/// The level of metadata that a lookup requests.
///
/// ```
/// use cloud_provider::{LookupRequest, MetadataLevel};
///
/// assert_eq!(LookupRequest::METADATA.metadata, MetadataLevel::Full);
/// assert_eq!(LookupRequest::EXISTENCE.metadata, MetadataLevel::No);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetadataLevel {
    /// No metadata at all.
    No,
    /// The addresses only, for the periodic address update (NODE-73).
    Addresses,
    /// The whole metadata for the initialization of a Node (PROV-54).
    Full,
}

impl LookupRequest {
    /// A lookup of the instance's existence.
    pub const EXISTENCE: Self = Self {
        existence: true,
        shutdown: false,
        metadata: MetadataLevel::No,
        fresh: false,
    };
    /// A lookup of all metadata.
    pub const METADATA: Self = Self {
        existence: false,
        shutdown: false,
        metadata: MetadataLevel::Full,
        fresh: false,
    };
    /// A lookup of the instance's addresses.
    pub const ADDRESSES: Self = Self {
        existence: false,
        shutdown: false,
        metadata: MetadataLevel::Addresses,
        fresh: false,
    };

    /// Also requests whether the instance is shut down.
    #[must_use]
    pub const fn and_shutdown(self) -> Self {
        Self {
            shutdown: true,
            ..self
        }
    }

    /// Requires requests that are sent after the call began.
    #[must_use]
    pub const fn fresh(self) -> Self {
        Self {
            fresh: true,
            ..self
        }
    }
}

/// The state of the instance of one Node. If the state is unknown, a lookup returns an [`Error`] instead.
///
/// ```
/// use cloud_provider::{Error, Gone, InstanceState, Result};
///
/// fn say(answer: &Result<InstanceState>) -> &'static str {
///     match answer {
///         Ok(InstanceState::Present { shutdown: Some(true), .. }) => "stopped",
///         Ok(InstanceState::Present { .. }) => "there",
///         Ok(InstanceState::Gone(_)) => "gone",
///         Err(_) => "unknown",
///     }
/// }
/// assert_eq!(say(&Ok(InstanceState::Gone(Gone::no_such_id("acme://17")))), "gone");
/// assert_eq!(say(&Err(Error::instance_not_found())), "unknown");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum InstanceState {
    /// The instance exists, running or not.
    Present {
        /// `true` if the instance is shut down; `None` if that was not requested.
        shutdown: Option<bool>,
        /// Metadata of the instance; `None` if it was not requested, or if the cloud has none yet (PROV-53).
        metadata: Option<Box<InstanceMetadata>>,
    },
    /// The instance does not exist. See [`Gone`], which cannot be created from an error or a partial list.
    Gone(Gone),
}

/// The metadata of an instance, which is written to its Node (PROV-54).
///
/// An empty value means "no statement": nothing is written and nothing removed (PROV-55).
///
/// ```
/// use cloud_provider::{AddressType, InstanceMetadata, NodeAddress};
///
/// let metadata = InstanceMetadata {
///     provider_id: "acme://17".into(),
///     zone: "acme-1a".into(),
///     node_addresses: vec![NodeAddress::new(AddressType::InternalIP, "10.0.0.4")],
///     ..InstanceMetadata::default()
/// };
/// assert!(metadata.region.is_empty(), "no statement: the Node's region label stays as it is");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct InstanceMetadata {
    /// Value of `spec.providerID`, by convention `<provider-name>://<instance-id>`; must stay the same across releases.
    pub provider_id: String,
    /// Value of the label `node.kubernetes.io/instance-type` and its deprecated twin.
    pub instance_type: String,
    /// Value of the label `topology.kubernetes.io/zone` and its deprecated twin.
    pub zone: String,
    /// Value of the label `topology.kubernetes.io/region` and its deprecated twin.
    pub region: String,
    /// Value of `status.addresses`, in this order.
    pub node_addresses: Vec<NodeAddress>,
    /// Further labels. Keys of Kubernetes' own domains and keys that the Node already has are discarded (NODE-22).
    pub additional_labels: BTreeMap<String, String>,
}

/// The machines of a cloud.
///
/// Implement this trait if the cloud can answer for many machines at once (a list, in pages): the controllers look up
/// all Nodes of interest in one call. For a cloud that can only be read machine by machine, implement
/// [`InstancesV2`](crate::InstancesV2) and get this trait from [`V2`](crate::V2).
///
/// ```
/// use std::sync::Arc;
/// use cloud_provider::{async_trait, Error, Gone, Instances, InstanceState, Listing, Node, Result, LookupRequest};
///
/// struct Acme;
/// struct Machine { id: String, stopped: bool }
/// # impl Acme { async fn page(&self, _number: u32) -> Result<(Vec<Machine>, bool)> {
/// #     Ok((vec![Machine { id: "acme://1".into(), stopped: true }], false)) } }
///
/// #[async_trait]
/// impl Instances for Acme {
///     async fn lookup(&self, nodes: &[Arc<Node>], _request: LookupRequest) -> Vec<Result<InstanceState>> {
///         let listing = async {
///             let mut listing = Listing::new();
///             for number in 1.. {
///                 let (machines, more) = self.page(number).await?;
///                 listing.add_page(machines, more);
///                 if !more { break }
///             }
///             listing.finish()
///         };
///         let all = match listing.await {
///             Ok(all) => all,
///             Err(err) => return nodes.iter().map(|_| Err(err.clone())).collect(),
///         };
///         nodes.iter().map(|node| match all.items().iter().find(|m| *m.id == *node.provider_id) {
///             Some(machine) => Ok(InstanceState::Present { shutdown: Some(machine.stopped), metadata: None }),
///             None => all.prove_absence(&node.provider_id).map(InstanceState::Gone),
///         }).collect()
///     }
/// }
/// ```
#[async_trait]
pub trait Instances: Send + Sync {
    /// Looks up the instance of each Node; returns exactly one answer for each, in the order of the Nodes.
    ///
    /// Use [`Node::provider_id`] first, and fall back to name, labels or annotations where it is empty (PROV-50). An
    /// instance that is stopped, asleep or moving exists. A call may be dropped at any await point.
    async fn lookup(
        &self,
        nodes: &[Arc<Node>],
        request: LookupRequest,
    ) -> Vec<Result<InstanceState>>;

    /// Returns the provider ID of one Node: `spec.providerID` if it is set, or else the ID that the cloud reports for
    /// the instance (LIFE-24). Empty if the cloud reports none.
    ///
    /// # Errors
    /// The cloud's answer; "instance not found" if it has no such instance.
    async fn provider_id(&self, node: &Arc<Node>) -> Result<String> {
        if let Some(id) = node.provider_id() {
            return Ok(id.to_owned());
        }
        match single_answer(
            self.lookup(std::slice::from_ref(node), LookupRequest::METADATA)
                .await,
        )? {
            InstanceState::Present { metadata, .. } => {
                Ok(metadata.map(|m| m.provider_id).unwrap_or_default())
            }
            InstanceState::Gone(_) => Err(Error::instance_not_found()),
        }
    }

    /// Returns `true` if a Node may be initialized without a provider ID. Only for providers ported from `InstancesV1`,
    /// whose clouds may have no instance IDs (NODE-47).
    fn provider_id_is_optional(&self) -> bool {
        false
    }
}

/// Returns the only answer to a lookup of one Node.
///
/// # Errors
/// The error in the answer, or "broken provider" if there is not exactly one answer.
///
/// ```
/// use cloud_provider::{single_answer, InstanceState};
///
/// let there = InstanceState::Present { shutdown: None, metadata: None };
/// assert_eq!(single_answer(vec![Ok(there.clone())])?, there);
/// assert!(single_answer(vec![]).is_err());
/// # Ok::<(), cloud_provider::Error>(())
/// ```
pub fn single_answer(mut answers: Vec<Result<InstanceState>>) -> Result<InstanceState> {
    match (answers.pop(), answers.is_empty()) {
        (Some(answer), true) => answer,
        _ => Err(Error::other(
            "the provider did not return exactly one answer for one Node",
        )),
    }
}
