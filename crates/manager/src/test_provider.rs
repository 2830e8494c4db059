//! The provider of unit tests: a cloud without anything, whose few answers a test sets.

use std::path::PathBuf;

use cloud_provider::{
    CloudProvider, Cluster, ConfigFile, Error, LoadBalancerRequest, LoadBalancerStatus,
    LoadBalancers, Reload, Result, Service, ServiceReview, async_trait,
};
use parking_lot::Mutex;

/// A provider without machines.
#[derive(Default)]
pub(crate) struct Acme {
    /// Default address for metrics.
    pub(crate) metrics_address: Option<String>,
    /// Files that the configuration names.
    pub(crate) config_files: Vec<PathBuf>,
    /// Each text of the configuration that was reloaded. One that begins with "good" is accepted.
    pub(crate) texts: Mutex<Vec<String>>,
    /// UIDs of Services that have a load balancer.
    pub(crate) balanced: Vec<&'static str>,
}

#[async_trait]
impl CloudProvider for Acme {
    fn name(&self) -> &str {
        "acme"
    }
    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        Some(self)
    }
    fn metrics_address(&self) -> Option<String> {
        self.metrics_address.clone()
    }
    fn config_files(&self) -> Vec<PathBuf> {
        self.config_files.clone()
    }
    async fn reload(&self, config: &ConfigFile) -> Result<Reload> {
        self.texts.lock().push(config.text.clone());
        match config.text.split(' ').next().unwrap_or_default() {
            "good" => Ok(Reload::Done),
            "old" => Ok(Reload::NeedsRestart),
            "panic" => panic!("a defect"),
            "hang" => std::future::pending().await,
            "early" => Err(Error::unauthorized("the password is wrong")),
            _ => Err(Error::invalid("`zone` is missing")),
        }
    }
}

#[async_trait]
impl LoadBalancers for Acme {
    async fn get(&self, _: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        unreachable!("the cloud is not asked")
    }
    async fn ensure(&self, _: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        unreachable!("the cloud is not asked")
    }
    async fn update_targets(&self, _: LoadBalancerRequest<'_>) -> Result<()> {
        unreachable!("the cloud is not asked")
    }
    async fn delete(&self, _: LoadBalancerRequest<'_>) -> Result<()> {
        unreachable!("the cloud is not asked")
    }
    /// Returns an error for each word of the annotation `acme/words`, but a warning for `odd`.
    fn review(&self, service: &Service) -> ServiceReview {
        let annotations = service.metadata.annotations.clone().unwrap_or_default();
        let words = annotations
            .get("acme/words")
            .map(String::as_str)
            .unwrap_or_default()
            .split_whitespace();
        let (warnings, errors) = words.map(str::to_owned).partition(|word| word == "odd");
        ServiceReview { errors, warnings }
    }
    fn orphans(&self, cluster: &Cluster, lives: &dyn Fn(&str) -> bool) -> Option<Vec<String>> {
        cluster.id.as_ref()?;
        Some(
            self.balanced
                .iter()
                .filter(|uid| !lives(uid))
                .map(|uid| format!("load balancer of {uid}"))
                .collect(),
        )
    }
}
