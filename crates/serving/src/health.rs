//! `/healthz`, `/livez`, `/readyz`: named checks (APP-95 to APP-98, APP-104, APP-105).

mod answers;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use axum::routing::{any, get};
use http::StatusCode;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::access::is_always_allowed;
use crate::answer::{TLS_REQUIRED, text};

/// A health check. It returns at once, from state that is already known.
pub trait Check: Send + Sync {
    /// Returns `Ok` if the component is healthy.
    ///
    /// # Errors
    /// The reason why the component is unhealthy. The reason is logged; callers only see that the check failed.
    fn check(&self) -> Result<(), String>;
}

impl<F: Fn() -> Result<(), String> + Send + Sync> Check for F {
    fn check(&self) -> Result<(), String> {
        self()
    }
}

/// Check that never fails, for components without a health of their own (APP-105).
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysHealthy;

impl Check for AlwaysHealthy {
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Kind of the probe; the label `type` of the SLIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Probe {
    /// The endpoint `/healthz`, kept for older probes.
    Healthz,
    /// The endpoint `/livez`, with the same checks as `/healthz`.
    Livez,
    /// The endpoint `/readyz`, with the checks of `/healthz` and those of readiness.
    Readyz,
}

impl Probe {
    /// Returns the probe's name in paths, responses and labels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }

    /// Returns the probe with this path; `None` for any other path, that of a single check included.
    #[must_use]
    pub fn of_path(path: &str) -> Option<Self> {
        let name = path.strip_prefix('/')?;
        [Self::Healthz, Self::Livez, Self::Readyz]
            .into_iter()
            .find(|probe| probe.as_str() == name)
    }
}

/// Results of one check in the probes so far (MET-30).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sli {
    /// Name of the check.
    pub name: String,
    /// Kind of the probe.
    pub probe: Probe,
    /// The last result: `kubernetes_healthcheck`.
    pub is_healthy: bool,
    /// `kubernetes_healthchecks_total{status="success"}`.
    pub successes: u64,
    /// `kubernetes_healthchecks_total{status="error"}`.
    pub errors: u64,
}

#[derive(Clone)]
struct Named {
    name: String,
    check: Arc<dyn Check>,
}

#[derive(Default)]
struct Inner {
    checks: Vec<Named>,
    readiness: Vec<Named>,
    slis: BTreeMap<(String, Probe), Sli>,
    complaints: BTreeMap<(String, Probe), Instant>,
}

/// Shortest interval between two log lines about a failing check, however often callers probe it.
const LOG_INTERVAL: Duration = Duration::from_secs(5);

/// The checks of a process; clones share them.
///
/// ```
/// use std::sync::Arc;
/// use serving::health::{AlwaysHealthy, Health, Probe};
///
/// let health = Health::new();
/// assert_eq!(health.report(Probe::Healthz, &[]).results[0].name, "ping", "as long as there is nothing else");
/// health.add("leaderElection", Arc::new(AlwaysHealthy));
/// health.add_readiness("provider", Arc::new(|| Err("not initialised yet".to_owned())));
/// assert!(health.report(Probe::Healthz, &[]).is_healthy());
/// assert!(!health.report(Probe::Readyz, &[]).is_healthy());
/// ```
#[derive(Clone, Default)]
pub struct Health(Arc<Mutex<Inner>>);

impl Health {
    /// Creates a set without checks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a check to all probes, after the existing ones. A check of the same name is replaced in its position.
    pub fn add(&self, name: impl Into<String>, check: Arc<dyn Check>) {
        put(&mut self.inner().checks, name.into(), check);
    }

    /// Adds a check to `/readyz` alone, after those of `/healthz`.
    pub fn add_readiness(&self, name: impl Into<String>, check: Arc<dyn Check>) {
        put(&mut self.inner().readiness, name.into(), check);
    }

    /// Runs the checks of a probe in their order and counts the results.
    #[must_use]
    pub fn report(&self, probe: Probe, excluded: &[String]) -> Report {
        // The checks run without the lock, because they are code of other crates.
        let results: Vec<_> = self
            .named(probe)
            .into_iter()
            .map(|named| {
                let outcome = match excluded.contains(&named.name) {
                    true => CheckOutcome::Excluded,
                    false => self.run_check(probe, &named),
                };
                CheckResult {
                    name: named.name,
                    outcome,
                }
            })
            .collect();
        let known = |name: &&String| results.iter().any(|result| &result.name == *name);
        let unmatched = excluded
            .iter()
            .filter(|name| !known(name))
            .cloned()
            .collect();
        Report {
            probe,
            results,
            unmatched,
        }
    }

    /// Runs one check; `None` if the probe has none of that name.
    #[must_use]
    pub fn report_one(&self, probe: Probe, name: &str) -> Option<CheckResult> {
        let named = self
            .named(probe)
            .into_iter()
            .find(|named| named.name == name)?;
        let outcome = self.run_check(probe, &named);
        Some(CheckResult {
            name: named.name,
            outcome,
        })
    }

    /// Returns the results so far, sorted by name and probe.
    #[must_use]
    pub fn slis(&self) -> Vec<Sli> {
        self.inner().slis.values().cloned().collect()
    }

    /// Resets the results (`DELETE /metrics/slis`, MET-30).
    pub fn reset_slis(&self) {
        self.inner().slis.clear();
    }

    /// Returns the routes `/healthz`, `/livez`, `/readyz`, and `/healthz/NAME` and so on; any method (APP-95).
    pub fn routes(&self) -> Router {
        let mut router = Router::new();
        for probe in [Probe::Healthz, Probe::Livez, Probe::Readyz] {
            let word = probe.as_str();
            let all = move |State(health): State<Health>, RawQuery(query): RawQuery| {
                std::future::ready(health.answer(probe, query.as_deref().unwrap_or_default()))
            };
            let one = move |State(health): State<Health>, Path(name): Path<String>| {
                std::future::ready(health.answer_one(probe, &name))
            };
            router = router
                .route(&format!("/{word}"), any(all))
                .route(&format!("/{word}/{{name}}"), any(one));
        }
        router.with_state(self.clone())
    }

    /// Returns the routes for callers without TLS, whom nothing authenticates: of `/healthz`, `/livez` and `/readyz` those
    /// that `always_allow_paths` permits to everybody, for GET and HEAD. All other requests get 400, as on a port that
    /// serves TLS alone.
    pub fn plain_routes(&self, always_allow_paths: &[String]) -> Router {
        let mut router = Router::new();
        for probe in [Probe::Healthz, Probe::Livez, Probe::Readyz] {
            let path = format!("/{}", probe.as_str());
            if !is_always_allowed(always_allow_paths, &path) {
                continue;
            }
            let answer = move |State(health): State<Health>, RawQuery(query): RawQuery| {
                std::future::ready(health.answer(probe, query.as_deref().unwrap_or_default()))
            };
            router = router.route(&path, get(answer).fallback(tls_required));
        }
        router.fallback(tls_required).with_state(self.clone())
    }

    fn answer(&self, probe: Probe, query: &str) -> Response {
        let query = answers::Query::parse(query);
        answers::all(&self.report(probe, &query.excluded), query.verbose)
    }

    fn answer_one(&self, probe: Probe, name: &str) -> Response {
        answers::one(probe, self.report_one(probe, name).as_ref())
    }

    fn named(&self, probe: Probe) -> Vec<Named> {
        let inner = self.inner();
        let readiness: &[Named] = if probe == Probe::Readyz {
            &inner.readiness
        } else {
            &[]
        };
        let mut named = inner.checks.clone();
        if named.is_empty() {
            named.push(Named {
                name: "ping".to_owned(),
                check: Arc::new(AlwaysHealthy),
            });
        }
        named.extend_from_slice(readiness);
        named
    }

    fn run_check(&self, probe: Probe, named: &Named) -> CheckOutcome {
        let outcome = match named.check.check() {
            Ok(()) => CheckOutcome::Healthy,
            Err(reason) => {
                if self.may_log(probe, &named.name) {
                    tracing::warn!(
                        check = named.name,
                        probe = probe.as_str(),
                        reason,
                        "a health check failed"
                    );
                }
                CheckOutcome::Failed(reason)
            }
        };
        let mut inner = self.inner();
        let sli = inner
            .slis
            .entry((named.name.clone(), probe))
            .or_insert_with(|| Sli {
                name: named.name.clone(),
                probe,
                is_healthy: true,
                successes: 0,
                errors: 0,
            });
        sli.is_healthy = matches!(outcome, CheckOutcome::Healthy);
        *(if sli.is_healthy {
            &mut sli.successes
        } else {
            &mut sli.errors
        }) += 1;
        outcome
    }

    fn may_log(&self, probe: Probe, name: &str) -> bool {
        let mut inner = self.inner();
        let now = Instant::now();
        let key = (name.to_owned(), probe);
        let is_due = inner
            .complaints
            .get(&key)
            .is_none_or(|last| now.duration_since(*last) >= LOG_INTERVAL);
        if is_due {
            inner.complaints.insert(key, now);
        }
        is_due
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock()
    }
}

/// Refuses a request without TLS.
async fn tls_required() -> Response {
    text(StatusCode::BAD_REQUEST, TLS_REQUIRED)
}

fn put(checks: &mut Vec<Named>, name: String, check: Arc<dyn Check>) {
    match checks.iter_mut().find(|named| named.name == name) {
        Some(named) => named.check = check,
        None => checks.push(Named { name, check }),
    }
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckResult {
    /// Name of the check.
    pub name: String,
    /// Outcome of the check.
    pub outcome: CheckOutcome,
}

/// Outcome of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckOutcome {
    /// The component is healthy.
    Healthy,
    /// The check was skipped, because the caller excluded it.
    Excluded,
    /// The check failed for this reason, which callers do not see.
    Failed(String),
}

/// Results of all checks of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Kind of the probe.
    pub probe: Probe,
    /// Results in the order of the checks.
    pub results: Vec<CheckResult>,
    /// Names to be excluded that no check has.
    pub unmatched: Vec<String>,
}

impl Report {
    /// Returns `true` if no check failed.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        !self
            .results
            .iter()
            .any(|result| matches!(result.outcome, CheckOutcome::Failed(_)))
    }
}
