//! The Services in the API server.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ccm_tests::service_object::load_balancer;
use ccm_tests::wait::{until, until_every};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Service;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::cluster::{CONCURRENT, Cluster, OURS};

/// Ports of each Service.
pub(crate) const PORTS: [u16; 2] = [80, 443];

impl Cluster {
    fn services(&self) -> Api<Service> {
        Api::default_namespaced(self.client.clone())
    }

    /// Creates Services as users do.
    pub(crate) async fn create_services(&self, count: usize) -> Result<()> {
        let api = self.services();
        let created = (1..=count).map(|number| {
            let api = api.clone();
            async move {
                let mut object = load_balancer(&format!("scale-{number:05}"), &PORTS);
                object["metadata"]["labels"][OURS] = json!("true");
                self.note_ours("POST services");
                api.create(&PostParams::default(), &serde_json::from_value(object)?)
                    .await?;
                anyhow::Ok(())
            }
        });
        let created = futures::stream::iter(created)
            .buffer_unordered(CONCURRENT)
            .try_collect();
        created.await.context("creating Services")
    }

    /// Waits until every Service has an address. The cloud has reported before that it created them all.
    pub(crate) async fn all_have_an_address(&self, count: usize, limit: Duration) -> Result<()> {
        until_every(
            Duration::from_millis(250),
            "all Services have addresses",
            limit,
            async || {
                self.note_ours("LIST services");
                let services = self
                    .services()
                    .list(&ListParams::default().labels(OURS))
                    .await?;
                let has_address = |service: &&Service| {
                    let status = service
                        .status
                        .as_ref()
                        .and_then(|status| status.load_balancer.as_ref());
                    status.is_some_and(|status| {
                        status
                            .ingress
                            .as_ref()
                            .is_some_and(|ingress| !ingress.is_empty())
                    })
                };
                let ready = services.items.iter().filter(has_address).count();
                ensure!(ready == count, "{ready} of {count} have one");
                Ok(())
            },
        )
        .await
    }

    /// Deletes all Services as users do: they go once nothing holds them.
    pub(crate) async fn ask_to_delete_services(&self) -> Result<()> {
        let names = self.service_names().await?;
        let deleted = names.iter().map(|name| async move {
            self.note_ours("DELETE services");
            self.services()
                .delete(name, &DeleteParams::background())
                .await?;
            anyhow::Ok(())
        });
        let deleted = futures::stream::iter(deleted)
            .buffer_unordered(CONCURRENT)
            .try_collect();
        deleted.await.context("deleting Services")
    }

    /// Waits until no Service is left.
    pub(crate) async fn services_are_gone(&self, limit: Duration) -> Result<()> {
        until_every(
            Duration::from_millis(250),
            "all Services are gone",
            limit,
            async || {
                let left = self.service_names().await?.len();
                ensure!(left == 0, "{left} are left");
                Ok(())
            },
        )
        .await
    }

    async fn service_names(&self) -> Result<Vec<String>> {
        self.note_ours("LIST services");
        let services = self
            .services()
            .list_metadata(&ListParams::default().labels(OURS))
            .await?;
        Ok(services.items.iter().map(ResourceExt::name_any).collect())
    }

    /// Removes the Services of this program with their finalizers.
    pub(crate) async fn delete_services(&self) -> Result<()> {
        if self.service_names().await?.is_empty() {
            return Ok(());
        }
        self.ask_to_delete_services().await?;
        for name in self.service_names().await? {
            let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            match self
                .services()
                .patch_metadata(&name, &PatchParams::default(), &free)
                .await
            {
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                other => drop(other.with_context(|| format!("letting go of {name}"))?),
            }
        }
        until("no Service is left", Duration::from_secs(30), async || {
            ensure!(self.service_names().await?.is_empty(), "some are");
            Ok(())
        })
        .await
    }
}
