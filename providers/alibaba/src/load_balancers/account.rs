//! The check that the credential is for the account of the cluster.

use cloud_provider::{Error, Result};
use provider_kit::coalescer::Coalescer;
use serde_json::Value;
use tokio::time::Instant;

use super::WINDOW;
use super::read::{list, text};
use crate::api::{Api, Query, VPC};

/// Checks of the account: a credential of another account could create a public CLB, too.
pub(super) struct Account(Coalescer<(), ()>);

impl Account {
    pub(super) fn new(api: &Api) -> Self {
        let api = api.clone();
        Self(Coalescer::new(move |(), _| {
            let api = api.clone();
            async move { check(&api).await }
        }))
    }

    /// Refuses a credential of another account, by a request that is sent after this call. Concurrent callers share it.
    pub(super) async fn check(&self) -> Result<()> {
        self.0.join_at((), (), |_| Instant::now() + WINDOW).await
    }
}

async fn check(api: &Api) -> Result<()> {
    let vpc = api.metadata.vpc().await?;
    let answer: Value = api
        .read(Query::new(VPC, "DescribeVpcs").set("VpcId", &vpc))
        .await?;
    match list(&answer["Vpcs"], "Vpc").any(|other_vpc| text(other_vpc, "VpcId") == vpc) {
        true => Ok(()),
        false => Err(Error::unauthorized(format!(
            "the account of the credential has no VPC {vpc}; check the credential and Global.vpcid"
        ))),
    }
}
