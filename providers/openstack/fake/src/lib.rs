//! A stateful fake of OpenStack's APIs, for tests: Keystone, Nova, Neutron, Octavia and Barbican as one axum router
//! over one small model, with controls for tests. A [`FaultInjector`] injects faults and counts requests. Shapes,
//! states and messages are those of release 2026.2.
//!
//! ```
//! use openstack_fake::{Fake, Fault};
//!
//! let fake = Fake::default();
//! let network = fake.add_network("k8s-net", "10.6.0.0/16");
//! let server = fake.add_server("worker-1", &network);
//! fake.fail(Fault::refused("POST /lbaas/loadbalancers", 503).times(2));
//! let service = fake.router(); // http://openstack/identity/v3/auth/tokens and so on
//! # drop(service);
//! assert_eq!(fake.count("GET /servers/detail"), 0);
//! assert_eq!(fake.server("worker-1").map(|it| it.id), Some(server.id));
//! ```
//!
//! Everything is under one host: `/identity/v3`, `/compute/v2.1`, `/network/v2.0`, `/load-balancer/v2.0`, `/key-manager/v1`.
//! Routes are named by method and path template without these: `GET /servers/{id}`, `PUT /lbaas/loadbalancers/{id}`,
//! `POST /auth/tokens`.

mod admission;
mod attributes;
mod balancers;
mod barbican;
mod controls;
mod floating_ips;
mod keystone;
mod listeners;
mod members;
mod model;
mod monitors;
mod networks;
mod octavia;
mod pages;
mod pools;
mod ports;
mod refusal;
mod requests;
mod routers;
mod routes;
mod security_groups;
mod servers;
mod shown;

use std::time::Duration;

pub use controls::{Network, Server};
pub use fake_cloud::{Fault, FaultInjector, FaultKind, Port, Recorded, Refused, Served};
use model::Model;

/// Endpoint of all services, unless [`Options::endpoint`] is set.
pub const ENDPOINT: &str = "http://openstack";
/// The region of the catalogue.
pub const REGION: &str = "RegionOne";
/// Name of the user.
pub const USER: &str = "k8s";
/// ID of the user.
pub const USER_ID: &str = "0000000a-user";
/// The user's password. A fake's password is no secret.
pub const PASSWORD: &str = "fake-password";
/// The domain of users and projects, `default` by id.
pub const DOMAIN: &str = "Default";
/// The name of the project that owns all objects.
pub const PROJECT: &str = "k8s";
/// ID of the project.
pub const PROJECT_ID: &str = "9d00b4f98d6b4ab0a2b05461a2ea25ad";
/// The id of an application credential of [`USER`] for [`PROJECT`]; its name is `ccm`.
pub const APPLICATION_CREDENTIAL: &str = "bbd1611c5fe04ce7bfeb088332b3bde1";
/// Secret of the application credential. A fake's secret is no secret.
pub const APPLICATION_SECRET: &str = "fake-application-credential-secret";
/// The id of a trust for [`PROJECT`] that [`USER`] was given.
pub const TRUST: &str = "6b6e5d4c3b2a19087f6e5d4c3b2a1908";

/// Behaviour of the cloud.
#[derive(Clone, Debug)]
pub struct Options {
    /// Endpoint of the cloud: scheme and host of the catalogue's endpoints and of links.
    pub endpoint: String,
    /// Lifetime of a token.
    pub token_life: Duration,
    /// Time for which a new load balancer is `PENDING_CREATE`.
    pub create_time: Duration,
    /// Time for which any other change keeps a load balancer `PENDING_UPDATE`.
    pub update_time: Duration,
    /// Time for which a deleted load balancer is `PENDING_DELETE`.
    pub delete_time: Duration,
    /// Maximum number of objects on a page, in all lists, whatever the client requests.
    pub page_size: usize,
    /// Minor number of Nova's highest microversion, which is 2.x.
    pub microversion: u32,
    /// Minor number of Octavia's version, which is 2.x.
    pub octavia: u32,
    /// Provider drivers of Octavia.
    pub providers: Vec<String>,
    /// If set, Octavia accepts whole load balancers in one request, and batches of members.
    pub bulk: bool,
    /// If set, Neutron has the extension `extraroute-atomic`.
    pub atomic_routes: bool,
    /// If set, Neutron has the extension `extraroute`.
    pub routes: bool,
    /// If set, Neutron has the extension `allowed-address-pairs`.
    pub address_pairs: bool,
    /// If set, the user may choose the address of a floating IP.
    pub admin: bool,
    /// If set, the cloud has a Barbican.
    pub barbican: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            endpoint: ENDPOINT.to_owned(),
            token_life: Duration::from_secs(3600),
            create_time: Duration::from_millis(9700),
            update_time: Duration::from_millis(1300),
            delete_time: Duration::from_millis(3700),
            page_size: 1000,
            microversion: 104,
            octavia: 30,
            providers: ["amphora", "octavia", "ovn"].map(str::to_owned).to_vec(),
            bulk: true,
            atomic_routes: true,
            routes: true,
            address_pairs: true,
            admin: false,
            barbican: true,
        }
    }
}

fake_cloud::fake!(Fake(Model, Options));
