//! A cloud that is nothing but a table of routes, with troubles by destination.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{
    AddressType, CloudProvider, Cluster, Error, Result, Route, Routes, async_trait,
};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Fault of calls about a destination.
#[derive(Clone)]
pub(crate) enum Trouble {
    Fails(Error),
    Hangs,
    Panics,
}

/// The cloud. Clones share everything.
#[derive(Clone)]
pub(crate) struct Table {
    state: Arc<Mutex<State>>,
    start: Instant,
}

#[derive(Default)]
struct State {
    routes: Vec<Route>,
    troubles: BTreeMap<String, Trouble>,
    list_error: Option<Error>,
    takes: Duration,
    list_takes: Option<Duration>,
    calls: Vec<(Duration, String)>,
    running: usize,
    most: usize,
    made: usize,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self {
            state: Arc::default(),
            start: Instant::now(),
        }
    }

    /// Sets the duration of every call.
    pub(crate) fn taking(self, time: Duration) -> Self {
        self.state.lock().takes = time;
        self
    }

    /// Sets the duration of every later call.
    pub(crate) fn takes(&self, time: Duration) {
        self.state.lock().takes = time;
    }

    /// Sets the duration of every list, which shows the state at its beginning.
    pub(crate) fn list_takes(&self, time: Duration) {
        self.state.lock().list_takes = Some(time);
    }

    pub(crate) fn trouble(&self, destination: &str, trouble: Option<Trouble>) {
        let mut state = self.state.lock();
        match trouble {
            Some(trouble) => _ = state.troubles.insert(destination.to_owned(), trouble),
            None => _ = state.troubles.remove(destination),
        }
    }

    pub(crate) fn list_fails(&self, error: Option<Error>) {
        self.state.lock().list_error = error;
    }

    /// Adds a route, as another client would.
    pub(crate) fn put(&self, name: &str, node: &str, destination: &str, owned: Option<bool>) {
        self.state.lock().routes.push(Route {
            name: name.into(),
            target_node: node.into(),
            destination_cidr: destination.into(),
            enable_node_addresses: true,
            owned,
            ..Route::default()
        });
    }

    /// Removes a route, as another client would.
    pub(crate) fn take(&self, destination: &str) {
        self.state
            .lock()
            .routes
            .retain(|route| route.destination_cidr != destination);
    }

    /// Deletes the machine behind a route.
    pub(crate) fn blackhole(&self, destination: &str) {
        let mut state = self.state.lock();
        state
            .routes
            .iter_mut()
            .filter(|route| route.destination_cidr == destination)
            .for_each(|route| route.blackhole = true);
    }

    /// Returns `DESTINATION NODE` of all routes, in order.
    pub(crate) fn routes(&self) -> Vec<String> {
        let state = self.state.lock();
        let mut routes: Vec<String> = state
            .routes
            .iter()
            .map(|route| format!("{} {}", route.destination_cidr, route.target_node))
            .collect();
        routes.sort();
        routes
    }

    /// Returns the next hops of a destination's route.
    pub(crate) fn hops(&self, destination: &str) -> Vec<String> {
        let state = self.state.lock();
        let of = state
            .routes
            .iter()
            .filter(|route| route.destination_cidr == destination);
        of.flat_map(|route| &route.target_node_addresses)
            .map(|address| address.address.to_string())
            .collect()
    }

    /// Returns `list`, `create DESTINATION` and `delete DESTINATION`, in order, and resets them.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.timed_calls()
            .into_iter()
            .map(|(_, call)| call)
            .collect()
    }

    /// Returns [`calls`](Self::calls) with the seconds since the start.
    pub(crate) fn timed_calls(&self) -> Vec<(u64, String)> {
        let calls = std::mem::take(&mut self.state.lock().calls);
        calls
            .into_iter()
            .map(|(at, call)| (at.as_secs(), call))
            .collect()
    }

    /// Returns the maximum number of concurrent calls.
    pub(crate) fn most(&self) -> usize {
        self.state.lock().most
    }

    async fn call<T>(
        &self,
        what: String,
        destination: &str,
        apply: impl FnOnce(&mut State) -> Result<T>,
    ) -> Result<T> {
        self.call_taking(None, what, destination, apply).await
    }

    async fn call_taking<T>(
        &self,
        takes: Option<Duration>,
        what: String,
        destination: &str,
        apply: impl FnOnce(&mut State) -> Result<T>,
    ) -> Result<T> {
        let (takes, trouble) = {
            let mut state = self.state.lock();
            state.calls.push((self.start.elapsed(), what));
            state.running += 1;
            state.most = state.most.max(state.running);
            (
                takes.unwrap_or(state.takes),
                state.troubles.get(destination).cloned(),
            )
        };
        if !takes.is_zero() {
            tokio::time::sleep(takes).await;
        }
        match trouble {
            Some(Trouble::Hangs) => std::future::pending().await,
            Some(Trouble::Panics) => {
                self.state.lock().running -= 1;
                panic!("a defect of the provider")
            }
            _ => {}
        }
        let mut state = self.state.lock();
        state.running -= 1;
        match trouble {
            Some(Trouble::Fails(error)) => Err(error),
            _ => apply(&mut state),
        }
    }
}

impl CloudProvider for Table {
    fn name(&self) -> &'static str {
        "table"
    }
    fn routes(&self) -> Option<&dyn Routes> {
        Some(self)
    }
}

#[async_trait]
impl Routes for Table {
    async fn list(&self, _cluster: &Cluster) -> Result<Vec<Route>> {
        let early = {
            let state = self.state.lock();
            state.list_takes.map(|takes| (takes, state.routes.clone()))
        };
        let (takes, routes) = early.unzip();
        let answer = self.call_taking(takes, "list".into(), "", |state| match &state.list_error {
            Some(error) => Err(error.clone()),
            None => Ok(routes.unwrap_or_else(|| state.routes.clone())),
        });
        answer.await
    }

    async fn create(&self, _cluster: &Cluster, _hint: &str, route: &Route) -> Result<()> {
        let mut route = Route {
            owned: Some(true),
            enable_node_addresses: true,
            ..route.clone()
        };
        route
            .target_node_addresses
            .retain(|address| address.kind == AddressType::InternalIP);
        let destination = route.destination_cidr.clone();
        self.call(format!("create {destination}"), &destination, |state| {
            if state
                .routes
                .iter()
                .any(|other| other.destination_cidr == route.destination_cidr)
            {
                return Err(Error::conflict(format!(
                    "a route to {} exists",
                    route.destination_cidr
                )));
            }
            state.made += 1;
            route.name = format!("r-{}", state.made);
            state.routes.push(route);
            Ok(())
        })
        .await
    }

    async fn delete(&self, _cluster: &Cluster, route: &Route) -> Result<()> {
        let destination = &route.destination_cidr;
        self.call(format!("delete {destination}"), destination, |state| {
            state.routes.retain(|other| other.name != route.name);
            Ok(())
        })
        .await
    }
}
