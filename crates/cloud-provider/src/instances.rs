//! Machines behind Nodes: one batched question, one three-way answer (D-6).

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use crate::listing::Gone;
use crate::{Error, Node, NodeAddress, Result};

/// What is wanted of a look-up. Nothing that is not wanted may cost a request.
///
/// ```
/// use cloud_provider::Want;
///
/// let lifecycle = Want::EXISTENCE.and_shutdown().fresh();
/// assert!(lifecycle.existence && lifecycle.shutdown && lifecycle.fresh);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Want {
    /// Does the instance exist at all? Asked before a Node may be deleted.
    pub existence: bool,
    /// Is the instance shut down?
    pub shutdown: bool,
    /// How much of the metadata.
    pub metadata: WantMetadata,
    /// Whether the answer must come from requests that are sent after this call began. Otherwise a provider may answer
    /// from what it read a short while ago (about a minute), as long as what it read was complete.
    pub fresh: bool,
}

/// How much metadata is wanted.
///
/// ```
/// use cloud_provider::{Want, WantMetadata};
///
/// assert_eq!(Want::METADATA.metadata, WantMetadata::Full);
/// assert_eq!(Want::EXISTENCE.metadata, WantMetadata::No);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WantMetadata {
    /// None.
    No,
    /// The addresses only: the periodic address pass (NODE-73).
    Addresses,
    /// Everything that initialises a Node (PROV-54).
    Full,
}

impl Want {
    /// Only whether it exists.
    pub const EXISTENCE: Self = Self { existence: true, shutdown: false, metadata: WantMetadata::No, fresh: false };
    /// All metadata.
    pub const METADATA: Self = Self { existence: false, shutdown: false, metadata: WantMetadata::Full, fresh: false };
    /// Addresses.
    pub const ADDRESSES: Self =
        Self { existence: false, shutdown: false, metadata: WantMetadata::Addresses, fresh: false };

    /// Also whether it is shut down.
    #[must_use]
    pub const fn and_shutdown(self) -> Self {
        Self { shutdown: true, ..self }
    }

    /// Read from the cloud after the call began.
    #[must_use]
    pub const fn fresh(self) -> Self {
        Self { fresh: true, ..self }
    }
}

/// What a cloud says of the instance behind one Node. An error is the third answer: "could not find out".
///
/// ```
/// use cloud_provider::{Error, Gone, InstanceState, Result};
///
/// fn say(answer: &Result<InstanceState>) -> &'static str {
///     match answer {
///         Ok(InstanceState::Present { shutdown: Some(true), .. }) => "stopped",
///         Ok(InstanceState::Present { .. }) => "there",
///         Ok(InstanceState::Gone(_)) => "gone",
///         Err(_) => "nobody knows",
///     }
/// }
/// assert_eq!(say(&Ok(InstanceState::Gone(Gone::no_such_id("acme://17")))), "gone");
/// assert_eq!(say(&Err(Error::instance_not_found())), "nobody knows");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum InstanceState {
    /// It exists, running or not.
    Present {
        /// Whether it is shut down; `None` if that was not asked.
        shutdown: Option<bool>,
        /// Its metadata; `None` if that was not asked, or if the cloud has none yet (PROV-53).
        metadata: Option<Box<InstanceMetadata>>,
    },
    /// It does not exist. A [`Gone`] cannot be made from an error or from a half-read list: see there.
    Gone(Gone),
}

/// What a cloud knows of an instance, and what becomes of it on the Node (PROV-54).
///
/// Empty means "no statement": nothing is written and nothing removed (PROV-55).
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
    /// `spec.providerID`, by convention `<provider-name>://<instance-id>`; must stay the same over releases.
    pub provider_id: String,
    /// Label `node.kubernetes.io/instance-type` and its deprecated twin.
    pub instance_type: String,
    /// Label `topology.kubernetes.io/zone` and its deprecated twin.
    pub zone: String,
    /// Label `topology.kubernetes.io/region` and its deprecated twin.
    pub region: String,
    /// `status.addresses`, in this order.
    pub node_addresses: Vec<NodeAddress>,
    /// Further labels. Keys of Kubernetes' own domains and keys that the Node has already are discarded (NODE-22).
    pub additional_labels: BTreeMap<String, String>,
}

/// The machines of a cloud.
///
/// Implement this one if the cloud can answer for many machines at once (a list, in pages): the controllers ask for all
/// Nodes of interest in one call. A cloud that can only be asked machine by machine implements
/// [`InstancesV2`](crate::InstancesV2) and gets this trait from [`V2`](crate::V2).
///
/// ```
/// use std::sync::Arc;
/// use cloud_provider::{async_trait, Error, Gone, Instances, InstanceState, Listing, Node, Result, Want};
///
/// struct Acme;
/// struct Machine { id: String, stopped: bool }
/// # impl Acme { async fn page(&self, _number: u32) -> Result<(Vec<Machine>, bool)> {
/// #     Ok((vec![Machine { id: "acme://1".into(), stopped: true }], false)) } }
///
/// #[async_trait]
/// impl Instances for Acme {
///     async fn lookup(&self, nodes: &[Arc<Node>], _want: Want) -> Vec<Result<InstanceState>> {
///         let listing = async {
///             let mut listing = Listing::new();
///             for number in 1.. {
///                 let (machines, more) = self.page(number).await?;
///                 listing.page(machines, more);
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
///             None => all.absence_of(&node.provider_id).map(InstanceState::Gone),
///         }).collect()
///     }
/// }
/// ```
#[async_trait]
pub trait Instances: Send + Sync {
    /// Answers for each Node, in their order; exactly one answer each.
    ///
    /// Look at [`Node::provider_id`] first and fall back to name, labels or annotations where it is empty (PROV-50).
    /// An instance that is stopped, asleep or moving exists. A call may be dropped at any await.
    async fn lookup(&self, nodes: &[Arc<Node>], want: Want) -> Vec<Result<InstanceState>>;

    /// The provider id of one Node: its own if it has one, else what the cloud says (LIFE-24). May be empty.
    ///
    /// # Errors
    /// What the cloud answered; "instance not found" if it has no such instance.
    async fn provider_id(&self, node: &Arc<Node>) -> Result<String> {
        if let Some(id) = node.provider_id() {
            return Ok(id.to_owned());
        }
        match single(self.lookup(std::slice::from_ref(node), Want::METADATA).await)? {
            InstanceState::Present { metadata, .. } => Ok(metadata.map(|m| m.provider_id).unwrap_or_default()),
            InstanceState::Gone(_) => Err(Error::instance_not_found()),
        }
    }

    /// Whether a Node may be initialised without a provider id. Only clouds of the first generation have none (NODE-47).
    fn provider_id_is_optional(&self) -> bool {
        false
    }
}

/// The answer to a look-up of one Node.
///
/// # Errors
/// The answer itself, or "broken provider" if there is not exactly one.
///
/// ```
/// use cloud_provider::{single, InstanceState};
///
/// let there = InstanceState::Present { shutdown: None, metadata: None };
/// assert_eq!(single(vec![Ok(there.clone())])?, there);
/// assert!(single(vec![]).is_err());
/// # Ok::<(), cloud_provider::Error>(())
/// ```
pub fn single(mut answers: Vec<Result<InstanceState>>) -> Result<InstanceState> {
    match (answers.pop(), answers.is_empty()) {
        (Some(answer), true) => answer,
        _ => Err(Error::other("the provider did not give exactly one answer for one node")),
    }
}
