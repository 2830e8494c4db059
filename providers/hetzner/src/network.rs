//! The private network that `HCLOUD_NETWORK` names.

use std::sync::{Arc, OnceLock};

use cloud_provider::{Error, Result};
use provider_kit::transport::{Call, Transport};
use serde::Deserialize;

use crate::api::Api;
use crate::config;

/// The network; cheap to clone. Its ID is read at the start.
#[derive(Clone, Debug)]
pub(crate) struct PrivateNetwork {
    api: Api,
    config: Arc<config::Network>,
    id: Arc<OnceLock<u64>>,
}

/// A network, as the API writes it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Network {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) ip_range: String,
    pub(crate) routes: Vec<Gateway>,
}

/// A route of a network, as the API writes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, serde::Serialize)]
pub(crate) struct Gateway {
    pub(crate) destination: String,
    pub(crate) gateway: String,
}

impl PrivateNetwork {
    pub(crate) fn new(api: Api, config: config::Network) -> Self {
        Self {
            api,
            config: Arc::new(config),
            id: Arc::default(),
        }
    }

    /// Returns the ID of the network.
    ///
    /// # Errors
    /// The provider is not initialised yet.
    pub(crate) fn id(&self) -> Result<u64> {
        let unknown = || {
            Error::other(format!(
                "the id of network {:?} is not known yet",
                self.config.name_or_id
            ))
        };
        self.id.get().copied().ok_or_else(unknown)
    }

    /// Reads the network.
    ///
    /// # Errors
    /// The API's error; *invalid* if the network no longer exists, which does not mean that it has no routes.
    pub(crate) async fn read(&self) -> Result<Network> {
        self.by_id(&self.id()?.to_string())
            .await?
            .ok_or_else(|| self.missing())
    }

    async fn by_id(&self, id: &str) -> Result<Option<Network>> {
        self.api
            .http
            .find(Call::get("/networks/{id}", &[id]).inside("network"))
            .await
    }

    /// Looks the network up, by its id or else by its name.
    ///
    /// # Errors
    /// *Invalid* if the network does not exist.
    pub(crate) async fn find(&self) -> Result<Network> {
        let wanted = &self.config.name_or_id;
        if wanted.bytes().all(|b| b.is_ascii_digit())
            && let Some(network) = self.by_id(wanted).await?
        {
            return Ok(network);
        }
        let call = Call::get("/networks", &[])
            .list()
            .query("name", wanted)
            .inside("networks");
        let found: Vec<Network> = self.api.http.read(call).await?;
        found
            .into_iter()
            .find(|network| network.name == *wanted)
            .ok_or_else(|| self.missing())
    }

    /// Looks the network up, and keeps its ID.
    pub(crate) async fn resolve(&self) -> Result<Network> {
        let found = self.find().await?;
        self.id.get_or_init(|| found.id);
        Ok(found)
    }

    /// Returns `true` if this machine is attached to the network `id`, according to the `metadata` service.
    pub(crate) async fn is_attached(metadata: &Transport, id: u64) -> Result<bool> {
        let answer = metadata.send(Call::get("/private-networks", &[])).await?;
        // The answer is YAML; only the line with the ID of this network matters.
        let line = format!("network_id: {id}");
        let text = String::from_utf8_lossy(&answer.body);
        Ok(text
            .lines()
            .any(|other_line| other_line.trim().trim_start_matches("- ") == line))
    }

    /// Checks that this machine is attached to the network, because routes to Pods do not work on other machines.
    ///
    /// # Errors
    /// *Invalid* if the machine is not attached; the error of the metadata service.
    pub(crate) async fn check_attached(&self, metadata: &Transport) -> Result<()> {
        const SKIP: &str = "HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK=true skips this check";
        if !self.config.check_attached {
            return Ok(());
        }
        let name = &self.config.name_or_id;
        match Self::is_attached(metadata, self.id()?).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::invalid(format!(
                "this machine is not attached to network {name:?} (HCLOUD_NETWORK): attach it, or run on a machine that is; {SKIP}"
            ))),
            Err(error) => Err(error.context(format!(
                "cannot find out from the metadata service whether this machine is attached to network {name:?}; {SKIP}"
            ))),
        }
    }

    fn missing(&self) -> Error {
        Error::invalid(format!(
            "there is no network {:?} in the token's project; correct HCLOUD_NETWORK, or use a token of the project that has it",
            self.config.name_or_id
        ))
    }
}
