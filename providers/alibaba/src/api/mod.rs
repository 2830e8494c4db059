//! The APIs of Alibaba Cloud: requests and pages.

mod connection;
mod query;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Result, Setup};
use parking_lot::Mutex;
use provider_kit::inventory::SharedPriority;
use provider_kit::operation::{OperationState, Operations};
use provider_kit::paging::{ListProperties, ListResult, Page, read_pages};
use provider_kit::tokens::Tokens;
use provider_kit::transport::{Builder, Transport};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use self::connection::transport;
pub(crate) use self::query::{CBN, ECS, EFLO, NLB, Product, Query, SLB, STS, VPC, tag_list, wire};
use crate::config::Config;
use crate::credentials::{Chain, Metadata};
use crate::signing;

/// Completes a transport, with the setup and what the caller adds.
pub(crate) type Furnish = Arc<dyn Fn(Builder) -> Builder + Send + Sync>;

/// Returns a transport to a product in a region.
type Connect = dyn Fn(Product, Option<String>) -> Result<Transport> + Send + Sync;

/// The transports so far, by the name of the product and the region; no region stands for that of the configuration.
type Transports = BTreeMap<(&'static str, Option<String>), Transport>;

/// The APIs, and the configuration. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) config: Arc<Config>,
    pub(crate) metadata: Arc<Metadata>,
    clients: Clients,
    jobs: Operations<String>,
}

/// Transports to products in regions, each made when it is first asked for.
#[derive(Clone)]
struct Clients {
    known: Arc<Mutex<Transports>>,
    connect: Arc<Connect>,
}

impl Clients {
    fn of(&self, product: Product, region: Option<String>) -> Result<Transport> {
        let key = (product.name, region);
        if let Some(client) = self.known.lock().get(&key) {
            return Ok(client.clone());
        }
        let client = (self.connect)(product, key.1.clone())?;
        Ok(self.known.lock().entry(key).or_insert(client).clone())
    }
}

impl Api {
    pub(crate) fn new(config: Config, setup: &Setup, furnish: &Furnish) -> Result<Self> {
        let config = Arc::new(config);
        let metadata = Arc::new(Metadata::new(Arc::clone(&config), furnish)?);
        let is_offline = setup.environment.is_offline();
        let chain = Chain::new(
            Arc::clone(&config),
            Arc::clone(&metadata),
            Arc::clone(furnish),
            is_offline,
        );
        let tokens = Arc::new(Tokens::of(chain));
        let connect = {
            let config = Arc::clone(&config);
            let metadata = Arc::clone(&metadata);
            let furnish = Arc::clone(furnish);
            move |product, region| {
                transport(
                    region,
                    &config,
                    &metadata,
                    product,
                    Some(Arc::clone(&tokens)),
                    &furnish,
                )
            }
        };
        let clients = Clients {
            known: Arc::default(),
            connect: Arc::new(connect),
        };
        let nlb = clients.of(NLB, None)?;
        let jobs = Operations::new(Duration::from_millis(1500), 20, move |ids: Vec<String>| {
            let call = Query::new(NLB, "ListAsynJobs").set("JobIds", &ids).call();
            let nlb = nlb.clone();
            async move {
                let answer: Value = nlb.read(call).await?;
                let state = |job: &Value| {
                    let [id, status] = [&job["Id"], &job["Status"]]
                        .map(|status| status.as_str().unwrap_or_default());
                    let outcome = match status {
                        "Succeeded" => Some(Ok(())),
                        "Failed" => {
                            let [code, message] = ["ErrorCode", "ErrorMessage"]
                                .map(|key| job[key].as_str().unwrap_or_default());
                            Some(Err(Error::conflict(format!(
                                "NLB job {id} failed: {code} {message}"
                            ))))
                        }
                        _ => None,
                    };
                    OperationState {
                        id: id.to_owned(),
                        outcome,
                    }
                };
                Ok(answer["Jobs"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(state)
                    .collect())
            }
        });
        Ok(Self {
            config,
            metadata,
            clients,
            jobs,
        })
    }

    /// Returns the connection for an action, which may be about another region.
    async fn client_of(&self, query: &Query) -> Result<Transport> {
        let region = match &query.region {
            Some(region) if *region != self.metadata.region().await? => Some(region.clone()),
            _ => None,
        };
        self.clients.of(query.product, region)
    }

    async fn regional(&self, query: Query) -> Result<Query> {
        if let Some(region) = query.region.clone() {
            return Ok(query.set("RegionId", region));
        }
        Ok(match query.product.name {
            "cbn" => query,
            _ => query.set("RegionId", self.metadata.region().await?),
        })
    }

    /// Sends an action for the region and reads its answer.
    pub(crate) async fn read<T: DeserializeOwned>(&self, query: Query) -> Result<T> {
        let query = self.regional(query).await?;
        self.client_of(&query).await?.read(query.call()).await
    }

    /// Sends a change that can be sent again after a lost answer, and waits for its job.
    pub(crate) async fn change(&self, query: Query) -> Result<Value> {
        let query = self.regional(query).await?;
        let answer = self
            .client_of(&query)
            .await?
            .read(query.call().repeatable())
            .await?;
        self.wait(answer).await
    }

    /// Sends a creation, which is not sent again after a lost answer. The job has not ended yet. A refusal such as
    /// `ServiceUnavailable` does not prove that nothing was created: repetitions have the same token.
    pub(crate) async fn create(&self, query: Query) -> Result<Value> {
        let mut query = self.regional(query).await?;
        if query.takes_token() {
            query = query.set("ClientToken", signing::nonce()?);
        }
        self.client_of(&query).await?.read(query.call()).await
    }

    /// Waits for the job of an answer, if there is one.
    pub(crate) async fn wait(&self, answer: Value) -> Result<Value> {
        if let Some(job) = answer["JobId"].as_str().filter(|job_id| !job_id.is_empty()) {
            self.jobs.wait(&[job.to_owned()]).await?;
        }
        Ok(answer)
    }

    /// Reads a list whose pages are named by `NextToken`. `size`: the parameter with the length of a page, and the
    /// length; `place`: the JSON pointer of the items.
    pub(crate) async fn tokens<T: DeserializeOwned, K: std::hash::Hash>(
        &self,
        query: Query,
        (size, length): (&str, usize),
        place: &str,
        shared: &SharedPriority,
        key: impl Fn(&T) -> K,
    ) -> Result<ListResult<T>> {
        let query = self
            .regional(query)
            .await?
            .set(size, (length > 0).then_some(length));
        // ECS has no useful total with tokens, and VPC has none.
        let totals = ["slb", "nlb"].contains(&query.product.name);
        let properties = ListProperties {
            what: query.action,
            totals,
        };
        read_pages(properties, String::new(), key, async |token: String| {
            let query = query
                .clone()
                .set("NextToken", Some(token).filter(|text| !text.is_empty()));
            let client = self.client_of(&query).await?;
            let mut answer: Value = shared
                .send_read(|priority| client.read(query.clone().with_priority(priority).call()))
                .await?;
            let next = answer["NextToken"]
                .as_str()
                .filter(|next_token| !next_token.is_empty())
                .map(str::to_owned);
            let total = answer["TotalCount"].as_u64().filter(|_| totals);
            let total = total.and_then(|number| usize::try_from(number).ok());
            Ok(Page {
                items: items(&mut answer, place, query.action)?,
                next,
                total,
            })
        })
        .await
    }

    /// Reads a list with numbered pages and a total.
    pub(crate) async fn pages<T: DeserializeOwned, K: std::hash::Hash>(
        &self,
        query: Query,
        size: usize,
        place: &str,
        key: impl Fn(&T) -> K,
    ) -> Result<ListResult<T>> {
        let query = self.regional(query).await?.set("PageSize", size);
        let properties = ListProperties {
            what: query.action,
            totals: true,
        };
        let seen = Mutex::new(0);
        read_pages(properties, 1_u32, key, async |number: u32| {
            let mut answer: Value = self
                .client_of(&query)
                .await?
                .read(query.clone().set("PageNumber", number).call())
                .await?;
            let total = answer["TotalCount"]
                .as_u64()
                .and_then(|total_count| usize::try_from(total_count).ok());
            let items: Vec<T> = items(&mut answer, place, query.action)?;
            let read = {
                let mut seen = seen.lock();
                *seen += items.len();
                *seen
            };
            let is_last = items.is_empty() || total.is_none_or(|total| read >= total);
            Ok(Page {
                items,
                next: (!is_last).then_some(number + 1),
                total,
            })
        })
        .await
    }
}

fn items<T: DeserializeOwned>(answer: &mut Value, place: &str, action: &str) -> Result<Vec<T>> {
    let list = answer
        .pointer_mut(place)
        .map(Value::take)
        .filter(|object| !object.is_null());
    let list = list.ok_or_else(|| Error::other(format!("{action} answered no list at {place}")))?;
    serde_json::from_value(list)
        .map_err(|err| Error::other(format!("{action} answered an unexpected list: {err}")))
}
