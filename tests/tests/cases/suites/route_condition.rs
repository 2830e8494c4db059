//! The write of a Node's condition `NetworkUnavailable`.

use anyhow::{Result, ensure};
use controllers::route::condition::{RouteCondition, write};
use jiff::Timestamp;
use runtime::api_error::api_error;
use runtime::node::NodeObject;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cases::api::{Api, ApiRequest};
use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::{ApiError, ApiErrorKind, ErrorText, read};
use crate::cases::world::node;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    conditions: Option<Value>,
    #[serde(default)]
    routes_created: bool,
    patch_conflicts: Option<u32>,
    patch_error: Option<ApiError>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    patch_attempts: Expected<usize>,
    /// Null if nothing was patched.
    #[serde(default)]
    patched_condition: Expected<Option<Condition>>,
    #[serde(default)]
    error: Expected<Option<ErrorText>>,
}

/// A condition, expected or patched.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Condition {
    /// Only where a case has several Nodes.
    #[serde(default)]
    pub(super) node: String,
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: String,
    message: String,
}

impl Condition {
    /// Reads the condition that a patch of `nodes/NAME/status` writes.
    ///
    /// # Errors
    /// If it writes anything but one condition, with both times and now (ROUTE-45).
    pub(super) fn of(request: &ApiRequest, node: &str) -> Result<Self> {
        ensure!(
            request.what == "patch nodes/status",
            "the condition is written by {:?}",
            request.what
        );
        let Value::Object(mut fields) = request.body["status"]["conditions"][0].clone() else {
            anyhow::bail!("{} is no patch of a condition", request.body);
        };
        let only_this = json!({"status": {"conditions": [fields]}});
        ensure!(
            request.body == only_this,
            "{} has more than a condition",
            request.body
        );
        let times: Vec<Option<Value>> = ["lastHeartbeatTime", "lastTransitionTime"]
            .map(|time| fields.remove(time))
            .into();
        let time = times[0]
            .as_ref()
            .and_then(Value::as_str)
            .unwrap_or_default();
        ensure!(
            times[0] == times[1] && time.parse::<Timestamp>().is_ok(),
            "{} lacks a time",
            request.body
        );
        ensure!(
            time.len() == "2024-01-01T00:00:00Z".len(),
            "{time} is not in whole seconds"
        );
        fields.insert("node".to_owned(), json!(node));
        read("patch", &Value::Object(fields))
    }
}

pub(super) async fn run(given: Value, expect: Value) -> Result<Comparison> {
    let given: Given = read("given", &given)?;
    let expect: Expect = read("expect", &expect)?;
    let api = Api::default();
    let status = given
        .conditions
        .map_or_else(|| json!({}), |conditions| json!({"conditions": conditions}));
    let node = node(&api.seed(json!({"metadata": {"name": "node0"}, "status": status})))?;
    if let Some(times) = given.patch_conflicts {
        api.refuse(ApiRequest::is_patch, ApiErrorKind::Conflict, Some(times));
    }
    if let Some(error) = given.patch_error {
        api.refuse(ApiRequest::is_patch, error.kind, None);
    }

    let condition = if given.routes_created {
        RouteCondition::Created
    } else {
        RouteCondition::NotCreated
    };
    let nodes = kube::Api::<NodeObject>::all(api.client());
    let result = write(&nodes, &node, condition, Timestamp::now()).await;

    let requests = api.requests();
    let patched = requests
        .last()
        .map(|request| Condition::of(request, ""))
        .transpose()?;
    let mut comparison = Comparison::default();
    comparison.key("patch_attempts", &expect.patch_attempts, &requests.len());
    comparison.key("patched_condition", &expect.patched_condition, &patched);
    comparison.error(
        &expect.error,
        result
            .err()
            .map(|error| api_error(&error).to_string())
            .as_deref(),
    );
    Ok(comparison)
}
