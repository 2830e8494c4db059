//! Admission of connections: a flood must neither take the resources that the process needs for its work, nor close the
//! port for the probes, which would restart the process (P-38).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::activity::Activity;
use super::limits::{CONNECTIONS_OF_PROBES, Limit, Limits};
use super::share::{Client, Exhausted, Shares};

/// Connections of a port; clones share them.
#[derive(Clone)]
pub(super) struct Connections(Arc<Mutex<Table>>);

struct Table {
    shares: Shares,
    open: HashMap<u64, Open>,
    /// Connections of the machine itself beyond its share, the oldest first. A busy one makes room, too.
    beyond: VecDeque<u64>,
    next: u64,
}

struct Open {
    client: Client,
    activity: Activity,
    evicted: CancellationToken,
    /// If set, the connection counts towards the shares.
    is_counted: bool,
}

/// Admitted connection, whose slot is released on drop.
pub(super) struct Admitted {
    connections: Connections,
    id: u64,
    /// Activity of the connection.
    pub(super) activity: Activity,
    /// Cancelled when the connection is to make room for another.
    pub(super) evicted: CancellationToken,
    /// If set, another connection was evicted for this one.
    pub(super) replaced: bool,
}

impl Connections {
    pub(super) fn new(limits: &Limits) -> Self {
        let shares = Shares::new(
            limits.connections,
            limits.connections_kept,
            limits.connections_per_client,
        );
        Self(Arc::new(Mutex::new(Table {
            shares,
            open: HashMap::new(),
            beyond: VecDeque::new(),
            next: 0,
        })))
    }

    /// Admits a connection, if need be in the place of the idlest.
    ///
    /// # Errors
    /// The limit that was reached, and no connection that counts towards it is idle.
    pub(super) fn admit(&self, client: Client) -> Result<Admitted, Limit> {
        let mut table = self.table();
        let mut replaced = false;
        let mut is_counted = true;
        while let Err(exhausted) = table.shares.take(client, 1) {
            let (victim, limit) = match exhausted {
                Exhausted::Client => (
                    table.idlest(|other| other == client),
                    Limit::ClientConnections,
                ),
                // Connections of the machine itself evict only each other.
                Exhausted::All => (
                    table.idlest(|other| client.is_own() || !other.is_own()),
                    Limit::Connections,
                ),
            };
            match victim {
                Some(victim) => table.close(victim),
                None if client.is_own() => {
                    table.make_room_beyond();
                    is_counted = false;
                    break;
                }
                None => return Err(limit),
            }
            replaced = true;
        }
        let id = table.next;
        table.next += 1;
        if !is_counted {
            table.beyond.push_back(id);
        }
        let activity = Activity::new();
        let evicted = CancellationToken::new();
        table.open.insert(
            id,
            Open {
                client,
                activity: activity.clone(),
                evicted: evicted.clone(),
                is_counted,
            },
        );
        Ok(Admitted {
            connections: self.clone(),
            id,
            activity,
            evicted,
            replaced,
        })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock()
    }
}

impl Table {
    /// Returns the idlest connection of the client that has most of them, so that a flood closes its own connections
    /// before those of others.
    fn idlest(&self, counts: impl Fn(Client) -> bool) -> Option<u64> {
        let is_candidate = |open: &Open| open.is_counted && counts(open.client);
        let candidates = self
            .open
            .iter()
            .filter(|(_, open)| is_candidate(open))
            .filter_map(|(id, open)| {
                let since = open.activity.idle_since()?;
                Some(Candidate {
                    id: *id,
                    of_client: self.shares.of(open.client),
                    since,
                })
            });
        idlest(candidates)
    }

    /// Closes the oldest connections beyond the shares until there is room for one.
    fn make_room_beyond(&mut self) {
        while self.beyond.len() >= CONNECTIONS_OF_PROBES {
            let Some(oldest) = self.beyond.front().copied() else {
                return;
            };
            self.close(oldest);
        }
    }

    fn close(&mut self, id: u64) {
        if let Some(open) = self.open.remove(&id) {
            match open.is_counted {
                true => self.shares.give_back(open.client, 1),
                false => self.beyond.retain(|other| *other != id),
            }
            open.evicted.cancel();
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        // An evicted connection has released its slot already.
        self.connections.table().close(self.id);
    }
}

/// A connection that could be closed.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    id: u64,
    /// Connections of its client.
    of_client: usize,
    /// Time at which the connection became idle.
    since: Instant,
}

fn idlest(candidates: impl Iterator<Item = Candidate>) -> Option<u64> {
    let worst = candidates.max_by(|a, b| a.of_client.cmp(&b.of_client).then(b.since.cmp(&a.since)));
    worst.map(|candidate| candidate.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;
    use std::time::Duration;

    use crate::server::limits::Limits;

    fn connections(
        connections: usize,
        connections_kept: usize,
        connections_per_client: usize,
    ) -> Connections {
        let limits = Limits {
            connections,
            connections_kept,
            connections_per_client,
            ..Limits::standard(0)
        };
        Connections::new(&limits)
    }

    fn client(peer: &str) -> Client {
        Client::new(peer.parse::<IpAddr>().unwrap(), [10, 9, 9, 9].into())
    }

    /// Admits a connection that is answering a request.
    fn busy(connections: &Connections, peer: &str) -> (Admitted, impl Sized) {
        let admitted = connections.admit(client(peer)).ok().unwrap();
        let answering = admitted.activity.begin(Duration::from_secs(30));
        (admitted, answering)
    }

    #[tokio::test(start_paused = true)]
    async fn the_idlest_connection_of_the_largest_client_makes_room() {
        let connections = connections(4, 0, 3);
        let take = async |peer: &str| {
            tokio::time::advance(Duration::from_secs(1)).await;
            connections.admit(client(peer)).ok().unwrap()
        };
        let scraper = take("10.0.0.1").await;
        let flood = [
            take("10.0.0.2").await,
            take("10.0.0.2").await,
            take("10.0.0.2").await,
        ];
        let fourth = take("10.0.0.2").await;
        let closed = |admitted: &Admitted| admitted.evicted.is_cancelled();
        assert_eq!(
            flood.each_ref().map(closed),
            [true, false, false],
            "its own, because of its own limit"
        );
        let other = take("10.0.0.3").await;
        assert_eq!(
            (flood.each_ref().map(closed), closed(&scraper)),
            ([true, true, false], false)
        );
        assert!(fourth.replaced && other.replaced && !scraper.replaced);
        drop((scraper, flood, fourth, other));
        assert_eq!(
            connections.table().shares.taken(),
            0,
            "each place is given back once"
        );
        assert!(connections.table().open.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn busy_connections_are_kept_and_own_addresses_still_get_in() {
        let connections = connections(4, 2, 2);
        let held = [
            busy(&connections, "10.0.0.1"),
            busy(&connections, "10.0.0.2"),
        ];
        let refused = |peer| connections.admit(client(peer)).err();
        assert_eq!(refused("10.0.0.3"), Some(Limit::Connections));
        let kubelet = connections.admit(client("127.0.0.1")).ok().unwrap();
        assert_eq!(
            refused("10.0.0.3"),
            Some(Limit::Connections),
            "an idle connection of the kubelet is not for others"
        );
        let other = busy(&connections, "10.9.9.9");
        let again = connections.admit(client("127.0.0.1")).ok().unwrap();
        assert!(kubelet.evicted.is_cancelled() && again.replaced);
        drop((held, other, again));
        assert!(connections.admit(client("10.0.0.3")).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn busy_connections_of_the_machine_itself_never_keep_a_probe_out() {
        let connections = connections(4, 2, 2);
        let held = [
            busy(&connections, "127.0.0.1"),
            busy(&connections, "127.0.0.2"),
        ];
        let beyond: Vec<_> = (0..CONNECTIONS_OF_PROBES)
            .map(|_| busy(&connections, "127.0.0.3"))
            .collect();
        let probe = connections
            .admit(client("127.0.0.1"))
            .unwrap_or_else(|limit| panic!("a probe was refused: {limit:?}"));
        let is_evicted = |(admitted, _): &(Admitted, _)| admitted.evicted.is_cancelled();
        assert!(
            is_evicted(&beyond[0]) && !beyond[1..].iter().any(is_evicted),
            "the oldest makes room"
        );
        assert!(!held.iter().any(is_evicted));
        drop((held, beyond, probe));
        let table = connections.table();
        assert_eq!(
            (table.shares.taken(), table.open.len(), table.beyond.len()),
            (0, 0, 0)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_whose_connections_are_all_busy_gets_no_more() {
        let connections = connections(4, 0, 1);
        let held = busy(&connections, "2001:db8::1");
        assert_eq!(
            connections.admit(client("2001:db8::2")).err(),
            Some(Limit::ClientConnections),
            "the same /64"
        );
        assert!(connections.admit(client("2001:db8:0:1::2")).is_ok());
        drop(held);
    }
}
