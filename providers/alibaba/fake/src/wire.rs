//! The forms of requests: both signatures, parameters in the query or in a form, which become JSON.

use axum::extract::Query;
use bytes::Bytes;
use fake_cloud::{Refused, Reply};
use http::{Method, Request, Uri, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

/// Versions of the APIs, and the prefixes of their paths.
const VERSIONS: [(&str, &str); 7] = [
    ("2014-05-26", "ecs"),
    ("2014-05-15", "slb"),
    ("2022-04-30", "nlb"),
    ("2016-04-28", "vpc"),
    ("2015-04-01", "sts"),
    ("2017-09-12", "cbn"),
    ("2022-12-15", "eflo"),
];
/// Parameters of the older signature.
const SYSTEM: [&str; 9] = [
    "Action",
    "Version",
    "Format",
    "AccessKeyId",
    "SignatureMethod",
    "SignatureVersion",
    "SignatureNonce",
    "Timestamp",
    "Signature",
];

/// Returns a request of the API as one that the fake's router takes: `POST /` with the action `DescribeInstances` is
/// `GET /ecs/DescribeInstances` with its parameters in JSON. Requests without an action, which are those of the metadata
/// service, stay as they are.
pub async fn rest<B: http_body::Body>(request: Request<B>) -> Request<Full<Bytes>> {
    let (mut head, body) = request.into_parts();
    let form = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    if head.uri.path() != "/" {
        return Request::from_parts(head, Full::new(form));
    }
    let query = head.uri.query().unwrap_or_default().to_owned();
    let all = format!("{query}&{}", String::from_utf8_lossy(&form));
    // An address cannot be as long as all parameters.
    let pairs = all
        .split('&')
        .filter(|part| !part.is_empty())
        .map(|pair| format!("/?{pair}"));
    let pairs = pairs.filter_map(|pair| {
        Query::<Vec<(String, String)>>::try_from_uri(&Uri::try_from(pair).ok()?).ok()
    });
    let parameters: Vec<_> = pairs.flat_map(|Query(pairs)| pairs).collect();
    let value = |key: &str| {
        parameters
            .iter()
            .find(|(parameter, _)| parameter == key)
            .map(|(_, value)| value.as_str())
    };
    let header = |name: &str| {
        head.headers
            .get(name)
            .and_then(|header| header.to_str().ok())
    };
    let [action, version] = match value("Action") {
        Some(action) => [action, value("Version").unwrap_or_default()],
        None => [
            header("x-acs-action").unwrap_or_default(),
            header("x-acs-version").unwrap_or_default(),
        ],
    };
    let Some((_, product)) = VERSIONS.iter().find(|(known, _)| *known == version) else {
        return Request::from_parts(head, Full::new(form));
    };
    head.method = match action {
        _ if ["Describe", "List", "Get", "AssumeRole"]
            .iter()
            .any(|assume_role| action.starts_with(assume_role)) =>
        {
            Method::GET
        }
        _ if action.starts_with("Delete") => Method::DELETE,
        _ => Method::POST,
    };
    let key = value("AccessKeyId").map(|id| format!("Credential={id},"));
    let narrow = [
        "LoadBalancerName",
        "LoadBalancerNames.1",
        "LoadBalancerId",
        "LoadBalancerIds.1",
    ];
    let is_narrow = action == "DescribeLoadBalancers" || action == "ListLoadBalancers";
    let is_narrow = is_narrow
        && (narrow.iter().any(|narrow| value(narrow).is_some())
            || value("Tag.1.Key").is_some_and(|text| text != "ack.aliyun.com"));
    let path = format!(
        "/{product}/{action}{}",
        if is_narrow { "/some" } else { "" }
    );
    head.uri = Uri::try_from(path).unwrap_or_default();
    head.headers.remove(header::CONTENT_LENGTH);
    if let Some(key) = key.and_then(|key| key.parse().ok()) {
        head.headers.insert(header::AUTHORIZATION, key);
    }
    let body = nested(
        parameters
            .into_iter()
            .filter(|(key, _)| !SYSTEM.contains(&key.as_str())),
    );
    Request::from_parts(head, Full::new(body.to_string().into()))
}

/// Returns `Tag.1.Key=a` as `{"Tag": [{"Key": "a"}]}`. A text that is JSON is read.
fn nested(parameters: impl Iterator<Item = (String, String)>) -> Value {
    let mut tree = json!({});
    for (key, value) in parameters {
        let mut at = &mut tree;
        for part in key.split('.') {
            if !at.is_object() {
                *at = json!({});
            }
            at = &mut at[part];
        }
        let is_json = value.starts_with(['[', '{']);
        *at = if is_json {
            serde_json::from_str(&value).unwrap_or_default()
        } else {
            value.into()
        };
    }
    listed(tree)
}

fn listed(object: Value) -> Value {
    let Value::Object(fields) = object else {
        return object;
    };
    let mut items: Vec<_> = fields
        .iter()
        .filter_map(|(key, value)| Some((key.parse::<u32>().ok()?, value)))
        .collect();
    if items.is_empty() {
        return fields
            .into_iter()
            .map(|(key, value)| (key, listed(value)))
            .collect();
    }
    items.sort_by_key(|(number, _)| *number);
    items
        .into_iter()
        .map(|(_, value)| listed(value.clone()))
        .collect()
}

/// Returns an answer without the fields that are only the fake's.
pub(crate) fn answer(mut fields: Value) -> Reply {
    strip(&mut fields);
    fields["RequestId"] = "5F3E0A1C-0000-4000-8000-000000000000".into();
    Reply::new(200, fields)
}

fn strip(object: &mut Value) {
    match object {
        Value::Object(fields) => {
            fields.retain(|key, value| !key.starts_with('_') && !value.is_null());
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

/// Statuses of codes that are not answered with 400.
const STATUSES: [(u16, &str); 4] = [
    (404, ".NotFound"),
    (503, "ServiceUnavailable"),
    (500, "InternalError"),
    (403, "Forbidden"),
];

/// Returns a refusal in the form of the APIs.
pub(crate) fn refusal(refused: &Refused) -> Reply {
    let is_plain = refused.code.is_empty() || refused.code == "OnPurpose";
    let code = match refused.status {
        Some(401) if is_plain => "InvalidAccessKeyId.NotFound",
        Some(403) if is_plain => "Forbidden.RAM",
        Some(429) if is_plain => "Throttling.User",
        Some(500..) if is_plain => "InternalError",
        Some(_) if is_plain => "InvalidParameter",
        _ => &refused.code,
    };
    let usual = STATUSES
        .iter()
        .find(|(_, part)| code.contains(part))
        .map_or(400, |status| status.0);
    let body = json!({"Code": code, "Message": refused.message, "HostId": "fake.aliyuncs.com",
        "RequestId": "5F3E0A1C-0000-4000-8000-000000000000"});
    Reply::new(refused.status.unwrap_or(usual), body)
}
