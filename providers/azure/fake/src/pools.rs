//! Pools of load balancers as resources of their own, and their migration to addresses.

use fake_cloud::{Refused, Reply};
use serde_json::{Value, json};

use crate::network::BALANCERS;
use crate::{Answer, ApiRequest, Azure, id, items, not_found, path_id, text};

fn is_named(pool: &Value, request: &ApiRequest) -> bool {
    text(pool, "/name").eq_ignore_ascii_case(request.nth_id(1))
}

/// Returns the load balancer of a request, as the API shows it.
fn balancer_of(cloud: &Azure, request: &ApiRequest) -> Result<Value, Refused> {
    let id = id(BALANCERS, request.id());
    cloud
        .get(&id)
        .map(|id| cloud.shown(id, request))
        .ok_or_else(|| not_found(&id))
}

pub(crate) fn get(cloud: &mut Azure, request: &ApiRequest) -> Answer {
    let balancer = balancer_of(cloud, request)?;
    let pool = items(&balancer, "backendAddressPools")
        .find(|backend_address_pool| is_named(backend_address_pool, request));
    pool.map(|pool| Reply::new(200, pool.clone()))
        .ok_or_else(|| not_found(&path_id(request)))
}

pub(crate) fn put(cloud: &mut Azure, request: &ApiRequest) -> Answer {
    change(cloud, request, Some(request.body.clone()))
}

pub(crate) fn delete(cloud: &mut Azure, request: &ApiRequest) -> Answer {
    change(cloud, request, None)
}

/// Writes a pool over the one of its name, or removes it: both are changes of the load balancer.
fn change(cloud: &mut Azure, request: &ApiRequest, wanted: Option<Value>) -> Answer {
    let mut balancer = balancer_of(cloud, request)?;
    let id = text(&balancer, "/id").to_owned();
    if let Some(running) = cloud.running(&id) {
        return Err(Refused::new(
            409,
            "AnotherOperationInProgress",
            &format!("Operation {running} is in progress."),
        ));
    }
    let mut pools: Vec<Value> = items(&balancer, "backendAddressPools")
        .filter(|backend_address_pool| !is_named(backend_address_pool, request))
        .cloned()
        .collect();
    pools.extend(wanted.map(|mut pool| {
        pool["name"] = request.nth_id(1).into();
        pool
    }));
    balancer["properties"]["backendAddressPools"] = pools.into();
    let before = cloud.get(&id).cloned();
    cloud.check_put(&id, &mut balancer, before.as_ref())?;
    cloud.insert(&id, balancer);
    let shown = balancer_of(cloud, request)?;
    let written = items(&shown, "backendAddressPools")
        .find(|backend_address_pool| is_named(backend_address_pool, request))
        .cloned();
    let reply = written.map_or(Reply::empty(202), |mut pool| {
        pool["properties"]["provisioningState"] = "Updating".into();
        Reply::new(200, pool)
    });
    Ok(cloud.begin(request, reply, &id, before))
}

/// Turns the members of pools from network interfaces into addresses.
pub(crate) fn migrate(cloud: &mut Azure, request: &ApiRequest) -> Answer {
    let balancer = id(BALANCERS, request.id());
    for name in request.body["pools"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        let pool = format!("{balancer}/backendAddressPools/{name}");
        let members = cloud.members_of(&pool);
        let machines: Vec<Value> = cloud.machines().cloned().collect();
        let mut addresses = Vec::new();
        for machine in machines {
            let interface = text(
                &machine,
                "/properties/networkProfile/networkInterfaces/0/id",
            );
            if members.iter().any(|member| member.starts_with(interface)) {
                let ip = cloud.address_of(&machine);
                addresses
                    .push(json!({"name": format!("nic-{ip}"), "properties": {"ipAddress": ip}}));
            }
        }
        cloud.forget_pools(&balancer.to_ascii_lowercase());
        cloud.edit(&balancer, |cloud| {
            let all = cloud["properties"]["backendAddressPools"].as_array_mut();
            let its = all
                .into_iter()
                .flatten()
                .filter(|object| object["name"] == *name);
            its.for_each(|object| {
                object["properties"]["loadBalancerBackendAddresses"] = addresses.clone().into();
            });
        });
    }
    Ok(Reply::new(
        200,
        json!({ "migratedPools": request.body["pools"] }),
    ))
}
