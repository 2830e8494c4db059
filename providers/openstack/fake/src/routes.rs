//! Which handler answers what.

use crate::refusal::Service;
use crate::requests::Handler;
use crate::{
    balancers, barbican, floating_ips, keystone, listeners, members, monitors, networks, octavia, pools, ports,
    routers, security_groups, servers,
};

/// Method, path template after the service's prefix, handler.
type Route = (&'static str, &'static str, Handler);

const IDENTITY: &[Route] = &[
    ("GET", "/", keystone::versions),
    ("GET", "/v3", keystone::versions),
    ("POST", "/v3/auth/tokens", keystone::authenticate),
    ("GET", "/v3/auth/tokens", keystone::validate),
    ("GET", "/v3/auth/catalog", keystone::catalogue),
];

const COMPUTE: &[Route] = &[
    ("GET", "/v2.1", servers::version),
    ("GET", "/v2.1/servers/detail", servers::list),
    ("GET", "/v2.1/servers/{id}", servers::get),
    ("GET", "/v2.1/flavors", servers::flavors),
    ("GET", "/v2.1/flavors/{id}", servers::flavor),
];

const NETWORK: &[Route] = &[
    ("GET", "/", networks::versions),
    ("GET", "/v2.0/extensions", networks::extensions),
    ("GET", "/v2.0/networks", networks::list),
    ("GET", "/v2.0/networks/{id}", networks::get),
    ("GET", "/v2.0/subnets", networks::list_subnets),
    ("GET", "/v2.0/subnets/{id}", networks::get_subnet),
    ("GET", "/v2.0/ports", ports::list),
    ("GET", "/v2.0/ports/{id}", ports::get),
    ("PUT", "/v2.0/ports/{id}", ports::change),
    ("DELETE", "/v2.0/ports/{id}/tags/{tag}", ports::remove_tag),
    ("GET", "/v2.0/floatingips", floating_ips::list),
    ("POST", "/v2.0/floatingips", floating_ips::create),
    ("GET", "/v2.0/floatingips/{id}", floating_ips::get),
    ("PUT", "/v2.0/floatingips/{id}", floating_ips::change),
    ("DELETE", "/v2.0/floatingips/{id}", floating_ips::delete),
    ("GET", "/v2.0/security-groups", security_groups::list),
    ("POST", "/v2.0/security-groups", security_groups::create),
    ("GET", "/v2.0/security-groups/{id}", security_groups::get),
    ("DELETE", "/v2.0/security-groups/{id}", security_groups::delete),
    ("GET", "/v2.0/security-group-rules", security_groups::list_rules),
    ("POST", "/v2.0/security-group-rules", security_groups::create_rules),
    ("GET", "/v2.0/security-group-rules/{id}", security_groups::get_rule),
    ("DELETE", "/v2.0/security-group-rules/{id}", security_groups::delete_rule),
    ("GET", "/v2.0/routers", routers::list),
    ("GET", "/v2.0/routers/{id}", routers::get),
    ("PUT", "/v2.0/routers/{id}", routers::change),
    ("PUT", "/v2.0/routers/{id}/add_extraroutes", routers::add_routes),
    ("PUT", "/v2.0/routers/{id}/remove_extraroutes", routers::remove_routes),
];

const BALANCER: &[Route] = &[
    ("GET", "/", octavia::versions),
    ("GET", "/v2.0/lbaas/loadbalancers", balancers::list),
    ("POST", "/v2.0/lbaas/loadbalancers", balancers::create),
    ("GET", "/v2.0/lbaas/loadbalancers/{id}", balancers::get),
    ("PUT", "/v2.0/lbaas/loadbalancers/{id}", balancers::change),
    ("DELETE", "/v2.0/lbaas/loadbalancers/{id}", balancers::delete),
    ("GET", "/v2.0/lbaas/loadbalancers/{id}/status", balancers::status),
    ("GET", "/v2.0/lbaas/listeners", listeners::list),
    ("POST", "/v2.0/lbaas/listeners", listeners::create),
    ("GET", "/v2.0/lbaas/listeners/{id}", listeners::get),
    ("PUT", "/v2.0/lbaas/listeners/{id}", listeners::change),
    ("DELETE", "/v2.0/lbaas/listeners/{id}", listeners::delete),
    ("GET", "/v2.0/lbaas/pools", pools::list),
    ("POST", "/v2.0/lbaas/pools", pools::create),
    ("GET", "/v2.0/lbaas/pools/{id}", pools::get),
    ("PUT", "/v2.0/lbaas/pools/{id}", pools::change),
    ("DELETE", "/v2.0/lbaas/pools/{id}", pools::delete),
    ("GET", "/v2.0/lbaas/pools/{id}/members", members::list),
    ("POST", "/v2.0/lbaas/pools/{id}/members", members::create),
    ("PUT", "/v2.0/lbaas/pools/{id}/members", members::replace),
    ("GET", "/v2.0/lbaas/pools/{id}/members/{member}", members::get),
    ("PUT", "/v2.0/lbaas/pools/{id}/members/{member}", members::change),
    ("DELETE", "/v2.0/lbaas/pools/{id}/members/{member}", members::delete),
    ("GET", "/v2.0/lbaas/healthmonitors", monitors::list),
    ("POST", "/v2.0/lbaas/healthmonitors", monitors::create),
    ("GET", "/v2.0/lbaas/healthmonitors/{id}", monitors::get),
    ("PUT", "/v2.0/lbaas/healthmonitors/{id}", monitors::change),
    ("DELETE", "/v2.0/lbaas/healthmonitors/{id}", monitors::delete),
];

const KEYS: &[Route] =
    &[("GET", "/v1/secrets/{id}", barbican::secret), ("GET", "/v1/containers/{id}", barbican::container)];

/// The services, by the beginning of the path.
const SERVICES: [(&str, Service, &[Route]); 5] = [
    ("/identity", Service::Identity, IDENTITY),
    ("/compute", Service::Compute, COMPUTE),
    ("/network", Service::Network, NETWORK),
    ("/load-balancer", Service::Balancer, BALANCER),
    ("/key-manager", Service::Keys, KEYS),
];

/// Where a request goes.
pub(crate) struct Target {
    pub(crate) service: Service,
    /// The path after the service's prefix.
    pub(crate) path: String,
    /// `GET /servers/{id}`.
    pub(crate) name: String,
    pub(crate) ids: Vec<String>,
    /// `None`: there is no such path, or not with this method.
    pub(crate) handler: Option<Handler>,
    /// A token is not needed.
    pub(crate) is_open: bool,
}

/// What stands in `path` for the placeholders of `template`, if they match.
fn captures(template: &str, path: &str) -> Option<Vec<String>> {
    let (mut wanted, mut given) = (template.split('/'), path.split('/'));
    let mut ids = Vec::new();
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return Some(ids),
            (Some(hole), Some(id)) if hole.starts_with('{') && !id.is_empty() => ids.push(id.to_owned()),
            (Some(wanted), Some(given)) if wanted == given => {}
            _ => return None,
        }
    }
}

fn without_version(path: &str) -> &str {
    let is_version =
        |segment: &str| segment.starts_with('v') && segment[1..].starts_with(|it: char| it.is_ascii_digit());
    match path[1..].split_once('/') {
        Some((first, _)) if is_version(first) => &path[first.len() + 1..],
        _ => path,
    }
}

impl Target {
    /// Where this request goes; `None`: there is no such service.
    pub(crate) fn of(method: &str, path: &str) -> Option<Self> {
        let (prefix, service, routes) = SERVICES.into_iter().find(|(prefix, ..)| path.starts_with(prefix))?;
        let path = &path[prefix.len()..];
        let path = if path.is_empty() || path == "/" { "/" } else { path.trim_end_matches('/') };
        let found = routes
            .iter()
            .filter(|(wanted, ..)| *wanted == method)
            .find_map(|(_, template, handler)| Some((*template, *handler, captures(template, path)?)));
        let template = found.as_ref().map_or(path, |(template, ..)| template);
        let is_version = template == "/" || template.matches('/').count() == 1;
        let name = match is_version {
            true => format!("{method} {prefix}{template}"),
            false => format!("{method} {}", without_version(template)),
        };
        let is_open = is_version || name == "POST /auth/tokens";
        let (handler, ids) = found.map_or((None, Vec::new()), |(_, handler, ids)| (Some(handler), ids));
        Some(Self { service, path: path.to_owned(), name, ids, handler, is_open })
    }
}
