//! The leases that this process competes for: the main lease and, with leader migration, a second one (APP-60, APP-75,
//! APP-79). Without leader election there is none, and the process leads from the start (APP-69).

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::Fence;
use cloud_provider::names::{CONTROLLERS, ControllerNames};
use runtime::election::migration::{Assignment, LeaderMigration, Under};
use runtime::election::{
    ElectionConfig, ElectionOutcome, Elector, Leadership, fence_until_either_is_lost, identity,
};
use runtime::events::EventRecorder;
use serving::health::Check;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::controller_set::Settings;
use crate::exit::{Failure, LostLease};
use crate::flags::ElectionSettings;

/// Time after which a standby that cannot read its lease is not ready (APP-104).
const LEASE_READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Suffix of the `User-Agent` of the client for the lease (APP-40).
const LEASE_CLIENT: &str = "leader-election";

/// The leases that this process is a candidate for.
pub(crate) struct LeaderElection {
    main: Option<Candidate>,
    migration: Option<(Candidate, Assignment)>,
    /// Token whose cancellation releases the leases.
    release: CancellationToken,
}

/// The candidate for one lease.
struct Candidate {
    leadership: Leadership,
    /// The elector that has not been started.
    elector: Option<Elector>,
    /// Task of the elector; `None` before it is started.
    running: Option<JoinHandle<ElectionOutcome>>,
}

impl Candidate {
    fn new(elector: Elector) -> Self {
        Self {
            leadership: elector.leadership(),
            elector: Some(elector),
            running: None,
        }
    }
}

impl LeaderElection {
    /// Returns the elections that the flags configure (APP-60, APP-75), which are not started.
    pub(crate) async fn new(
        settings: &Settings,
        election: Option<&ElectionSettings>,
        migration: Option<&LeaderMigration>,
        events: &EventRecorder,
    ) -> Result<Self, Failure> {
        let release = CancellationToken::new();
        let Some(election) = election else {
            return Ok(Self {
                main: None,
                migration: None,
                release,
            });
        };
        let main = ElectionConfig {
            namespace: election.namespace.clone(),
            name: election.name.clone(),
            identity: identity(),
            lease_duration: election.lease_duration,
            renew_deadline: election.renew_deadline,
            retry_period: election.retry_period,
            release_on_stop: election.release_on_stop,
        };
        let clients = settings
            .clients
            .with(|options| main.client_options(options));
        let client = Settings {
            clients,
            ..settings.clone()
        }
        .client(LEASE_CLIENT)
        .await
        .map_err(Failure::Setup)?;
        let elector = |config| {
            Elector::new(
                client.clone(),
                config,
                events.clone(),
                settings.metrics.elections(),
            )
        };
        let second = migration.map(|migration| {
            // The same namespace, identity and timings as the main lease (APP-81).
            let config = ElectionConfig {
                name: migration.leader_name.clone(),
                ..main.clone()
            };
            let assignment = Assignment::new(migration, &CONTROLLERS.map(Into::into));
            for name in assignment.unknown() {
                tracing::warn!(
                    name,
                    "leader migration: no controller has this name, so the entry has no effect"
                );
            }
            (Candidate::new(elector(config).for_migration()), assignment)
        });
        Ok(Self {
            main: Some(Candidate::new(elector(main))),
            migration: second,
            release,
        })
    }

    /// Returns the leases in the order in which they are acquired. Without leader election, the main lease stands for
    /// the process itself.
    pub(crate) fn leases(&self) -> impl Iterator<Item = Under> + use<> {
        std::iter::once(Under::MainLease)
            .chain(self.migration.as_ref().map(|_| Under::MigrationLease))
    }

    /// Returns a predicate for the controllers that run under this lease.
    pub(crate) fn assigned(&self, lease: Under) -> impl Fn(ControllerNames) -> bool + use<> {
        let assignment = self
            .migration
            .as_ref()
            .map(|(_, assignment)| assignment.clone());
        move |names| {
            assignment.as_ref().map_or(Under::MainLease, |assignment| {
                assignment.of(names.canonical)
            }) == lease
        }
    }

    fn candidates(&self) -> impl Iterator<Item = &Candidate> {
        self.main
            .iter()
            .chain(self.migration.iter().map(|(candidate, _)| candidate))
    }

    /// Returns the fence, which is open until a held lease is lost (INV-4).
    pub(crate) fn fence(&self) -> Fence {
        match (&self.main, &self.migration) {
            (None, _) => Fence::default(),
            (Some(main), None) => main.leadership.fence(),
            (Some(main), Some((second, _))) => {
                fence_until_either_is_lost(&main.leadership, &second.leadership)
            }
        }
    }

    /// Returns the check `leaderElection`, which fails if a lease fails (APP-68, APP-82 *ours*); `None` without leader
    /// election.
    pub(crate) fn health(&self) -> Option<Arc<dyn Check>> {
        let leaderships: Vec<_> = self
            .candidates()
            .map(|candidate| candidate.leadership.clone())
            .collect();
        let check = move || leaderships.iter().try_for_each(Leadership::health);
        self.main
            .is_some()
            .then(|| Arc::new(check) as Arc<dyn Check>)
    }

    /// Returns the check that fails unless this process knows the leader, be it itself or another replica; `None`
    /// without leader election.
    pub(crate) fn readiness(&self) -> Option<Arc<dyn Check>> {
        let main = self.main.as_ref()?.leadership.clone();
        Some(Arc::new(move || {
            match main.lease_was_seen_within(LEASE_READ_TIMEOUT) {
                true => Ok(()),
                false => Err(format!(
                    "the lease was not readable for {} s",
                    LEASE_READ_TIMEOUT.as_secs()
                )),
            }
        }))
    }

    /// Competes for a lease. Returns `true` as soon as this process holds it, and `false` if `stop` is cancelled
    /// before.
    pub(crate) async fn acquire(&mut self, lease: Under, stop: &CancellationToken) -> bool {
        let candidate = match lease {
            Under::MigrationLease => self.migration.as_mut().map(|(candidate, _)| candidate),
            _ => self.main.as_mut(),
        };
        let Some(candidate) = candidate else {
            return true;
        };
        if let Some(elector) = candidate.elector.take() {
            candidate.running = Some(tokio::spawn(elector.run(self.release.clone())));
        }
        stop.run_until_cancelled(candidate.leadership.acquired())
            .await
            .is_some()
    }

    /// Returns a future that ends when a held lease is lost (APP-65, APP-81), with the failure that ends the process.
    pub(crate) fn lost(&self) -> impl Future<Output = Failure> + use<> {
        let main = self
            .main
            .as_ref()
            .map(|candidate| candidate.leadership.clone());
        let second = self
            .migration
            .as_ref()
            .map(|(candidate, _)| candidate.leadership.clone());
        async move {
            let main = lost(main);
            let second = lost(second);
            tokio::select! {
                biased;
                () = main => Failure::LostLease(LostLease::Main),
                () = second => Failure::LostLease(LostLease::Migration),
            }
        }
    }

    /// Leaves the leases to expire instead of releasing them at the end (INV-6, APP-67).
    pub(crate) fn leave_to_expire(&self) {
        self.candidates()
            .for_each(|candidate| candidate.leadership.leave_to_expire());
    }

    /// Stops the election of the main lease without releasing it. Renewing or releasing it would be a change.
    pub(crate) fn abort(&self) {
        if let Some(running) = self
            .main
            .as_ref()
            .and_then(|candidate| candidate.running.as_ref())
        {
            running.abort();
        }
    }

    /// Releases the leases, and waits until the elections have ended.
    ///
    /// # Errors
    /// If the main lease was lost meanwhile.
    pub(crate) async fn release(self) -> Result<(), Failure> {
        self.release.cancel();
        if let Some(second) = self.migration.and_then(|(candidate, _)| candidate.running) {
            _ = second.await;
        }
        let Some(Candidate {
            leadership,
            running: Some(main),
            ..
        }) = self.main
        else {
            return Ok(());
        };
        match main.await {
            Ok(ElectionOutcome::Lost(_)) => Err(Failure::LostLease(LostLease::Main)),
            Ok(ElectionOutcome::Released | ElectionOutcome::Stopped) => Ok(()),
            Err(error) => {
                tracing::error!(%error, leads = leadership.is_open(), "the leader election panicked");
                Ok(())
            }
        }
    }
}

/// Waits until a lease is lost, for ever if there is none.
async fn lost(leadership: Option<Leadership>) {
    match leadership {
        Some(leadership) => _ = leadership.lost().await,
        None => std::future::pending().await,
    }
}

/// Returns the leader migration that the flags configure (APP-76, APP-78).
pub(crate) fn migration(
    election: Option<&ElectionSettings>,
) -> Result<Option<LeaderMigration>, Failure> {
    let Some(election) = election else {
        return Ok(None);
    };
    let Some(settings) = &election.migration else {
        return Ok(None);
    };
    let migration = match &settings.file {
        None => LeaderMigration::default(),
        Some(path) => LeaderMigration::read(path).map_err(Failure::setup)?,
    };
    if migration.leader_name == election.name {
        return Err(Failure::Setup(anyhow::anyhow!(
            "leader migration and leader election use the same lease, {}/{}: change leaderName in the file of \
             --leader-migration-config, or --leader-elect-resource-name",
            election.namespace,
            election.name
        )));
    }
    Ok(Some(migration))
}
