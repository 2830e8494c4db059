//! Doing what is planned. What comes next is told by [`requests`](super::requests); the kit waits for it.

use cloud_provider::{About, Error, Result, SyncObserver};
use provider_kit::load_balancers::{Actual, Applied, Change, Operation, Part, State, Tree};
use provider_kit::transport::Call;
use serde_json::{Value, json};

use super::create::{Made, body};
use super::octavia::{BALANCERS, ID, MEMBERS, Member, text};
use super::requests::{Names, Request, Step, Subject};
use super::status::lead_by;
use super::tags::{View, balancer_id};
use super::{Backing, floating_ip, security_group};

/// What the name of the pool of ports with a security group begins with.
const PORTS_POOL: &str = "ports with ";

impl Backing {
    pub(super) async fn carry_out(&self, change: Change<'_>) -> Result<Applied> {
        let is_removed = change.operations.iter().any(|it| deletes(it, |part| *part == Part::Balancer));
        if let Some(State::Failed(text)) = change.actual.map(|it| &it.state)
            && !is_removed
        {
            return Err(Error::other(text.clone()));
        }
        match &change.operations[0] {
            operation if part_of(operation).is_some_and(|part| matches!(part, Part::Front(_))) => {
                self.front(change, operation).await
            }
            Operation::Create { part: Part::Balancer, .. } => self.create(change).await,
            Operation::Mark => self.mark(change).await,
            Operation::Unmark => self.unmark(change).await,
            operation
                if is_removed && (self.config.cascade_delete || deletes(operation, |it| *it == Part::Balancer)) =>
            {
                self.remove(change).await
            }
            operation if is_about_ports(operation) => self.secure(change, operation).await,
            _ => self.change(change).await,
        }
    }

    pub(super) async fn names<'a>(&self, change: &Change<'a>) -> Result<Names<'a>> {
        let sign = change.identity.sign.as_deref().unwrap_or_default();
        Ok(Names { service: change.identity.service, sign, tags: self.services.octavia().await?.tags })
    }

    /// Everything in one request. What is left to do is planned from what the answer shows.
    async fn create(&self, change: Change<'_>) -> Result<Applied> {
        let names = self.names(&change).await?;
        // The body is gone while the answer is awaited: with thousands of members it is large.
        let body = body(change.identity, change.operations, names, self.config.serial);
        let call = Call::post(BALANCERS.all, &[]).json(&body);
        drop(body);
        let whole = self.services.balancer.read::<Made>(call).await?.whole();
        let view = View::of(&whole.balancer, change.identity, false);
        let view = view.ok_or_else(|| Error::other("Octavia shows a new load balancer without name and tags"))?;
        let beside = change.actual.and_then(|it| it.tree.clone()).unwrap_or_default();
        let shown = whole.seen(view, Vec::new());
        let mut shown = shown.ok_or_else(|| Error::other("Octavia shows a new load balancer that is deleted"))?;
        if let Some(tree) = &mut shown.tree {
            let group = beside.parts.iter().filter(|(part, _)| !matches!(part, Part::Front(_)));
            tree.parts.extend(group.map(|(part, settings)| (part.clone(), settings.clone())));
            tree.targets.extend(beside.targets.iter().map(|(pool, targets)| (pool.clone(), targets.clone())));
        }
        Ok(Applied::PlanAgain(Box::new(shown)))
    }

    /// All of it. What is found by it goes before it: then nothing is left that nobody knows of.
    async fn remove(&self, change: Change<'_>) -> Result<Applied> {
        let Some(actual) = change.actual else { return Ok(Applied::Gone) };
        if change.operations.iter().any(|it| deletes(it, |part| matches!(part, Part::Support(_)))) {
            security_group::remove(self, change.identity).await?;
        }
        let call = Call::delete(BALANCERS.one, &[balancer_id(&actual.id)]);
        let call = if self.config.cascade_delete { call.query("cascade", true) } else { call };
        match self.services.balancer.send(call).await {
            Err(err) if err.is_not_found() => Ok(Applied::Gone),
            Err(err) => Err(err),
            Ok(_) => Ok(Applied::PlanAgain(Box::new(Actual { state: State::Busy, tree: None, ..actual.clone() }))),
        }
    }

    async fn front(&self, change: Change<'_>, operation: &Operation) -> Result<Applied> {
        let actual = change.actual.ok_or_else(|| Error::other("a floating IP without a load balancer"))?;
        let stays = change.operations.contains(&Operation::Unmark);
        let settings = actual.tree.as_ref().and_then(Tree::balancer_attributes);
        let setting = |key: &str| settings.and_then(|it| it.text(key)).unwrap_or_default().to_owned();
        let mut outcome = change.outcome(1);
        // Those who share it still need it.
        if !stays {
            let goes = change.operations.iter().any(|it| deletes(it, |part| *part == Part::Balancer));
            let port = setting("vip_port_id");
            let given = floating_ip::apply(self, operation, change.identity, actual, &port, goes).await?;
            if let Some(outcome) = &mut outcome {
                let address = given.as_ref().and_then(|it| it.text("address").map(str::to_owned));
                lead_by(outcome, &address.unwrap_or_else(|| setting("vip_address")));
                if let (Some(part), Some(tree)) = (part_of(operation), &mut outcome.tree) {
                    match given {
                        Some(settings) => drop(tree.parts.insert(part.clone(), settings)),
                        None => drop(tree.parts.remove(part)),
                    }
                }
            }
        }
        Ok(shown(1, outcome))
    }

    async fn secure(&self, change: Change<'_>, operation: &Operation) -> Result<Applied> {
        let settings = security_group::apply(self, operation, change.identity).await?;
        let mut outcome = change.outcome(1);
        if let (Some(outcome), Some(settings), Some(part)) = (&mut outcome, settings, part_of(operation)) {
            if outcome.id.is_empty() {
                outcome.id = settings.text(ID).unwrap_or_default().to_owned();
            }
            if let Some(tree) = &mut outcome.tree {
                tree.parts.insert(part.clone(), settings);
            }
        }
        Ok(shown(1, outcome))
    }

    /// Listeners and pools.
    async fn change(&self, change: Change<'_>) -> Result<Applied> {
        let actual = change.actual.ok_or_else(|| Error::other("a part without a load balancer"))?;
        let (names, tree) = (self.names(&change).await?, actual.tree.clone().unwrap_or_default());
        let subject = Subject { id: balancer_id(&actual.id), tree: &tree, names };
        let step = subject.next(change.operations);
        let Step { request, done, mut tree, makes } =
            step.ok_or_else(|| Error::conflict(format!("load balancer {:?} has changed", actual.name)))?;
        let is_sent = request.is_some();
        if let Some(request) = request {
            let answer = self.send(&subject, &change, &request).await?;
            if let Some((part, key, kind)) = makes {
                let settings = tree.parts.get(&part).cloned().unwrap_or_default().set(key, text(&kind.of(answer), ID));
                tree.parts.insert(part, settings);
            }
        }
        let outcome = change.outcome(done).unwrap_or_else(|| actual.clone());
        let state = if is_sent { State::Busy } else { State::Ready };
        let outcome = Box::new(Actual { tree: Some(tree), state, ..outcome });
        Ok(if done == 0 { Applied::PlanAgain(outcome) } else { Applied::Shown(done, outcome) })
    }

    async fn send(&self, subject: &Subject<'_>, change: &Change<'_>, request: &Request) -> Result<Value> {
        if request.path == MEMBERS.all && self.config.serial {
            return self.members_one_by_one(subject.id, request, change.observer).await.map(|()| Value::Null);
        }
        match self.services.balancer.send(request.call()).await {
            Ok(answer) => Ok(answer.json().unwrap_or_default()),
            Err(err) if err.is_not_found() && request.body.is_null() => Ok(Value::Null),
            // A provider need not know every method; the pool serves by the one that it has.
            Err(err) if err.is_invalid() && request.body.pointer("/pool/lb_algorithm").is_some() => {
                let text = format!("the method of load balancing cannot be changed: {err}");
                self.notices.warn(true, About::Service(change.identity.service), "LoadBalancerLbMethodUnknown", &text);
                let mut rest = request.clone();
                if let Some(persistence) = request.body.pointer("/pool/session_persistence") {
                    rest.body = json!({"pool": {"session_persistence": persistence}});
                    self.services.balancer.send(rest.call()).await?;
                }
                Ok(Value::Null)
            }
            Err(err) => Err(err),
        }
    }

    /// For providers that take no more than one change at a time.
    async fn members_one_by_one(&self, balancer: &str, request: &Request, observer: &dyn SyncObserver) -> Result<()> {
        let (http, pool) = (&self.services.balancer, &*request.id);
        let wanted = request.body["members"].as_array().map(Vec::as_slice).unwrap_or_default();
        let present: Vec<Member> = self.all_of(&MEMBERS, MEMBERS.list(pool), |it: &Member| it.id.clone()).await?;
        for member in wanted {
            let mut body = member.clone();
            let (name, address, port) = (text(member, "name"), text(member, "address"), &member["protocol_port"]);
            body["name"] = format!("member_{name}_{address}_{port}").into();
            let call = match present.iter().find(|it| it.is(address, port)) {
                Some(there)
                    if json!(there.monitor_port) == member["monitor_port"]
                        && there.target() == format!("{name} {address}") =>
                {
                    continue;
                }
                Some(there) => Call::put(MEMBERS.one, &[pool, &there.id])
                    .json(&MEMBERS.body(json!({"name": body["name"], "monitor_port": member["monitor_port"]}))),
                None => Call::post(MEMBERS.all, &[pool]).json(&MEMBERS.body(body)),
            };
            http.send(call).await?;
            self.settled(balancer, observer).await?;
        }
        let is_wanted = |it: &Member| wanted.iter().any(|one| it.is(text(one, "address"), &one["protocol_port"]));
        for obsolete in present.iter().filter(|it| !is_wanted(it)) {
            http.remove(Call::delete(MEMBERS.one, &[pool, &obsolete.id])).await?;
            self.settled(balancer, observer).await?;
        }
        Ok(())
    }
}

fn shown(count: usize, outcome: Option<Actual>) -> Applied {
    outcome.map_or(Applied::Gone, |outcome| Applied::Shown(count, Box::new(outcome)))
}

fn part_of(operation: &Operation) -> Option<&Part> {
    match operation {
        Operation::Create { part, .. } | Operation::Update { part, .. } | Operation::Delete { part } => Some(part),
        _ => None,
    }
}

fn deletes(operation: &Operation, is_it: impl Fn(&Part) -> bool) -> bool {
    matches!(operation, Operation::Delete { part } if is_it(part))
}

/// Whether it is about a security group, or the ports that carry it.
fn is_about_ports(operation: &Operation) -> bool {
    match operation {
        Operation::AddTargets { pool, .. } | Operation::RemoveTargets { pool, .. } => pool.starts_with(PORTS_POOL),
        other => part_of(other).is_some_and(is_part_of_group),
    }
}

/// Whether a part is a security group, or the pool of the ports that carry it.
pub(super) fn is_part_of_group(part: &Part) -> bool {
    match part {
        Part::Support(_) => true,
        Part::Pool(pool) => pool.starts_with(PORTS_POOL),
        _ => false,
    }
}
