//! Driver of an [`Election`]: sends its requests, waits, and reports the result.

use std::sync::Arc;

use kube::Client;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::api::{LeaseApi, failure, lost_race};
use super::config::ElectionConfig;
use super::leadership::{ElectionOutcome, Leadership};
use super::lease::Lease;
use super::metrics::ElectionMetrics;
use super::step::{Action, Election, Input};
use super::watch::LeaseWatch;
use crate::api_error::api_error;
use crate::clock::{Clock, SystemClock};
use crate::events::{EventRecorder, EventType};

/// Candidate for a Lease: acquires, renews and releases it.
pub struct Elector {
    config: ElectionConfig,
    api: LeaseApi,
    events: EventRecorder,
    metrics: Arc<dyn ElectionMetrics>,
    clock: Arc<dyn Clock>,
    leadership: Leadership,
    title: &'static str,
}

impl Elector {
    /// Creates a candidate for the Lease of `config`. `client` must not retry ([`ElectionConfig::client_options`]), and
    /// neither `client` nor the sender of `events` may have a fence. Events are recorded on the Lease (APP-66) with the
    /// component `cloud-controller-manager`.
    #[must_use]
    pub fn new(
        client: Client,
        config: ElectionConfig,
        events: EventRecorder,
        metrics: Arc<dyn ElectionMetrics>,
    ) -> Self {
        let api = LeaseApi::new(client, &config);
        let leadership = Leadership::new(&config);
        Self {
            config,
            api,
            events,
            metrics,
            clock: Arc::new(SystemClock),
            leadership,
            title: "leaderelection lost",
        }
    }

    /// Sets up an elector for the migration Lease: the log names that Lease when it is lost (APP-81).
    #[must_use]
    pub fn for_migration(mut self) -> Self {
        self.title = "migration leaderelection lost";
        self
    }

    /// Replaces the clock of the times that are written into the Lease.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Returns a handle that reports whether this process leads.
    #[must_use]
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Runs the election until the Lease is lost, or until a graceful `stop`: then the fence closes and the Lease is
    /// released (unless that is disabled). Stop the election last, when no more work needs the Lease. After `stop`,
    /// this method returns within half the renew deadline.
    ///
    /// If the future is dropped, the fence closes, leadership counts as lost, and the Lease is left to expire.
    pub async fn run(self, stop: CancellationToken) -> ElectionOutcome {
        let unended = Unended(self.leadership.clone());
        self.metrics.leading(&self.config.name, false);
        tracing::info!(
            lock = self.config.lock(),
            "Attempting to acquire leader lease..."
        );
        let mut running = Running {
            election: Election::new(self.config.clone(), Instant::now()),
            watch: LeaseWatch::new(self.api.clone(), self.config.lock()),
            holder: String::new(),
            leads: false,
            elector: self,
        };
        let outcome = running.run(&stop).await;
        running.elector.leadership.close();
        running.end(&outcome);
        drop(unended);
        outcome
    }
}

/// Guard of an election: if it is aborted, by a panic or because its task is dropped, leadership is lost.
struct Unended(Leadership);

impl Drop for Unended {
    fn drop(&mut self) {
        self.0.break_off();
    }
}

struct Running {
    elector: Elector,
    election: Election,
    watch: LeaseWatch,
    /// The leader that was logged last.
    holder: String,
    leads: bool,
}

impl Running {
    async fn run(&mut self, stop: &CancellationToken) -> ElectionOutcome {
        let mut input = Input::Due;
        let mut give_up = None;
        loop {
            if matches!(input, Input::Stop) {
                give_up = Some(Instant::now() + self.elector.config.renew_deadline / 2);
                // The fence closes before the Lease is released.
                self.elector.leadership.close();
                if self.elector.leadership.is_left_to_expire() {
                    self.elector.config.release_on_stop = false;
                    self.election.leave_to_expire();
                }
            }
            let action = self.election.step(
                input,
                Instant::now(),
                self.elector.clock.now(),
                fastrand::f64(),
            );
            self.log_action(&action);
            if self.election.deadline().is_some() && self.elector.leadership.is_closed_for_good() {
                // The deadline passed just now. A leader with a closed fence would hold the Lease without being able to
                // work.
                return ElectionOutcome::Lost(
                    "the renew deadline passed before a renewal was answered".to_owned(),
                );
            }
            input = match (action, give_up) {
                (Action::End(outcome), _) => return outcome,
                (action, Some(time)) => match timeout_at(time, self.act(action)).await {
                    Ok(input) => input,
                    Err(_) => return ElectionOutcome::Stopped,
                },
                (action, None) => {
                    let deadline = self.election.deadline();
                    tokio::select! {
                        biased;
                        () = until(deadline) => Input::Due,
                        () = stop.cancelled() => Input::Stop,
                        input = self.act(action) => input,
                    }
                }
            };
        }
    }

    async fn act(&mut self, action: Action) -> Input {
        match action {
            Action::Read => Input::Read(self.read().await),
            Action::Create(lease) => {
                let answer = self.elector.api.create(&lease).await;
                Input::Written(self.written(answer, "Error initially creating lease lock"))
            }
            Action::Update(lease) => {
                let answer = self.elector.api.update(&lease).await;
                Input::Written(self.written(answer, "Failed to update lease"))
            }
            Action::Wait(time) => tokio::select! {
                biased;
                () = sleep_until(time) => Input::Due,
                lease = self.watch.next() => {
                    self.elector.leadership.seen();
                    Input::Seen(lease)
                }
            },
            Action::End(_) => Input::Due,
        }
    }

    async fn read(&mut self) -> Result<Option<Lease>, super::step::Failure> {
        let answer = self.elector.api.read().await;
        match &answer {
            Ok(_) => self.elector.leadership.seen(),
            Err(error) => tracing::error!(
                lock = self.elector.config.lock(),
                error = %api_error(error),
                "Error retrieving lease lock"
            ),
        }
        answer.map_err(|error| failure(&error))
    }

    fn written(
        &self,
        answer: Result<Lease, kube::Error>,
        text: &str,
    ) -> Result<Lease, super::step::Failure> {
        match &answer {
            Ok(_) => self.elector.leadership.seen(),
            Err(error) if lost_race(error) => tracing::debug!(
                lock = self.elector.config.lock(),
                error = %api_error(error),
                "another candidate wrote the lease first"
            ),
            Err(error) => {
                tracing::error!(lock = self.elector.config.lock(), error = %api_error(error), "{text}");
            }
        }
        answer.map_err(|error| failure(&error))
    }

    /// Reports the state of the election to metrics, events and the log.
    fn log_action(&mut self, action: &Action) {
        let config = &self.elector.config;
        if matches!(action, Action::Read) && self.election.on_slow_path() {
            self.elector.metrics.slow_path(&config.name);
        }
        if self.election.holder() != self.holder {
            self.holder = self.election.holder().to_owned();
            if !self.holder.is_empty() && self.holder != config.identity {
                tracing::info!(
                    lock = config.lock(),
                    holder = self.holder,
                    "Lease is held by another replica"
                );
            }
        }
        if self.elector.leadership.follow(&self.election) {
            self.leads = true;
            tracing::info!(
                lock = config.lock(),
                identity = config.identity,
                "Successfully acquired lease"
            );
            self.elector.metrics.leading(&config.name, true);
            self.event("became leader");
        }
    }

    /// Reports the end of the election, after the fence is closed.
    fn end(&self, outcome: &ElectionOutcome) {
        let config = &self.elector.config;
        if self.leads {
            self.elector.metrics.leading(&config.name, false);
            self.event("stopped leading");
        }
        match outcome {
            ElectionOutcome::Lost(reason) => {
                tracing::error!(lock = config.lock(), reason, "{}", self.elector.title);
            }
            ElectionOutcome::Released => tracing::info!(lock = config.lock(), "Released the lease"),
            ElectionOutcome::Stopped if self.leads && config.release_on_stop => {
                tracing::warn!(
                    lock = config.lock(),
                    "could not release the lease, others wait until it expires"
                );
            }
            ElectionOutcome::Stopped => {}
        }
        self.elector.leadership.end(outcome.clone());
    }

    fn event(&self, what: &str) {
        let Some(lease) = self.election.lease() else {
            return;
        };
        let message = format!("{} {what}", self.elector.config.identity);
        self.elector.events.event(
            &lease.reference(),
            EventType::Normal,
            "LeaderElection",
            message,
        );
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
