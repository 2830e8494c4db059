//! Building blocks that cloud providers share, so that a provider contains only what is particular to its cloud.
//!
//! | module | purpose |
//! |---|---|
//! | [`transport`] | HTTP with credential, timeouts, bounded retries, pauses, metrics; failures as [`cloud_provider::Error`] |
//! | [`tokens`] | tokens that expire: requested once for all callers, renewed in time, replaced with their credential |
//! | [`paging`] | lists read page by page, with proof that they are complete |
//! | [`inventory`] | all machines, read once and shared: [`Instances`](cloud_provider::Instances) for any cloud that can list |
//! | [`load_balancers`] | ordered operations from the desired state of a Service: [`LoadBalancers`](cloud_provider::LoadBalancers) for any cloud |
//! | [`breaker`] | circuit breaker for an API that punishes requests after a refusal |
//! | [`operation`] | waiting for work that a cloud does in the background |
//! | [`declared`], [`annotations`], [`variables`] | annotations and environment variables: one declaration gives getter, checks and reference page |
//! | [`node_selector`], [`source_ranges`], [`health_check`] | other settings of a Service for its load balancer |
//! | [`cluster`] | the controllers' view of the cluster, for all parts of a provider |
//! | [`endpoint_nodes`] | the endpoints of a Service, or the Nodes on which it has some, with a sync when they change |
//! | [`node_ipam`] | Pod CIDRs for Nodes that have none |
//! | [`events`] | events on Nodes and Services |
//! | [`checks`] | checks of `doctor` that every provider has |
//! | [`catalog`] | cached lists with look-ups by ID, name or tag, and the error that lists what exists |
//! | [`series`](mod@series), [`instrumented`] | metric series of a provider's own; counters of its calls |
//! | [`cached`] | values that are cached for a while and shared by all callers |
//! | [`streamed`] | long lists in an answer, read item by item |
//! | [`shared_document`] | cloud objects that many Services change: one writer, many edits in one write |
//! | [`coalescer`] | merging of requests of concurrent callers, such as many small changes of one object |
//! | [`json_path`] | writing into JSON of any form |
//! | [`key_pair`] | certificates with their keys, from Secrets |
//! | [`keyed_lock`] | locks by key: callers that change the same object take turns |
//! | [`routes`] | [`Routes`](cloud_provider::Routes) for any cloud that can list, add and remove routes |
//! | [`firewall`] | firewall rules: normal form, comparison, rules to add and to remove |
//! | [`provider_id`], [`addresses`], [`labels`] | provider IDs; addresses of a Node; label values |
//! | [`reserved_addresses`] | addresses that no Service may request |
//! | [`status`] | status of a Service |
//! | [`text_tags`] | owner tags for clouds whose tags have no values |
//! | [`signing`] | signatures over requests |
//! | [`settings`], [`document`], [`gcfg`] | the configuration file, in YAML, in the vendors' JSON or YAML, or in git's form |
//!
//! ```
//! use provider_kit::transport::{Call, Transport};
//!
//! # #[derive(serde::Deserialize)] struct Project { name: String }
//! # async fn example() -> cloud_provider::Result<()> {
//! let cloud = Transport::builder("http://127.0.0.1:8080").build()?;
//! let project: Project = cloud.read(Call::get("/v1/projects/{id}", &["17"])).await?;
//! # Ok(()) }
//! ```

pub mod addresses;
pub mod annotations;
pub mod breaker;
pub mod cached;
pub mod catalog;
pub mod checks;
pub mod cluster;
pub mod coalescer;
pub mod declared;
pub mod document;
pub mod endpoint_nodes;
pub mod events;
pub mod firewall;
pub mod gcfg;
pub mod health_check;
pub mod instrumented;
pub mod inventory;
pub mod json_path;
pub mod key_pair;
pub mod keyed_lock;
pub mod labels;
pub mod load_balancers;
pub mod node_ipam;
pub mod node_selector;
pub mod operation;
pub mod paging;
pub mod provider_id;
pub mod reserved_addresses;
pub mod routes;
pub mod series;
pub mod settings;
pub mod shared_document;
pub mod signing;
pub mod source_ranges;
pub mod status;
pub mod streamed;
pub mod text_tags;
pub mod tokens;
pub mod transport;
pub mod variables;
