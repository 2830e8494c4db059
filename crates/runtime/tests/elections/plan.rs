//! Plan of a simulated run: the faults and their times.

use proptest::prelude::*;

/// Settings and faults of one simulated run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Seed of the random numbers of network and electors.
    pub(crate) seed: u64,
    /// Rate of each elector's clock. The fastest may be less than 1.5 times as fast as the slowest: that is the lease
    /// duration divided by the renew deadline.
    pub(crate) rates: Vec<f64>,
    /// Electors that may watch.
    pub(crate) watching: Vec<bool>,
    /// If set, the server creates an object for a replacement of a missing one.
    pub(crate) put_creates: bool,
    /// Share of messages that are lost.
    pub(crate) loss: f64,
    /// Share of messages that take up to 20 s.
    pub(crate) slowness: f64,
    /// Faults by their times in seconds, in order.
    pub(crate) faults: Vec<(f64, Fault)>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// A person deletes the Lease.
    Delete,
    /// An elector freezes for this number of seconds.
    Freeze(usize, f64),
    /// The leader freezes for this number of seconds.
    FreezeLeader(f64),
    /// The leader's process is killed, and restarts as a new one.
    KillLeader,
    /// The leader stops gracefully, and restarts as a new process.
    StopLeader,
    /// An elector's process is killed, and restarts as a new one.
    Kill(usize),
    /// The server answers no request for this number of seconds.
    Outage(f64),
    /// The network separates an elector from the server for this number of seconds.
    Partition(usize, f64),
}

impl Plan {
    /// Returns the time at which the last fault is over, in seconds.
    pub(crate) fn end(&self) -> f64 {
        self.faults
            .iter()
            .map(|(at, _)| at + 30.0)
            .fold(100.0, f64::max)
    }
}

fn faults() -> impl Strategy<Value = Fault> {
    let elector = 0..3_usize;
    prop_oneof![
        2 => Just(Fault::Delete),
        2 => (elector.clone(), 1.0..25.0).prop_map(|(who, time)| Fault::Freeze(who, time)),
        3 => (1.0..25.0).prop_map(Fault::FreezeLeader),
        1 => Just(Fault::KillLeader),
        1 => Just(Fault::StopLeader),
        1 => elector.clone().prop_map(Fault::Kill),
        1 => (1.0..25.0).prop_map(Fault::Outage),
        2 => (elector, 1.0..25.0).prop_map(|(who, time)| Fault::Partition(who, time)),
    ]
}

pub(crate) fn plans() -> impl Strategy<Value = Plan> {
    let electors = (2..=3_usize).prop_flat_map(|count| {
        (
            prop::collection::vec(0.85..1.2, count),
            prop::collection::vec(any::<bool>(), count),
        )
    });
    let weather = (0.0..0.4, prop_oneof![Just(0.0), 0.0..0.3]);
    let faults = prop::collection::vec((1.0..120.0, faults()), 0..20);
    (any::<u64>(), electors, any::<bool>(), weather, faults).prop_map(
        |(seed, (rates, watching), put_creates, (loss, slowness), mut faults)| {
            faults.sort_by(|a: &(f64, Fault), b| a.0.total_cmp(&b.0));
            Plan {
                seed,
                rates,
                watching,
                put_creates,
                loss,
                slowness,
                faults,
            }
        },
    )
}
