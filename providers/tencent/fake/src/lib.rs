//! A stateful fake of Tencent Cloud's API 3.0, for tests: CVM, CLB, VPC, TKE, Tag and STS with their signature, and the
//! metadata service. The old API 2.0 shows the same objects to the vendor's Go program.
//!
//! ```
//! use tencent_fake::{ACCOUNT, Fault, Handle, World};
//!
//! let fake = Handle::new(World::default());
//! let id = fake.lock().add_instance(ACCOUNT, "worker-1");
//! fake.fault_injector().fail(Fault::code("GET /cvm/DescribeInstances", "RequestLimitExceeded").times(2));
//! assert_eq!(fake.lock().all("instance")[0]["InstanceId"], *id);
//! let router = tencent_fake::router(&fake);
//! # drop(router);
//! ```

mod clb;
mod constraints;
mod cvm;
mod signature;
mod v2;
mod vpc;
mod world;

use std::time::Duration;

use axum::Router;
use fake_cloud::{Bucket, Cloud, Refused, Reply, Routes, check, refuse};
pub use fake_cloud::{Fault, FaultKind, Handle, Port};
use http::{Method, Request, Uri};
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::ServiceExt;

pub use self::world::World;

/// The ID of the key of [`ACCOUNT`].
pub const KEY_ID: &str = "contract-id";
/// The secret of the key, which is no secret.
pub const SECRET: &str = "contract-secret";
/// A temporary key with its secret and token, which are no secrets.
pub const TEMPORARY: [&str; 3] = [
    "contract-temporary-id",
    "contract-temporary-secret",
    "contract-token",
];
/// The account of the keys.
pub const ACCOUNT: &str = "100001234567";
/// The region of everything.
pub const REGION: &str = "ap-guangzhou";
/// The VPC of the account.
pub const VPC: &str = "vpc-testbed1";
/// The cluster route table.
pub const TABLE: &str = "testbed";

type ApiRequest = fake_cloud::ApiRequest<()>;
type Answer = Result<Value, Refused>;

/// Products of the API, each with a word in the names of its actions.
const PRODUCTS: [(&str, &str); 5] = [
    ("cvm", "Instances"),
    ("tke", "ClusterRoute"),
    ("vpc", "SecurityGroup"),
    ("tag", "ResourceTags"),
    ("sts", "AssumeRole"),
];

/// Returns a request of the API as one that the fake's router takes: `POST /` with the action `DescribeInstances` is
/// `GET /cvm/DescribeInstances`. Requests without an action, which are those of the metadata service, stay as they are.
/// A read of some load balancers has a path of its own, so that faults of the list do not hit it.
pub fn rest<B>(mut request: Request<B>, is_narrow: bool) -> Request<B> {
    if let Some(query) = request
        .uri()
        .query()
        .filter(|query| query.contains("Action="))
        .map(str::to_owned)
    {
        // API 2.0.
        let action = query
            .split('&')
            .find_map(|part| part.strip_prefix("Action="))
            .unwrap_or_default();
        *request.method_mut() = if action.starts_with("Describe") {
            Method::GET
        } else {
            Method::POST
        };
        *request.uri_mut() = Uri::try_from(format!("/v2/{action}?{query}")).unwrap_or_default();
        return request;
    }
    let action = request
        .headers()
        .get("x-tc-action")
        .and_then(|header| header.to_str().ok())
        .map(str::to_owned);
    let Some(action) = action.filter(|_| request.uri().path() == "/") else {
        return request;
    };
    *request.method_mut() = match &*action {
        _ if ["Describe", "AssumeRole"]
            .iter()
            .any(|assume_role| action.starts_with(assume_role)) =>
        {
            Method::GET
        }
        _ if action.starts_with("Delete") => Method::DELETE,
        _ => Method::POST,
    };
    let is_of_balancers = action == "SetLoadBalancerSecurityGroups";
    let product = PRODUCTS
        .iter()
        .find(|(_, part)| action.contains(part) && !is_of_balancers);
    let product = product.map_or("clb", |(product, _)| product);
    let some = if is_narrow && action == "DescribeLoadBalancers" {
        "/some"
    } else {
        ""
    };
    *request.uri_mut() = Uri::try_from(format!("/{product}/{action}{some}")).unwrap_or_default();
    request
}

/// Returns `true` if the body of a request names load balancers.
#[must_use]
pub fn is_narrow(body: &[u8]) -> bool {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    ["LoadBalancerIds", "LoadBalancerVips", "Filters"]
        .iter()
        .any(|key| !body[*key].is_null())
}

/// Returns the whole fake for clients of the APIs.
pub fn router(fake: &Handle<World>) -> Router {
    let inner = fake.router();
    Router::new().fallback(async move |request: axum::extract::Request| {
        let (head, body) = request.into_parts();
        let bytes = axum::body::to_bytes(body, 8 << 20)
            .await
            .unwrap_or_default();
        let is_narrow = is_narrow(&bytes);
        inner
            .oneshot(rest(
                Request::from_parts(head, axum::body::Body::from(bytes)),
                is_narrow,
            ))
            .await
    })
}

/// Returns the product that a request is for, or `latest` for the metadata service.
fn product(request: &ApiRequest) -> &str {
    request.path.split('/').nth(1).unwrap_or_default()
}

fn action(request: &ApiRequest) -> &str {
    request.path.split('/').nth(2).unwrap_or_default()
}

fn carry_out(world: &mut World, request: &ApiRequest) -> Result<Reply, Refused> {
    world.effects = request.effects.clone();
    let action = action(request);
    let body = &request.body;
    if product(request) == "v2" {
        let mut answer = v2::answer(world, action, &v2::parameters(&request.query))?;
        strip(&mut answer);
        if action == "DescribeInstances" {
            return Ok(Reply::new(200, json!({"Response": answer})));
        }
        (answer["code"], answer["codeDesc"]) = (json!(0), json!("Success"));
        return Ok(Reply::new(200, answer));
    }
    let mut answer = match product(request) {
        "cvm" => cvm::answer(world, action, body),
        "clb" => clb::answer(world, action, body),
        "vpc" => vpc::groups(world, action, body),
        "tke" => vpc::routes(world, action, body),
        "tag" => clb::tags(world, action, body),
        "sts" => cvm::assume(action, body),
        _ => return cvm::metadata(world, &request.path),
    }?;
    strip(&mut answer);
    if answer["RequestId"].is_null() {
        answer["RequestId"] = format!("request-{}", world.number()).into();
    }
    Ok(Reply::new(200, json!({"Response": answer})))
}

/// Removes the fields that are only the fake's.
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

impl Cloud for World {
    type Service = ();
    type Refusal = Refused;
    const ROUTES: &'static [Routes<Self>] = &[Routes {
        prefix: "",
        service: (),
        table: &[
            ("GET", "/*", carry_out),
            ("POST", "/*", carry_out),
            ("DELETE", "/*", carry_out),
        ],
    }];

    fn advance(&mut self, now: Instant) {
        self.carry_out_tasks(now);
    }

    fn admit(&mut self, request: &mut ApiRequest) -> Result<(), Refused> {
        if ["latest", "v2"].contains(&product(request)) {
            return Ok(());
        }
        if product(request) != "sts" {
            signature::verify(request)?;
        }
        let limit = self.limit;
        let action = action(request).to_owned();
        let bucket = || Bucket::new(limit, Duration::from_secs(1), limit);
        let is_exceeded = self
            .buckets
            .entry(action)
            .or_insert_with(bucket)
            .take()
            .is_exceeded;
        check(
            !is_exceeded,
            "RequestLimitExceeded",
            "Your current request times exceeds the limit of the API.",
        )
    }

    /// Answers 200 with the code in the body, as the APIs do; 500 is that of a gateway before them.
    fn render_refusal(request: &ApiRequest, refused: Refused) -> Reply {
        let is_plain = refused.code.is_empty() || refused.code == "OnPurpose";
        let code = match refused.status {
            Some(401) if is_plain => "AuthFailure.SecretIdNotFound",
            Some(403) if is_plain => "UnauthorizedOperation",
            Some(404) if is_plain => "ResourceNotFound",
            Some(429) if is_plain => "RequestLimitExceeded",
            Some(503) if is_plain => "ServiceUnavailable",
            Some(500..) if is_plain => "InternalError",
            Some(_) if is_plain => "InvalidParameter",
            _ => &refused.code,
        };
        if product(request) == "latest" {
            return Reply::text(refused.status.unwrap_or(404), "text/plain", refused.message);
        }
        if product(request) == "v2" {
            return Reply::new(
                200,
                json!({"code": 4000, "codeDesc": code, "message": refused.message}),
            );
        }
        let error = json!({"Code": code, "Message": refused.message});
        let status = refused
            .status
            .filter(|status| *status == 500)
            .unwrap_or(200);
        Reply::new(
            status,
            json!({"Response": {"Error": error, "RequestId": "request-refused"}}),
        )
    }
}
