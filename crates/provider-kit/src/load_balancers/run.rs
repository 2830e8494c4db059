//! Carries out the actions of a [`ServiceSync`].

use cloud_provider::names::ANNOTATION_SUPERSEDED;
use cloud_provider::{LoadBalancerRequest, LoadBalancerWarning, Result};
use tokio::time::Instant;

use super::balancers::LoadBalancerEngine;
use super::change::{Change, Step};
use super::change_log::log_change;
use super::cloud::{NameUniqueness, Notice, Scope};
use super::locks::Held;
use super::model::{ObservedLoadBalancer, Shared, State};
use super::ownership::{Identity, OwnershipResult, full_name};
use super::plan::Operation;
use super::service_sync::ServiceSync;
use super::step::{Action, Answer, Report, ResourceSource};
use super::surplus;
use super::sync_goal::SyncGoal;
use crate::operation::until_done;

/// The I/O of one call of `ensure`, `update_targets` or `delete`.
pub(super) struct Run<'a> {
    pub(super) balancers: &'a LoadBalancerEngine,
    pub(super) request: &'a LoadBalancerRequest<'a>,
    pub(super) identity: &'a Identity<'a>,
    /// The lock on the load balancer that is being changed, if several Services may change it.
    pub(super) held: Option<Held>,
    /// If set, this load balancer is the only one that is found, as it was just read.
    pub(super) only: Option<&'a Shared>,
}

impl Run<'_> {
    /// Syncs the Service's load balancers.
    pub(super) async fn sync(mut self, goal: SyncGoal) -> Result<Option<Shared>> {
        let balancers = self.balancers;
        let identity = self.identity;
        let desired = match goal {
            SyncGoal::Ensured => Some(
                balancers
                    .cloud()
                    .desired(self.request, identity, Scope::Everything)
                    .await?,
            ),
            SyncGoal::Targets => Some(
                balancers
                    .cloud()
                    .desired(self.request, identity, Scope::Targets)
                    .await?,
            ),
            _ => None,
        };
        let (mut sync, mut action) = ServiceSync::start(
            goal,
            desired,
            balancers.cloud(),
            identity,
            balancers.caches(),
        );
        loop {
            let answer = match action {
                Action::Find { is_fresh: false } if self.only.is_some() => {
                    Ok(Answer::Found(OwnershipResult::of(self.only.cloned())))
                }
                Action::Find { .. } | Action::VerifyAbsence { .. } if self.only.is_some() => {
                    let id = self.only.map(|actual| &*actual.id).unwrap_or_default();
                    balancers.orphan(id, identity).await.map(Answer::Found)
                }
                Action::Find { is_fresh } => balancers
                    .find_for_change(identity, goal, is_fresh)
                    .await
                    .map(Answer::Found),
                Action::Claim(free) => balancers.claim(&free, identity).map(|()| Answer::Claimed),
                Action::Lock { key, actual } => self.lock(key, actual).await.map(Answer::Seen),
                Action::Send { actual, operations } => {
                    self.send(actual, &operations).await.map(Answer::Sent)
                }
                Action::Wait { actual, resources } => {
                    self.wait(&actual, resources).await.map(Answer::Seen)
                }
                Action::Read(actual) => balancers.cache.read(&actual.id).await.map(Answer::Seen),
                Action::Refresh(actual) if balancers.cache.is_predicted(&actual.id) => {
                    balancers.cache.read(&actual.id).await.map(Answer::Seen)
                }
                Action::Refresh(actual) => Ok(Answer::Seen(Some(actual))),
                Action::Recheck { from, is_replaced } => Ok(Answer::Rechecked(
                    self.still_leaves(&from, is_replaced).await,
                )),
                Action::Compare { kept, from } => self
                    .serves_as_well(&kept, &from)
                    .await
                    .map(Answer::Compared),
                Action::Publish(actual) => self.publish(&actual).await.map(|()| Answer::Published),
                Action::VerifyAbsence { is_confirmed: true } => {
                    balancers.read_again(identity).await.map(Answer::Found)
                }
                Action::VerifyAbsence {
                    is_confirmed: false,
                } => balancers
                    .confirm_empty(OwnershipResult::default(), identity)
                    .await
                    .map(Answer::Found),
                Action::Done(outcome) => return outcome,
            };
            action = sync.step(answer);
            sync.take_reports()
                .into_iter()
                .for_each(|report| self.report(report));
        }
    }

    fn report(&mut self, report: Report) {
        let balancers = self.balancers;
        let request = self.request;
        let identity = self.identity;
        let cloud = balancers.cloud();
        match report {
            Report::Annotated(actual) => {
                for (key, value) in cloud.published(&actual, identity).annotations {
                    request.callbacks.annotate(key, value);
                }
                if !cloud.options().annotates_id {
                    request.callbacks.set_load_balancer_id(&actual.id);
                }
            }
            Report::Planned(plan) => request.callbacks.on_plan(&plan),
            Report::LeftOut {
                pool,
                targets,
                changes,
            } => {
                let targets = &balancers
                    .left_out
                    .news(identity.uid(), &pool, targets, changes);
                if !targets.is_empty() {
                    cloud.report(Notice::TargetsLeftOut {
                        request,
                        pool: &pool,
                        targets,
                    });
                }
            }
            Report::Moved { from, to } => {
                cloud.report(Notice::Moved {
                    service: request.service,
                    from: &from,
                    to: &to,
                });
            }
            Report::Replacing {
                from,
                changes,
                interrupts,
            } => {
                self.warn(&LoadBalancerWarning::Replacing {
                    text: surplus::replacing(&from, &changes, interrupts),
                });
            }
            Report::Twin { twin, kept } => {
                self.warn(&LoadBalancerWarning::Twin {
                    text: surplus::stays(&twin, &kept),
                });
            }
            Report::Superseded(left) => {
                let ids: Vec<&str> = left.iter().map(|actual| &*actual.id).collect();
                request.callbacks.annotate(
                    ANNOTATION_SUPERSEDED,
                    (!ids.is_empty()).then(|| ids.join(",")),
                );
            }
            Report::Removed => balancers.cache.note_removal(identity.uid()),
            Report::Outdated => balancers.cache.mark_stale(identity.uid()),
            Report::Unlocked => self.held = None,
        }
    }

    /// Reports a warning that was not reported yet in this run of the process.
    fn warn(&self, warning: &LoadBalancerWarning) {
        if self
            .balancers
            .warned
            .is_new(self.identity.uid(), warning.text())
        {
            tracing::warn!(
                service = full_name(self.request.service),
                "{}",
                warning.text()
            );
            self.request.callbacks.warn(warning);
        }
    }

    async fn publish(&self, actual: &ObservedLoadBalancer) -> Result<()> {
        let published = self.balancers.cloud().published(actual, self.identity);
        self.request.callbacks.publish(&published.status).await
    }

    async fn lock(&mut self, key: String, actual: Shared) -> Result<Option<Shared>> {
        let LoadBalancerEngine { locks, cache, .. } = self.balancers;
        let held = locks
            .take(key, self.identity.uid(), self.request.callbacks)
            .await;
        let is_old = held.overtook(cache.since(&actual.id));
        self.held = Some(held);
        if is_old {
            cache.read(&actual.id).await
        } else {
            Ok(Some(actual))
        }
    }

    async fn send(
        &mut self,
        actual: Option<Shared>,
        operations: &[Operation],
    ) -> Result<Step<Shared>> {
        self.held.iter_mut().for_each(Held::note_change);
        let cache = &self.balancers.cache;
        let uid = self.identity.uid();
        let callbacks = self.request.callbacks;
        let change = Change {
            identity: self.identity,
            actual: actual.as_deref(),
            operations,
            callbacks,
        };
        // The mark also covers a call that is dropped before the answer.
        cache.mark_stale(uid);
        let begun = Instant::now();
        let applied = cache.cloud().apply(change).await.inspect_err(|err| {
            if actual.is_none()
                && err.is_rate_limited()
                && cache.cloud().name_uniqueness() == NameUniqueness::Unique
            {
                cache.defer_creation(self.identity);
            }
        })?;
        let step = applied.step(change).map(|outcome| cache.put(outcome));
        log_change(
            self.request.service,
            actual.as_deref(),
            &step,
            operations,
            begun.elapsed(),
        );
        match (&step, &actual) {
            // A protected load balancer exists, but is no longer tracked.
            (Step::Protected, Some(kept)) => cache.evict(&kept.id),
            (Step::Done(_, after) | Step::PlanAgain(after), Some(before))
                if after.id == before.id =>
            {
                cache.settle(uid);
            }
            (_, before) => {
                before.iter().for_each(|before| cache.forget(&before.id));
                cache.settle(uid);
            }
        }
        Ok(step)
    }

    /// Waits until the cloud has finished its change of the load balancer. Other Services are synced meanwhile (INV-6).
    async fn wait(
        &self,
        actual: &ObservedLoadBalancer,
        resources: ResourceSource,
    ) -> Result<Option<Shared>> {
        let cache = &self.balancers.cache;
        let callbacks = self.request.callbacks;
        let polling = cache.cloud().options().polling;
        let place = actual.place();
        callbacks.release_permit();
        let seen = until_done(&place, polling, || async {
            Ok(match cache.poll(&actual.id).await? {
                Some(actual) if actual.state == State::Busy => None,
                seen => Some(seen),
            })
        });
        let seen = seen.await;
        callbacks.reacquire_permit().await;
        match seen? {
            Some(seen) if seen.graph.is_some() => Ok(Some(seen)),
            Some(seen) if actual.graph.is_some() && resources == ResourceSource::Reported => {
                let ingress = if seen.ingress.is_empty() {
                    &actual.ingress
                } else {
                    &seen.ingress
                }
                .clone();
                let now = ObservedLoadBalancer {
                    state: seen.state.clone(),
                    ingress,
                    ..actual.clone()
                };
                Ok(Some(cache.put(now)))
            }
            Some(seen) => cache.read(&seen.id).await,
            None => Ok(None),
        }
    }
}
