//! Routing of requests to handlers.

use fake_cloud::{Cloud, Refused, Reply, Routes};
use tokio::time::Instant;

use crate::model::Model;
use crate::refusal::{Refusal, Service};
use crate::requests::ApiRequest;
use crate::{
    admission, balancers, barbican, floating_ips, keystone, listeners, members, monitors, networks,
    octavia, pools, ports, routers, security_groups, servers,
};

type Route = fake_cloud::Route<Model>;

/// Versions, without a token.
const VERSIONS: &[Route] = &[
    ("GET", "/identity/", keystone::versions),
    ("GET", "/identity/v3", keystone::versions),
    ("GET", "/compute/v2.1", servers::version),
    ("GET", "/network/", networks::versions),
    ("GET", "/load-balancer/", octavia::versions),
];

const IDENTITY: &[Route] = &[
    ("POST", "/auth/tokens", keystone::authenticate),
    ("GET", "/auth/tokens", keystone::validate),
    ("GET", "/auth/catalog", keystone::catalogue),
];

const COMPUTE: &[Route] = &[
    ("GET", "/servers", servers::names),
    ("GET", "/servers/detail", servers::list),
    ("GET", "/servers/{id}", servers::get),
    ("GET", "/flavors", servers::flavors),
    ("GET", "/flavors/{id}", servers::flavor),
];

const NETWORK: &[Route] = &[
    ("GET", "/extensions", networks::extensions),
    ("GET", "/networks", networks::list),
    ("GET", "/networks/{id}", networks::get),
    ("GET", "/subnets", networks::list_subnets),
    ("GET", "/subnets/{id}", networks::get_subnet),
    ("GET", "/ports", ports::list),
    ("GET", "/ports/{id}", ports::get),
    ("PUT", "/ports/{id}", ports::change),
    ("DELETE", "/ports/{id}/tags/{tag}", ports::remove_tag),
    ("GET", "/floatingips", floating_ips::list),
    ("POST", "/floatingips", floating_ips::create),
    ("GET", "/floatingips/{id}", floating_ips::get),
    ("PUT", "/floatingips/{id}", floating_ips::change),
    ("DELETE", "/floatingips/{id}", floating_ips::delete),
    ("GET", "/security-groups", security_groups::list),
    ("POST", "/security-groups", security_groups::create),
    ("GET", "/security-groups/{id}", security_groups::get),
    ("DELETE", "/security-groups/{id}", security_groups::delete),
    ("GET", "/security-group-rules", security_groups::list_rules),
    (
        "POST",
        "/security-group-rules",
        security_groups::create_rules,
    ),
    (
        "GET",
        "/security-group-rules/{id}",
        security_groups::get_rule,
    ),
    (
        "DELETE",
        "/security-group-rules/{id}",
        security_groups::delete_rule,
    ),
    ("GET", "/routers", routers::list),
    ("GET", "/routers/{id}", routers::get),
    ("PUT", "/routers/{id}", routers::change),
    ("PUT", "/routers/{id}/add_extraroutes", routers::add_routes),
    (
        "PUT",
        "/routers/{id}/remove_extraroutes",
        routers::remove_routes,
    ),
];

const BALANCER: &[Route] = &[
    ("GET", "/lbaas/providers", octavia::providers),
    ("GET", "/lbaas/loadbalancers", balancers::list),
    ("POST", "/lbaas/loadbalancers", balancers::create),
    ("GET", "/lbaas/loadbalancers/{id}", balancers::get),
    ("PUT", "/lbaas/loadbalancers/{id}", balancers::change),
    ("DELETE", "/lbaas/loadbalancers/{id}", balancers::delete),
    ("GET", "/lbaas/loadbalancers/{id}/status", balancers::status),
    ("GET", "/lbaas/listeners", listeners::list),
    ("POST", "/lbaas/listeners", listeners::create),
    ("GET", "/lbaas/listeners/{id}", listeners::get),
    ("PUT", "/lbaas/listeners/{id}", listeners::change),
    ("DELETE", "/lbaas/listeners/{id}", listeners::delete),
    ("GET", "/lbaas/pools", pools::list),
    ("POST", "/lbaas/pools", pools::create),
    ("GET", "/lbaas/pools/{id}", pools::get),
    ("PUT", "/lbaas/pools/{id}", pools::change),
    ("DELETE", "/lbaas/pools/{id}", pools::delete),
    ("GET", "/lbaas/pools/{id}/members", members::list),
    ("POST", "/lbaas/pools/{id}/members", members::create),
    ("PUT", "/lbaas/pools/{id}/members", members::replace),
    ("GET", "/lbaas/pools/{id}/members/{member}", members::get),
    ("PUT", "/lbaas/pools/{id}/members/{member}", members::change),
    (
        "DELETE",
        "/lbaas/pools/{id}/members/{member}",
        members::delete,
    ),
    ("GET", "/lbaas/healthmonitors", monitors::list),
    ("POST", "/lbaas/healthmonitors", monitors::create),
    ("GET", "/lbaas/healthmonitors/{id}", monitors::get),
    ("PUT", "/lbaas/healthmonitors/{id}", monitors::change),
    ("DELETE", "/lbaas/healthmonitors/{id}", monitors::delete),
];

const KEYS: &[Route] = &[
    ("GET", "/secrets/{id}", barbican::secret),
    ("GET", "/containers/{id}", barbican::container),
];

impl Cloud for Model {
    type Service = Service;
    type Refusal = Refusal;
    const ROUTES: &'static [Routes<Self>] = &[
        Routes {
            prefix: "/identity/v3",
            service: Service::Identity,
            table: IDENTITY,
        },
        Routes {
            prefix: "/compute/v2.1",
            service: Service::Compute,
            table: COMPUTE,
        },
        Routes {
            prefix: "/network/v2.0",
            service: Service::Network,
            table: NETWORK,
        },
        Routes {
            prefix: "/load-balancer/v2.0",
            service: Service::Balancer,
            table: BALANCER,
        },
        Routes {
            prefix: "/key-manager/v1",
            service: Service::Keys,
            table: KEYS,
        },
        Routes {
            prefix: "",
            service: Service::Versions,
            table: VERSIONS,
        },
    ];

    fn advance(&mut self, now: Instant) {
        self.clock.start(now);
        self.finish_work();
    }
    fn admit(&mut self, request: &mut ApiRequest) -> Result<(), Refusal> {
        admission::admit(self, request)
    }
    fn refusal(request: &ApiRequest, refused: Refused) -> Refusal {
        let refusal = Refusal::from(refused);
        if request.service == Service::Balancer {
            refusal.untyped()
        } else {
            refusal
        }
    }
    fn render_refusal(request: &ApiRequest, refusal: Refusal) -> Reply {
        Reply::new(refusal.status, refusal.body(request.service))
    }
    fn unknown(request: &ApiRequest) -> Refusal {
        match request.service {
            Service::Balancer => Refusal::new(404, "Not Found", ""),
            _ => Refusal::new(404, "HTTPNotFound", "The resource could not be found."),
        }
    }
    fn is_read(route: &str) -> bool {
        route.starts_with("GET ") || route == "POST /auth/tokens"
    }
}
