//! Leadership handle: reports to the rest of the process whether this process leads.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::Fence;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::Instant;

use super::config::ElectionConfig;
use super::step::Election;

/// Time beyond the lease duration after which a leader without a renewal is unhealthy (APP-68).
const HEALTH_SLACK: Duration = Duration::from_secs(20);

/// Outcome of an election for this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElectionOutcome {
    /// The process stopped gracefully and released the Lease.
    Released,
    /// The process stopped gracefully without releasing a Lease: it held none, was configured not to, or the release
    /// failed. Other candidates wait until the Lease expires.
    Stopped,
    /// The process led and lost the Lease, or the election was aborted; with the reason.
    Lost(String),
}

/// Handle that reports whether this process leads. Clones are cheap and share their state.
#[derive(Clone, Debug)]
pub struct Leadership(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    lease: String,
    max_lease_age: Duration,
    facts: Mutex<Facts>,
    phase: watch::Sender<Phase>,
}

#[derive(Debug, Default)]
struct Facts {
    /// Time until which the fence is open.
    until: Option<Instant>,
    /// If set, the fence never opens again.
    closed: bool,
    renewed: Option<Instant>,
    read: Option<Instant>,
    /// If set, a graceful stop does not release the Lease.
    left_to_expire: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Candidate,
    Leading,
    Over(ElectionOutcome),
}

impl Leadership {
    pub(super) fn new(config: &ElectionConfig) -> Self {
        Self(Arc::new(Shared {
            lease: config.name.clone(),
            max_lease_age: config.lease_duration + HEALTH_SLACK,
            facts: Mutex::default(),
            phase: watch::Sender::new(Phase::Candidate),
        }))
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.0.facts.lock()
    }

    /// Waits until this process leads.
    pub async fn acquired(&self) {
        self.wait_for(|phase| *phase == Phase::Leading).await;
    }

    /// Waits until this process has lost the Lease, or until its election was aborted, for example by a panic, and
    /// returns the reason. The process must then end, because it never leads again. The fence is closed before this
    /// method returns.
    pub async fn lost(&self) -> String {
        match self
            .wait_for(|phase| matches!(phase, Phase::Over(ElectionOutcome::Lost(_))))
            .await
        {
            Phase::Over(ElectionOutcome::Lost(reason)) => reason,
            _ => std::future::pending().await,
        }
    }

    async fn wait_for(&self, is_this_match: impl FnMut(&Phase) -> bool) -> Phase {
        let mut phases = self.0.phase.subscribe();
        // The sender lives in `self`.
        let found = phases
            .wait_for(is_this_match)
            .await
            .ok()
            .map(|phase| phase.clone());
        match found {
            Some(phase) => phase,
            None => std::future::pending().await,
        }
    }

    /// Returns `true` if this process leads at this moment.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let mut facts = self.facts();
        let is_open = !facts.closed && facts.until.is_some_and(|until| Instant::now() < until);
        // A fence that was closed once stays closed, even if a late renewal turns out to have succeeded.
        facts.closed |= !is_open && facts.until.is_some();
        is_open
    }

    /// Returns `true` if this process led once and no longer leads.
    #[must_use]
    pub fn is_closed_for_good(&self) -> bool {
        !self.is_open() && self.facts().closed
    }

    /// Returns the fence for what only a leader may do (INV-4): closed until the Lease is acquired; open while the last
    /// successful renewal was sent less than the renew deadline ago, by the monotonic clock; closed for good after
    /// that.
    #[must_use]
    pub fn fence(&self) -> Fence {
        let this = self.clone();
        Fence::new(move || this.is_open())
    }

    /// Performs the check `leaderElection` (APP-68), which fails only if this process believes that it leads and has
    /// not renewed the Lease for the lease duration and 20 s.
    ///
    /// # Errors
    /// The text of the failure.
    pub fn health(&self) -> Result<(), String> {
        let leads = *self.0.phase.borrow() == Phase::Leading;
        let stale = self
            .facts()
            .renewed
            .is_some_and(|renewed| renewed.elapsed() > self.0.max_lease_age);
        if leads && stale {
            return Err(format!(
                "failed election to renew leadership on lease {}",
                self.0.lease
            ));
        }
        Ok(())
    }

    /// Returns `true` if the Lease was read or written within `age`. An answer that no Lease exists counts as well. A
    /// standby is ready if this holds (APP-104).
    #[must_use]
    pub fn lease_was_seen_within(&self, age: Duration) -> bool {
        self.facts().read.is_some_and(|read| read.elapsed() <= age)
    }

    /// Keeps the Lease at a graceful stop, whatever the configuration says: work was abandoned midway, and the next
    /// leader must wait until that work has come to its end (INV-6, APP-67).
    pub fn leave_to_expire(&self) {
        self.facts().left_to_expire = true;
    }

    pub(super) fn is_left_to_expire(&self) -> bool {
        self.facts().left_to_expire
    }

    pub(super) fn seen(&self) {
        self.facts().read = Some(Instant::now());
    }

    /// Copies the deadline of the election. Returns `true` if this process has just become the leader.
    pub(super) fn follow(&self, election: &Election) -> bool {
        let Some(deadline) = election.deadline() else {
            return false;
        };
        let mut facts = self.facts();
        if facts.until != Some(deadline) {
            facts.until = Some(deadline);
            facts.renewed = Some(Instant::now());
        }
        drop(facts);
        self.0.phase.send_if_modified(|phase| {
            let is_new = *phase == Phase::Candidate;
            if is_new {
                *phase = Phase::Leading;
            }
            is_new
        })
    }

    /// Closes the fence for good.
    pub(super) fn close(&self) {
        self.facts().closed = true;
    }

    /// Marks the election as lost unless it has ended already.
    pub(super) fn break_off(&self) {
        self.close();
        self.0.phase.send_if_modified(|phase| {
            let is_new = !matches!(phase, Phase::Over(_));
            if is_new {
                // Candidates lose as well: this process has no further election.
                *phase = Phase::Over(ElectionOutcome::Lost(
                    "the election was broken off".to_owned(),
                ));
            }
            is_new
        });
    }

    /// Publishes the outcome of the election. The fence must have been closed before.
    pub(super) fn end(&self, outcome: ElectionOutcome) {
        self.0.phase.send_replace(Phase::Over(outcome));
    }
}

/// Returns the fence for controllers under the migration Lease (APP-81): open while both Leases are held.
#[must_use]
pub fn fence_of_both(main: &Leadership, migration: &Leadership) -> Fence {
    let main = main.clone();
    let migration = migration.clone();
    Fence::new(move || main.is_open() && migration.is_open())
}

/// Returns the fence for components that serve controllers of both Leases, such as the provider: open while the main
/// Lease is held, and the migration Lease is held or was not acquired yet. Losing either closes it.
#[must_use]
pub fn fence_until_either_is_lost(main: &Leadership, migration: &Leadership) -> Fence {
    let main = main.clone();
    let migration = migration.clone();
    Fence::new(move || main.is_open() && !migration.is_closed_for_good())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leadership() -> Leadership {
        Leadership::new(&ElectionConfig::new("kube-system", "ccm"))
    }

    fn leads_for(leadership: &Leadership, time: Duration) {
        let mut facts = leadership.facts();
        facts.until = Some(Instant::now() + time);
        facts.renewed = Some(Instant::now());
        drop(facts);
        leadership.0.phase.send_replace(Phase::Leading);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fence_closes_by_itself_and_then_for_good() {
        let leadership = leadership();
        let fence = leadership.fence();
        assert!(
            !fence.is_open() && !leadership.is_closed_for_good(),
            "not before it leads"
        );
        leads_for(&leadership, Duration::from_secs(10));
        tokio::time::advance(Duration::from_millis(9_999)).await;
        assert!(fence.is_open() && !leadership.is_closed_for_good());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!fence.is_open() && leadership.is_closed_for_good());
        leads_for(&leadership, Duration::from_secs(10));
        assert!(!fence.is_open(), "too late");
    }

    #[tokio::test(start_paused = true)]
    async fn two_leases_are_both_needed_or_neither_lost() {
        let main = leadership();
        let migration = leadership();
        let both = fence_of_both(&main, &migration);
        let neither_lost = fence_until_either_is_lost(&main, &migration);
        let open = || (both.is_open(), neither_lost.is_open());
        assert_eq!(open(), (false, false));
        leads_for(&main, Duration::from_secs(100));
        assert_eq!(open(), (false, true));
        leads_for(&migration, Duration::from_secs(10));
        assert_eq!(open(), (true, true));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(open(), (false, false), "the migration lease is lost");
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_leader_that_did_not_renew_for_long_is_unhealthy() {
        let leadership = leadership();
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(leadership.health(), Ok(()), "a standby");
        leads_for(&leadership, Duration::from_secs(10));
        tokio::time::advance(Duration::from_secs(35)).await;
        assert_eq!(leadership.health(), Ok(()));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(
            leadership.health(),
            Err("failed election to renew leadership on lease ccm".into())
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_standby_is_ready_while_it_reads_the_lease() {
        let leadership = leadership();
        let minute = Duration::from_secs(60);
        assert!(!leadership.lease_was_seen_within(minute));
        leadership.seen();
        tokio::time::advance(minute).await;
        assert!(leadership.lease_was_seen_within(minute));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!leadership.lease_was_seen_within(minute));
    }
}
