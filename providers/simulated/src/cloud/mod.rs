//! The simulated cloud: an axum router over a small in-memory model.
//!
//! [`Cloud`] is a handle; clones share the model. Its methods can do everything that `/admin` can over HTTP.

mod admin;
mod admission;
mod api;
mod faults;
mod listing;
mod load_balancers;
mod machines;
mod model;
mod rate_limit;
mod routes;
mod volumes;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::serve::ListenerExt;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use faults::{Fault, FaultKind};
pub use load_balancers::{
    HealthCheck, Listener, LoadBalancer, LoadBalancerChange, LoadBalancerSpec, LoadBalancerStatus,
};
pub use machines::{Machine, MachineChange, MachineState, NewMachine};
use model::Model;
pub use rate_limit::RateLimit;
pub use routes::{CloudRoute, NewRoute};
pub use volumes::Volume;

/// The project that exists from the start.
pub const DEFAULT_PROJECT: &str = "demo";
/// Token of the default project. A simulator's token is no secret.
pub const DEFAULT_TOKEN: &str = "demo-token";
/// Maximum and default number of objects on a page.
pub const PAGE_SIZE: usize = 50;

/// Behaviour of the cloud. Durations are in milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Duration of an operation (creating or changing a load balancer).
    pub operation_milliseconds: u64,
    /// Delay until a created object appears in lists. It can be read by its ID and by its name at once.
    pub list_delay_milliseconds: u64,
    /// Maximum number of load balancers of a project; `None`: no limit.
    pub load_balancer_quota: Option<usize>,
    /// Requests that each token may send; `None`: any number.
    pub rate_limit: Option<RateLimit>,
}

/// A simulated cloud.
///
/// ```
/// use provider_simulated::cloud::{Cloud, Options};
///
/// let cloud = Cloud::new(Options::default());
/// let ids = cloud.create_machines("worker-", 3);
/// assert!(cloud.stop(&ids[0]));
/// assert!(cloud.terminate("worker-2"), "by id or by name");
/// assert_eq!(cloud.machines().len(), 2);
/// let router = cloud.router();
/// ```
#[derive(Clone)]
pub struct Cloud(Arc<Mutex<Model>>);

impl Default for Cloud {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl Cloud {
    /// Creates a cloud with one empty project, [`DEFAULT_PROJECT`], and its token.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self(Arc::new(Mutex::new(Model::new(options))))
    }

    /// Returns the HTTP service: the API under `/v1`, and the control API under `/admin`.
    pub fn router(&self) -> Router {
        api::router(self).merge(admin::router(self))
    }

    /// Serves [`router`](Self::router) on `listener` until `shutdown`.
    ///
    /// # Errors
    /// The error of the listener, if it cannot accept connections.
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: CancellationToken,
    ) -> io::Result<()> {
        const GRACE: Duration = Duration::from_millis(500);
        let listener = listener.tap_io(|stream| {
            // Without `TCP_NODELAY`, a small answer may be delayed until an earlier packet is acknowledged. If the
            // option cannot be set, answers are only slower.
            let _ = stream.set_nodelay(true);
        });
        let stop = shutdown.clone();
        let server = axum::serve(listener, self.router())
            .with_graceful_shutdown(async move { stop.cancelled().await })
            .into_future();
        // An answer that hangs on purpose must not hold up the end.
        tokio::select! {
            ended = server => ended,
            () = async { shutdown.cancelled().await; tokio::time::sleep(GRACE).await } => Ok(()),
        }
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        self.0.lock()
    }

    /// Resets the cloud to an empty one with the default token, without faults and with the given behaviour.
    pub fn reset(&self, options: Options) {
        *self.model() = Model::new(options);
    }

    /// Returns the cloud's behaviour.
    #[must_use]
    pub fn options(&self) -> Options {
        self.model().options
    }

    /// Sets the cloud's behavior.
    pub fn set_options(&self, options: Options) {
        self.model().options = options;
    }

    /// Makes `token` valid for `project`.
    pub fn add_token(&self, token: &str, project: &str) {
        self.model()
            .tokens
            .insert(token.to_owned(), project.to_owned());
    }

    /// Makes `token` invalid; returns `true` if it was valid.
    pub fn revoke_token(&self, token: &str) -> bool {
        self.model().tokens.remove(token).is_some()
    }

    /// Adds a machine to the cloud.
    pub fn add_machine(&self, machine: NewMachine) -> Machine {
        self.model().add_machine(machine)
    }

    /// Adds machines named `<prefix>1`, `<prefix>2` …, spread over three zones; returns their ids.
    pub fn create_machines(&self, prefix: &str, count: usize) -> Vec<String> {
        let mut model = self.model();
        (1..=count)
            .map(|n| {
                model
                    .add_machine(NewMachine {
                        name: format!("{prefix}{n}"),
                        ..NewMachine::default()
                    })
                    .id
            })
            .collect()
    }

    /// Returns all machines of all projects, sorted by ID.
    #[must_use]
    pub fn machines(&self) -> Vec<Machine> {
        self.model()
            .machines
            .values()
            .map(|machine| machine.object.clone())
            .collect()
    }

    /// Returns a machine by id or name.
    #[must_use]
    pub fn machine(&self, id_or_name: &str) -> Option<Machine> {
        self.model().machine_mut(id_or_name).cloned()
    }

    /// Changes a machine, by ID or name, and returns the changed machine; `None` if there is none.
    pub fn change_machine(&self, id_or_name: &str, change: MachineChange) -> Option<Machine> {
        self.model()
            .machine_mut(id_or_name)
            .map(|machine| machine.change(change))
    }

    /// Stops a machine, by ID or name; returns `false` if it does not exist.
    pub fn stop(&self, id_or_name: &str) -> bool {
        let change = MachineChange {
            state: Some(MachineState::Stopped),
            ..MachineChange::default()
        };
        self.change_machine(id_or_name, change).is_some()
    }

    /// Starts a machine, by ID or name; returns `false` if it does not exist.
    pub fn start(&self, id_or_name: &str) -> bool {
        let change = MachineChange {
            state: Some(MachineState::Running),
            ..MachineChange::default()
        };
        self.change_machine(id_or_name, change).is_some()
    }

    /// Removes a machine for good, by ID or name; returns `false` if it does not exist.
    pub fn terminate(&self, id_or_name: &str) -> bool {
        self.model().remove_machine(id_or_name)
    }

    /// Removes machines, by ID or name, all at the same moment, and returns them for [`restore`](Self::restore).
    /// Simulates an outage of the cloud's inventory that ends later.
    pub fn remove_temporarily(&self, ids_or_names: &[String]) -> Vec<Machine> {
        self.model().take_machines(ids_or_names)
    }

    /// Puts machines back as they were, ids included, all at the same moment.
    pub fn restore(&self, machines: Vec<Machine>) {
        self.model().restore_machines(machines);
    }

    /// Adds or replaces a volume.
    pub fn add_volume(&self, volume: Volume) {
        self.model().add_volume(volume);
    }

    /// Returns all load balancers, sorted by ID.
    #[must_use]
    pub fn load_balancers(&self) -> Vec<LoadBalancer> {
        self.model().load_balancers()
    }

    /// Adds a load balancer as another program would. Its name and targets are not checked.
    pub fn add_load_balancer(&self, spec: LoadBalancerSpec) -> LoadBalancer {
        self.model().add_load_balancer(DEFAULT_PROJECT, spec)
    }

    /// Changes a load balancer, by ID or name, as an operator does in a console: at once, without an operation. Returns
    /// the changed load balancer; `None` if there is none.
    pub fn edit_load_balancer(
        &self,
        id_or_name: &str,
        change: LoadBalancerChange,
    ) -> Option<LoadBalancer> {
        self.model().edit_load_balancer(id_or_name, change)
    }

    /// Removes a load balancer, by ID or name, as an operator does; returns `false` if it does not exist.
    pub fn remove_load_balancer(&self, id_or_name: &str) -> bool {
        self.model().remove_load_balancer(id_or_name)
    }

    /// Sets whether the deletion of a load balancer, by ID or name, is refused. Returns `false` if the load balancer
    /// does not exist.
    pub fn protect_load_balancer(&self, id_or_name: &str, protected: bool) -> bool {
        let change = LoadBalancerChange {
            protected: Some(protected),
            ..LoadBalancerChange::default()
        };
        self.edit_load_balancer(id_or_name, change).is_some()
    }

    /// Sets whether the deletion of a route, by ID or range, is refused. Returns `false` if the route does not exist.
    pub fn protect_route(&self, id_or_destination: &str, protected: bool) -> bool {
        self.model().protect_route(id_or_destination, protected)
    }

    /// Returns all routes, sorted by ID.
    #[must_use]
    pub fn routes(&self) -> Vec<CloudRoute> {
        self.model().routes()
    }

    /// Adds a route as another program would.
    pub fn add_route(&self, route: NewRoute) -> CloudRoute {
        self.model().add_route(DEFAULT_PROJECT, route)
    }

    /// Removes a route, by ID, as an operator does; returns `false` if it does not exist.
    pub fn remove_route(&self, id: &str) -> bool {
        self.model().routes.remove(id).is_some()
    }

    /// Injects a fault, until its count is used up or [`clear_faults`](Self::clear_faults) is called.
    pub fn inject(&self, fault: Fault) {
        self.model().faults.push(fault);
    }

    /// Returns the active faults.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        self.model().faults.clone()
    }

    /// Removes all faults that were injected.
    pub fn clear_faults(&self) {
        self.model().faults.clear();
    }

    /// Returns the number of requests so far, by method and path template: `GET /v1/machines`.
    #[must_use]
    pub fn requests(&self) -> BTreeMap<String, u64> {
        self.model().requests.clone()
    }

    /// Starts counting requests from zero.
    pub fn reset_requests(&self) {
        self.model().requests.clear();
    }
}
