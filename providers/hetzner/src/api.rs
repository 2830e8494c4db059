//! The cloud's HTTP API (§5.1): how lists are paged, what its error words mean, and how actions are awaited.

use std::hash::Hash;

use cloud_provider::{Error, Result};
use provider_kit::paging::{Page, Reading, Rules, read_pages};
use provider_kit::transport::{Call, Priority, Refusal, Transport};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// As many as the API allows.
pub(crate) const PAGE_SIZE: usize = 50;

/// The cloud's API with one token.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    pub(crate) http: Transport,
}

#[derive(Deserialize)]
struct Meta {
    pagination: Pagination,
}

#[derive(Deserialize)]
struct Pagination {
    next_page: Option<u32>,
    total_entries: Option<usize>,
}

#[derive(Deserialize)]
struct ListPage<T> {
    #[serde(alias = "servers", alias = "load_balancers", alias = "load_balancer_types", alias = "certificates")]
    #[serde(alias = "networks", alias = "locations")]
    items: Vec<T>,
    meta: Meta,
}

impl Api {
    /// The API behind `http`, whose base is the endpoint.
    pub(crate) fn new(http: Transport) -> Self {
        Self { http: http.meaning(meaning) }
    }

    /// Reads a list to its end; `call`: without page and page size. What is read becomes what is kept, page by page.
    pub(crate) async fn list<W: DeserializeOwned, T, K: Hash>(
        &self,
        what: &'static str,
        call: Call,
        keep: impl Fn(W) -> T,
        key: fn(&T) -> K,
    ) -> Result<Reading<T>> {
        read_pages(Rules { what, totals: false }, 1, key, async |number: u32| {
            let call = call.clone().query("page", number).query("per_page", PAGE_SIZE);
            let page: ListPage<W> = self.http.read(call).await?;
            let Pagination { next_page, total_entries } = page.meta.pagination;
            let next = next_page.filter(|next| *next != 0);
            Ok(Page { items: page.items.into_iter().map(&keep).collect(), next, total: total_entries })
        })
        .await
    }

    /// §1: the start-up check.
    pub(crate) async fn check(&self) -> Result<()> {
        let _: Value = self.http.read(Call::get("/locations", &[]).priority(Priority::Urgent)).await?;
        Ok(())
    }
}

/// §5.1: what the API's words mean beyond the status of the answer.
fn meaning(refusal: &Refusal) -> Option<fn(String) -> Error> {
    Some(match &*refusal.code {
        "conflict" | "locked" | "uniqueness_error" => Error::conflict,
        "resource_limit_exceeded" => Error::quota,
        "protected" => Error::protected,
        "unauthorized" | "forbidden" | "token_readonly" => Error::unauthorized,
        _ => return None,
    })
}
