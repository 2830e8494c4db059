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
mod metadata;
mod wire;
mod world;

use std::time::Duration;

use axum::Router;
use fake_cloud::{Bucket, Cloud, Refused, Routes};
pub use fake_cloud::{Fault, Handle, Port};
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

/// An API of AWS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    /// Instances, routes, security groups.
    Ec2,
    /// The API of classic load balancers.
    Elb,
    /// The API of network load balancers.
    Elbv2,
    /// The API of credentials.
    Sts,
    /// The metadata service of an instance, without the query protocol.
    Metadata,
}

type ApiRequest = fake_cloud::ApiRequest<Service>;
type Answer = Result<Value, Refused>;

fn refuse<T>(code: &str, message: impl AsRef<str>) -> Result<T, Refused> {
    Err(Refused { status: None, ..Refused::new(0, code, message.as_ref()) })
}

/// Returns the whole fake for clients of the query protocol.
pub fn router(fake: &Handle<World>) -> Router {
    let inner = fake.router();
    Router::new().fallback(async move |request: axum::extract::Request| {
        inner.oneshot(rest(request).await.map(axum::body::Body::new)).await
    })
}

macro_rules! routes {
    ($service:ident: $($method:ident $path:literal => $handler:expr),* $(,)?) => {
        Routes { prefix: "", service: Service::$service, table: &[$((stringify!($method), $path, |world, request| {
            let handler: fn(&mut World, &ApiRequest) -> Answer = $handler;
            handler(world, request).map(|it| wire::answer(request, it))
        })),*] }
    };
}

impl Cloud for World {
    type Service = Service;
    type Refusal = Refused;
    const ROUTES: &'static [Routes<Self>] = &[
        routes! { Ec2:
            GET "/ec2/DescribeInstances" => ec2::instances,
            GET "/ec2/DescribeInstanceTopology" => ec2::topology,
            GET "/ec2/DescribeAvailabilityZones" => ec2::zones,
            GET "/ec2/DescribeNetworkInterfaces" => |world, request| world.describe(request, Kind::Interface, "networkInterfaceSet"),
            GET "/ec2/DescribeSubnets" => |world, request| world.describe(request, Kind::Subnet, "subnetSet"),
            GET "/ec2/DescribeRouteTables" => |world, request| world.describe(request, Kind::Table, "routeTableSet"),
            GET "/ec2/DescribeSecurityGroups" => |world, request| world.describe(request, Kind::Group, "securityGroupInfo"),
            POST "/ec2/StopInstances" => |world, request| ec2::change_state(world, request, "stopped"),
            POST "/ec2/StartInstances" => |world, request| ec2::change_state(world, request, "running"),
            POST "/ec2/TerminateInstances" => |world, request| ec2::change_state(world, request, "terminated"),
            POST "/ec2/ModifyInstanceAttribute" => ec2::modify_instance,
            POST "/ec2/CreateRoute" => ec2::create_route,
            POST "/ec2/ReplaceRoute" => ec2::replace_route,
            DELETE "/ec2/DeleteRoute" => ec2::delete_route,
            POST "/ec2/CreateTags" => ec2::create_tags,
            DELETE "/ec2/DeleteTags" => ec2::delete_tags,
            POST "/ec2/CreateSecurityGroup" => groups::create,
            DELETE "/ec2/DeleteSecurityGroup" => groups::delete,
            POST "/ec2/AuthorizeSecurityGroupIngress" => groups::authorize,
            POST "/ec2/RevokeSecurityGroupIngress" => groups::revoke,
        },
        routes! { Elb:
            GET "/elb/DescribeLoadBalancers" => elb::balancers,
            GET "/elb/DescribeLoadBalancers/named" => elb::balancers,
            GET "/elb/DescribeLoadBalancerAttributes" => elb::attributes,
            GET "/elb/DescribeLoadBalancerPolicies" => elb::policies,
            GET "/elb/DescribeTags" => elb::tags,
            POST "/elb/CreateLoadBalancer" => elb::create,
            DELETE "/elb/DeleteLoadBalancer" => elb::delete,
            POST "/elb/AddTags" => elb::add_tags,
            POST "/elb/RemoveTags" => elb::remove_tags,
            POST "/elb/RegisterInstancesWithLoadBalancer" => |world, request| elb::set_instances(world, request, true),
            POST "/elb/DeregisterInstancesFromLoadBalancer" => |world, request| elb::set_instances(world, request, false),
            POST "/elb/AttachLoadBalancerToSubnets" => |world, request| elb::set_subnets(world, request, true),
            POST "/elb/DetachLoadBalancerFromSubnets" => |world, request| elb::set_subnets(world, request, false),
            POST "/elb/ApplySecurityGroupsToLoadBalancer" => elb::apply_groups,
            POST "/elb/CreateLoadBalancerListeners" => elb::create_listeners,
            DELETE "/elb/DeleteLoadBalancerListeners" => elb::delete_listeners,
            POST "/elb/ConfigureHealthCheck" => elb::configure_health_check,
            POST "/elb/ModifyLoadBalancerAttributes" => elb::modify_attributes,
            POST "/elb/CreateLoadBalancerPolicy" => elb::create_policy,
            DELETE "/elb/DeleteLoadBalancerPolicy" => elb::delete_policy,
            POST "/elb/SetLoadBalancerPoliciesForBackendServer" => elb::set_backend_policies,
            POST "/elb/SetLoadBalancerPoliciesOfListener" => elb::set_listener_policies,
        },
        routes! { Elbv2:
            GET "/elbv2/DescribeLoadBalancers" => elbv2::balancers,
            GET "/elbv2/DescribeLoadBalancers/named" => elbv2::balancers,
            GET "/elbv2/DescribeLoadBalancerAttributes" => |world, request| elbv2::attributes(world, request, Kind::Network),
            GET "/elbv2/DescribeTargetGroups" => elbv2::target_groups,
            GET "/elbv2/DescribeTargetGroupAttributes" => |world, request| elbv2::attributes(world, request, Kind::TargetGroup),
            GET "/elbv2/DescribeTargetHealth" => elbv2::health,
            GET "/elbv2/DescribeListeners" => elbv2::listeners,
            GET "/elbv2/DescribeTags" => elbv2::tags,
            POST "/elbv2/CreateLoadBalancer" => elbv2::create,
            DELETE "/elbv2/DeleteLoadBalancer" => elbv2::delete,
            POST "/elbv2/SetSecurityGroups" => elbv2::set_groups,
            POST "/elbv2/SetSubnets" => elbv2::set_subnets,
            POST "/elbv2/SetIpAddressType" => elbv2::set_address_type,
            POST "/elbv2/ModifyLoadBalancerAttributes" => |world, request| elbv2::modify_attributes(world, request, Kind::Network),
            POST "/elbv2/CreateTargetGroup" => elbv2::create_target_group,
            POST "/elbv2/ModifyTargetGroup" => elbv2::modify_target_group,
            DELETE "/elbv2/DeleteTargetGroup" => elbv2::delete_target_group,
            POST "/elbv2/ModifyTargetGroupAttributes" => |world, request| elbv2::modify_attributes(world, request, Kind::TargetGroup),
            POST "/elbv2/RegisterTargets" => elbv2::register,
            POST "/elbv2/DeregisterTargets" => elbv2::deregister,
            POST "/elbv2/CreateListener" => elbv2::create_listener,
            POST "/elbv2/ModifyListener" => elbv2::modify_listener,
            DELETE "/elbv2/DeleteListener" => elbv2::delete_listener,
            POST "/elbv2/AddTags" => elbv2::add_tags,
            POST "/elbv2/RemoveTags" => elbv2::remove_tags,
        },
        routes! { Sts:
            GET "/sts/AssumeRole" => metadata::assume_role,
            GET "/sts/GetCallerIdentity" => metadata::identity,
        },
        routes! { Metadata:
            PUT "/latest/api/token" => |_, _| Ok("fake-metadata-token".into()),
            GET "/latest/meta-data/instance-id" => metadata::instance_id,
            GET "/latest/meta-data/placement/region" => |_, _| Ok(REGION.into()),
        },
    ];

    fn advance(&mut self, now: Instant) {
        self.carry_out(now);
    }

    /// Each API has a limit for reads, and one for changes.
    fn admit(&mut self, request: &mut ApiRequest) -> Result<(), Refused> {
        self.account.clone_into(&mut request.project);
        if request.service == Service::Metadata {
            let is_known = request.route.starts_with("PUT") || request.header("x-aws-ec2-metadata-token").is_some();
            return if is_known { Ok(()) } else { Err(Refused::new(401, "", "no token")) };
        }
        let credential =
            request.header("authorization").and_then(|it| it.split_once("Credential=")).map_or("", |(_, it)| it);
        if !credential.starts_with(KEY_ID) {
            return Err(Refused::new(
                if request.service == Service::Ec2 { 401 } else { 403 },
                "",
                "the key is not known",
            ));
        }
        let is_read = Self::is_read(&request.route);
        let [(limit, seconds)] = [self.limits[usize::from(!is_read)]];
        let bucket = || Bucket::new(limit, Duration::from_secs(seconds), limit);
        if self.buckets.entry((request.service, is_read)).or_insert_with(bucket).take().is_exceeded {
            let code = if request.service == Service::Ec2 { "RequestLimitExceeded" } else { "Throttling" };
            return refuse(code, "Request limit exceeded.");
        }
        Ok(())
    }

    fn refusal(_: &ApiRequest, refused: Refused) -> Refused {
        refused
    }

    fn render_refusal(request: &ApiRequest, refused: Refused) -> fake_cloud::Reply {
        wire::refusal(request, &refused)
    }
}
