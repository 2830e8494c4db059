//! Release of addresses whose Service was deleted while no program ran.

use std::time::Duration;

use cloud_provider::{Error, Result};
use provider_kit::shared_document::DocumentStore;

use crate::load_balancers::VirtualAddresses;
use crate::services::Services;

/// Time between two comparisons with the Services of the cluster.
const INTERVAL: Duration = Duration::from_secs(3600);

impl VirtualAddresses {
    /// Releases unused addresses at the start and every hour. Ends never.
    pub(crate) async fn release_unused_addresses(self) {
        loop {
            match self.release_unused().await {
                Ok(released) if released.is_empty() => {}
                Ok(released) => {
                    tracing::info!(addresses = ?released, "released addresses of deleted Services");
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot compare the addresses with the Services; trying again in an hour");
                }
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Releases the addresses of Services that do not exist, and returns them. The document is read before the Services: a
    /// Service that gets its address meanwhile is not in it. If more than half of the addresses are unused, the API server has
    /// probably lost its data: then they stay, and `orphans` lists them.
    pub(crate) async fn release_unused(&self) -> Result<Vec<String>> {
        let book = self.books.store().read(&()).await?.document;
        if book.entries.is_empty() {
            return Ok(Vec::new());
        }
        let services = Services::list(&self.books.store().cluster).await?.uids;
        let count = book.entries.len();
        let unused: Vec<_> = book
            .entries
            .into_iter()
            .filter(|entry| !services.contains(&entry.uid))
            .collect();
        if unused.is_empty() {
            return Ok(Vec::new());
        }
        if unused.len() * 2 > count {
            let place = self.config.place();
            return Err(Error::other(format!(
                "the Services of {} of {count} addresses in {place} do not exist, which are too many to release at once. If the Services were deleted, run the subcommand orphans with --delete",
                unused.len()
            )));
        }
        let released = unused
            .iter()
            .map(|entry| format!("{} of {}", entry.ip, entry.service()))
            .collect();
        self.books
            .edit(&(), move |book| {
                unused.iter().for_each(|entry| book.release(&entry.uid));
                Ok(())
            })
            .await?;
        Ok(released)
    }
}
