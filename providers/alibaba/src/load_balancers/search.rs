//! Searches for the load balancers of Services. Services that are synced at the same time share requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cloud_provider::{CompleteListing, Result};
use futures::future::join_all;
use futures::try_join;
use provider_kit::coalescer::Coalescer;
use provider_kit::inventory::SharedPriority;
use provider_kit::paging::ListResult;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::WINDOW;
use super::names::NAME_TAG;
use super::read::{id_of, tags, text};
use crate::api::{Api, NLB, Query, SLB};

/// Requests of a search for one Service: by tag, by name, and by the tag of its share.
const REQUESTS: usize = 3;

/// Properties by which the load balancers of a Service are found.
#[derive(Clone)]
pub(super) struct Wanted {
    /// The name that a load balancer of the Service has by default.
    pub(super) name: String,
    /// The tag of the Service's share in a load balancer of the user.
    pub(super) share_tag: String,
    /// If set, the Service never had a load balancer.
    pub(super) is_new: bool,
    /// If set, the Service has another kind now, so that a list would hardly show one.
    pub(super) is_other_kind: bool,
}

impl Wanted {
    /// Returns `true` for a load balancer that was created for the Service, as its tag or its name tells.
    pub(super) fn is_own(&self, object: &Value) -> bool {
        tags(object).get(NAME_TAG) == Some(&self.name)
            || text(object, "LoadBalancerName") == self.name
    }

    fn has(&self, object: &Value) -> bool {
        self.is_own(object) || tags(object).contains_key(&self.share_tag)
    }
}

/// Searches for load balancers of one kind; the key is `true` for NLBs.
pub(super) struct Searches(Coalescer<bool, Wanted, Vec<Value>>);

impl Searches {
    pub(super) fn new(api: &Api) -> Self {
        let api = api.clone();
        let pages = Arc::new([const { AtomicUsize::new(1) }; 2]);
        Self(Coalescer::answering_each(
            move |is_network, wanted: Vec<Wanted>| {
                let api = api.clone();
                let pages = Arc::clone(&pages);
                async move { search(&api, is_network, &wanted, &pages[usize::from(is_network)]).await }
            },
        ))
    }

    /// Returns the load balancers of a Service, as requests that were sent after this call show them.
    pub(super) async fn find(&self, is_network: bool, wanted: Wanted) -> Result<Vec<Value>> {
        self.0
            .join_at(is_network, wanted, |_| Instant::now() + WINDOW)
            .await
    }
}

/// Searches the list of all load balancers of the region, or searches for each Service where the last list took more
/// requests. The list of a region often has one page: the first quota of an account is 60 load balancers. A list without
/// the load balancer of a Service that may have one proves nothing: an empty answer has no page that could be missing.
async fn search(
    api: &Api,
    is_network: bool,
    wanted: &[Wanted],
    pages: &AtomicUsize,
) -> Vec<Result<Vec<Value>>> {
    let mut listed = None;
    let expected = wanted.iter().filter(|entry| !entry.is_other_kind).count();
    if expected > 0 && pages.load(Ordering::Relaxed) <= REQUESTS * expected {
        match balancers(api, is_network, None).await {
            Ok(found) => {
                pages.store(found.pages(), Ordering::Relaxed);
                // After a partial list, each Service is searched for.
                listed = found.complete().ok().map(CompleteListing::into_items);
            }
            Err(error) => return vec![Err(error); wanted.len()],
        }
    }
    join_all(wanted.iter().map(async |entry| {
        let found = listed.as_ref().map(|all| {
            all.iter()
                .filter(|found| entry.has(found))
                .cloned()
                .collect::<Vec<_>>()
        });
        match found {
            Some(found) if entry.is_new || !found.is_empty() => Ok(found),
            _ => search_one(api, is_network, entry).await,
        }
    }))
    .await
}

async fn search_one(api: &Api, is_network: bool, wanted: &Wanted) -> Result<Vec<Value>> {
    let (name_key, names) = match is_network {
        true => ("LoadBalancerNames", json!([wanted.name])),
        false => ("LoadBalancerName", json!(wanted.name)),
    };
    let by_tag = |tag: Value| balancers(api, is_network, Some(("Tag", json!([tag]))));
    let (tagged, named, shared) = try_join!(
        by_tag(json!({"Key": NAME_TAG, "Value": wanted.name})),
        balancers(api, is_network, Some((name_key, names))),
        by_tag(json!({"Key": wanted.share_tag})),
    )?;
    let mut all: Vec<Value> = Vec::new();
    for object in [tagged, named, shared] {
        let new = object.complete()?.into_items();
        all.extend(new.into_iter().filter(|new| wanted.has(new)));
    }
    Ok(all)
}

/// Reads load balancers of one kind, by a parameter if there is one.
pub(super) async fn balancers(
    api: &Api,
    is_network: bool,
    parameter: Option<(&str, Value)>,
) -> Result<ListResult<Value>> {
    let with = |query: Query| match parameter {
        Some((key, value)) => query.set(key, value),
        None => query,
    };
    match is_network {
        true => {
            tokens(
                api,
                with(Query::new(NLB, "ListLoadBalancers")),
                "/LoadBalancers",
                "LoadBalancerId",
            )
            .await
        }
        false => {
            api.pages(
                with(Query::new(SLB, "DescribeLoadBalancers")),
                100,
                "/LoadBalancers/LoadBalancer",
                id_of,
            )
            .await
        }
    }
}

async fn tokens(
    api: &Api,
    query: Query,
    place: &str,
    key: &'static str,
) -> Result<ListResult<Value>> {
    let key = move |object: &Value| text(object, key).to_owned();
    api.tokens(
        query,
        ("MaxResults", 100),
        place,
        &SharedPriority::default(),
        key,
    )
    .await
}

/// Reads a list of NLB whose pages are named by tokens.
pub(super) async fn all_of(
    api: &Api,
    query: Query,
    place: &str,
    key: &'static str,
) -> Result<Vec<Value>> {
    tokens(api, query, place, key)
        .await?
        .complete()
        .map(CompleteListing::into_items)
}
