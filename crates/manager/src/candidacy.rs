//! The leases that this process competes for: the main lease and, with leader migration, a second one (APP-60, APP-75,
//! APP-79).

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::Fence;
use cloud_provider::names::ControllerNames;
use runtime::election::migration::{Assignment, Under};
use runtime::election::{ElectionOutcome, Elector, Leadership, fence_until_either_is_lost};
use serving::health::Check;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::exit::{Failure, LostLease};
use crate::work::{Means, Work};

/// Time after which a standby that cannot read its lease is not ready (APP-104).
const READABLE: Duration = Duration::from_secs(60);

/// The leases that this process is a candidate for.
pub(crate) struct Candidacy {
    main: Elector,
    migration: Option<(Elector, Assignment)>,
}

impl Candidacy {
    pub(crate) fn new(main: Elector, migration: Option<(Elector, Assignment)>) -> Self {
        Self { main, migration }
    }

    /// Returns the leaderships of all leases.
    pub(crate) fn leases(&self) -> Vec<Leadership> {
        let (main, migration) = self.leaderships();
        std::iter::once(main).chain(migration).collect()
    }

    fn leaderships(&self) -> (Leadership, Option<Leadership>) {
        (self.main.leadership(), self.migration.as_ref().map(|(elector, _)| elector.leadership()))
    }

    /// Returns the fence, which is open until a held lease is lost (INV-4).
    pub(crate) fn fence(&self) -> Fence {
        match self.leaderships() {
            (main, None) => main.fence(),
            (main, Some(migration)) => fence_until_either_is_lost(&main, &migration),
        }
    }

    /// Returns the check `leaderElection`, which fails if either lease fails (APP-68, APP-82 *ours*).
    pub(crate) fn health(&self) -> Arc<dyn Check> {
        let (main, migration) = self.leaderships();
        Arc::new(move || main.health().and_then(|()| migration.as_ref().map_or(Ok(()), Leadership::health)))
    }

    /// Returns the check that fails unless this process knows the leader, be it itself or another replica.
    pub(crate) fn readiness(&self) -> Arc<dyn Check> {
        let main = self.main.leadership();
        Arc::new(move || match main.lease_was_seen_within(READABLE) {
            true => Ok(()),
            false => Err(format!("the lease was not readable for {} s", READABLE.as_secs())),
        })
    }

    /// Runs leader election, runs the controllers while this process leads, and releases the lease when they have
    /// ended.
    ///
    /// # Errors
    /// A lost lease, at once: the fence is closed and the work in progress is not awaited (APP-65). Errors of the work.
    pub(crate) async fn run(self, means: Means, stop: &CancellationToken) -> Result<(), Failure> {
        let (leads, second) = self.leaderships();
        let release = CancellationToken::new();
        let elections = Elections { main: tokio::spawn(self.main.run(release.clone())), release: release.clone() };
        let identity = means.settings.identity.clone();
        // The work ends with this function, whatever the reason.
        let halt = stop.child_token();
        let _halted = halt.clone().drop_guard();
        let lost_migration = async {
            match &second {
                Some(second) => second.lost().await,
                None => std::future::pending().await,
            }
        };
        let ended = tokio::select! {
            biased;
            _ = leads.lost() => return Err(Failure::LostLease(LostLease::Main)),
            other = identity.refused() => {
                // Renewing or releasing the lease would be a change, so it expires.
                elections.main.abort();
                return Err(Failure::another_cluster(other));
            }
            _ = lost_migration => return Err(Failure::LostLease(LostLease::Migration)),
            ended = lead(means, &leads, self.migration, &halt, &release) => ended,
        };
        elections.end(&leads).await?;
        ended
    }
}

/// Runs the controllers while this process leads.
async fn lead(
    means: Means,
    leads: &Leadership,
    migration: Option<(Elector, Assignment)>,
    stop: &CancellationToken,
    release: &CancellationToken,
) -> Result<(), Failure> {
    if stop.run_until_cancelled(leads.acquired()).await.is_none() {
        return Ok(());
    }
    let assignment = migration.as_ref().map(|(_, assignment)| assignment.clone());
    let belongs = |lease| {
        let assignment = assignment.as_ref();
        move |names: ControllerNames| assignment.map_or(Under::MainLease, |it| it.of(names.canonical)) == lease
    };
    let Some(mut work) = Work::begin(means, belongs(Under::MainLease), stop).await? else { return Ok(()) };
    let mut second = None;
    let mut started = Ok(());
    if let Some((elector, _)) = migration {
        let leads = elector.leadership();
        second = Some(tokio::spawn(elector.run(release.clone())));
        if stop.run_until_cancelled(leads.acquired()).await.is_some() {
            started = work.start(belongs(Under::MigrationLease)).await;
        }
    }
    if started.is_ok() {
        stop.cancelled().await;
    }
    work.end().await;
    if let Some(second) = second {
        release.cancel();
        _ = second.await;
    }
    started
}

/// The running elections. Dropping this value does not stop them.
struct Elections {
    main: JoinHandle<ElectionOutcome>,
    release: CancellationToken,
}

impl Elections {
    /// Releases the lease, and waits until the elections have ended.
    async fn end(self, leads: &Leadership) -> Result<(), Failure> {
        self.release.cancel();
        match self.main.await {
            Ok(ElectionOutcome::Lost(_)) => Err(Failure::LostLease(LostLease::Main)),
            Ok(ElectionOutcome::Released | ElectionOutcome::Stopped) => Ok(()),
            Err(error) => {
                tracing::error!(%error, leads = leads.is_open(), "the leader election panicked");
                Ok(())
            }
        }
    }
}
