//! Linodes, their interfaces, VPCs, and the other objects of an account.

use fake_cloud::Reply;
use serde_json::{Value, json};

use crate::{Answer, ApiRequest, Linodes, SUBNET, VPC, array, find, ok, page, refuse};

pub(crate) fn profile(_: &mut Linodes, request: &ApiRequest) -> Answer {
    Ok(Reply::new(200, json!({"username": request.project})))
}

pub(crate) fn regions(_: &mut Linodes, request: &ApiRequest) -> Answer {
    page(
        request,
        vec![json!({"id": "us-east"}), json!({"id": "de-fra-2"})],
    )
}

pub(crate) fn linodes(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    page(request, cloud.linodes.clone())
}

pub(crate) fn linode(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    ok(find(&mut cloud.linodes, request, 0)?)
}

/// Returns the VPC interface of a Linode, as its generation shows it.
fn interface(linode: &Value) -> Value {
    let vpc = &linode["vpc"];
    let ipv6 = json!({"slaac": [{"range": vpc["ipv6"]}], "ranges": []});
    if linode["interface_generation"] == "legacy_config" {
        return json!({"id": 5, "purpose": "vpc", "vpc_id": VPC, "subnet_id": SUBNET, "ip_ranges": vpc["ranges"],
            "ipv4": {"vpc": vpc["address"]}, "ipv6": ipv6});
    }
    let ranges: Vec<_> = array(&vpc["ranges"])
        .map(|range| json!({ "range": range }))
        .collect();
    let ipv4 = json!({"addresses": [{"address": vpc["address"]}], "ranges": ranges});
    json!({"id": 5, "vpc": {"vpc_id": VPC, "subnet_id": SUBNET, "ipv4": ipv4, "ipv6": ipv6}})
}

/// Returns the configuration profiles of a Linode.
pub(crate) fn profiles(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    let interface = interface(find(&mut cloud.linodes, request, 0)?);
    page(
        request,
        vec![json!({"id": 6, "interfaces": [{"id": 4, "purpose": "public"}, interface]})],
    )
}

pub(crate) fn interfaces(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    let interface = interface(find(&mut cloud.linodes, request, 0)?);
    Ok(Reply::new(200, json!({ "interfaces": [interface] })))
}

pub(crate) fn set_ranges(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    let is_legacy = request.route.contains("configs");
    let linode = find(&mut cloud.linodes, request, 0)?;
    if is_legacy != (linode["interface_generation"] == "legacy_config") {
        return Err(refuse("this Linode has interfaces of the other generation"));
    }
    linode["vpc"]["ranges"] = match is_legacy {
        true => request.body["ip_ranges"].clone(),
        false => array(&request.body["vpc"]["ipv4"]["ranges"])
            .map(|ranges| ranges["range"].clone())
            .collect(),
    };
    if !linode["vpc"]["ranges"].is_array() {
        return Err(refuse("ip_ranges: Must be a list"));
    }
    Ok(Reply::new(200, interface(linode)))
}

fn the_subnets() -> [Value; 2] {
    let subnet = |id: u64, label: &str, range: &str| json!({"id": id, "label": label, "ipv4": range, "linodes": []});
    [
        subnet(SUBNET, "default", "10.0.0.0/8"),
        subnet(71, "backends", "172.16.0.0/16"),
    ]
}

fn the_vpc() -> Value {
    json!({"id": VPC, "label": "pods", "description": "", "region": "us-east", "subnets": the_subnets()})
}

pub(crate) fn vpcs(_: &mut Linodes, request: &ApiRequest) -> Answer {
    page(request, vec![the_vpc()])
}

pub(crate) fn vpc(_: &mut Linodes, request: &ApiRequest) -> Answer {
    ok(find(&mut [the_vpc()], request, 0)?)
}

pub(crate) fn subnets(_: &mut Linodes, request: &ApiRequest) -> Answer {
    page(request, the_subnets().into())
}

pub(crate) fn subnet(_: &mut Linodes, request: &ApiRequest) -> Answer {
    ok(find(&mut the_subnets(), request, 1)?)
}

pub(crate) fn vpc_ips(cloud: &mut Linodes, request: &ApiRequest) -> Answer {
    let mut all = Vec::new();
    for linode in cloud
        .linodes
        .iter()
        .filter(|linode| linode["account"] == *request.project)
    {
        let vpc = &linode["vpc"];
        let entry = json!({"linode_id": linode["id"], "vpc_id": VPC, "subnet_id": SUBNET, "address": null, "address_range": null,
            "active": true});
        let with = |key: &str, value: &Value| {
            let mut entry = entry.clone();
            entry[key] = value.clone();
            entry
        };
        if request.path.ends_with("/ipv6s") {
            let address = vpc["ipv6"]
                .as_str()
                .unwrap_or_default()
                .replace("::/64", "::5");
            let mut entry = with("ipv6_range", &vpc["ipv6"]);
            entry["ipv6_is_public"] = false.into();
            entry["ipv6_addresses"] = json!([{ "slaac_address": address }]);
            all.push(entry);
            continue;
        }
        all.push(with("address", &vpc["address"]));
        all.extend(array(&vpc["ranges"]).map(|range| with("address_range", range)));
    }
    page(request, all)
}
