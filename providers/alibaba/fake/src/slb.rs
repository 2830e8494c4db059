//! CLBs, their listeners and server groups.

use fake_cloud::Refused;
use serde_json::{Value, json};

use crate::constraints::check_classic;
use crate::world::{array, change_tags, has_tags, merge, number, only, tags, text, typed};
use crate::{Answer, REGION, VPC, World, check, refuse};

const TAG: [&str; 2] = ["TagKey", "TagValue"];
const SETTINGS: &str = "AddressType AddressIPVersion LoadBalancerName LoadBalancerSpec InstanceChargeType InternetChargeType Bandwidth \
    MasterZoneId SlaveZoneId VSwitchId ResourceGroupId DeleteProtection ModificationProtectionStatus ModificationProtectionReason Address";
/// Backends of one request. The documentation says 20; the Go program sends 40 by default.
const BACKENDS: usize = 40;

pub(crate) fn answer(world: &mut World, action: &str, body: &Value) -> Answer {
    check_classic(body)?;
    let is_list = action == "DescribeLoadBalancerListeners";
    if !body["LoadBalancerId"].is_null() && action != "DescribeLoadBalancers" && !is_list {
        let code = "InvalidLoadBalancerId.NotFound";
        let is_there = world
            .find("classic", "LoadBalancerId", &body["LoadBalancerId"], code)
            .map(drop);
        if action != "DeleteLoadBalancer" {
            is_there?;
        } else if let Err(mut refused) = is_there {
            "The specified LoadBalancerId does not exist.".clone_into(&mut refused.message);
            return Err(refused);
        }
    }
    match action {
        "DescribeLoadBalancers" => {
            // Tags may be a list in a text as well.
            let tag = |tag: &Value| json!({"Key": tag["TagKey"], "Value": tag["TagValue"]});
            let mut tags = only(body, "Tag");
            if body["Tags"].is_array() {
                tags["Tag"] = array(&body["Tags"]).map(tag).collect();
            }
            let ids: Vec<_> = text(&body["LoadBalancerId"])
                .split(',')
                .filter(|id| !id.is_empty())
                .collect();
            let found = world.matching("classic", |object| {
                (ids.is_empty() || ids.contains(&text(&object["LoadBalancerId"])))
                    && (body["LoadBalancerName"].is_null()
                        || body["LoadBalancerName"] == object["LoadBalancerName"])
                    && has_tags(object, &tags)
            });
            let listed = |mut object: Value| {
                // Lists show the kind of payment as a number, and its name beside it.
                object["InternetChargeTypeAlias"] = object["InternetChargeType"].take();
                object["InternetChargeType"] = match text(&object["InternetChargeTypeAlias"]) {
                    "" => Value::Null,
                    "paybybandwidth" => "3".into(),
                    _ => "4".into(),
                };
                object
            };
            let found = found.into_iter().map(listed).collect();
            world.numbered_page(found, body, ["LoadBalancers", "LoadBalancer"])
        }
        "DescribeLoadBalancerAttribute" => Ok(balancer(world, body)?.clone()),
        "CreateLoadBalancer" => create(world, body),
        "DeleteLoadBalancer" => {
            let is_protected = balancer(world, body)?["DeleteProtection"] == "on";
            check(
                !is_protected,
                "OperationDenied.DeleteProtectionIsOn",
                "Deletion protection is on.",
            )?;
            let id = body["LoadBalancerId"].clone();
            for kind in ["classic", "vgroup", "classic listener", "domain"] {
                world.remove(kind, |object| object["LoadBalancerId"] == id);
            }
            Ok(json!({}))
        }
        "SetLoadBalancerName"
        | "SetLoadBalancerDeleteProtection"
        | "SetLoadBalancerModificationProtection"
        | "ModifyLoadBalancerInstanceSpec"
        | "ModifyLoadBalancerInstanceChargeType"
        | "ModifyLoadBalancerInternetSpec" => {
            let fields = only(body, SETTINGS);
            merge(balancer(world, body)?, &fields);
            Ok(json!({}))
        }
        "TagResources" | "UntagResources" => {
            let account = world.account;
            change_tags(world.each("classic"), "LoadBalancerId", body, TAG, account);
            Ok(json!({}))
        }
        "ListTagResources" => {
            let found = world.matching("classic", |object| {
                array(&body["ResourceId"]).any(|id| *id == object["LoadBalancerId"])
            });
            let each = |object: &Value| -> Vec<_> {
                let tag = |tag: &Value| {
                    json!({"ResourceId": object["LoadBalancerId"], "ResourceType": "instance",
                    "TagKey": tag["TagKey"], "TagValue": tag["TagValue"]})
                };
                array(&object["Tags"]["Tag"]).map(tag).collect()
            };
            Ok(
                json!({"TagResources": {"TagResource": found.iter().flat_map(each).collect::<Vec<_>>()}, "NextToken": ""}),
            )
        }
        "DescribeServerCertificates" => {
            let wanted = &body["ServerCertificateId"];
            let found = world.matching("certificate", |certificate| {
                wanted.is_null() || *wanted == certificate["ServerCertificateId"]
            });
            Ok(json!({"ServerCertificates": {"ServerCertificate": found}}))
        }
        _ if action.contains("DomainExtension") => domain(world, action, body),
        _ if action.contains("VServerGroup") => group(world, action, body),
        _ if action.contains("Listener") => listener(world, action, body),
        _ => refuse("InvalidAction.NotFound", action),
    }
}

fn balancer<'a>(world: &'a mut World, body: &Value) -> Result<&'a mut Value, Refused> {
    world.find(
        "classic",
        "LoadBalancerId",
        &body["LoadBalancerId"],
        "InvalidLoadBalancerId.NotFound",
    )
}

fn create(world: &mut World, body: &Value) -> Answer {
    let count = world.number();
    let [.., high, low] = count.to_be_bytes();
    let mut object = json!({"AddressType": "internet", "AddressIPVersion": "ipv4", "DeleteProtection": "off", "InternetChargeType": "paybytraffic",
        "ModificationProtectionStatus": "NonProtection", "InstanceChargeType": "PayByCLCU", "LoadBalancerName": format!("lb-{count}"),
        "Address": format!("198.18.{high}.{low}")});
    merge(&mut object, &only(body, SETTINGS));
    let is_internal = object["AddressType"] == "intranet";
    check(
        !is_internal || object["VSwitchId"].is_string(),
        "VSwitchIdRequired",
        "VSwitchId is required.",
    )?;
    if is_internal {
        let vswitch = object["VSwitchId"].clone();
        let found = world.find(
            "vswitch",
            "VSwitchId",
            &vswitch,
            "InvalidVSwitchId.NotFound",
        )?;
        let has_room = found["AvailableIpAddressCount"].as_i64() > Some(0);
        check(
            has_room,
            "VSwitchAvailableIpNotExist",
            "The vSwitch has no available address.",
        )?;
    }
    object["LoadBalancerId"] = format!("lb-bp1{count:06}").into();
    object["LoadBalancerStatus"] = "active".into();
    (object["NetworkType"], object["RegionId"]) = (
        if is_internal {
            "vpc".into()
        } else {
            "classic".into()
        },
        REGION.into(),
    );
    object["Tags"] = json!({"Tag": tags(body, TAG)});
    world.add("classic", object.clone());
    Ok(only(
        &object,
        "LoadBalancerId LoadBalancerName Address AddressIPVersion NetworkType VSwitchId ResourceGroupId",
    ))
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .chain(letters)
        .collect()
}

fn backends(body: &Value, key: &str) -> Result<Vec<Value>, Refused> {
    // The API takes names of fields in any case, and others too.
    let named = |object: &Value| {
        let fields = object
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (capitalized(key), value.clone()));
        only(
            &fields.collect(),
            "ServerId ServerIp Weight Port Type Description",
        )
    };
    let all: Vec<_> = array(&body[key])
        .map(|object| typed(&named(object)))
        .collect();
    check(
        all.len() <= BACKENDS,
        "InvalidParameter",
        "at most 40 backends in a request",
    )?;
    Ok(all)
}

fn is_server(one: &Value, other: &Value) -> bool {
    one["ServerId"] == other["ServerId"] && number(&one["Port"]) == number(&other["Port"])
}

fn group(world: &mut World, action: &str, body: &Value) -> Answer {
    if action == "DescribeVServerGroups" {
        let found = world.matching("vgroup", |vgroup| {
            vgroup["LoadBalancerId"] == body["LoadBalancerId"]
        });
        let shown: Vec<_> = found
            .iter()
            .map(|object| only(object, "VServerGroupId VServerGroupName"))
            .collect();
        return Ok(json!({"VServerGroups": {"VServerGroup": shown}}));
    }
    let new = backends(body, "BackendServers")?;
    for other_new in &new {
        let code = "ObtainIpFail";
        let is_instance = other_new["Type"] != "eni";
        if is_instance && action != "RemoveVServerGroupBackendServers" {
            let vpc = world.find("instance", "InstanceId", &other_new["ServerId"], code)?["VpcAttributes"]
                ["VpcId"]
                .clone();
            check(
                vpc == VPC,
                "InvalidParameter",
                "The backend server is in another VPC.",
            )?;
        }
    }
    let list = |all: &[Value]| json!({"BackendServers": {"BackendServer": all}});
    if action == "CreateVServerGroup" {
        let id = format!("rsp-bp1{}", world.number());
        let mut other_only = only(body, "LoadBalancerId VServerGroupName");
        other_only["VServerGroupId"] = id.clone().into();
        merge(&mut other_only, &list(&new));
        world.add("vgroup", other_only);
        let mut answer = list(&new);
        answer["VServerGroupId"] = id.into();
        return Ok(answer);
    }
    let id = body["VServerGroupId"].clone();
    let account = world.account;
    if action == "DeleteVServerGroup" {
        world.find(
            "vgroup",
            "VServerGroupId",
            &id,
            "InvalidVServerGroupId.NotFound",
        )?;
        let is_used = world
            .all("classic listener")
            .iter()
            .any(|object| object["VServerGroupId"] == id && object["_account"] == account);
        check(
            !is_used,
            "RspoolVipExist",
            "The VServerGroup is used by a listener.",
        )?;
        world.remove("vgroup", |vgroup| vgroup["VServerGroupId"] == id);
        return Ok(json!({}));
    }
    let old = backends(body, "OldBackendServers")?;
    let newer = backends(body, "NewBackendServers")?;
    let current = world.find(
        "vgroup",
        "VServerGroupId",
        &id,
        "InvalidVServerGroupId.NotFound",
    )?;
    if action != "DescribeVServerGroupAttribute" {
        let all = current["BackendServers"]["BackendServer"].as_array_mut();
        let all = all.ok_or_else(|| Refused::new(500, "InternalError", "no list"))?;
        match action {
            "AddVServerGroupBackendServers" => {
                all.retain(|object| !new.iter().any(|new| is_server(object, new)));
                all.extend(new);
            }
            "RemoveVServerGroupBackendServers" => {
                all.retain(|object| !new.iter().any(|new| is_server(object, new)));
            }
            "ModifyVServerGroupBackendServers" => {
                all.retain(|object| !old.iter().any(|old| is_server(object, old)));
                all.extend(newer);
            }
            _ => {
                for entry in all.iter_mut() {
                    new.iter()
                        .filter(|new| is_server(entry, new))
                        .cloned()
                        .collect::<Vec<_>>()
                        .iter()
                        .for_each(|new| merge(entry, new));
                }
            }
        }
    }
    let shown = if action.starts_with("Describe") {
        "LoadBalancerId"
    } else {
        ""
    };
    Ok(only(
        current,
        &format!("VServerGroupId VServerGroupName BackendServers {shown}"),
    ))
}

/// Domain extensions of HTTPS listeners.
fn domain(world: &mut World, action: &str, body: &Value) -> Answer {
    let port = number(&body["ListenerPort"]);
    let is_of_listener = |object: &Value| {
        object["LoadBalancerId"] == body["LoadBalancerId"]
            && number(&object["ListenerPort"]) == port
    };
    match action {
        "DescribeDomainExtensions" => {
            let found = world.matching("domain", is_of_listener);
            let shown: Vec<_> = found
                .iter()
                .map(|object| only(object, "Domain DomainExtensionId ServerCertificateId"))
                .collect();
            Ok(json!({"DomainExtensions": {"DomainExtension": shown}}))
        }
        "CreateDomainExtension" => {
            let is_https =
                |object: &Value| is_of_listener(object) && object["ListenerProtocol"] == "https";
            let has_listener = !world.matching("classic listener", is_https).is_empty();
            check(
                has_listener,
                "InvalidParameter.ListenerNotFound.NotFound",
                "The listener does not exist.",
            )?;
            let is_same =
                |object: &Value| is_of_listener(object) && object["Domain"] == body["Domain"];
            let is_free = world.matching("domain", is_same).is_empty();
            check(
                is_free,
                "DomainExtensionAlreadyExist",
                "The domain has an extension.",
            )?;
            let mut current = only(
                body,
                "LoadBalancerId ListenerPort Domain ServerCertificateId",
            );
            let id = format!("de-bp1{}", world.number());
            current["DomainExtensionId"] = id.clone().into();
            world.add("domain", current);
            Ok(json!({"DomainExtensionId": id, "ListenerPort": port}))
        }
        _ => {
            let id = body["DomainExtensionId"].clone();
            let entry = world.find(
                "domain",
                "DomainExtensionId",
                &id,
                "InvalidDomainExtensionId.NotFound",
            )?;
            match action {
                "SetDomainExtensionAttribute" => merge(entry, &only(body, "ServerCertificateId")),
                "DeleteDomainExtension" => {
                    world.remove("domain", |domain| domain["DomainExtensionId"] == id);
                }
                _ => return refuse("InvalidAction.NotFound", action),
            }
            Ok(json!({}))
        }
    }
}

/// Fields of listeners that are the same for all protocols.
const SHARED: [&str; 8] = [
    "Description",
    "VServerGroupId",
    "Scheduler",
    "AclStatus",
    "AclType",
    "Bandwidth",
    "ListenerPort",
    "LoadBalancerId",
];

fn listener(world: &mut World, action: &str, body: &Value) -> Answer {
    if action == "DescribeLoadBalancerListeners" {
        let wanted = &body["LoadBalancerId"];
        let is_this_match =
            |object: &Value| wanted == object || array(wanted).any(|id| id == object);
        let found = world.matching("classic listener", |listener| {
            is_this_match(&listener["LoadBalancerId"])
        });
        return world.token_page(found, body, "MaxResults", ["Listeners", ""]);
    }
    let named = ["TCP", "UDP", "HTTPS", "HTTP"]
        .into_iter()
        .find(|http| action.contains(&format!("LoadBalancer{http}Listener")));
    let protocol = named.map_or_else(
        || text(&body["ListenerProtocol"]).to_owned(),
        str::to_lowercase,
    );
    let port = number(&body["ListenerPort"]);
    let is_udp = protocol == "udp";
    let is_this_object = |object: &Value| {
        let same = object["LoadBalancerId"] == body["LoadBalancerId"]
            && number(&object["ListenerPort"]) == port;
        same && (protocol.is_empty() || (object["ListenerProtocol"] == "udp") == is_udp)
    };
    let account = world.account;
    if let (Some(group), true) = (body["VServerGroupId"].as_str(), named.is_some()) {
        let group = json!(group);
        world.find(
            "vgroup",
            "VServerGroupId",
            &group,
            "InvalidVServerGroupId.NotFound",
        )?;
    }
    if action.starts_with("Create") {
        let leads_to = number(&body["ForwardPort"]).filter(|_| body["ListenerForward"] == "on");
        let is_target = |object: &Value| {
            object["LoadBalancerId"] == body["LoadBalancerId"]
                && number(&object["ListenerPort"]) == leads_to
        };
        let has_target =
            leads_to.is_none() || !world.matching("classic listener", is_target).is_empty();
        check(
            has_target,
            "InvalidParameter",
            "The listener of ForwardPort does not exist.",
        )?;
        let is_free = world
            .matching("classic listener", is_this_object)
            .is_empty();
        check(
            is_free,
            "ListenerAlreadyExists",
            "There is already a listener bound to the port.",
        )?;
        let mut current =
            json!({"ListenerProtocol": protocol, "Status": "stopped", "Scheduler": "rr"});
        set(&mut current, &protocol, body);
        world.add("classic listener", current);
        return Ok(json!({}));
    }
    if action == "DeleteLoadBalancerListener" {
        let leads_here = |object: &Value| {
            let http = &object["HTTPListenerConfig"];
            object["LoadBalancerId"] == body["LoadBalancerId"]
                && http["ListenerForward"] == "on"
                && number(&http["ForwardPort"]) == port
        };
        let is_target = !world.matching("classic listener", leads_here).is_empty();
        check(
            !is_target,
            "InvalidParameter",
            "Another listener is forwarded to the listener.",
        )?;
        world.remove("domain", |domain| {
            domain["LoadBalancerId"] == body["LoadBalancerId"]
                && number(&domain["ListenerPort"]) == port
        });
    }
    let config = format!("{}ListenerConfig", protocol.to_uppercase());
    let found = world
        .each("classic listener")
        .iter_mut()
        .find(|classic_listener| {
            classic_listener["_account"] == account && is_this_object(classic_listener)
        });
    let Some(entry) = found else {
        return refuse(
            "InvalidParameter.ListenerNotFound.NotFound",
            "The listener does not exist.",
        );
    };
    match action {
        "StartLoadBalancerListener" => entry["Status"] = "running".into(),
        "StopLoadBalancerListener" => entry["Status"] = "stopped".into(),
        "DeleteLoadBalancerListener" => drop(world.remove("classic listener", is_this_object)),
        _ if action.starts_with("Describe") => {
            let mut shown = entry.clone();
            let own = shown[&config].take();
            merge(&mut shown, &own);
            return Ok(shown);
        }
        _ => set(entry, &protocol, body),
    }
    Ok(json!({}))
}

/// Sets the fields of a listener where answers show them.
fn set(object: &mut Value, protocol: &str, body: &Value) {
    let config = format!("{}ListenerConfig", protocol.to_uppercase());
    if !object[&config].is_object() {
        object[&config] = json!({"HealthCheck": "on"});
    }
    for (key, value) in typed(body).as_object().into_iter().flatten() {
        match &**key {
            "RegionId" | "VServerGroup" => {}
            "AclId" => object["AclIds"] = text(value).split(',').map(|id| json!(id)).collect(),
            "healthCheckInterval" => object[&config]["HealthCheckInterval"] = value.clone(),
            "HealthCheckSwitch" => object[&config]["HealthCheck"] = value.clone(),
            "ProxyProtocolV2Enabled" => object[&config][key] = value.to_string().into(),
            "ListenerPort" => object[key] = json!(number(value)),
            _ if SHARED.contains(&&**key) => object[key] = value.clone(),
            _ => object[&config][key] = value.clone(),
        }
    }
}
