//! A simulated cloud as an HTTP service ([`cloud`]), and the provider that talks to it ([`provider`]).
//!
//! Use the cloud in tests, in the demo, and to see how a cluster reacts to failures of its cloud. The example for
//! vendors is `templates/provider`.
//!
//! # A cloud in a test
//!
//! ```
//! use provider_simulated::cloud::{Cloud, DEFAULT_TOKEN, Fault, FaultKind};
//! use provider_simulated::provider::Simulated;
//! use provider_kit::transport::{Credential, Transport};
//!
//! # fn main() -> cloud_provider::Result<()> {
//! let cloud = Cloud::default();
//! cloud.create_machines("worker-", 5);
//! cloud.inject(Fault::new(FaultKind::EmptyList).on("GET /v1/machines"));
//! // In-process: no sockets, and tokio's clock may be paused.
//! let transport = Transport::builder("http://simulated")
//!     .credential(Credential::token(DEFAULT_TOKEN))
//!     .service(cloud.router())
//!     .build()?;
//! let provider = Simulated::new(transport, None);
//! assert!(cloud.requests().is_empty());
//! # Ok(()) }
//! ```
//!
//! # Breaking the cloud by hand
//!
//! With `C=http://127.0.0.1:8080`, the address that the demo prints; machines are named by id or name:
//!
//! ```text
//! curl $C/admin/machines                                        # all machines, of all projects
//! curl $C/admin/machines --json '{"count": 20, "prefix": "worker-"}'
//! curl $C/admin/machines --json '{"name": "gpu-1", "type": "large", "zone": "sim-2a"}'
//! curl -X POST   $C/admin/machines/worker-1/stop                # also: start, terminate
//! curl -X DELETE $C/admin/machines/worker-2                     # the same as terminate
//! curl -X PATCH  $C/admin/machines/worker-3 --json '{"addresses": [{"type": "InternalIP", "address": "10.9.9.9"}]}'
//!
//! curl $C/admin/load-balancers                                  # all load balancers; drift: change or remove one by hand
//! curl -X PATCH  $C/admin/load-balancers/a17 --json '{"tier": "premium", "targets": []}'
//! curl -X PATCH  $C/admin/load-balancers/a17 --json '{"protected": true}'   # its deletion is refused; routes have it too
//! curl -X DELETE $C/admin/load-balancers/a17
//!
//! curl -X DELETE $C/admin/tokens/demo-token                     # the credential is revoked …
//! curl -X PUT    $C/admin/tokens/demo-token --json '{"project": "other"}'   # … or for another, empty project
//! curl -X PUT    $C/admin/tokens/demo-token --json '{"project": "demo"}'    # … and well again
//!
//! curl $C/admin/faults --json '{"kind": "latency", "milliseconds": 3000}'
//! curl $C/admin/faults --json '{"kind": "status", "status": 500, "route": "GET /v1/machines", "count": 10}'
//! curl $C/admin/faults --json '{"kind": "lost_answer", "route": "POST /v1/load-balancers", "count": 1}'
//! curl $C/admin/faults --json '{"kind": "missing_page", "page": 2}'         # the total gives it away …
//! curl $C/admin/faults --json '{"kind": "early_end", "without_total": true}'  # … unless it is left out
//! curl $C/admin/faults --json '{"kind": "empty_list"}'
//! curl $C/admin/faults --json '{"kind": "wrong_credentials"}'
//! curl $C/admin/faults --json '{"kind": "hang", "count": 1}'
//! curl $C/admin/faults                                          # what is switched on
//! curl -X DELETE $C/admin/faults                                # all well again
//!
//! curl -X PUT $C/admin/options --json '{"rate_limit": {"requests": 100, "seconds": 60}}'
//! curl -X PUT $C/admin/options --json '{"list_delay_milliseconds": 2000, "operation_milliseconds": 5000}'
//! curl -X PUT $C/admin/options --json '{"load_balancer_quota": 3}'
//! curl $C/admin/requests                                        # how many, by route; -X DELETE starts from zero
//! curl -X POST $C/admin/reset
//! ```
//!
//! A fault without `route` hits every route, one without `count` stays until it is cleared. The API itself, under `/v1`,
//! wants the token: `curl -H 'Authorization: Bearer demo-token' "$C/v1/machines?page=1&per_page=50"`.

pub mod cloud;
pub mod provider;
