//! The check that the credential is for the account of the cluster.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Result};
use parking_lot::Mutex;
use provider_kit::coalescer::Coalescer;
use serde_json::Value;
use tokio::time::Instant;

use super::WINDOW;
use super::read::{list, text};
use crate::api::{Api, Query, VPC};

/// Time for which a check before a creation need not be repeated.
const RECENT: Duration = Duration::from_secs(2);

/// Checks of the account: a credential of another account could create a public CLB, too.
pub(super) struct Account {
    checks: Coalescer<(), ()>,
    /// The time of the last request that confirmed the account.
    confirmed: Arc<Mutex<Option<Instant>>>,
}

impl Account {
    pub(super) fn new(api: &Api) -> Self {
        let (api, confirmed) = (api.clone(), Arc::<Mutex<Option<Instant>>>::default());
        let of_checks = Arc::clone(&confirmed);
        let checks = Coalescer::new(move |(), _| {
            let (api, confirmed) = (api.clone(), Arc::clone(&of_checks));
            async move {
                let sent = Instant::now();
                let outcome = check(&api).await;
                *confirmed.lock() = outcome.is_ok().then_some(sent);
                outcome
            }
        });
        Self { checks, confirmed }
    }

    /// Refuses a credential of another account, unless the account was confirmed a moment ago. It may change until the
    /// creation that follows, so [`check`](Self::check) is called after that.
    pub(super) async fn check_lately(&self) -> Result<()> {
        let is_confirmed = self.confirmed.lock().is_some_and(|sent| sent.elapsed() < RECENT);
        if is_confirmed { Ok(()) } else { self.check().await }
    }

    /// Refuses a credential of another account, by a request that is sent after this call. Concurrent callers share it.
    pub(super) async fn check(&self) -> Result<()> {
        self.checks.join_at((), (), |_| Instant::now() + WINDOW).await
    }
}

async fn check(api: &Api) -> Result<()> {
    let vpc = api.metadata.vpc().await?;
    let answer: Value = api.read(Query::new(VPC, "DescribeVpcs").set("VpcId", &vpc)).await?;
    match list(&answer["Vpcs"], "Vpc").any(|it| text(it, "VpcId") == vpc) {
        true => Ok(()),
        false => Err(Error::unauthorized(format!(
            "the account of the credential has no VPC {vpc}; check the credential and Global.vpcid"
        ))),
    }
}
