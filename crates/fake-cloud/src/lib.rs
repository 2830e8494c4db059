//! Building blocks that fakes of clouds share, for tests.
//!
//! A fake is a *model*, the state of the cloud, and a table of *handlers*, each of which answers one request of the
//! cloud's API: `fn(&mut Model, &ApiRequest) -> Result<Reply, Refusal>`. Its implementation of [`Cloud`] decides who
//! may send requests, and how the API words a refusal. In return it gets
//!
//! * a router, in the process or on a port ([`Handle`], [`Port`]),
//! * a record of all requests, and faults that tests inject ([`FaultInjector`], [`Fault`]),
//! * paged lists, with the faults that they may have ([`Page`]),
//! * objects by kind and account ([`Objects`]), operations in the background ([`Operations`]), a clock ([`Clock`]) and
//!   a rate limit ([`Bucket`]),
//! * a program that serves the fake and changes it by commands ([`console`]).
//!
//! Times are tokio's, so that they may be virtual.
//!
//! ```
//! use fake_cloud::{ApiRequest, Cloud, Fault, Handle, Refused, Reply, Routes};
//! use serde_json::json;
//!
//! /// A cloud that has machines.
//! struct Acme(Vec<String>);
//!
//! impl Cloud for Acme {
//!     type Service = ();
//!     type Refusal = Refused;
//!     const ROUTES: &'static [Routes<Self>] =
//!         &[Routes { prefix: "/v1", service: (), table: &[("GET", "/machines", |acme, _| Ok(Reply::new(200, json!(acme.0))))] }];
//!
//!     fn admit(&mut self, request: &mut ApiRequest<()>) -> Result<(), Refused> {
//!         match request.header("authorization") {
//!             Some("Bearer token") => Ok(()),
//!             _ => Err(Refused::new(401, "unauthorized", "the token is not known")),
//!         }
//!     }
//!     fn render_refusal(_: &ApiRequest<()>, refused: Refused) -> Reply {
//!         Reply::new(refused.status.unwrap_or(500), json!({"error": {"code": refused.code, "message": refused.message}}))
//!     }
//! }
//!
//! let acme = Handle::new(Acme(Vec::new()));
//! acme.lock().0.push("worker-1".to_owned());
//! acme.fault_injector().fail(Fault::status("GET /machines", 502).times(1));
//! let router = acme.router();
//! # drop(router);
//! assert_eq!(acme.fault_injector().count("GET /machines"), 0);
//! ```

mod bucket;
mod clock;
mod cloud;
pub mod console;
mod fault;
mod fault_injector;
mod objects;
mod operation;
mod page;
mod port;
mod request;
mod routes;

pub use bucket::{Allowance, Bucket};
pub use clock::Clock;
pub use cloud::{Cloud, Handle};
pub use fault::{Effects, Fault, FaultKind, Refused, check, refuse};
pub use fault_injector::{FaultInjector, Recorded};
pub use objects::{Objects, array, merge, text};
pub use operation::{Operation, Operations};
pub use page::{Next, Page};
pub use port::{Port, Served};
pub use request::{ApiRequest, Reply};
pub use routes::{Handler, Route, Routes};
