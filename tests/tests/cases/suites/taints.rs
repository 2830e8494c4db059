//! Suite: helpers for taints.

use anyhow::Result;
use cloud_provider::{Node, Taint};
use controllers::taints::{Target, add_or_update_taints, remove_taints};
use runtime::api_error::api_error;
use runtime::node::NodeObject;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cases::api::{Api, ApiRequest};
use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::{
    ApiErrorKind, ErrorText, TaintForm, read, taints, take_function, unknown_function,
};

const NODE: &str = "node0";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    api_taints: Option<Vec<TaintForm>>,
    node_missing: Option<bool>,
    cached_taints: Option<Vec<TaintForm>>,
    taints: Option<Vec<TaintForm>>,
    patch_conflicts: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    error: Expected<Option<ErrorText>>,
    /// Null if there is no Node.
    #[serde(default)]
    taints: Expected<Option<Vec<TaintForm>>>,
    #[serde(default)]
    requests: Expected<Vec<String>>,
}

pub(super) async fn run(mut given: Value, expect: Value) -> Result<Comparison> {
    let function = take_function(&mut given)?;
    let given: Given = read("given", &given)?;
    let expect: Expect = read("expect", &expect)?;
    let api = Api::default();
    if !given.node_missing.unwrap_or(false) {
        api.seed(node(given.api_taints.as_deref()));
    }
    if let Some(times) = given.patch_conflicts {
        api.refuse(ApiRequest::is_patch, ApiErrorKind::Conflict, Some(times));
    }
    let nodes = kube::Api::<NodeObject>::all(api.client());
    let wanted = taints(&given.taints.unwrap_or_default());

    let target = Target {
        name: NODE,
        uid: None,
    };
    let result = match function.as_str() {
        "add_or_update" => add_or_update_taints(&nodes, target, &wanted).await,
        "remove" => {
            let cached = given
                .cached_taints
                .map(|list| serde_json::from_value::<Node>(node(Some(&list))))
                .transpose()?;
            remove_taints(&nodes, target, cached.as_ref(), &wanted).await
        }
        other => return Err(unknown_function(other, "add_or_update, remove")),
    };

    let mut comparison = Comparison::default();
    comparison.error(
        &expect.error,
        result
            .as_ref()
            .err()
            .map(|error| api_error(error).to_string())
            .as_deref(),
    );
    let found: Option<Node> = api.node(NODE).map(serde_json::from_value).transpose()?;
    let found: Option<Vec<Taint>> = found.map(|node| node.taints.into());
    comparison.key(
        "taints",
        &expect.taints.map(|list| list.map(|list| taints(&list))),
        &found,
    );
    let requests = api
        .requests()
        .into_iter()
        .map(|request| request.what)
        .collect();
    comparison.key("requests", &expect.requests, &requests);
    Ok(comparison)
}

/// Returns a Node with these taints, in API form.
fn node(list: Option<&[TaintForm]>) -> Value {
    let spec = list.map_or_else(|| json!({}), |list| json!({"taints": taints(list)}));
    json!({"metadata": {"name": NODE, "uid": "node-uid"}, "spec": spec, "status": {}})
}
