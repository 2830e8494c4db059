//! A pass over the routes: list, plan, carry out and report (ROUTE-20 … ROUTE-47).

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Node, Result};
use futures::FutureExt;
use parking_lot::Mutex;
use runtime::api_error::{api_error, is_not_found};
use runtime::events::{EventType, ObjectRef};
use runtime::go_duration::GoDuration;
use runtime::loops::parallel_for;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::condition::{self, RouteCondition};
use super::controller::RouteController;
use super::memory::{Contested, Key};
use super::metrics::RouteCounts;
use super::plan::{Creation, Deletion, NewRoute, Plan, plan};
use super::pod_cidrs::{CidrRefusal, RefusedCidrs};
use super::responsibility::{is_in_range, is_responsible};
use super::witness::list_is_believed;
use super::work::{Done, Item, Work, items};
use super::{Destination, calls};
use crate::event_reason::EventReason;
use crate::failure_log::DueLine;
use crate::grace::within_grace;

/// Timeout of writing a condition, which the next pass repeats.
const CONDITION_DEADLINE: Duration = Duration::from_secs(30);

/// The result of a reconciliation that read the routes, or of the changes of one destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reconciled {
    /// If set, a route was created or deleted.
    pub has_changed: bool,
    /// Texts of all failures, which events, log and metrics report already and which are no error of the reconciliation
    /// (ROUTE-47).
    pub failures: Vec<String>,
}

/// The reason why a call was not successful.
enum Refused {
    /// The process is stopping, so the call was not made.
    Stopping,
    /// The cloud throttles until this time, so the call was not made.
    Paused(Instant),
    /// The call was made and failed.
    Failed(Error),
}

impl RouteController {
    /// Reconciles once: lists, deletes, creates and writes conditions, and waits for all of it.
    ///
    /// # Errors
    /// If the routes cannot be listed (ROUTE-21).
    pub async fn reconcile(&self, shutdown: &CancellationToken) -> Result<Reconciled> {
        let mut work = Work::default();
        self.pass(&mut work, shutdown).await?;
        work.drain(None).await;
        let mut failures = std::mem::take(&mut work.failures);
        let failed = failures.len();
        let route_counts = self.memory().route_counts();
        self.metrics.route_counts(RouteCounts {
            failed,
            ..route_counts
        });
        failures.extend(self.settle(&HashSet::new(), shutdown).await);
        Ok(Reconciled {
            has_changed: work.has_changed,
            failures,
        })
    }

    /// Lists, plans and starts the changes. Changes that are not finished go on in `work`.
    pub(super) async fn pass<'a>(
        &'a self,
        work: &mut Work<'a>,
        shutdown: &'a CancellationToken,
    ) -> Result<()> {
        work.next_pass();
        let listed = work
            .alongside(calls::list(
                &*self.context.provider,
                &self.cluster,
                shutdown,
            ))
            .await;
        let routes = listed.map_err(|error| {
            let mut memory = self.memory();
            memory.pause_for(Instant::now(), &error);
            memory.list_failed(Instant::now());
            error.context("error listing routes")
        })?;
        if shutdown.is_cancelled() {
            return Err(calls::stopping());
        }
        let ranges = &self.options.cluster_cidrs;
        let ours = routes
            .iter()
            .filter(|route| is_responsible(route, ranges))
            .count();
        self.metrics.listed(ours);
        self.memory().listed_foreign(routes.len() - ours);
        let nodes = self.context.nodes.list();
        // The Go program believes every list; this check is additional.
        if self.is_adaptive() {
            let question = within_grace(
                shutdown,
                list_is_believed(&*self.context.provider, &routes, &nodes),
            );
            let believed = work
                .alongside(question)
                .await
                .unwrap_or_else(|| Err(calls::stopping()));
            believed.inspect_err(|_| self.memory().list_failed(Instant::now()))?;
        }
        let refused = RefusedCidrs::in_mode(&self.options, &nodes);
        let new_route = |node: &Node, destination: &Destination| {
            NewRoute::of(self.waits(node), refused.get(node, destination))
        };
        let mut plan = plan(&nodes, &routes, ranges, new_route);
        drop(routes);
        self.forget(&nodes);
        self.report_cidrs(&nodes, &refused);
        let ended = std::mem::take(&mut work.ended);
        let contested = self.memory().planned(Instant::now(), &mut plan, &ended);
        let Plan {
            deletes,
            creates,
            creates_wait,
            ..
        } = plan;
        if creates_wait && !self.is_adaptive() {
            self.handle_contested(contested, &[]);
            self.begin(work, items(deletes, Vec::new()), shutdown);
            work.drain(None).await;
            self.begin(work, items(Vec::new(), creates), shutdown);
            return Ok(());
        }
        let items = items(deletes, creates);
        {
            let mut memory = self.memory();
            memory.retain(&items, |destination| {
                work.in_flight.contains_key(destination) || ended.contains(destination)
            });
            memory.supersede(&items, &work.in_flight);
        }
        self.handle_contested(contested, &items);
        self.begin(work, items, shutdown);
        Ok(())
    }

    fn begin<'a>(&'a self, work: &mut Work<'a>, items: Vec<Item>, shutdown: &'a CancellationToken) {
        for item in items {
            if work.in_flight.contains_key(&item.destination) {
                continue;
            }
            let key = item.key();
            if self.is_adaptive() && !self.memory().start(Instant::now(), &key) {
                continue;
            }
            work.begin(
                item.clone(),
                self.carry_out_catching_panics(item, key, shutdown),
            );
        }
    }

    async fn carry_out_catching_panics(
        &self,
        item: Item,
        key: Key,
        shutdown: &CancellationToken,
    ) -> Done {
        let destination = item.destination.clone();
        let carried_out = AssertUnwindSafe(self.carry_out(item, key, shutdown))
            .catch_unwind()
            .await;
        let Reconciled { has_changed, failures } = carried_out.unwrap_or_else(|_| {
            tracing::error!(%destination, "the work on a route panicked, the next pass tries again");
            let failures = vec![format!("the work on the route {destination} panicked")];
            Reconciled { has_changed: false, failures }
        });
        self.memory().ended(Instant::now(), &destination);
        Done {
            destination,
            has_changed,
            failures,
        }
    }

    /// Deletes, then creates, whatever the result of the deletions (ROUTE-28).
    async fn carry_out(&self, item: Item, key: Key, shutdown: &CancellationToken) -> Reconciled {
        let mut has_changed = false;
        let mut refused = Vec::new();
        for deletion in &item.deletes {
            match self.delete(deletion, shutdown).await {
                Ok(()) => has_changed = true,
                Err(error) => {
                    refused.push((format!("deleting the route {}", deletion.route.name), error));
                }
            }
        }
        for creation in &item.creates {
            match self.create(creation, shutdown).await {
                Ok(()) => has_changed = true,
                Err(error) => {
                    refused.push((
                        format!(
                            "creating the route {} to {}",
                            item.destination, creation.node.name
                        ),
                        error,
                    ));
                }
            }
        }
        if self.is_adaptive() {
            self.remember(key, &refused);
        }
        let in_words = |(what, refusal)| match refusal {
            Refused::Stopping => format!("{what}: the process is stopping"),
            Refused::Paused(_) => format!("{what}: the cloud throttles"),
            Refused::Failed(error) => format!("{what}: {error}"),
        };
        Reconciled {
            has_changed,
            failures: refused.into_iter().map(in_words).collect(),
        }
    }

    /// Sets the time at which the item is due again if a part of it failed (P-2).
    fn remember(&self, key: Key, refused: &[(String, Refused)]) {
        let now = Instant::now();
        let mut memory = self.memory();
        if refused.is_empty() {
            memory.succeeded(&key);
            return;
        }
        let error = refused.iter().find_map(|(_, refusal)| match refusal {
            Refused::Failed(error) => Some(error),
            _ => None,
        });
        let pause = refused.iter().find_map(|(_, refusal)| match refusal {
            Refused::Paused(until) => Some(*until),
            _ => None,
        });
        // Several failures of one item count once.
        match (error, pause) {
            (Some(error), _) => memory.failed(now, key, error),
            (None, Some(until)) => memory.hold(until, key),
            // The process is stopping.
            (None, None) => {}
        }
    }

    async fn delete(
        &self,
        deletion: &Deletion,
        shutdown: &CancellationToken,
    ) -> Result<(), Refused> {
        let Deletion {
            route,
            destination,
            cause,
        } = deletion;
        let call = calls::delete(
            &*self.context.provider,
            &self.cluster,
            route,
            &self.context.pulse,
            shutdown,
        );
        match self.with_permit(call, shutdown).await {
            Ok(()) => {
                self.metrics.changed("delete");
                self.failures
                    .succeeded("delete", &route.destination_cidr, Instant::now());
                let (route, node, why) = (&*route.name, &*route.target_node, cause.as_str());
                tracing::info!(route, %destination, node, why, "route deleted");
                Ok(())
            }
            Err(Refused::Failed(error)) => {
                self.metrics.failed("delete");
                let name = &*route.name;
                let node = &*route.target_node;
                if let Some(DueLine { failures, .. }) =
                    self.failures
                        .failed("delete", &route.destination_cidr, Instant::now())
                {
                    tracing::error!(route = name, %destination, node, %error, failures, "deleting the route failed");
                }
                if let Some(node) = self
                    .context
                    .nodes
                    .get(&route.target_node)
                    .filter(|_| self.explain && concerns_one(&error))
                {
                    let message = format!(
                        "Could not delete route {name} {destination} for node {}: {error}",
                        node.name
                    );
                    self.events.event(
                        &reference(&node),
                        EventType::Warning,
                        EventReason::FailedToDeleteRoute.as_str(),
                        message,
                    );
                }
                Err(Refused::Failed(error))
            }
            refused => refused,
        }
    }

    /// Creates a route (ROUTE-30 … ROUTE-34).
    async fn create(
        &self,
        creation: &Creation,
        shutdown: &CancellationToken,
    ) -> Result<(), Refused> {
        let Creation { node, route, .. } = creation;
        let began = Instant::now();
        let context = &self.context;
        let call = calls::create(
            &*context.provider,
            &self.cluster,
            &node.uid,
            route,
            &context.pulse,
            shutdown,
        );
        match self.with_permit(call, shutdown).await {
            Ok(()) => {
                self.metrics.changed("create");
                self.failures
                    .succeeded("create", &route.destination_cidr, Instant::now());
                self.memory().created(creation);
                tracing::info!(
                    node = &*node.name,
                    destination = route.destination_cidr,
                    "route created"
                );
                Ok(())
            }
            Err(Refused::Failed(error)) => {
                self.metrics.failed("create");
                let cidr = &*route.destination_cidr;
                if let Some(DueLine { failures, .. }) =
                    self.failures.failed("create", cidr, Instant::now())
                {
                    tracing::error!(
                        node = &*node.name, destination = cidr, %error, failures, "creating the route failed"
                    );
                }
                if !self.is_adaptive() || concerns_one(&error) {
                    let elapsed = GoDuration::from(began.elapsed());
                    let hint = &node.uid;
                    let name = &node.name;
                    let message = format!(
                        "Could not create route {hint} {cidr} for node {name} after {elapsed}: {error}"
                    );
                    self.events.event(
                        &reference(node),
                        EventType::Warning,
                        EventReason::FailedToCreateRoute.as_str(),
                        message,
                    );
                }
                Err(Refused::Failed(error))
            }
            refused => refused,
        }
    }

    /// Waits for a permit to call the cloud (ROUTE-31). No call begins after the shutdown, or while the cloud
    /// throttles.
    async fn with_permit(
        &self,
        call: impl Future<Output = Result<()>>,
        shutdown: &CancellationToken,
    ) -> Result<(), Refused> {
        let Ok(_permit) = self.calls.acquire().await else {
            return Err(Refused::Stopping);
        };
        if shutdown.is_cancelled() {
            return Err(Refused::Stopping);
        }
        if let Some(until) = self
            .memory()
            .paused_until(Instant::now())
            .filter(|_| self.is_adaptive())
        {
            return Err(Refused::Paused(until));
        }
        let busy = self.context.pulse.begin("route");
        let result = call.await;
        drop(busy);
        if let Err(error) = &result {
            // The pause is set before the permit is released, so that the next call does not exceed the limit, too.
            self.memory().pause_for(Instant::now(), error);
        }
        result.map_err(Refused::Failed)
    }

    /// Schedules an early pass for routes that another writer changed, and stops changing routes that another writer
    /// changes repeatedly (P-33).
    fn handle_contested(&self, contested: Vec<Contested>, items: &[Item]) {
        let now = Instant::now();
        for Contested { creation, rest } in contested {
            let node = &creation.node;
            let destination = &creation.destination;
            tracing::warn!(node = &*node.name, %destination, "another writer changed or deleted the route");
            let Some(rest) = rest else {
                self.memory()
                    .schedule_list(now + self.options.reconciliation_period);
                continue;
            };
            self.metrics.flapping();
            let mut message = format!(
                "Another writer keeps changing the route {destination} to node {}; find the other controller, or the \
                 other cluster, that manages the same routes",
                node.name
            );
            if self.is_adaptive() {
                message += &format!(". The route is not changed for {}", GoDuration::from(rest));
                if let Some(item) = items.iter().find(|item| item.creates.contains(&creation)) {
                    self.memory().hold(now + rest, item.key());
                }
            }
            if self.explain {
                self.events.event(
                    &reference(node),
                    EventType::Warning,
                    EventReason::RouteFlapping.as_str(),
                    message,
                );
            }
        }
    }

    /// Records an event for each Pod CIDR that is refused, or lies outside `--cluster-cidr`, once (ROUTE-37, P-33).
    fn report_cidrs(&self, nodes: &[Arc<Node>], refused: &RefusedCidrs) {
        for node in nodes.iter().filter(|node| !self.waits(node)) {
            for cidr in &node.pod_cidrs {
                let destination = Destination::new(cidr);
                let refusal = refused.get(node, &destination);
                let is_outside = match refusal {
                    Some(refusal) => *refusal == CidrRefusal::Outside,
                    None => !is_in_range(&destination, &self.options.cluster_cidrs),
                };
                if refusal.is_none() && !is_outside {
                    // The reason may come back, and is then reported again.
                    self.memory().forget_report(node, &destination);
                    continue;
                }
                if !self.memory().record_if_new(node, &destination, refusal) {
                    continue;
                }
                if is_outside {
                    self.metrics.outside_cluster_cidr();
                }
                let (reason, message) = self.about_cidr(node, cidr, refusal);
                tracing::warn!(node = &*node.name, "{message}");
                if self.explain
                    && !self.events.event(
                        &reference(node),
                        EventType::Warning,
                        reason.as_str(),
                        message,
                    )
                {
                    self.memory().forget_report(node, &destination);
                }
            }
        }
    }

    /// Returns the event about a Pod CIDR that is refused, or outside `--cluster-cidr`.
    fn about_cidr(
        &self,
        node: &Node,
        cidr: &str,
        refusal: Option<&CidrRefusal>,
    ) -> (EventReason, String) {
        let name = &node.name;
        if let Some(refusal) = refusal.filter(|refusal| **refusal != CidrRefusal::Outside) {
            let message = format!(
                "Pod CIDR {cidr} of node {name} gets no route: {refusal}. {}",
                refusal.remedy()
            );
            return (EventReason::PodCidrRefused, message);
        }
        let ranges: Vec<String> = self
            .options
            .cluster_cidrs
            .iter()
            .map(ToString::to_string)
            .collect();
        let effect = match refusal {
            Some(_) => "it gets no route",
            None => "its route is never deleted",
        };
        let ranges = ranges.join(",");
        let message = format!(
            "Pod CIDR {cidr} of node {name} lies outside --cluster-cidr ({ranges}): {effect}; correct the flag"
        );
        (EventReason::PodCidrOutside, message)
    }

    fn forget(&self, nodes: &[Arc<Node>]) {
        let uids: HashSet<&str> = nodes.iter().map(|node| &*node.uid).collect();
        self.memory().forget_nodes(|uid| uids.contains(uid));
    }

    /// Writes the conditions that are not up to date (ROUTE-40 … ROUTE-46). Returns the texts of failures.
    pub(super) async fn settle(
        &self,
        in_flight: &HashSet<Destination>,
        shutdown: &CancellationToken,
    ) -> Vec<String> {
        let nodes = self.context.nodes.list();
        let due = self
            .memory()
            .due_conditions(Instant::now(), nodes, in_flight);
        let failures = Mutex::new(Vec::new());
        let writes = parallel_for(
            due,
            self.options.concurrency.max(1),
            shutdown,
            |(node, condition)| {
                let failures = &failures;
                async move {
                    if let Err(text) = self.write_condition(&node, condition).await {
                        failures.lock().push(text);
                    }
                }
            },
        );
        within_grace(shutdown, writes).await;
        failures.into_inner()
    }

    async fn write_condition(&self, node: &Node, condition: RouteCondition) -> Result<(), String> {
        let write = condition::write(&self.api, node, condition, self.context.clock.now());
        let text = match tokio::time::timeout(CONDITION_DEADLINE, write).await {
            Ok(Ok(())) => {
                self.memory().condition_written(node, condition);
                return Ok(());
            }
            // The Node has been deleted meanwhile.
            Ok(Err(error)) if is_not_found(&error) => return Ok(()),
            Ok(Err(error)) => api_error(&error).to_string(),
            Err(_) => format!("no answer within {} s", CONDITION_DEADLINE.as_secs()),
        };
        if self.is_adaptive() {
            self.memory().condition_failed(Instant::now(), node);
        }
        if let Some(DueLine { failures, .. }) =
            self.failures.failed("condition", &node.uid, Instant::now())
        {
            tracing::error!(
                node = &*node.name,
                error = text,
                failures,
                "writing the condition NetworkUnavailable failed"
            );
        }
        Err(format!(
            "writing the condition of node {}: {text}",
            node.name
        ))
    }
}

fn reference(node: &Node) -> ObjectRef {
    ObjectRef::node(&node.name, &node.uid)
}

/// Returns `true` if an error concerns a single Node. Throttling concerns all Nodes, and ends by itself.
fn concerns_one(error: &Error) -> bool {
    !error.chain().any(Error::is_rate_limited)
}
