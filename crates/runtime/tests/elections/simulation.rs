//! Electors, server and network in one thread, event after event. Nothing waits for anything.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use runtime::election::{Action, Election, ElectionConfig, Input, Lease};
use tokio::time::Instant;

use super::network::Network;
use super::plan::{Fault, Plan};
use super::server::{Request, Server};

/// Longest time for a request, by the elector's clock, in seconds.
const TIME_OUT: f64 = 5.0;
/// Seconds until an ended process restarts.
const RESTART: f64 = 3.0;

/// An event of the simulation at some time.
#[derive(Clone, Debug)]
enum Event {
    Arrives(Request),
    Answered(Input),
    TimedOut(Input),
    Due,
    Seen(Option<Lease>),
    Restart,
    Fault(Fault),
}

struct Scheduled {
    at: f64,
    number: u64,
    elector: usize,
    /// Process and step that the event belongs to; events of an earlier one are dropped.
    life: u64,
    step: u64,
    event: Event,
}

struct Elector {
    election: Election,
    begin: Instant,
    rate: f64,
    watches: bool,
    /// Number of the elector's process, and of the steps that it has made.
    life: u64,
    step: u64,
    is_alive: bool,
    is_waiting: bool,
    frozen_until: f64,
    /// Leases that a watch reported while the elector was busy, and the time at which the last of them arrived.
    shown: VecDeque<Option<Lease>>,
    shown_at: f64,
}

impl Elector {
    fn local(&self, time: f64) -> Instant {
        self.begin + Duration::from_secs_f64(time * self.rate)
    }

    fn global(&self, local: Instant) -> f64 {
        local.saturating_duration_since(self.begin).as_secs_f64() / self.rate
    }

    fn may_write(&self, now: f64) -> bool {
        self.is_alive
            && self
                .election
                .deadline()
                .is_some_and(|deadline| self.local(now) < deadline)
    }
}

pub(crate) struct Simulation {
    electors: Vec<Elector>,
    server: Server,
    network: Network,
    heap: BinaryHeap<Reverse<Scheduled>>,
    now: f64,
    number: u64,
    log: Vec<String>,
    /// Times at which two might have written.
    pub(crate) breaches: Vec<String>,
}

impl Simulation {
    pub(crate) fn new(plan: &Plan) -> Self {
        let begin = Instant::now();
        let electors =
            plan.rates
                .iter()
                .zip(&plan.watching)
                .enumerate()
                .map(|(index, (rate, watches))| {
                    // No two clocks show the same.
                    let begin = begin + Duration::from_secs(1000 * index as u64);
                    Elector {
                        election: election(index, 0, begin),
                        begin,
                        rate: *rate,
                        watches: *watches,
                        life: 0,
                        step: 0,
                        is_alive: true,
                        is_waiting: false,
                        frozen_until: 0.0,
                        shown: VecDeque::new(),
                        shown_at: 0.0,
                    }
                });
        let mut this = Self {
            electors: electors.collect(),
            server: Server {
                put_creates: plan.put_creates,
                ..Server::default()
            },
            network: Network::new(plan),
            heap: BinaryHeap::new(),
            now: 0.0,
            number: 0,
            log: Vec::new(),
            breaches: Vec::new(),
        };
        for elector in 0..this.electors.len() {
            this.at(0.1 * elector as f64, elector, Event::Due);
        }
        for (at, fault) in &plan.faults {
            this.at(*at, 0, Event::Fault(*fault));
        }
        this
    }

    fn at(&mut self, at: f64, elector: usize, event: Event) {
        let Elector { life, step, .. } = self.electors[elector];
        self.number += 1;
        self.heap.push(Reverse(Scheduled {
            at,
            number: self.number,
            elector,
            life,
            step,
            event,
        }));
    }

    pub(crate) fn run_until(&mut self, end: f64) {
        while self.heap.peek().is_some_and(|next| next.0.at <= end) {
            let Some(Reverse(next)) = self.heap.pop() else {
                return;
            };
            self.now = next.at;
            self.happen(next);
            self.judge();
        }
        self.now = end;
    }

    fn happen(&mut self, next: Scheduled) {
        let Scheduled {
            elector: index,
            life,
            step,
            event,
            ..
        } = next;
        let event = match event {
            Event::Fault(fault) => return self.fault(fault),
            Event::Arrives(request) => return self.arrive(index, (life, step), request),
            Event::Restart if self.electors[index].life == life => return self.restart(index),
            event => event,
        };
        let elector = &mut self.electors[index];
        if elector.life != life || !elector.is_alive {
            return;
        }
        if self.now < elector.frozen_until {
            let at = elector.frozen_until;
            self.heap.push(Reverse(Scheduled {
                at,
                ..Scheduled {
                    event,
                    ..next_of(index, life, step, next.number)
                }
            }));
            return;
        }
        match event {
            Event::Seen(lease) => {
                elector.shown.push_back(lease);
                self.look(index);
            }
            Event::Due | Event::Answered(_) | Event::TimedOut(_) if elector.step != step => {}
            Event::Due => self.step(index, Input::Due),
            Event::Answered(input) | Event::TimedOut(input) => self.step(index, input),
            Event::Arrives(_) | Event::Restart | Event::Fault(_) => {}
        }
    }

    /// Hands the elector the next Lease that a watch reported while it was busy.
    fn look(&mut self, index: usize) {
        let elector = &mut self.electors[index];
        if elector.is_waiting
            && let Some(lease) = elector.shown.pop_front()
        {
            self.step(index, Input::Seen(lease));
        }
    }

    fn step(&mut self, index: usize, input: Input) {
        let now = self.now;
        let jitter = self.network.roll();
        let elector = &mut self.electors[index];
        let action =
            elector
                .election
                .step(input, elector.local(now), time_of_day(now, index), jitter);
        elector.step += 1;
        elector.is_waiting = matches!(action, Action::Wait(_));
        let name = format!("{action:?}");
        let name = name
            .split_once("(Lease")
            .map_or(name.as_str(), |(name, _)| name)
            .to_owned();
        if !elector.is_waiting {
            self.note(&format!("{index}: {name}"));
        }
        match action {
            Action::Read => self.send(index, Request::Read),
            Action::Create(lease) => self.send(index, Request::Create(lease)),
            Action::Update(lease) => self.send(index, Request::Update(lease)),
            Action::Wait(until) => {
                let at = self.electors[index].global(until).max(now) + 1e-6;
                self.at(at, index, Event::Due);
                self.look(index);
            }
            Action::End(_) => {
                self.electors[index].is_alive = false;
                self.at(now + RESTART, index, Event::Restart);
            }
        }
    }

    fn send(&mut self, index: usize, request: Request) {
        let elector = &self.electors[index];
        // A leader gives a request up when its time is over.
        let deadline = elector
            .election
            .deadline()
            .map(|deadline| elector.global(deadline) + 1e-6);
        let time_out = self.now + TIME_OUT / elector.rate;
        match deadline.filter(|deadline| *deadline < time_out) {
            Some(deadline) => self.at(deadline, index, Event::Due),
            None => self.at(time_out, index, Event::TimedOut(request.unanswered())),
        }
        if let Some(delay) = self.network.delay(index, self.now) {
            self.at(self.now + delay, index, Event::Arrives(request));
        }
    }

    fn arrive(&mut self, index: usize, (life, step): (u64, u64), request: Request) {
        let (answer, changed) = self.server.answer(request);
        if let Some(delay) = self.network.delay(index, self.now) {
            self.number += 1;
            let next = Scheduled {
                at: self.now + delay,
                event: Event::Answered(answer),
                ..next_of(index, life, step, self.number)
            };
            self.heap.push(Reverse(next));
        }
        if changed {
            self.show();
        }
    }

    /// Watches show the Lease as it is now, each in order.
    fn show(&mut self) {
        self.note(&format!("server: {:?}", self.server.holder()));
        for index in 0..self.electors.len() {
            let delay = self.network.delay(index, self.now);
            let elector = &mut self.electors[index];
            let (true, Some(delay)) = (elector.watches && elector.is_alive, delay) else {
                continue;
            };
            elector.shown_at = elector.shown_at.max(self.now + delay);
            let at = elector.shown_at;
            self.at(at, index, Event::Seen(self.server.lease.clone()));
        }
    }

    fn restart(&mut self, index: usize) {
        // A process that knows nothing takes a Lease that is not there: that a person deleted it a moment ago it cannot know.
        let is_missing = self.server.lease.is_none();
        if is_missing
            && self
                .electors
                .iter()
                .any(|elector| elector.may_write(self.now))
        {
            return self.at(self.now + RESTART, index, Event::Restart);
        }
        let now = self.now;
        let elector = &mut self.electors[index];
        elector.life += 1;
        elector.election = election(index, elector.life, elector.local(now));
        (elector.is_alive, elector.is_waiting, elector.frozen_until) = (true, true, 0.0);
        elector.shown.clear();
        self.at(now, index, Event::Due);
    }

    fn fault(&mut self, fault: Fault) {
        self.note(&format!("{fault:?}"));
        let now = self.now;
        let leader = self.leader();
        let valid = |who: usize| who % self.electors.len();
        match (fault, leader) {
            (Fault::Delete, _) => self.delete(),
            (Fault::Freeze(who, time), _) => {
                let who = valid(who);
                self.electors[who].frozen_until = now + time;
            }
            (Fault::FreezeLeader(time), Some(who)) => self.electors[who].frozen_until = now + time,
            (Fault::KillLeader, Some(who)) => self.kill(who),
            (Fault::Kill(who), _) => self.kill(valid(who)),
            (Fault::StopLeader, Some(who)) if now >= self.electors[who].frozen_until => {
                self.step(who, Input::Stop);
            }
            (Fault::Outage(time), _) => self.network.begin_outage(now + time),
            (Fault::Partition(who, time), _) => {
                let who = valid(who);
                self.network.begin_partition(who, now + time);
            }
            (Fault::FreezeLeader(_) | Fault::KillLeader | Fault::StopLeader, _) => {}
        }
    }

    /// Deletes the Lease, but only one that all electors have seen, and that its holder holds: see
    /// [`restart`](Self::restart).
    fn delete(&mut self) {
        let Some(stored) = &self.server.lease else {
            return;
        };
        let uid = stored.reference().uid;
        let holder = stored.record().holder;
        let has_seen = |election: &Election| {
            election.holder() == holder
                && election
                    .lease()
                    .is_some_and(|lease| lease.reference().uid == uid)
        };
        if self
            .electors
            .iter()
            .all(|elector| elector.is_alive && has_seen(&elector.election))
        {
            self.server.lease = None;
            self.show();
        }
    }

    fn kill(&mut self, who: usize) {
        if self.electors[who].is_alive {
            self.electors[who].is_alive = false;
            self.at(self.now + RESTART, who, Event::Restart);
        }
    }

    fn judge(&mut self) {
        let now = self.now;
        let able: Vec<usize> = (0..self.electors.len())
            .filter(|index| self.electors[*index].may_write(now))
            .collect();
        if able.len() > 1 && self.breaches.len() < 5 {
            self.breaches
                .push(format!("{now:.3}: {able:?} may write at the same time"));
            self.note("BREACH");
        }
    }

    /// Returns the elector that may write now.
    pub(crate) fn leader(&self) -> Option<usize> {
        self.electors
            .iter()
            .position(|elector| elector.may_write(self.now))
    }

    /// Returns the holder that the Lease names.
    pub(crate) fn holder(&self) -> Option<String> {
        self.server.holder()
    }

    /// Ends the faults that are in progress.
    pub(crate) fn calm_down(&mut self) {
        self.network.calm_down();
        self.electors
            .iter_mut()
            .for_each(|elector| elector.frozen_until = elector.frozen_until.min(self.now));
    }

    fn note(&mut self, what: &str) {
        if self.breaches.is_empty() || what == "BREACH" {
            self.log.push(format!("{:9.3} {what}", self.now));
        }
    }

    /// Returns the last events of the log.
    pub(crate) fn log(&self) -> String {
        self.log[self.log.len().saturating_sub(60)..].join("\n")
    }
}

fn election(index: usize, life: u64, begin: Instant) -> Election {
    let identity = format!("elector-{index}-{life}");
    Election::new(
        ElectionConfig {
            identity,
            ..ElectionConfig::new("kube-system", "ccm")
        },
        begin,
    )
}

fn next_of(elector: usize, life: u64, step: u64, number: u64) -> Scheduled {
    Scheduled {
        at: 0.0,
        number,
        elector,
        life,
        step,
        event: Event::Due,
    }
}

/// Returns the time of day of an elector: the electors' clocks disagree, and jump.
fn time_of_day(now: f64, index: usize) -> Timestamp {
    let jump = if (now / 17.0) as i64 % 2 == 0 {
        0
    } else {
        7200
    };
    let micros = (now * 1e6) as i64 + (index as i64 * 3600 + jump) * 1_000_000;
    Timestamp::from_microsecond(1_767_225_600_000_000 + micros).unwrap()
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at
            .total_cmp(&other.at)
            .then(self.number.cmp(&other.number))
    }
}
