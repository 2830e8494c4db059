//! The query protocol: forms in, XML out. Handlers see neither: a form becomes JSON under a path of its own, and their JSON
//! becomes XML.

use axum::extract::Query;
use bytes::Bytes;
use fake_cloud::{Refused, Reply};
use http::{Method, Request, Uri, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use crate::{ApiRequest, service};

/// Versions of the APIs, and the prefixes of their paths.
const VERSIONS: [(&str, &str); 4] = [
    ("2016-11-15", "ec2"),
    ("2012-06-01", "elb"),
    ("2015-12-01", "elbv2"),
    ("2011-06-15", "sts"),
];
/// The longest form that is repeated in the query of a read.
const QUERY: usize = 8_000;

/// Returns a request of the query protocol as one that the fake's router takes: `POST /` with the form of `DescribeInstances`
/// is `GET /ec2/DescribeInstances` with its parameters in JSON. A list of load balancers by name or ARN has `/named` after it.
/// Requests without a form, which are those of the metadata service, stay as they are.
pub async fn rest<B: http_body::Body>(request: Request<B>) -> Request<Full<Bytes>> {
    let (mut head, body) = request.into_parts();
    let form = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    // An address cannot be as long as a form.
    let pairs = form
        .split(|form| *form == b'&')
        .map(|pair| format!("/?{}", String::from_utf8_lossy(pair)));
    let pairs = pairs.filter_map(|pair| {
        Query::<Vec<(String, String)>>::try_from_uri(&Uri::try_from(pair).ok()?).ok()
    });
    let parameters: Vec<_> = pairs.flat_map(|Query(pairs)| pairs).collect();
    let value = |key: &str| {
        parameters
            .iter()
            .find(|(parameter, _)| parameter == key)
            .map_or("", |(_, value)| value.as_str())
    };
    let Some((_, service)) = VERSIONS
        .iter()
        .find(|(version, _)| *version == value("Version"))
    else {
        return Request::from_parts(head, Full::new(form));
    };
    let action = value("Action");
    head.method = match action {
        _ if ["Describe", "Get", "AssumeRole"]
            .iter()
            .any(|assume_role| action.starts_with(assume_role)) =>
        {
            Method::GET
        }
        _ if action.starts_with("Delete") => Method::DELETE,
        _ => Method::POST,
    };
    let names = ["Names.", "LoadBalancerNames.", "LoadBalancerArns."];
    let is_named = parameters
        .iter()
        .any(|(key, _)| names.iter().any(|name| key.starts_with(name)));
    let named = if action == "DescribeLoadBalancers" && is_named {
        "/named"
    } else {
        ""
    };
    let query = String::from_utf8_lossy(&form);
    let query = if head.method == Method::GET && query.len() < QUERY {
        format!("?{query}")
    } else {
        String::new()
    };
    head.uri = Uri::try_from(format!("/{service}/{action}{named}{query}")).unwrap_or_default();
    head.headers.remove(header::CONTENT_LENGTH);
    let body = nested(
        parameters
            .into_iter()
            .filter(|(key, _)| key != "Action" && key != "Version"),
    );
    Request::from_parts(head, Full::new(body.to_string().into()))
}

/// Returns `Filter.1.Name=a` as `{"Filter": [{"Name": "a"}]}`; `member` is not part of the names.
fn nested(parameters: impl Iterator<Item = (String, String)>) -> Value {
    let mut tree = json!({});
    for (key, value) in parameters {
        let mut at = &mut tree;
        for part in key.split('.').filter(|part| *part != "member") {
            if !at.is_object() {
                *at = json!({});
            }
            at = &mut at[part];
        }
        *at = value.into();
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

/// Writes JSON as XML: fields that begin with an underscore and nulls are left out, and elements of lists are called `item`.
fn write(value: &Value, item: &str) -> String {
    let element = |name: &str, value: &Value| format!("<{name}>{}</{name}>", write(value, item));
    match value {
        Value::Object(fields) => {
            let shown = fields
                .iter()
                .filter(|(name, value)| !name.starts_with('_') && !value.is_null());
            shown.map(|(name, value)| element(name, value)).collect()
        }
        Value::Array(items) => items.iter().map(|value| element(item, value)).collect(),
        Value::String(text) => text
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;"),
        other => other.to_string(),
    }
}

fn reply(status: u16, answer: &Value, item: &str) -> Reply {
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}",
        write(answer, item)
    );
    Reply::text(status, "text/xml;charset=UTF-8", text)
}

/// Returns the answer of an action.
pub(crate) fn answer(request: &ApiRequest, action: &str, mut fields: Value) -> Reply {
    let name = format!("{action}Response");
    match service(request) {
        "latest" => Reply::text(200, "text/plain", fields.as_str().unwrap_or_default()),
        "ec2" => {
            fields["requestId"] = "5f3e0a1c".into();
            reply(200, &json!({name: fields}), "item")
        }
        _ => {
            let metadata = json!({"RequestId": "5f3e0a1c"});
            reply(
                200,
                &json!({name: {format!("{action}Result"): fields, "ResponseMetadata": metadata}}),
                "member",
            )
        }
    }
}

/// Codes of faults that only have a status: of EC2, and of the others.
fn code_of(status: u16) -> [&'static str; 2] {
    match status {
        401 => ["AuthFailure", "InvalidClientTokenId"],
        403 => ["UnauthorizedOperation", "AccessDenied"],
        404 => ["InvalidAction", "InvalidAction"],
        429 | 503 => ["RequestLimitExceeded", "Throttling"],
        500.. => ["InternalError", "InternalFailure"],
        _ => ["InvalidParameterValue", "ValidationError"],
    }
}

/// Statuses of codes that are not answered with 400.
const STATUSES: [(u16, &str); 4] = [
    (503, "RequestLimitExceeded Unavailable ServiceUnavailable"),
    (500, "InternalError InternalFailure"),
    (401, "AuthFailure"),
    (
        403,
        "UnauthorizedOperation AccessDenied ExpiredToken InvalidClientTokenId OperationNotPermitted",
    ),
];

/// Returns a refusal in the words of each API.
pub(crate) fn refusal(request: &ApiRequest, refused: &Refused) -> Reply {
    let is_ec2 = service(request) == "ec2";
    let is_plain = refused.code.is_empty() || refused.code == "OnPurpose";
    let code = match refused.status {
        Some(status) if is_plain => code_of(status)[usize::from(!is_ec2)],
        _ => &refused.code,
    };
    let usual = STATUSES
        .iter()
        .find(|(_, codes)| codes.split(' ').any(|other_code| other_code == code))
        .map_or(400, |status| status.0);
    let status = refused.status.unwrap_or(usual);
    let mut error = json!({"Code": code, "Message": refused.message});
    match service(request) {
        "latest" => Reply::text(status, "text/html", code),
        "ec2" => reply(
            status,
            &json!({"Response": {"Errors": {"Error": error}, "RequestID": "5f3e0a1c"}}),
            "item",
        ),
        _ => {
            error["Type"] = "Sender".into();
            reply(
                status,
                &json!({"ErrorResponse": {"Error": error, "RequestId": "5f3e0a1c"}}),
                "member",
            )
        }
    }
}
