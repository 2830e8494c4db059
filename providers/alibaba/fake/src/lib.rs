//! A stateful fake of Alibaba Cloud, for tests: ECS, CLB, NLB, VPC, CEN, Lingjun and STS with both signatures'
//! forms, and the metadata
//! service.
//!
//! ```
//! use alibaba_fake::{ACCOUNT, Fault, Handle, World};
//!
//! let fake = Handle::new(World::default());
//! let id = fake.lock().add_instance(ACCOUNT, "worker-1");
//! fake.fault_injector().fail(Fault::code("GET /ecs/DescribeInstances", "Throttling.User").times(2));
//! assert_eq!(fake.lock().all("instance")[0]["InstanceId"], *id);
//! let router = alibaba_fake::router(&fake);
//! # drop(router);
//! ```

mod constraints;
mod ecs;
mod network;
mod nlb;
mod security_groups;
mod slb;
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
pub use self::world::World;

/// The ID of the key of [`ACCOUNT`].
pub const KEY_ID: &str = "contract-id";
/// The secret of the key, which is no secret.
pub const SECRET: &str = "contract-secret";
/// The account of the key.
pub const ACCOUNT: &str = "1111222233334444";
/// The region of everything.
pub const REGION: &str = "cn-hangzhou";
/// The VPC of the account.
pub const VPC: &str = "vpc-bp1test";
/// The ID of the cluster in names and tags.
pub const CLUSTER: &str = "testbed";

type ApiRequest = fake_cloud::ApiRequest<()>;
type Answer = Result<Value, Refused>;

/// Returns the whole fake for clients of the APIs.
pub fn router(fake: &Handle<World>) -> Router {
    let inner = fake.router();
    Router::new().fallback(async move |request: axum::extract::Request| {
        inner
            .oneshot(rest(request).await.map(axum::body::Body::new))
            .await
    })
}

/// Returns the product that a request is for, or `latest` for the metadata service.
fn product(request: &ApiRequest) -> &str {
    request.path.split('/').nth(1).unwrap_or_default()
}

fn carry_out(world: &mut World, request: &ApiRequest) -> Result<Reply, Refused> {
    world.effects = request.effects.clone();
    let action = request.path.split('/').nth(2).unwrap_or_default();
    let body = &request.body;
    let answer = match product(request) {
        "ecs" => ecs::answer(world, action, body),
        "vpc" => network::answer(world, action, body),
        "cbn" => network::enterprise(world, action, body),
        "eflo" => ecs::lingjun(world, action, body),
        "slb" => slb::answer(world, action, body),
        "nlb" => nlb::answer(world, action, body),
        "sts" => ecs::credentials(action, body),
        _ => return ecs::metadata(request),
    };
    answer.map(wire::answer)
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
        self.carry_out_jobs(now);
    }

    fn admit(&mut self, request: &mut ApiRequest) -> Result<(), Refused> {
        let product = product(request).to_owned();
        if product == "latest" || product == "sts" {
            return Ok(());
        }
        let is_known = request
            .header("authorization")
            .is_some_and(|header| header.contains(&format!("Credential={KEY_ID},")));
        check(
            is_known,
            "InvalidAccessKeyId.NotFound",
            "Specified access key is not found.",
        )?;
        let (limit, seconds) = self.limit;
        let bucket = || Bucket::new(limit, Duration::from_secs(seconds), limit);
        let is_exceeded = self
            .buckets
            .entry(product)
            .or_insert_with(bucket)
            .take()
            .is_exceeded;
        check(
            !is_exceeded,
            "Throttling.User",
            "Request was denied due to user flow control.",
        )
    }

    fn render_refusal(_: &ApiRequest, refused: Refused) -> Reply {
        wire::refusal(&refused)
    }
}
