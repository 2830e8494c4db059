//! Routers and their extra routes.

use std::net::IpAddr;

use serde_json::Value;

use crate::attributes;
use crate::model::{Kind, Model, Object, list as items, set, text};
use crate::pages;
use crate::ports::check_changes;
use crate::refusal::Refusal;
use crate::requests::{Answer, ApiRequest, expect_revision, object, one};

pub(crate) fn list(model: &mut Model, request: &ApiRequest) -> Answer {
    pages::list(
        model,
        request,
        Kind::Router,
        attributes::ROUTER,
        |_, router| router.clone(),
    )
}

pub(crate) fn get(model: &mut Model, request: &ApiRequest) -> Answer {
    one(
        Kind::Router,
        model
            .one(Kind::Router, &request.project, request.id())?
            .clone(),
    )
}

/// Checks that each next hop is in a subnet of the router.
fn check(model: &Model, router: &str, routes: &[Value]) -> Result<(), Refusal> {
    let ports = model
        .all(Kind::Port)
        .filter(|object| text(object, "device_id") == router);
    let subnets = ports
        .flat_map(|port| items(port, "fixed_ips"))
        .filter_map(|object| object["subnet_id"].as_str());
    let ranges: Vec<_> = subnets.filter_map(|subnet| model.range(subnet)).collect();
    let is_near = |route: &Value| {
        let hop = route["nexthop"]
            .as_str()
            .and_then(|nexthop| nexthop.parse::<IpAddr>().ok());
        hop.is_some_and(|hop| ranges.iter().any(|range| range.contains(&hop)))
    };
    if !routes.iter().all(is_near) {
        let message = format!(
            "Invalid format for routes: {}, the nexthop is not connected with router",
            Value::from(routes)
        );
        return Err(Refusal::new(400, "InvalidRoutes", message));
    }
    if routes.len() > model.route_quota {
        let message = format!(
            "Unable to complete operation for {router}. The number of routes exceeds the maximum {}.",
            model.route_quota
        );
        return Err(Refusal::new(409, "RoutesExhausted", message));
    }
    Ok(())
}

/// Sets the routes of a router, if they changed. Additions and removals are not conditional on a revision.
fn store(
    model: &mut Model,
    request: &ApiRequest,
    routes: Vec<Value>,
    is_atomic: bool,
) -> Result<Object, Refusal> {
    check(model, request.id(), &routes)?;
    let clock = model.clock;
    let router = model.owned(Kind::Router, &request.project, request.id())?;
    if items(router, "routes") != routes {
        if !is_atomic {
            expect_revision(request, router)?;
        }
        set(router, "routes", routes);
        Model::touched(&clock, router);
    }
    Ok(router.clone())
}

pub(crate) fn change(model: &mut Model, request: &ApiRequest) -> Answer {
    let change = object(request, Kind::Router)?;
    check_changes(change, attributes::ROUTER_CHANGES)?;
    let routes = items(change, "routes").to_vec();
    model.owned(Kind::Router, &request.project, request.id())?;
    one(Kind::Router, store(model, request, routes, false)?)
}

fn atomic(
    model: &mut Model,
    request: &ApiRequest,
    merge: impl Fn(&mut Vec<Value>, &[Value]),
) -> Answer {
    if !model.options.atomic_routes {
        return Err(Refusal::new(
            404,
            "HTTPNotFound",
            "The resource could not be found.",
        ));
    }
    let wanted = items(object(request, Kind::Router)?, "routes");
    let mut routes = items(
        model.owned(Kind::Router, &request.project, request.id())?,
        "routes",
    )
    .to_vec();
    merge(&mut routes, wanted);
    one(Kind::Router, store(model, request, routes, true)?)
}

pub(crate) fn add_routes(model: &mut Model, request: &ApiRequest) -> Answer {
    atomic(model, request, |routes, wanted| {
        for route in wanted {
            if !routes.contains(route) {
                routes.push(route.clone());
            }
        }
    })
}

pub(crate) fn remove_routes(model: &mut Model, request: &ApiRequest) -> Answer {
    atomic(model, request, |routes, wanted| {
        routes.retain(|route| !wanted.contains(route));
    })
}
