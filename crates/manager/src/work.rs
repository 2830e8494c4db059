//! The work of a process that may start: the provider, the controllers and the caches (APP-14 … APP-19), and their
//! shutdown (APP-162).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cloud_provider::names::ControllerNames;
use cloud_provider::{CloudProvider, Cluster};
use runtime::election::Leadership;
use runtime::events::EventSender;
use serving::health::{Check, Health};
use tokio_util::sync::CancellationToken;

use crate::clients::ForProvider;
use crate::controllers_task::{Fleet, Handles, Settings};
use crate::exit::Failure;
use crate::provider_events;
use crate::provider_start::ProviderStart;
use crate::start;
use crate::starter::Started;
use crate::{api_health, callers};

/// The process context that work is started with: settings, provider, health checks and leases.
#[derive(Clone)]
pub(crate) struct Means {
    pub(crate) settings: Settings,
    pub(crate) provider: Arc<dyn CloudProvider>,
    /// Name of the cluster (`--cluster-name`).
    pub(crate) cluster_name: String,
    /// Registry of the controllers' health checks (APP-17).
    pub(crate) health: Health,
    /// Time after which work on one object fails the controller's health check.
    pub(crate) wedged_after: Duration,
    /// Total time that the work in progress may take to finish at a shutdown (APP-162).
    pub(crate) grace: Duration,
    /// State of the provider's start.
    pub(crate) provider_start: ProviderStart,
    /// Leases that protect the work.
    pub(crate) leases: Vec<Leadership>,
}

/// The controllers that have been started.
pub(crate) struct Work {
    fleet: Fleet,
    means: Means,
    started: Vec<Started>,
    shutdown: CancellationToken,
}

impl Work {
    /// Initializes the provider once for the whole process (APP-15, APP-82 *ours*) and starts the controllers for which
    /// `belongs` returns `true`. Returns `None` if `stop` is cancelled before.
    pub(crate) async fn begin(
        means: Means,
        belongs: impl Fn(ControllerNames) -> bool,
        stop: &CancellationToken,
    ) -> Result<Option<Self>, Failure> {
        let shutdown = stop.child_token();
        means.provider_start.note(true);
        let reached = stop.run_until_cancelled(reach(&means, &shutdown)).await;
        let (cluster, events) = match reached {
            // An interrupted start is no failure.
            None => return Ok(None),
            Some(Err(_)) if stop.is_cancelled() => return Ok(None),
            Some(reached) => reached?,
        };
        means.provider_start.note(false);
        let provider = Arc::clone(&means.provider);
        let fleet = Fleet::new(means.settings.clone(), provider, cluster, shutdown.clone());
        fleet.send_events(events);
        let mut work = Self { fleet, means, started: Vec::new(), shutdown };
        match work.start(belongs).await {
            Ok(()) => Ok(Some(work)),
            Err(failure) => {
                work.end().await;
                Err(failure)
            }
        }
    }

    /// Starts the controllers for which `belongs` returns `true`, registers their health checks and starts the caches
    /// that they need. A cancelled `stop` interrupts this and is no error.
    pub(crate) async fn start(&mut self, belongs: impl Fn(ControllerNames) -> bool) -> Result<(), Failure> {
        let stop = self.shutdown.clone();
        match stop.run_until_cancelled(self.start_all(belongs)).await {
            Some(Err(failure)) if !stop.is_cancelled() => Err(failure),
            _ => Ok(()),
        }
    }

    async fn start_all(&mut self, belongs: impl Fn(ControllerNames) -> bool) -> Result<(), Failure> {
        let started = self.fleet.start(belongs).await.map_err(Failure::Fatal)?;
        for one in &started {
            let check =
                Alive { started: one.clone(), wedged_after: self.means.wedged_after, stop: self.shutdown.clone() };
            self.means.health.add(one.names.canonical, Arc::new(check));
        }
        self.started.extend(started);
        let client = self.means.settings.client("shared-informers").await.map_err(Failure::Fatal)?;
        let situation = callers::situation(&self.means.settings);
        api_health::wait(&client, &situation).await?;
        self.fleet.watch().await.map_err(Failure::Fatal)
    }

    /// Stops accepting work and waits for the work in progress, up to the grace period. If a controller did not stop
    /// cleanly, the leases are left to expire, because its requests to the cloud may still be under way (INV-6,
    /// APP-67).
    pub(crate) async fn end(self) {
        self.shutdown.cancel();
        let handles: Handles = self.fleet.finish();
        let ended = tokio::time::timeout(self.means.grace, handles.wait()).await.is_ok();
        let given_up: Vec<_> = self.started.iter().filter(|one| one.pulse.gave_up()).collect();
        if !ended {
            tracing::warn!(
                "work in progress did not end within {} s; the next leader takes over: {}",
                self.means.grace.as_secs(),
                busy(&self.started)
            );
        }
        if !ended || !given_up.is_empty() {
            let names: Vec<_> = given_up.iter().map(|one| one.names.canonical).collect();
            tracing::warn!(
                given_up_by = names.join(", "),
                "the cloud may still be carrying out abandoned changes; the lease is left to expire, so that no other \
                 replica works on the same objects before"
            );
            self.means.leases.iter().for_each(Leadership::leave_to_expire);
        }
    }
}

/// Waits for the API server, reads the identity of the cluster and starts the provider (APP-14, APP-15).
async fn reach(means: &Means, shutdown: &CancellationToken) -> Result<(Cluster, EventSender), Failure> {
    let informers = means.settings.client("shared-informers").await.map_err(Failure::Fatal)?;
    api_health::wait(&informers, &callers::situation(&means.settings)).await?;
    let cluster = start::cluster_of(&means.cluster_name, &informers, start::PATIENCE, shutdown).await;
    let cluster = cluster.map_err(Failure::Fatal)?;
    let writer = means.settings.client(start::PROVIDER_CLIENT).await.map_err(Failure::Fatal)?;
    let (events, sender) = provider_events::recorder(writer);
    let clients = Arc::new(ForProvider::Own(Box::new(means.settings.clone())));
    let context = start::context(&means.settings, &cluster, clients, events, shutdown);
    means.provider_start.run(&*means.provider, &context).await.map_err(Failure::Fatal)?;
    Ok((cluster, sender))
}

fn busy(started: &[Started]) -> String {
    let busy = started.iter().filter_map(|one| Some((one.names.canonical, one.pulse.oldest()?)));
    let texts: Vec<_> = busy.map(|(name, oldest)| format!("{name} ({}, {:.1?})", oldest.what, oldest.age)).collect();
    if texts.is_empty() { "no known work".to_owned() } else { texts.join(", ") }
}

/// The health check of a controller: fails if the controller makes no progress (P-35). An idle controller is healthy.
struct Alive {
    started: Started,
    wedged_after: Duration,
    stop: CancellationToken,
}

impl Check for Alive {
    fn check(&self) -> Result<(), String> {
        if self.started.ended.load(Ordering::Relaxed) && !self.stop.is_cancelled() {
            return Err("the controller's loop has ended, which is a defect; restart the process".to_owned());
        }
        match self.started.pulse.oldest().filter(|oldest| oldest.age > self.wedged_after) {
            None => Ok(()),
            Some(oldest) => Err(format!(
                "work of kind {:?} has run for {} s (at most {} s are expected): a call to the cloud probably hangs",
                oldest.what,
                oldest.age.as_secs(),
                self.wedged_after.as_secs()
            )),
        }
    }
}
