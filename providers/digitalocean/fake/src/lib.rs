//! A stateful fake of DigitalOcean's API, for tests: one axum router over one small model, with controls for tests. A
//! [`FaultInjector`] injects faults and counts requests.
//!
//! ```
//! use digitalocean_fake::{Fake, Fault};
//!
//! let fake = Fake::default();
//! let droplet = fake.add_droplet("worker-1");
//! fake.fail(Fault::code("POST /load_balancers", "unprocessable_entity").times(2));
//! let router = fake.router();
//! # drop(router);
//! assert_eq!(fake.count("GET /droplets"), 0);
//! assert_eq!(fake.droplet("worker-1").map(|it| it.id), Some(droplet.id));
//! ```
//!
//! Routes are named by method and path template, without the `/v2` of the API: `GET /droplets/{id}`; that of the metadata
//! service is `GET /metadata/v1/region`.

mod catalog;
mod controls;
mod droplets;
mod firewalls;
mod load_balancers;
mod model;
mod settings;
mod tags;

use std::time::Duration;

pub use droplets::Droplet;
pub use fake_cloud::{Fault, FaultInjector, FaultKind, Port, Recorded, Refused, Served};
use model::Model;

/// The token of the account that owns all objects. A fake's token is no secret.
pub const TOKEN: &str = "dop_v1_fake-token-which-nobody-else-would-ever-use";
/// The account of [`TOKEN`].
pub const ACCOUNT: &str = "default";
/// The region of every object.
pub const REGION: &str = "fra1";
/// The default VPC of the region, in which droplets are created.
pub const VPC: &str = "c33931f2-a26a-4e61-b85c-4e95a2ec431b";

/// The time for which a new or resized load balancer cannot be resized.
pub const RESIZE_INTERVAL: Duration = Duration::from_secs(3600);

/// Behaviour of the API.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Time for which a new load balancer has the status `new` and no address.
    pub creation_time: Duration,
    /// Time for which a changed load balancer refuses further changes.
    pub change_time: Duration,
    /// Maximum number of requests an hour.
    pub limit: u32,
    /// Requests that are left at the start.
    pub remaining: u32,
}

impl Default for Options {
    fn default() -> Self {
        let creation_time = Duration::from_secs(30);
        let change_time = Duration::from_secs(1);
        Self {
            creation_time,
            change_time,
            limit: 5000,
            remaining: 5000,
        }
    }
}

fake_cloud::fake!(Fake(Model, Options));
