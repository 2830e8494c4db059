//! Clients of the AWS APIs.

use std::hash::Hash;

use cloud_provider::{Error, Result, Setup};
use provider_kit::inventory::Urgency;
use provider_kit::paging::Reading;
use provider_kit::transport::{Builder, Transport};
use serde::de::DeserializeOwned;

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
#[derive(Clone, Debug)]
pub struct Aws {
    /// EC2: instances, networks, security groups, routes.
    pub ec2: Client,
    /// Classic load balancers.
    pub elb: Client,
    /// Network load balancers.
    pub elbv2: Client,
}

impl Aws {
    /// Returns the clients; no request is sent. `furnish` completes each transport: with series of the provider's own, or with
    /// a connector to a fake in the same process.
    ///
    /// # Errors
    /// *Invalid*, naming the variable, file or setting that is wrong.
    pub fn new(_setup: &Setup, _settings: Settings, _furnish: impl Fn(Builder) -> Builder) -> Result<Self> {
        Err(Error::not_implemented())
    }

    /// Returns the region, which may have to be read from the metadata service.
    ///
    /// # Errors
    /// *Invalid*, naming the places that were searched, if no place says it.
    pub async fn region(&self) -> Result<String> {
        Err(Error::not_implemented())
    }

    /// Reads a path of the metadata service, such as `meta-data/instance-id`; `None` if it has no such path.
    ///
    /// # Errors
    /// *Unanswered*, with the hop limit as a possible cause, if there is no metadata service.
    pub async fn metadata(&self, _path: &str) -> Result<Option<String>> {
        Err(Error::not_implemented())
    }
}

/// One API of AWS. Reads and changes of EC2 have budgets of their own. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    reads: Transport,
    changes: Transport,
    has_members: bool,
}

impl Client {
    /// Sends a query that changes nothing.
    ///
    /// # Errors
    /// By the code of the refusal, which [`Error::code`] returns; see the table in [the crate's documentation](crate).
    pub async fn read<T: DeserializeOwned>(&self, _query: Query) -> Result<T> {
        Err(Error::not_implemented())
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
        _query: Query,
        _collection: &str,
        _urgency: &Urgency,
        _keep: impl Fn(W) -> T,
        _key: fn(&T) -> K,
    ) -> Result<Reading<T>> {
        Err(Error::not_implemented())
    }

    /// Sends a query that changes something, and reads its answer; `serde::de::IgnoredAny` ignores it.
    ///
    /// # Errors
    /// Like [`read`](Self::read).
    pub async fn change<T: DeserializeOwned>(&self, _query: Query) -> Result<T> {
        Err(Error::not_implemented())
    }

    /// Sends a query that deletes something; success if it does not exist. It is sent again after a lost answer.
    ///
    /// # Errors
    /// Like [`read`](Self::read), for every other refusal.
    pub async fn remove(&self, _query: Query) -> Result<()> {
        Err(Error::not_implemented())
    }
}
