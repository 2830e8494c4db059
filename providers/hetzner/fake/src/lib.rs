//! A stateful fake of Hetzner's APIs, for tests: Cloud API, Robot and metadata service, as one axum router over one
//! small model, with controls for tests. A [`FaultInjector`] injects faults and counts requests.
//!
//! ```
//! use hetzner_fake::{Fake, Fault};
//!
//! let fake = Fake::default();
//! let server = fake.add_server("worker-1");
//! let network = fake.add_network("kubernetes", "10.0.0.0/8");
//! fake.attach("worker-1", network);
//! fake.fail(Fault::code("POST /load_balancers", "resource_unavailable").times(2));
//! let apis = fake.router();
//! # drop(apis);
//! assert_eq!(fake.count("GET /servers"), 0);
//! assert_eq!(fake.server("worker-1").map(|it| it.id), Some(server.id));
//! ```
//!
//! Routes are named by method and path template, without the `/v1` of the cloud's API: `GET /servers/{id}`; Robot's are
//! `GET /server/{number}`, the metadata service's `GET /hetzner/v1/metadata/private-networks`.

mod actions;
mod admission;
mod balancer_actions;
mod balancer_services;
mod balancer_targets;
mod balancers;
mod catalogue;
mod certificates;
mod controls;
mod lists;
mod metadata;
mod model;
mod networks;
mod refusal;
mod robot;
mod routes;
mod servers;

use std::time::Duration;

pub use actions::Action;
pub use balancer_services::{HealthCheck, HealthCheckHttp, Http, Service};
pub use balancer_targets::Target;
pub use balancers::{Balancer, PrivateNet, PublicIp};
pub use catalogue::{BalancerType, LOCATIONS, Location};
pub use certificates::Certificate;
pub use fake_cloud::{Fault, FaultInjector, FaultKind, Port, Recorded, Refused, Served};
use model::Model;
pub use networks::{Network, Route, Subnet};
pub use robot::RobotServer;
pub use servers::{Server, ServerNet};

/// The token of the default project. A fake's token is no secret. It has the 64 characters of a real one.
pub const TOKEN: &str = "fake-token-of-sixty-four-characters-which-nobody-else-would-ever";
/// The project of [`TOKEN`].
pub const PROJECT: &str = "default";
/// User of the Robot API.
pub const ROBOT_USER: &str = "#ws+fake";
/// Robot's password. A fake's password is no secret.
pub const ROBOT_PASSWORD: &str = "fake-robot-password";

/// Behaviour of the APIs.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Duration of an action; zero: the action has ended when the response is sent. Its changes apply at once.
    pub action_time: Duration,
    /// Rate limit in requests per hour, which are refilled evenly.
    pub limit: u32,
    /// Requests that are left at the start.
    pub remaining: u32,
    /// While an action of a network runs, another one is answered `conflict`.
    pub busy_networks: bool,
    /// While an action of a load balancer runs, another one is answered `locked`.
    pub busy_balancers: bool,
    /// The most routes of a network.
    pub network_routes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            action_time: Duration::from_secs(1),
            limit: 3600,
            remaining: 3600,
            busy_networks: true,
            busy_balancers: false,
            network_routes: 100,
        }
    }
}

fake_cloud::fake!(Fake(Model, Options));
