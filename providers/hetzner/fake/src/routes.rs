//! Routing of requests to handlers.

use fake_cloud::{Cloud, Reply, Routes};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::model::Model;
use crate::refusal::{Answer, Refusal};
use crate::{
    actions, admission, balancer_actions, balancers, catalogue, certificates, metadata, networks,
    robot, servers,
};

/// Hetzner's APIs, whose paths are different.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Cloud,
    /// The web service for dedicated servers.
    Robot,
    /// The metadata service, with the path that it has on `169.254.169.254`.
    Metadata,
}

/// A request as handlers see it.
pub(crate) type ApiRequest = fake_cloud::ApiRequest<Service>;

type Route = fake_cloud::Route<Model>;

const CLOUD: &[Route] = &[
    ("GET", "/locations", catalogue::locations),
    ("GET", "/load_balancer_types", catalogue::balancer_types),
    ("GET", "/servers", servers::list),
    ("GET", "/servers/{id}", servers::get),
    ("GET", "/networks", networks::list),
    ("GET", "/networks/{id}", networks::get),
    (
        "POST",
        "/networks/{id}/actions/add_route",
        networks::add_route,
    ),
    (
        "POST",
        "/networks/{id}/actions/delete_route",
        networks::delete_route,
    ),
    ("GET", "/load_balancers", balancers::list),
    ("POST", "/load_balancers", balancers::create),
    ("GET", "/load_balancers/{id}", balancers::get),
    ("PUT", "/load_balancers/{id}", balancers::change),
    ("DELETE", "/load_balancers/{id}", balancers::delete),
    (
        "POST",
        "/load_balancers/{id}/actions/add_service",
        balancer_actions::act,
    ),
    (
        "POST",
        "/load_balancers/{id}/actions/add_target",
        balancer_actions::act,
    ),
    (
        "POST",
        "/load_balancers/{id}/actions/attach_to_network",
        balancer_actions::act,
    ),
    (
        "POST",
        "/load_balancers/{id}/actions/change_algorithm",
        balancer_actions::act,
    ),
    (
        "POST",
        "/load_balancers/{id}/actions/change_dns_ptr",
        balancer_actions::act,
    ),
    (
        "POST",
        "/load_balancers/{id}/actions/change_type",
        balancer_actions::act,
    ),
    (
        "POST",
        "/load_balancers/{id}/actions/delete_service",
        balancer_actions::act,
    ),
    (
        "POST",
        "/load_balancers/{id}/actions/detach_from_network",
        balancer_actions::act,
    ),
    (
        "POST",
        "/load_balancers/{id}/actions/disable_public_interface",
        balancer_actions::act,
    ),
    (
        "POST",
        "/load_balancers/{id}/actions/enable_public_interface",
        balancer_actions::act,
    ),
    (
        "POST",
        "/load_balancers/{id}/actions/remove_target",
        balancer_actions::act,
    ),
    (
        "POST",
        "/load_balancers/{id}/actions/update_service",
        balancer_actions::act,
    ),
    ("GET", "/certificates", certificates::list),
    ("POST", "/certificates", certificates::create),
    ("GET", "/certificates/{id}", certificates::get),
    ("DELETE", "/certificates/{id}", certificates::delete),
    ("GET", "/actions", actions::list),
    ("GET", "/actions/{id}", actions::get),
];

const ROBOT: &[Route] = &[
    ("GET", "/server", robot::list),
    ("GET", "/server/{number}", robot::get),
    ("GET", "/reset/{number}", robot::reset),
];

const METADATA: &[Route] = &[(
    "GET",
    "/hetzner/v1/metadata/private-networks",
    metadata::private_networks,
)];

impl Cloud for Model {
    type Service = Service;
    type Refusal = Refusal;
    const ROUTES: &'static [Routes<Self>] = &[
        Routes {
            prefix: "/v1",
            service: Service::Cloud,
            table: CLOUD,
        },
        Routes {
            prefix: "",
            service: Service::Robot,
            table: ROBOT,
        },
        Routes {
            prefix: "",
            service: Service::Metadata,
            table: METADATA,
        },
    ];

    fn admit(&mut self, request: &mut ApiRequest) -> Result<(), Refusal> {
        admission::admit(self, request)
    }
    fn render_refusal(request: &ApiRequest, refusal: Refusal) -> Reply {
        refusal.reply(request.service)
    }
}

/// Parses a body strictly: unknown fields are refused, because they are mistakes of the client.
pub(crate) fn parse<T: DeserializeOwned>(request: &ApiRequest) -> Result<T, Refusal> {
    if request.is_broken() || request.bytes.is_empty() {
        return Err(Refusal::new("json_error", "the body is no JSON"));
    }
    serde_json::from_slice(&request.bytes)
        .map_err(|error| Refusal::field("body", &error.to_string()))
}

/// Returns a response with status 200 and `body`.
#[allow(clippy::unnecessary_wraps, reason = "it is what a handler gives")]
pub(crate) fn ok(body: Value) -> Answer {
    Ok(Reply::new(200, body))
}
