//! An in-memory Kubernetes API server for demos, tests and fault injection.
//!
//! It behaves like kube-apiserver v1.37 for the kinds that a cloud controller manager uses: resourceVersion and
//! conflicts, paging, watches with bookmarks, the four patch formats with field ownership, finalizers, defaults and
//! validation, discovery and tables, so that kube-rs and kubectl work against it. There is no etcd, no authentication
//! beyond tokens, no controller and no garbage collector.
//!
//! Tests use the server in their process, without a socket, also with a paused clock:
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use embedded_apiserver::{Action, ApiServer, Matcher};
//! use k8s_openapi::api::core::v1::Node;
//! use serde_json::json;
//!
//! let server = ApiServer::new();
//! server.seed(json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a"}}))?;
//! let client = kube::Client::new(server.service(), "default");
//! let nodes: kube::Api<Node> = kube::Api::all(client);
//! assert_eq!(nodes.list(&Default::default()).await?.items.len(), 1);
//!
//! // The next two writes to Nodes fail.
//! let status = Action::Status { code: 503, reason: "ServiceUnavailable".into(), message: "later".into(), retry_after_seconds: None };
//! server.faults().add(Matcher::any().verb("write").resource("nodes").times(2), status);
//! assert!(nodes.delete("a", &Default::default()).await.is_err());
//! assert_eq!(server.requests().count("delete", "nodes"), 1);
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
//! ```
//!
//! Over the network it is served by [`ApiServer::serve_tcp`] or [`ApiServer::serve_tls`]; [`kubeconfig`] writes the
//! file that kubectl reads. Faults can be injected over HTTP:
//!
//! ```text
//! curl -X POST $SERVER/_faults -d '{"match":{"verb":"patch","resource":"nodes","times":3},"action":{"status":{"code":500}}}'
//! curl -X POST $SERVER/_faults -d '{"match":{"resource":"nodes"},"action":"dropWatch"}'
//! curl -X POST $SERVER/_compact        # forget history: older watches are answered 410
//! curl $SERVER/_faults; curl -X DELETE $SERVER/_faults; curl $SERVER/_requests
//! ```

mod admission;
mod allocate;
mod control;
mod defaults;
mod discovery;
mod events;
mod faults;
mod fields;
mod handlers;
mod kubeconfig;
mod negotiate;
mod openapi;
mod patch;
mod request;
mod requests;
mod resources;
mod schema;
mod selectors;
mod serve;
mod server;
mod service;
mod status;
mod store;
mod strategy;
mod table;
mod tls;
mod validation;

pub use faults::{Action, Faults, Matcher, Rule};
pub use kubeconfig::kubeconfig;
pub use requests::{LoggedRequest, RequestLog};
pub use server::{ApiServer, Options, SeedError, User};
pub use service::{ApiService, ConnectionCut};
pub use tls::{Certificate, TlsError};
