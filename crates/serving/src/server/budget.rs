//! Requests and bytes in flight, over all ports of a process.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::limits::{
    BYTES, BYTES_KEPT, BYTES_PER_CLIENT, Limit, PROBE_BYTES, REQUESTS, REQUESTS_KEPT,
    REQUESTS_PER_CLIENT,
};
use super::share::{Client, Shares};

/// Requests that are being answered, and their bytes. Give clones of one to all [listeners](super::Listener) of a
/// process.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Mutex<Accounts>>);

#[derive(Debug)]
struct Accounts {
    requests: Shares,
    bytes: Shares,
}

impl Default for Budget {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Accounts {
            requests: Shares::new(REQUESTS, REQUESTS_KEPT, REQUESTS_PER_CLIENT),
            bytes: Shares::new(BYTES, BYTES_KEPT, BYTES_PER_CLIENT),
        })))
    }
}

impl Budget {
    /// Returns the requests that are in flight, and their bytes.
    #[must_use]
    pub fn in_flight(&self) -> (usize, usize) {
        let accounts = self.accounts();
        (accounts.requests.taken(), accounts.bytes.taken())
    }

    /// Admits a request with so many bytes of headers.
    pub(super) fn begin(&self, client: Client, bytes: usize) -> Result<InFlight, Limit> {
        let mut accounts = self.accounts();
        accounts
            .requests
            .take(client, 1)
            .map_err(|_| Limit::Requests)?;
        if accounts.bytes.take(client, bytes).is_err() {
            accounts.requests.give_back(client, 1);
            return Err(Limit::Bytes);
        }
        Ok(InFlight {
            budget: self.clone(),
            client,
            bytes,
            is_counted: true,
        })
    }

    /// Admits a request for the health of the process, which is answered at once. From the machine itself it is not
    /// counted, because the kubelet restarts a Pod whose probes are refused.
    pub(super) fn begin_probe(&self, client: Client, bytes: usize) -> Result<InFlight, Limit> {
        if client.is_own() && bytes <= PROBE_BYTES {
            return Ok(InFlight {
                budget: self.clone(),
                client,
                bytes: 0,
                is_counted: false,
            });
        }
        self.begin(client, bytes)
    }

    fn accounts(&self) -> MutexGuard<'_, Accounts> {
        self.0.lock()
    }
}

/// Share of the budget of a request in flight, released on drop.
#[derive(Debug)]
pub(super) struct InFlight {
    budget: Budget,
    client: Client,
    bytes: usize,
    /// If not set, the request counts towards no limit.
    is_counted: bool,
}

impl InFlight {
    /// Replaces the counted bytes: those of the headers by those of the response.
    pub(super) fn resize(&mut self, bytes: usize) -> Result<(), Limit> {
        if !self.is_counted {
            return Ok(());
        }
        let mut accounts = self.budget.accounts();
        accounts
            .bytes
            .give_back(self.client, std::mem::take(&mut self.bytes));
        accounts
            .bytes
            .take(self.client, bytes)
            .map_err(|_| Limit::Bytes)?;
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if !self.is_counted {
            return;
        }
        let mut accounts = self.budget.accounts();
        accounts.requests.give_back(self.client, 1);
        accounts.bytes.give_back(self.client, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_bytes_are_bounded_and_given_back() {
        let budget = Budget::default();
        let client = |n: u8| Client::new([10, 0, 0, n].into(), [10, 1, 0, 0].into());
        let own_client = Client::new([127, 0, 0, 1].into(), [127, 0, 0, 1].into());
        let mut held: Vec<InFlight> = (0..REQUESTS - REQUESTS_KEPT)
            .map(|n| {
                budget
                    .begin(client(u8::try_from(n / REQUESTS_PER_CLIENT).unwrap()), 10)
                    .unwrap()
            })
            .collect();
        assert_eq!(budget.begin(client(99), 10).unwrap_err(), Limit::Requests);
        drop(
            budget
                .begin(own_client, 10)
                .expect("the kubelet's requests have room"),
        );

        assert_eq!(held[0].resize(BYTES_PER_CLIENT + 1), Err(Limit::Bytes));
        assert_eq!(held[1].resize(1000), Ok(()));
        held.truncate(2);
        assert_eq!(budget.in_flight(), (2, 1000));
        assert_eq!(
            budget.begin(client(0), BYTES_PER_CLIENT).unwrap_err(),
            Limit::Bytes
        );
        held.clear();
        assert_eq!(budget.in_flight(), (0, 0));
    }

    #[test]
    fn probe_of_the_machine_is_admitted_although_a_local_process_uses_all_requests() {
        let budget = Budget::default();
        let local = |n: u8| Client::new([127, 0, 0, n].into(), [127, 0, 0, 1].into());
        let held: Vec<InFlight> = (0..REQUESTS)
            .filter_map(|n| budget.begin(local(u8::try_from(n % 64).unwrap()), 10).ok())
            .collect();
        assert_eq!(
            held.len(),
            REQUESTS_PER_CLIENT,
            "all loopback addresses together"
        );
        assert_eq!(budget.begin(local(1), 10).unwrap_err(), Limit::Requests);
        let mut probe = budget
            .begin_probe(local(1), 200)
            .expect("a probe of the kubelet");
        assert_eq!(probe.resize(100), Ok(()));
        assert_eq!(
            budget.in_flight().0,
            REQUESTS_PER_CLIENT,
            "probes are not counted"
        );
        assert_eq!(
            budget.begin_probe(local(1), PROBE_BYTES + 1).unwrap_err(),
            Limit::Requests,
            "too large for a probe"
        );
        let remote = Client::new([10, 0, 0, 1].into(), [10, 1, 0, 0].into());
        drop(budget.begin_probe(remote, 10).expect("room"));
        assert_eq!(budget.in_flight().0, REQUESTS_PER_CLIENT);
    }
}
