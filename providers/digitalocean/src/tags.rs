//! `DO_CLUSTER_ID`: a background task that adds the cluster's tag to all load balancers of the cluster, including those
//! that were created without it.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Caches, Result, Service, default_load_balancer_name};
use provider_kit::transport::Call;
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::api::Api;
use crate::load_balancers::object::{LoadBalancer, OWNER_TAGS};

/// Interval at which load balancers are compared, to which up to [`JITTER`] is added.
const PERIOD: Duration = Duration::from_secs(15 * 60);
const JITTER: Duration = Duration::from_secs(10 * 60);
/// Time-out of one comparison.
const LONGEST: Duration = Duration::from_secs(60);

/// Adds a tag to load balancers; the tag is created if it does not exist.
///
/// # Errors
/// The cloud's error.
pub(crate) async fn add(api: &Api, tag: &str, load_balancers: &[String]) -> Result<()> {
    let resource = |id| json!({"resource_id": id, "resource_type": "load_balancer"});
    let resources: Vec<_> = load_balancers.iter().map(resource).collect();
    let call = || {
        Call::post("/v2/tags/{tag}/resources", &[tag])
            .json(&json!({"resources": resources}))
            .repeatable()
    };
    match api.http.send(call()).await {
        Err(error) if error.is_not_found() => {
            api.http
                .send(
                    Call::post("/v2/tags", &[])
                        .json(&json!({"name": tag}))
                        .repeatable(),
                )
                .await?;
            api.http.send(call()).await.map(drop)
        }
        answer => answer.map(drop),
    }
}

/// Removes a tag from a load balancer; the tag itself stays.
///
/// # Errors
/// The cloud's error.
pub(crate) async fn remove(api: &Api, tag: &str, load_balancer: &str) -> Result<()> {
    let resources =
        json!({"resources": [{"resource_id": load_balancer, "resource_type": "load_balancer"}]});
    api.http
        .remove(Call::delete("/v2/tags/{tag}/resources", &[tag]).json(&resources))
        .await
}

/// Adds the cluster's tag to load balancers that lack it.
pub(crate) struct ClusterTag {
    pub(crate) api: Api,
    pub(crate) tag: String,
    /// Owner tag of the cluster.
    pub(crate) owner: String,
}

impl ClusterTag {
    /// Adds missing tags at an interval. Never returns.
    pub(crate) async fn run(self, caches: Arc<dyn Caches>) {
        loop {
            match timeout(LONGEST, self.synchronize(&caches.services())).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(%error, tag = self.tag, "load balancers are not tagged");
                }
                Err(_) => tracing::warn!(
                    tag = self.tag,
                    "load balancers are not tagged: it took too long"
                ),
            }
            let part = u32::try_from(RandomState::new().hash_one(0) % 1000).unwrap_or_default();
            sleep(PERIOD + JITTER * part / 1000).await;
        }
    }

    pub(crate) async fn synchronize(&self, services: &[Arc<Service>]) -> Result<()> {
        let wants = |entry: &&Arc<Service>| {
            entry.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer")
        };
        let services: Vec<_> = services.iter().filter(wants).collect();
        if services.is_empty() {
            return Ok(());
        }
        let uids: HashSet<&str> = services
            .iter()
            .filter_map(|service| service.metadata.uid.as_deref())
            .collect();
        let names: HashSet<String> = services
            .iter()
            .map(|service| default_load_balancer_name(service))
            .collect();
        let all = self
            .api
            .all("/v2/load_balancers", |load_balancer: &LoadBalancer| {
                load_balancer.id.clone()
            });
        // An author of Services can name any load balancer by its ID or a name: only one that has the owner tags of this
        // cluster is tagged, or a name that contains the UID of a Service.
        let stored = OWNER_TAGS.stored(&self.owner);
        let is_owned = |load_balancer: &LoadBalancer| {
            let owner = OWNER_TAGS.take_from(&mut load_balancer.tags.clone());
            owner.cluster.as_ref() == Some(&stored)
                && owner.service.is_some_and(|uid| uids.contains(&*uid))
        };
        let is_ours = |load_balancer: &LoadBalancer| {
            is_owned(load_balancer) || names.contains(&load_balancer.name)
        };
        let lacks = |load_balancer: &LoadBalancer| {
            !load_balancer.tags.iter().any(|tag| tag.starts_with("k8s:"))
        };
        let found: Vec<String> = all
            .await?
            .into_iter()
            .filter(|load_balancer| is_ours(load_balancer) && lacks(load_balancer))
            .map(|load_balancer| load_balancer.id)
            .collect();
        if found.is_empty() {
            Ok(())
        } else {
            add(&self.api, &self.tag, &found).await
        }
    }
}
