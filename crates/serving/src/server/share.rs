//! Shares of a limit: a client may use a part of it, and a part is kept for the machine itself.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Callers that are counted together: an IPv4 address, an IPv6 /64, which is what one machine is given at least, or all
/// loopback addresses, of which any process of the machine may use as many as it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    network: IpAddr,
    is_own: bool,
}

impl Client {
    /// Returns the client of a connection from `peer` to `local`. Loopback addresses, and the address that was
    /// connected to, belong to the machine itself: no other machine can complete a TCP handshake from them. On the
    /// host's network the kubelet's probes come from there.
    pub(super) fn new(peer: IpAddr, local: IpAddr) -> Self {
        // Canonical form: an address may have two spellings.
        let peer = peer.to_canonical();
        let local = local.to_canonical();
        let network = match peer {
            IpAddr::V4(address) if address.is_loopback() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V4(_) => peer,
            IpAddr::V6(address) => {
                Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
            }
        };
        Self {
            network,
            is_own: peer.is_loopback() || peer == local,
        }
    }

    /// Returns `true` if the client is on the same machine.
    pub(super) fn is_own(self) -> bool {
        self.is_own
    }
}

/// Limit with its current use, in total and by client.
#[derive(Debug)]
pub(super) struct Shares {
    limit: usize,
    kept: usize,
    kept_per_client: usize,
    per_client: usize,
    taken: usize,
    by_client: HashMap<Client, usize>,
}

/// The limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exhausted {
    /// The limit of all clients together.
    All,
    /// The limit of this client.
    Client,
}

impl Shares {
    /// Creates shares of `limit`, of which `kept` is reserved for the machine itself; no client has more than
    /// `per_client`. An address of the machine uses an eighth of the reserve: the kubelet is not the only client there.
    pub(super) fn new(limit: usize, kept: usize, per_client: usize) -> Self {
        let kept_per_client = (kept / 8).max(1);
        Self {
            limit,
            kept,
            kept_per_client,
            per_client,
            taken: 0,
            by_client: HashMap::new(),
        }
    }

    /// Takes `amount`, or nothing.
    pub(super) fn take(&mut self, client: Client, amount: usize) -> Result<(), Exhausted> {
        let used_by_client = self.of(client);
        if used_by_client.saturating_add(amount) > self.per_client {
            return Err(Exhausted::Client);
        }
        let may_use_kept =
            client.is_own && used_by_client.saturating_add(amount) <= self.kept_per_client;
        let limit = if may_use_kept {
            self.limit
        } else {
            self.limit.saturating_sub(self.kept)
        };
        if self.taken.saturating_add(amount) > limit {
            return Err(Exhausted::All);
        }
        self.taken += amount;
        self.by_client.insert(client, used_by_client + amount);
        Ok(())
    }

    /// Releases an amount that was taken.
    pub(super) fn give_back(&mut self, client: Client, amount: usize) {
        self.taken = self.taken.saturating_sub(amount);
        if let Some(used_by_client) = self.by_client.get_mut(&client) {
            *used_by_client = used_by_client.saturating_sub(amount);
            if *used_by_client == 0 {
                self.by_client.remove(&client);
            }
        }
    }

    /// Returns the amount that this client uses.
    pub(super) fn of(&self, client: Client) -> usize {
        self.by_client.get(&client).copied().unwrap_or_default()
    }

    /// Returns the amount that all clients use.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str) -> Client {
        Client::new(peer.parse().unwrap(), "10.0.0.9".parse().unwrap())
    }

    #[test]
    fn clients_are_ipv4_addresses_and_ipv6_networks_of_64_bits() {
        assert_ne!(client("10.0.0.1"), client("10.0.0.2"));
        assert_eq!(
            client("10.0.0.1"),
            client("::ffff:10.0.0.1"),
            "one address in two spellings"
        );
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:0:0:2"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
        assert_eq!(
            client("127.0.0.1"),
            client("127.9.9.9"),
            "a process may use any loopback address"
        );
    }

    #[test]
    fn loopback_and_the_address_that_was_connected_to_are_own() {
        for (peer, own) in [
            ("127.0.0.7", true),
            ("::1", true),
            ("10.0.0.9", true),
            ("::ffff:10.0.0.9", true),
        ] {
            assert_eq!(client(peer).is_own(), own, "{peer}");
        }
        assert!(!client("10.0.0.1").is_own() && !client("2001:db8::1").is_own());
    }

    #[test]
    fn clients_take_at_most_their_share_and_own_addresses_use_the_reserve() {
        let mut shares = Shares::new(20, 8, 8);
        let a = client("10.0.0.1");
        let b = client("10.0.0.2");
        let own_client = client("127.0.0.1");
        assert_eq!(
            (shares.take(a, 8), shares.take(a, 1)),
            (Ok(()), Err(Exhausted::Client))
        );
        assert_eq!(
            (shares.take(b, 4), shares.take(b, 1)),
            (Ok(()), Err(Exhausted::All)),
            "eight are kept"
        );
        assert_eq!(
            (shares.take(own_client, 1), shares.take(own_client, 1)),
            (Ok(()), Err(Exhausted::All)),
            "an eighth of them"
        );
        assert_eq!(
            shares.take(client("127.0.0.2"), 1),
            Err(Exhausted::All),
            "loopback addresses are one client"
        );
        assert_eq!(
            shares.take(client("10.0.0.9"), 1),
            Ok(()),
            "for each own client"
        );
        shares.give_back(a, 8);
        shares.give_back(own_client, 1);
        assert_eq!((shares.taken(), shares.of(a), shares.of(b)), (5, 0, 4));
        assert_eq!(
            shares.by_client.len(),
            2,
            "clients that have nothing are forgotten"
        );
        assert_eq!(
            shares.take(a, usize::MAX),
            Err(Exhausted::Client),
            "no overflow"
        );
    }
}
