//! The APIs of AWS, and the cluster that they are used for.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use aws_protocol::{Aws, Client, Query};
use cloud_provider::{Error, Result};
use provider_kit::catalog::Catalog;
use provider_kit::inventory::SharedPriority;
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;

use crate::config::Config;

/// Prefix of the cluster's tag; the rest is the cluster ID.
pub(crate) const CLUSTER_TAG: &str = "kubernetes.io/cluster/";
/// Tag of old clusters; the value is the cluster ID.
pub(crate) const LEGACY_TAG: &str = "KubernetesCluster";
/// Availability zones never change their ID.
const FOREVER: Duration = Duration::from_secs(365 * 86_400);
/// Items of a page of EC2's lists.
pub(crate) const PAGE: usize = 1000;

/// Declares structs of AWS, such as `wire! { "camelCase"; Group { group_id: String } }`: EC2 writes `camelCase`, ELB `PascalCase`. What an
/// answer does not tell is empty.
macro_rules! wire {
    ($case:literal; $($(#[$of:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $kind:ty),* $(,)? })*) => {$(
        $(#[$of])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = $case, default)]
        pub(crate) struct $name { $($(#[$doc])* pub(crate) $field: $kind),* }
    )*};
}
pub(crate) use wire;

/// The clients and the configuration. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Api(Arc<Inner>);

/// The things that the parts of the provider share.
pub(crate) struct Inner {
    pub(crate) aws: Aws,
    pub(crate) config: Config,
    /// Availability zones by name; an unknown name leads to another read.
    pub(crate) zones: Catalog<Zone>,
    identity: OnceCell<Identity>,
}

impl Deref for Api {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

/// The cluster and its place in AWS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Cluster ID; `None` in a cluster without tags.
    pub(crate) cluster: Option<String>,
    /// If set, new objects get the legacy tag, too.
    pub(crate) is_legacy: bool,
    /// VPC of the cluster.
    pub(crate) vpc: String,
    /// Subnet of the program's instance, or of the configuration; may be empty.
    pub(crate) subnet: String,
}

wire! { "camelCase";
    /// A tag; EC2 and ELB write its fields differently.
    Tag { #[serde(alias = "Key")] key: String, #[serde(alias = "Value")] value: String }
    /// An availability, local or wavelength zone: that is its type.
    Zone { zone_name: String, zone_id: String, zone_type: String }
    /// The program's own instance.
    OwnInstance { vpc_id: String, subnet_id: String, tag_set: Vec<Tag> }
    OwnReservation { instances_set: Vec<OwnInstance> }
    OwnReservations { reservation_set: Vec<OwnReservation> }
}

/// Reads a whole list; `key` tells items apart.
///
/// # Errors
/// The answer of AWS; also if the list is not complete.
pub(crate) async fn all<T: DeserializeOwned>(
    client: &Client,
    query: Query,
    collection: &str,
    key: fn(&T) -> String,
) -> Result<Vec<T>> {
    Ok(client
        .list(
            query,
            collection,
            &SharedPriority::default(),
            |client: T| client,
            key,
        )
        .await?
        .complete()?
        .into_items())
}

impl Api {
    pub(crate) fn new(aws: Aws, config: Config) -> Self {
        let client = aws.ec2.clone();
        let zones = Catalog::new("availability zone", FOREVER, move || {
            let client = client.clone();
            async move {
                let query = Query::new("DescribeAvailabilityZones");
                all(&client, query, "availabilityZoneInfo", |zone: &Zone| {
                    zone.zone_name.clone()
                })
                .await
            }
        });
        Self(Arc::new(Inner {
            aws,
            config,
            zones,
            identity: OnceCell::new(),
        }))
    }

    /// Returns the cluster, read once: from the configuration, or else from the program's own instance.
    ///
    /// # Errors
    /// *Invalid*, naming the keys to set; the answer of EC2 or of the metadata service.
    pub(crate) async fn identity(&self) -> Result<&Identity> {
        self.identity.get_or_try_init(|| self.find_identity()).await
    }

    /// Returns the cluster if it has been read.
    pub(crate) fn known_identity(&self) -> Option<&Identity> {
        self.identity.get()
    }

    async fn find_identity(&self) -> Result<Identity> {
        let config = &self.config;
        let configured = Identity {
            cluster: config.cluster_id.clone(),
            is_legacy: config.is_legacy,
            vpc: config.vpc.clone().unwrap_or_default(),
            subnet: config.subnet.clone().unwrap_or_default(),
        };
        if config.is_elsewhere() {
            return Ok(configured);
        }
        let help = "set VPC, KubernetesClusterID and SubnetID or RoleARN in [Global] to run outside of the VPC";
        let instance = self.own_instance().await.map_err(|error| {
            error.context(format!(
                "cannot find the instance that the program runs on; {help}"
            ))
        })?;
        let tagged = match &configured.cluster {
            Some(_) => None,
            None => cluster_of(&instance.tag_set)?,
        };
        let is_legacy =
            configured.is_legacy || tagged.as_ref().is_some_and(|(_, is_legacy)| *is_legacy);
        let cluster = configured.cluster.or(tagged.map(|(id, _)| id));
        let subnet = if configured.subnet.is_empty() {
            instance.subnet_id
        } else {
            configured.subnet
        };
        let vpc = if configured.vpc.is_empty() {
            instance.vpc_id
        } else {
            configured.vpc
        };
        Ok(Identity {
            cluster,
            is_legacy,
            vpc,
            subnet,
        })
    }

    async fn own_instance(&self) -> Result<OwnInstance> {
        let id = self.aws.metadata("meta-data/instance-id").await?;
        let id = id.ok_or_else(|| {
            Error::invalid("the metadata service gives no instance-id; AWS_EC2_METADATA_DISABLED must not be true")
        })?;
        let answer: OwnReservations = self
            .aws
            .ec2
            .read(Query::new("DescribeInstances").set("InstanceId", [&id]))
            .await?;
        let mut instances = answer
            .reservation_set
            .into_iter()
            .flat_map(|own_reservation| own_reservation.instances_set);
        instances
            .next()
            .ok_or_else(|| Error::other(format!("EC2 does not know instance {id} (yet)")))
    }
}

/// Returns the cluster ID that the tags of an instance name, and whether it is in the legacy tag.
///
/// # Errors
/// *Invalid* if the tags name several clusters.
pub(crate) fn cluster_of(tags: &[Tag]) -> Result<Option<(String, bool)>> {
    let mut named: Vec<_> = tags
        .iter()
        .filter_map(|tag| tag.key.strip_prefix(CLUSTER_TAG))
        .collect();
    let legacy = tags
        .iter()
        .find(|tag| tag.key == LEGACY_TAG && !tag.value.is_empty())
        .map(|tag| &*tag.value);
    named.extend(legacy);
    named.sort_unstable();
    named.dedup();
    match named[..] {
        [] => Ok(None),
        [id] => Ok(Some((id.to_owned(), legacy.is_some()))),
        _ => Err(Error::invalid(format!(
            "the instance has tags of several clusters ({}); remove all but one, or set KubernetesClusterID in [Global]",
            named.join(", ")
        ))),
    }
}

impl Identity {
    /// Returns the key of the cluster's tag.
    pub(crate) fn tag_key(&self) -> Option<String> {
        self.cluster.as_ref().map(|id| format!("{CLUSTER_TAG}{id}"))
    }

    /// Returns the keys by which EC2 filters the objects of the cluster.
    pub(crate) fn tag_keys(&self) -> Option<[String; 2]> {
        Some([self.tag_key()?, LEGACY_TAG.to_owned()])
    }

    /// Returns `true` if an object with these tags belongs to the cluster. Without a cluster ID all objects do.
    pub(crate) fn has(&self, tags: &[Tag]) -> bool {
        self.tag_of(tags).is_none_or(|tag| tag.is_some())
    }

    /// Returns the cluster's tag among these; `None` without a cluster ID.
    fn tag_of<'a>(&self, tags: &'a [Tag]) -> Option<Option<&'a Tag>> {
        let id = self.cluster.as_deref()?;
        let key = self.tag_key()?;
        let legacy = tags
            .iter()
            .find(|tag| tag.key == LEGACY_TAG && tag.value == id);
        Some(legacy.or_else(|| tags.iter().find(|tag| tag.key == key)))
    }

    /// Returns the tags of objects that the cluster creates.
    pub(crate) fn owner_tags(&self) -> Vec<(String, String)> {
        let legacy = self
            .cluster
            .iter()
            .filter(|_| self.is_legacy)
            .map(|id| (LEGACY_TAG.to_owned(), id.clone()));
        self.tag_key()
            .map(|key| (key, "owned".to_owned()))
            .into_iter()
            .chain(legacy)
            .collect()
    }
}
