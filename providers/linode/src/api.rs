//! The HTTP API: connection, paging of lists, and meaning of refusals.

use std::hash::Hash;
use std::time::Duration;

use cloud_provider::{Error, Result, Setup};
use provider_kit::inventory::SharedPriority;
use provider_kit::paging::{ListResult, Paging};
use provider_kit::transport::{
    Budget, Builder, Call, Jitter, Refill, Refusal, RetryPolicy, Transport,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::config::Config;
use crate::metrics::Requests;

const PAGING: Paging = Paging::page_count("/pages")
    .size("page_size", 500)
    .required_total("/results");

/// Returns the builder of a client for the API. The API has a rate limit for lists (200 requests per minute) and one
/// for all other requests (1,600 per minute), so the provider uses two clients.
#[must_use]
pub fn cloud(config: &Config, setup: &Setup) -> Builder {
    let retry_policy = RetryPolicy {
        timeout: config.timeout,
        max_attempts: 4,
        total_timeout: Duration::from_secs(300),
        backoff: Duration::from_secs(1),
        longest_backoff: Duration::from_secs(30),
        longest_pause: Duration::from_secs(60),
        jitter: Jitter::Full,
    };
    Transport::builder(config.endpoint.clone())
        .setup(setup)
        .credential(config.token.clone())
        .validate(Call::get("/profile", &[]))
        .retry_policy(retry_policy)
        .paging(PAGING)
        .budget(Budget {
            share_left_to_others: 0.1,
            refill: Refill::AtReset,
        })
        .retry_refusals(|refusal| refusal.message.contains("Linode busy"))
        .own_series(Requests(std::sync::Arc::clone(&setup.metrics)))
        .log_bodies(config.debug)
}

/// The API with one token.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) http: Transport,
    lists: Transport,
}

impl Api {
    pub(crate) fn new(http: Transport, lists: Transport) -> Self {
        Self {
            http: http.error_mapping(error_mapping),
            lists: lists.error_mapping(error_mapping),
        }
    }

    /// Reads a list to its end. `filter`: the conditions of `X-Filter`.
    pub(crate) async fn list<W: DeserializeOwned, T, K: Hash>(
        &self,
        call: Call,
        filter: Option<Value>,
        shared_priority: &SharedPriority,
        keep: impl Fn(W) -> T,
        key: fn(&T) -> K,
    ) -> Result<ListResult<T>> {
        let call = filter
            .iter()
            .fold(call, |call, filter| call.header("x-filter", filter));
        self.lists
            .list(call, "data", shared_priority, keep, key)
            .await
    }

    /// Reads a list that must be complete.
    pub(crate) async fn all<T: DeserializeOwned, K: Hash>(
        &self,
        call: Call,
        key: fn(&T) -> K,
    ) -> Result<Vec<T>> {
        let list = self
            .list(call, None, &SharedPriority::default(), |item: T| item, key)
            .await?;
        Ok(list.complete()?.into_items())
    }
}

fn error_mapping(refusal: &Refusal) -> Option<fn(String) -> Error> {
    let message = refusal.message.to_ascii_lowercase();
    if message.contains("must be unique")
        || message.contains("already in use")
        || message.contains("linode busy")
    {
        return Some(Error::conflict);
    }
    let is_limit =
        message.contains("limit") && (message.contains("reached") || message.contains("exceed"));
    if is_limit && !message.contains("too many requests") {
        Some(Error::quota)
    } else {
        None
    }
}
