//! The cloud's HTTP API: paging of lists, and meaning of error codes.

use std::hash::Hash;

use cloud_provider::{Error, Result};
use provider_kit::inventory::SharedPriority;
use provider_kit::paging::{ListResult, Paging};
use provider_kit::transport::{Call, Priority, Refusal, Transport};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::actions::Actions;

/// Page size: the maximum that the API allows.
pub(crate) const PAGE_SIZE: usize = 50;

/// The cloud's API with one token.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    pub(crate) http: Transport,
    pub(crate) actions: Actions,
}

impl Api {
    /// Returns the API that `http` sends requests to; the base URL of `http` is the endpoint.
    pub(crate) fn new(http: Transport) -> Self {
        let paging = Paging::next_page("/meta/pagination/next_page").size("per_page", PAGE_SIZE);
        let http = http
            .error_mapping(error_mapping)
            .paging(paging.total("/meta/pagination/total_entries"));
        Self {
            actions: Actions::new(http.clone()),
            http,
        }
    }

    /// Reads a whole list; `collection` is its key in the response. Each item is converted to the kept form when it is
    /// read.
    pub(crate) async fn list<W: DeserializeOwned, T, K: Hash>(
        &self,
        collection: &'static str,
        call: Call,
        keep: impl Fn(W) -> T,
        key: fn(&T) -> K,
    ) -> Result<ListResult<T>> {
        let shared_priority = SharedPriority::of(call.priority());
        self.http
            .list(call, collection, &shared_priority, keep, key)
            .await
    }

    /// Checks endpoint and token with one request.
    pub(crate) async fn check(&self) -> Result<()> {
        let _: Value = self
            .http
            .read(Call::get("/locations", &[]).with_priority(Priority::Urgent))
            .await?;
        Ok(())
    }
}

pub(crate) fn error_mapping(refusal: &Refusal) -> Option<fn(String) -> Error> {
    meaning_of(&refusal.code)
}

/// Returns the meaning of the API's error codes beyond the HTTP status.
pub(crate) fn meaning_of(code: &str) -> Option<fn(String) -> Error> {
    Some(match code {
        "conflict" | "locked" | "uniqueness_error" => Error::conflict,
        // Existing objects are read, and the next plan starts from them.
        "target_already_defined"
        | "load_balancer_already_attached"
        | "source_port_already_used" => Error::conflict,
        "server_not_attached_to_network"
        | "ip_not_owned"
        | "cloud_resource_ip_not_allowed"
        | "missing_ipv4"
        | "targets_without_use_private_ip"
        | "no_subnet_available"
        | "ip_not_available" => Error::invalid,
        "resource_limit_exceeded" => Error::quota,
        "protected" => Error::protected,
        // Temporary errors, whatever the HTTP status.
        "resource_unavailable"
        | "service_error"
        | "server_error"
        | "maintenance"
        | "bad_gateway"
        | "timeout" => Error::other,
        "unauthorized" | "forbidden" | "token_readonly" => Error::unauthorized,
        _ => return None,
    })
}
