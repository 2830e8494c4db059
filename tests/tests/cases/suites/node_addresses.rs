//! Suite: helpers for node addresses.

use anyhow::Result;
use cloud_provider::{add_addresses, addresses_for_node_ip};
use serde::Deserialize;
use serde_json::Value;

use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::{
    Address, ErrorText, addresses, node_addresses, read, take_function, unknown_function,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Add {
    existing: Option<Vec<Address>>,
    add: Option<Vec<Address>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FromNodeIp {
    node_ip: Option<String>,
    addresses: Option<Vec<Address>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    error: Expected<Option<ErrorText>>,
    /// Expected addresses; null on error.
    #[serde(default)]
    addresses: Expected<Option<Vec<Address>>>,
}

pub(super) fn run(mut given: Value, expect: &Value) -> Result<Comparison> {
    let expect: Expect = read("expect", expect)?;
    let result = match take_function(&mut given)?.as_str() {
        "add_to_node_addresses" => {
            let given: Add = read("given", &given)?;
            let mut list = node_addresses(given.existing);
            add_addresses(&mut list, node_addresses(given.add));
            Ok(list)
        }
        "from_node_ip" => {
            let given: FromNodeIp = read("given", &given)?;
            addresses_for_node_ip(
                &given.node_ip.unwrap_or_default(),
                &node_addresses(given.addresses),
            )
        }
        other => {
            return Err(unknown_function(
                other,
                "add_to_node_addresses, from_node_ip",
            ));
        }
    };
    let mut comparison = Comparison::default();
    comparison.error(
        &expect.error,
        result.as_ref().err().map(ToString::to_string).as_deref(),
    );
    comparison.key(
        "addresses",
        &expect.addresses,
        &result.ok().map(|list| addresses(&list)),
    );
    Ok(comparison)
}
