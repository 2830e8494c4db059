//! The HTTP API: connection, paging of lists, and meaning of refusals.

use std::hash::Hash;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cloud_provider::{Error, Result, Setup};
use provider_kit::inventory::SharedPriority;
use provider_kit::paging::Paging;
use provider_kit::transport::{
    Budget, Builder, Call, Credential, Jitter, Refill, Refusal, RetryPolicy, Tls, Transport,
    network,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::config::Config;
use crate::load_balancers::passing::PassingLoadBalancers;
use crate::load_balancers::requested::RequestedIds;
use crate::rate::Limited;

/// The form of all lists, with the longest pages that the API answers.
const PAGING: Paging = Paging::next_link("/links/pages/next")
    .size("per_page", 200)
    .required_total("/meta/total");

const RETRY_POLICY: RetryPolicy = RetryPolicy {
    timeout: Duration::from_secs(30),
    max_attempts: 4,
    total_timeout: Duration::from_secs(120),
    backoff: Duration::from_secs(1),
    longest_backoff: Duration::from_secs(30),
    longest_pause: Duration::from_secs(30),
    jitter: Jitter::Full,
};

/// Prepares the connection to the API. An account has 5,000 requests an hour; a tenth is left to its other users.
///
/// # Errors
/// *Invalid*, if the connection that limits the rate cannot be set up.
pub fn cloud(config: &Config, setup: &Setup) -> Result<Builder> {
    let builder = Transport::builder(config.endpoint.clone())
        .setup(setup)
        .credential(config.token.clone())
        .validate(Call::get("/v2/account", &[]))
        .retry_policy(RETRY_POLICY)
        .budget(Budget {
            share_left_to_others: 0.1,
            refill: Refill::Evenly(Duration::from_secs(3600)),
        })
        .correlation("x-request-id");
    Ok(match config.rate {
        Some(rate) => builder.connector(Limited::new(
            network(&Tls::default(), &config.endpoint)?,
            rate,
        )),
        None => builder,
    })
}

/// Prepares the connection to the metadata service.
///
/// # Errors
/// *Other*, if the connection cannot be set up.
pub(crate) fn metadata(config: &Config, setup: &Setup) -> Result<Transport> {
    let http = Transport::builder(config.metadata.clone()).setup(setup);
    http.credential(Credential::none())
        .metadata_service()
        .build()
}

/// Reads the region of the machine that the program runs on.
///
/// # Errors
/// The error of the metadata service, with the setting to use instead.
pub(crate) async fn region_of_machine(metadata: &Transport) -> Result<String> {
    let answer = metadata.send(Call::get("/metadata/v1/region", &[])).await;
    answer
        .map(|answer| answer.text())
        .map_err(|error| error.context("cannot find out the region; set REGION"))
}

/// The API with one token, in one region.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    pub(crate) http: Transport,
    region: Arc<OnceLock<String>>,
    pub(crate) requested: Arc<RequestedIds>,
    pub(crate) passing: Arc<PassingLoadBalancers>,
}

#[derive(Deserialize)]
struct Region {
    slug: String,
}

impl Api {
    pub(crate) fn new(http: Transport) -> Self {
        Self {
            http: http.error_mapping(error_mapping).paging(PAGING),
            region: Arc::default(),
            requested: Arc::default(),
            passing: Arc::default(),
        }
    }

    /// Reads a complete list with ordinary priority. The last segment of the path is also the field of the answer that
    /// holds the items.
    ///
    /// # Errors
    /// The cloud's error; *other* for a partial list.
    pub(crate) async fn all<T: DeserializeOwned, K: Hash>(
        &self,
        path: &'static str,
        key: fn(&T) -> K,
    ) -> Result<Vec<T>> {
        let call = Call::get(path, &[]);
        let collection = path.trim_start_matches("/v2/");
        Ok(self
            .http
            .list(
                call,
                collection,
                &SharedPriority::default(),
                |item| item,
                key,
            )
            .await?
            .complete()?
            .into_items())
    }

    /// Slugs of all regions.
    pub(crate) async fn regions(&self) -> Result<Vec<String>> {
        let regions = self
            .all("/v2/regions", |region: &Region| region.slug.clone())
            .await?;
        Ok(regions.into_iter().map(|region| region.slug).collect())
    }

    /// Determines the region of the cluster: the configured one, or that of the metadata service. In both cases a request to
    /// the API proves the token.
    ///
    /// # Errors
    /// *Invalid*, with the existing regions, for a region that does not exist; the error of the API or of the metadata
    /// service.
    pub(crate) async fn find_region(
        &self,
        configured: Option<&str>,
        metadata: &Transport,
    ) -> Result<()> {
        let region = if let Some(region) = configured {
            let known = self.regions().await?;
            if !known.iter().any(|text| text == region) {
                let known = known.join(", ");
                return Err(Error::invalid(format!(
                    "REGION: {region:?} does not exist; regions are {known}"
                )));
            }
            region.to_owned()
        } else {
            // The Nodes need this permission in any case; a token may lack that for regions.
            self.http
                .send(Call::get("/v2/droplets", &[]).query("per_page", 1))
                .await?;
            region_of_machine(metadata).await?
        };
        self.region.get_or_init(|| region);
        Ok(())
    }

    /// Returns the region of the cluster.
    ///
    /// # Errors
    /// *Other*, before it is known.
    pub(crate) fn region(&self) -> Result<&str> {
        self.region
            .get()
            .map(String::as_str)
            .ok_or_else(|| Error::other("the region is not known yet"))
    }
}

/// Returns the meaning of a refusal. The API refuses changes of a busy load balancer as invalid; they are mapped to
/// *conflict* by the text of the message.
fn error_mapping(refusal: &Refusal) -> Option<fn(String) -> Error> {
    let message = refusal.message.to_ascii_lowercase();
    if message.contains("previous actions") || message.contains("pending") {
        return Some(Error::conflict);
    }
    if message.contains("limit")
        && message.contains("exceed")
        && refusal.code != "too_many_requests"
    {
        return Some(Error::quota);
    }
    None
}
