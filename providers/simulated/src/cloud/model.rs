//! State of the cloud: objects, tokens, faults, counters.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::faults::Fault;
use super::load_balancers::StoredLoadBalancer;
use super::machines::Machine;
use super::rate_limit::Window;
use super::routes::StoredRoute;
use super::volumes::Volume;
use super::{DEFAULT_PROJECT, DEFAULT_TOKEN, Options};

/// An object, and the time from which lists show it.
pub(super) struct Stored<T> {
    pub(super) object: T,
    pub(super) listed_from: Instant,
}

/// An operation in the background.
pub(super) struct Operation {
    pub(super) project: String,
    pub(super) target: String,
    pub(super) done_at: Instant,
}

pub(super) struct Model {
    pub(super) options: Options,
    /// Projects by their tokens.
    pub(super) tokens: BTreeMap<String, String>,
    pub(super) machines: BTreeMap<String, Stored<Machine>>,
    pub(super) load_balancers: BTreeMap<String, Stored<StoredLoadBalancer>>,
    pub(super) routes: BTreeMap<String, Stored<StoredRoute>>,
    pub(super) volumes: BTreeMap<String, Stored<Volume>>,
    pub(super) operations: BTreeMap<String, Operation>,
    pub(super) faults: Vec<Fault>,
    pub(super) requests: BTreeMap<String, u64>,
    pub(super) windows: BTreeMap<String, Window>,
    made: u32,
}

impl Model {
    pub(super) fn new(options: Options) -> Self {
        Self {
            options,
            tokens: [(DEFAULT_TOKEN.to_owned(), DEFAULT_PROJECT.to_owned())].into(),
            machines: BTreeMap::new(),
            load_balancers: BTreeMap::new(),
            routes: BTreeMap::new(),
            volumes: BTreeMap::new(),
            operations: BTreeMap::new(),
            faults: Vec::new(),
            requests: BTreeMap::new(),
            windows: BTreeMap::new(),
            made: 0,
        }
    }

    /// Returns a new number; IDs are never reused.
    pub(super) fn next_number(&mut self) -> u32 {
        self.made += 1;
        self.made
    }

    pub(super) fn stored<T>(&self, object: T) -> Stored<T> {
        let delay = Duration::from_millis(self.options.list_delay_milliseconds);
        Stored {
            object,
            listed_from: Instant::now() + delay,
        }
    }

    /// Starts an operation on `target`, and returns its ID and the time at which it is done.
    pub(super) fn start_operation(&mut self, project: &str, target: &str) -> (String, Instant) {
        let id = format!("op-{:06}", self.next_number());
        let done_at = Instant::now() + Duration::from_millis(self.options.operation_milliseconds);
        let operation = Operation {
            project: project.to_owned(),
            target: target.to_owned(),
            done_at,
        };
        self.operations.insert(id.clone(), operation);
        (id, done_at)
    }
}
