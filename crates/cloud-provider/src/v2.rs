//! Adapter for providers written for the Go interface `InstancesV2`, which looks up one Node at a time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};

use crate::instances::{InstanceState, Instances, LookupRequest, MetadataLevel};
use crate::listing::Gone;
use crate::{Error, InstanceMetadata, Node, Result};

/// The number of concurrent lookups of an adapter.
const CONCURRENT_LOOKUPS: usize = 8;

/// The timeout of the lookup of one Node: a lookup that hangs must not cost the other Nodes their answers (INV-6).
const DEADLINE: Duration = Duration::from_secs(60);

/// Returns the answers to separate lookups, in the order of the Nodes.
pub(crate) async fn one_by_one(
    lookups: Vec<BoxFuture<'_, Result<InstanceState>>>,
) -> Vec<Result<InstanceState>> {
    let timed: Vec<BoxFuture<'_, _>> = lookups
        .into_iter()
        .enumerate()
        .map(|(index, lookup)| in_time(index, lookup).boxed())
        .collect();
    let mut answers: Vec<_> = futures::stream::iter(timed)
        .buffer_unordered(CONCURRENT_LOOKUPS)
        .collect()
        .await;
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

async fn in_time(
    index: usize,
    lookup: BoxFuture<'_, Result<InstanceState>>,
) -> (usize, Result<InstanceState>) {
    let late = |_| {
        Err(Error::other(format!(
            "no answer within {} s",
            DEADLINE.as_secs()
        )))
    };
    (
        index,
        tokio::time::timeout(DEADLINE, lookup)
            .await
            .unwrap_or_else(late),
    )
}

/// Machines that are looked up one Node at a time (PROV-50 … PROV-53).
///
/// Each method takes the whole Node: use its provider ID first, and fall back to name, labels or annotations.
///
/// ```
/// use cloud_provider::{async_trait, InstanceMetadata, InstancesV2, Node, Result};
///
/// struct Acme;
///
/// #[async_trait]
/// impl InstancesV2 for Acme {
///     async fn instance_exists(&self, node: &Node) -> Result<bool> { Ok(node.provider_id().is_some()) }
///     async fn instance_shutdown(&self, _node: &Node) -> Result<bool> { Ok(false) }
///     async fn instance_metadata(&self, _node: &Node) -> Result<Option<InstanceMetadata>> { Ok(None) }
/// }
/// ```
#[async_trait]
pub trait InstancesV2: Send + Sync {
    /// Returns `true` if the instance exists. `Ok(false)` can delete the Node; *every* error, *not found* included,
    /// means "unknown" (PROV-51).
    async fn instance_exists(&self, node: &Node) -> Result<bool>;
    /// Returns `true` if the instance is shut down. Called only for instances that exist (PROV-52).
    async fn instance_shutdown(&self, node: &Node) -> Result<bool>;
    /// Returns the instance's metadata; `None` if the cloud has none yet, or if the Node belongs to another provider
    /// (PROV-53).
    async fn instance_metadata(&self, node: &Node) -> Result<Option<InstanceMetadata>>;
}

/// Adapter from [`InstancesV2`] to [`Instances`], with the order of calls of the Go cloud controller manager.
///
/// ```
/// use cloud_provider::{async_trait, Instances, InstancesV2, InstanceMetadata, Node, Result, V2};
///
/// struct Acme;
///
/// #[async_trait]
/// impl InstancesV2 for Acme {
///     async fn instance_exists(&self, _node: &Node) -> Result<bool> { Ok(true) }
///     async fn instance_shutdown(&self, _node: &Node) -> Result<bool> { Ok(false) }
///     async fn instance_metadata(&self, node: &Node) -> Result<Option<InstanceMetadata>> {
///         Ok(Some(InstanceMetadata { provider_id: format!("acme://{}", node.name), ..Default::default() }))
///     }
/// }
///
/// let instances: Box<dyn Instances> = Box::new(V2(Acme));
/// ```
pub struct V2<T>(pub T);

impl<T: InstancesV2> V2<T> {
    async fn lookup_one(&self, node: &Node, request: LookupRequest) -> Result<InstanceState> {
        if request.existence && !self.0.instance_exists(node).await? {
            return Ok(InstanceState::Gone(match node.provider_id() {
                Some(id) => Gone::no_such_id(id),
                None => Gone::no_such_name(&node.name),
            }));
        }
        let shutdown = if request.shutdown {
            Some(self.0.instance_shutdown(node).await?)
        } else {
            None
        };
        let metadata = match request.metadata {
            MetadataLevel::No => None,
            MetadataLevel::Addresses | MetadataLevel::Full => {
                self.0.instance_metadata(node).await?.map(Box::new)
            }
        };
        Ok(InstanceState::Present { shutdown, metadata })
    }
}

#[async_trait]
impl<T: InstancesV2> Instances for V2<T> {
    async fn lookup(
        &self,
        nodes: &[Arc<Node>],
        request: LookupRequest,
    ) -> Vec<Result<InstanceState>> {
        one_by_one(
            nodes
                .iter()
                .map(|node| self.lookup_one(node, request).boxed())
                .collect(),
        )
        .await
    }
}

#[async_trait]
impl<T: InstancesV2 + ?Sized> InstancesV2 for Arc<T> {
    async fn instance_exists(&self, node: &Node) -> Result<bool> {
        (**self).instance_exists(node).await
    }
    async fn instance_shutdown(&self, node: &Node) -> Result<bool> {
        (**self).instance_shutdown(node).await
    }
    async fn instance_metadata(&self, node: &Node) -> Result<Option<InstanceMetadata>> {
        (**self).instance_metadata(node).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct OneHangs;

    #[async_trait]
    impl InstancesV2 for OneHangs {
        async fn instance_exists(&self, node: &Node) -> Result<bool> {
            if &*node.name == "hangs" {
                std::future::pending().await
            } else {
                Ok(true)
            }
        }
        async fn instance_shutdown(&self, _node: &Node) -> Result<bool> {
            Ok(false)
        }
        async fn instance_metadata(&self, _node: &Node) -> Result<Option<InstanceMetadata>> {
            Ok(None)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn lookup_that_hangs_does_not_delay_other_nodes() {
        let nodes: Vec<Arc<Node>> = std::iter::once("hangs".to_owned())
            .chain((1..50).map(|n| format!("n{n}")))
            .map(|name| {
                Arc::new(Node {
                    name: name.into(),
                    ..Node::default()
                })
            })
            .collect();
        let answers = V2(OneHangs).lookup(&nodes, LookupRequest::EXISTENCE).await;
        assert!(answers[0].is_err());
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 49);
    }
}
