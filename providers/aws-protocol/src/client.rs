//! Clients of the AWS APIs.

use std::fmt;
use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::Arc;

use cloud_provider::{Error, Result, Setup};
use provider_kit::inventory::SharedPriority;
use provider_kit::paging::{ListResult, Paging};
use provider_kit::tokens::Tokens;
use provider_kit::transport::{Budget, Builder, Refill, RetryPolicy, Tls, Transport, Xml, network};
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::chain::Chain;
use crate::connection::{Connection, Shared};
use crate::endpoint::{EC2, ELB, ELBV2, Endpoints, Service};
use crate::profile::Profile;
use crate::source::profile_name;
use crate::{Query, ServiceOverride};

/// The part of the cloud configuration that says how AWS is reached.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The region; otherwise `AWS_REGION`, the profile, or the metadata service name it.
    pub region: Option<String>,
    /// The role that is assumed before any other request.
    pub role_arn: Option<String>,
    /// The ARN that is sent when that role is assumed, against confused deputies.
    pub source_arn: Option<String>,
    /// Endpoints other than those of AWS.
    pub overrides: Vec<ServiceOverride>,
}

/// The APIs of AWS in one region. Cheap to clone.
#[derive(Clone)]
pub struct Aws {
    /// EC2: instances, networks, security groups, routes.
    pub ec2: Client,
    /// ELB: classic load balancers of TCP and HTTP.
    pub elb: Client,
    /// ELBv2: network load balancers and target groups.
    pub elbv2: Client,
    shared: Arc<Shared>,
}

impl fmt::Debug for Aws {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aws")
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}

impl Aws {
    /// Returns the clients; no request is sent. `furnish` completes each transport: with series of the provider's own, or with
    /// a connector to a fake in the same process.
    ///
    /// # Errors
    /// *Invalid*, naming the variable, file or setting that is wrong; *unauthorized* if no credentials are configured.
    pub fn new(
        setup: &Setup,
        settings: Settings,
        furnish: impl Fn(Builder) -> Builder + Send + Sync + 'static,
    ) -> Result<Self> {
        let (setup, environment) = (setup.clone(), setup.environment.clone());
        let is_offline = environment.is_offline();
        let variables = Profile::of_environment(&environment);
        let profile = match is_offline {
            true => Profile::default(),
            false => Profile::of_files(&environment, profile_name(&variables).0)?,
        };
        let wrong = |text: &str| {
            Error::invalid(format!(
                "AWS_MAX_ATTEMPTS: {text:?} is not a whole number from 1 on"
            ))
        };
        let attempts = variables
            .get("max_attempts")
            .map(|text| text.parse::<NonZeroU32>().map_err(|_| wrong(text)));
        let max_attempts = attempts
            .transpose()?
            .map_or(RetryPolicy::default().max_attempts, NonZeroU32::get);
        let retry_policy = RetryPolicy {
            max_attempts,
            ..RetryPolicy::default()
        };
        let network = network(&Tls::default(), "http://169.254.169.254")?;
        let furnish = move |http: Builder| {
            furnish(
                http.connector(Arc::clone(&network))
                    .setup(&setup)
                    .retry_policy(retry_policy),
            )
        };
        let (clock, region) = Default::default();
        let endpoints = Endpoints {
            overrides: settings.overrides.clone(),
            variables,
            profile,
        };
        let shared = Arc::new(Shared {
            settings,
            environment,
            endpoints,
            clock,
            region,
            furnish: Box::new(furnish),
        });
        let chain = Chain(Arc::clone(&shared), None);
        if !is_offline {
            chain.source()?;
        }
        let tokens = Arc::new(Tokens::of(chain));
        let client =
            |service, paging, budgets| Client::new(&shared, &tokens, service, paging, budgets);
        let markers = Paging::token("Marker", "/NextMarker");
        Ok(Self {
            ec2: client(
                EC2,
                Paging::token("NextToken", "/nextToken"),
                &[(20, 100), (5, 100)],
            )?,
            elb: client(ELB, markers, &[(10, 40)])?,
            elbv2: client(ELBV2, markers, &[(10, 40)])?,
            shared,
        })
    }

    /// Returns the region, which may have to be read from the metadata service.
    ///
    /// # Errors
    /// *Invalid*, naming the setting, if no place says it; the error of the metadata service.
    pub async fn region(&self) -> Result<String> {
        self.shared.region().await.map(str::to_owned)
    }

    /// Reads a path of the metadata service, such as `meta-data/instance-id`; `None` if it has no such path, or is disabled.
    ///
    /// # Errors
    /// *Unanswered*, with the hop limit as a possible cause, if there is no metadata service.
    pub async fn metadata(&self, path: &str) -> Result<Option<String>> {
        self.shared.metadata(path).await
    }
}

/// Client of an API. Reads and changes of EC2 have budgets of their own. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    reads: Transport,
    changes: Transport,
    service: Service,
}

impl Client {
    /// `budgets`: requests in a second and at once, of reads and of changes, or of both together.
    fn new(
        shared: &Arc<Shared>,
        tokens: &Arc<Tokens<Chain>>,
        service: Service,
        paging: Paging,
        budgets: &[(u32, u32)],
    ) -> Result<Self> {
        let connection = Connection::new(shared, service, Some(Arc::clone(tokens)));
        let transport = |&(rate, burst): &(u32, u32)| {
            let budget = Budget {
                refill: Refill::adaptive(rate, burst),
                ..Budget::default()
            };
            connection.transport(|http| http.budget(budget).paging(paging))
        };
        let transports = budgets.iter().map(transport).collect::<Result<Vec<_>>>()?;
        let reads = transports[0].clone();
        let changes = transports[transports.len() - 1].clone();
        Ok(Self {
            reads,
            changes,
            service,
        })
    }

    /// Sends a query that changes nothing.
    ///
    /// # Errors
    /// By the code of the refusal, which [`Error::code`] returns; see the table in [the crate's documentation](crate).
    pub async fn read<T: DeserializeOwned>(&self, query: Query) -> Result<T> {
        self.reads
            .read_as::<Xml, T>(query.call(&self.service, true))
            .await
    }

    /// Sends a query that changes nothing; `None` if the code of the refusal is one of *not found*.
    ///
    /// # Errors
    /// Like [`read`](Self::read), for every other refusal.
    pub async fn find<T: DeserializeOwned>(&self, query: Query) -> Result<Option<T>> {
        match self.read(query).await {
            Err(error) if error.is_not_found() => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Reads all pages of a list. `collection` is the element that holds the items, such as `reservationSet` or
    /// `LoadBalancers`; `key` tells items apart.
    ///
    /// # Errors
    /// Like [`read`](Self::read), for any page.
    pub async fn list<W: DeserializeOwned, T, K: Hash>(
        &self,
        query: Query,
        collection: &str,
        shared_priority: &SharedPriority,
        keep: impl Fn(W) -> T,
        key: fn(&T) -> K,
    ) -> Result<ListResult<T>> {
        self.reads
            .list_as::<Xml, W, T, K>(
                query.call(&self.service, true),
                collection,
                shared_priority,
                keep,
                key,
            )
            .await
    }

    /// Sends a query that changes something, and reads its answer; `serde::de::IgnoredAny` ignores it.
    ///
    /// # Errors
    /// Like [`read`](Self::read).
    pub async fn change<T: DeserializeOwned>(&self, query: Query) -> Result<T> {
        self.changes
            .read_as::<Xml, T>(query.call(&self.service, false))
            .await
    }

    /// Sends a query that deletes something; success if it does not exist. It is sent again after a lost answer.
    ///
    /// # Errors
    /// Like [`read`](Self::read), for every other refusal.
    pub async fn remove(&self, query: Query) -> Result<()> {
        match self.change::<IgnoredAny>(query.repeatable()).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}
