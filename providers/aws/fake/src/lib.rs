//! A stateful fake of AWS, for tests: the query protocol of EC2, both load balancing APIs and STS, and the metadata service.
//!
//! ```
//! use aws_fake::{ACCOUNT, Fault, Handle, World};
//!
//! let fake = Handle::new(World::default());
//! let id = fake.lock().add_instance(ACCOUNT, "worker-1");
//! fake.fault_injector().fail(Fault::code("GET /ec2/DescribeInstances", "RequestLimitExceeded").times(2));
//! assert_eq!(fake.lock().all("instance")[0]["instanceId"], *id);
//! let router = aws_fake::router(&fake);
//! # drop(router);
//! ```

mod ec2;
mod elb;
mod elbv2;
mod groups;
mod health;
mod metadata;
mod wire;
mod world;

use std::time::Duration;

use axum::Router;
use fake_cloud::{Bucket, Cloud, Refused, Reply, Routes, check, refuse};
pub use fake_cloud::{Fault, FaultKind, Handle, Port};
use serde_json::Value;
use tokio::time::Instant;
use tower::ServiceExt;

pub use self::wire::rest;
pub use self::world::{Kind, World};

/// The ID of the key of [`ACCOUNT`].
pub const KEY_ID: &str = "AKIAFAKEFAKEFAKEFAKE";
/// The secret of the key, which is no secret.
pub const SECRET: &str = "fake-secret";
/// The account of the key.
pub const ACCOUNT: &str = "111122223333";
/// The region of everything.
pub const REGION: &str = "us-east-1";
/// The VPC of the account.
pub const VPC: &str = "vpc-0a1b2c3d";
/// The ID of the cluster in tags.
pub const CLUSTER: &str = "testbed";

type ApiRequest = fake_cloud::ApiRequest<()>;
type Answer = Result<Value, Refused>;

/// Returns the whole fake for clients of the query protocol.
pub fn router(fake: &Handle<World>) -> Router {
    let inner = fake.router();
    Router::new().fallback(async move |request: axum::extract::Request| {
        inner
            .oneshot(rest(request).await.map(axum::body::Body::new))
            .await
    })
}

/// Returns the API that a request is for: `ec2`, `elb`, `elbv2`, `sts`, or `latest` for the metadata service.
fn service(request: &ApiRequest) -> &str {
    request.path.split('/').nth(1).unwrap_or_default()
}

fn carry_out(world: &mut World, request: &ApiRequest) -> Result<Reply, Refused> {
    world.effects = request.effects.clone();
    let action = request.path.split('/').nth(2).unwrap_or_default();
    let body = &request.body;
    let answer = match service(request) {
        "ec2" => ec2::answer(world, action, body),
        "elb" => elb::answer(world, action, body),
        "elbv2" => elbv2::answer(world, action, body),
        "sts" => metadata::credentials(world, action, body),
        _ => metadata::answer(world, &request.path),
    };
    answer.map(|other_answer| wire::answer(request, action, other_answer))
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
            ("PUT", "/*", carry_out),
            ("DELETE", "/*", carry_out),
        ],
    }];

    fn advance(&mut self, now: Instant) {
        self.carry_out(now);
    }

    /// Each API has a limit for reads, and one for changes.
    fn admit(&mut self, request: &mut ApiRequest) -> Result<(), Refused> {
        let service = service(request).to_owned();
        if service == "latest" {
            return metadata::admit(request);
        }
        let credential = request
            .header("authorization")
            .and_then(|header| header.split_once("Credential="));
        if !credential.is_some_and(|(_, credential)| credential.starts_with(KEY_ID)) {
            return Err(Refused::new(
                if service == "ec2" { 401 } else { 403 },
                "",
                "the key is not known",
            ));
        }
        let is_read = Self::is_read(&request.route);
        let (limit, seconds) = self.limits[usize::from(!is_read)];
        let code = if service == "ec2" {
            "RequestLimitExceeded"
        } else {
            "Throttling"
        };
        let bucket = || Bucket::new(limit, Duration::from_secs(seconds), limit);
        let is_exceeded = self
            .buckets
            .entry((service, is_read))
            .or_insert_with(bucket)
            .take()
            .is_exceeded;
        check(!is_exceeded, code, "Request limit exceeded.")
    }

    fn render_refusal(request: &ApiRequest, refused: Refused) -> Reply {
        wire::refusal(request, &refused)
    }
}
