//! Credentials, endpoints and the query protocol of AWS.
//!
//! [`Aws`] holds one [`Client`] for each API. A [`Query`] names an action and its parameters; answers are XML, and become
//! serde structs: numbers and booleans as such, lists from `item` and `member` elements, empty elements as empty values.
//!
//! ```no_run
//! use aws_protocol::{Aws, Query, Settings};
//! use cloud_provider::{Result, Setup};
//! use provider_kit::inventory::SharedPriority;
//! use provider_kit::paging::ListResult;
//! use serde::Deserialize;
//!
//! #[derive(Default, Deserialize)]
//! #[serde(rename_all = "camelCase", default)]
//! struct Subnet {
//!     subnet_id: String,
//!     available_ip_address_count: u32,
//! }
//!
//! async fn subnets(setup: &Setup) -> Result<ListResult<Subnet>> {
//!     let aws = Aws::new(setup, Settings { region: Some("eu-central-1".into()), ..Settings::default() }, |http| http)?;
//!     let query = Query::new("DescribeSubnets").filter("vpc-id", ["vpc-1"]).page(1000);
//!     aws.ec2.list(query, "subnetSet", &SharedPriority::default(), |it: Subnet| it, |it| it.subnet_id.clone()).await
//! }
//! ```

mod chain;
mod client;
mod connection;
mod endpoint;
mod profile;
mod query;
mod refusal;
mod source;

pub use client::{Aws, Client, Settings};
pub use endpoint::ServiceOverride;
pub use query::Query;
