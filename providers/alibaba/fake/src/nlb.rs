//! NLBs, their listeners, server groups and jobs.

use fake_cloud::Refused;
use serde_json::{Value, json};

use crate::constraints::check_network;
use crate::world::{array, change_tags, has_tags, merge, number, only, tags, text, typed};
use crate::{Answer, REGION, VPC, World, check, refuse};

const TAG: [&str; 2] = ["Key", "Value"];
const SETTINGS: &str = "AddressIpVersion AddressType Ipv6AddressType LoadBalancerName BandwidthPackageId CrossZoneEnabled ResourceGroupId \
    VpcId DeletionProtectionConfig ModificationProtectionConfig";
const GROUP: &str = "AddressIPVersion AnyPortEnabled ConnectionDrainEnabled ConnectionDrainTimeout IpVersionAffinityMode PreserveClientIpEnabled Protocol \
    ResourceGroupId Scheduler ServerGroupName ServerGroupType VpcId";
const LISTENER: &str = "AlpnEnabled AlpnPolicy CaCertificateIds CaEnabled CertificateIds Cps EndPort IdleTimeout ListenerDescription ListenerPort \
    ListenerProtocol LoadBalancerId ProxyProtocolEnabled ProxyProtocolV2Config SecurityPolicyId ServerGroupId StartPort";

fn is_one_of(list: &Value, object: &Value) -> bool {
    list.is_null() || array(list).any(|wanted| wanted == object)
}

/// Returns an answer with the ID of a new job.
fn later(world: &mut World, mut answer: Value) -> Answer {
    answer["JobId"] = world.begin().into();
    Ok(answer)
}

pub(crate) fn answer(world: &mut World, action: &str, body: &Value) -> Answer {
    check_network(body)?;
    match action {
        "ListLoadBalancers" => {
            let found = world.matching("network", |network| {
                is_one_of(&body["LoadBalancerIds"], &network["LoadBalancerId"])
                    && is_one_of(&body["LoadBalancerNames"], &network["LoadBalancerName"])
                    && has_tags(network, body)
            });
            world.token_page(found, body, "MaxResults", ["LoadBalancers", ""])
        }
        "GetLoadBalancerAttribute" => {
            let mut other_balancer = balancer(world, body)?.clone();
            let tags: Vec<_> = array(&other_balancer["Tags"])
                .map(|tag| json!({"TagKey": tag["Key"], "TagValue": tag["Value"]}))
                .collect();
            other_balancer["Tags"] = tags.into();
            Ok(other_balancer)
        }
        "ListServerGroups" => {
            let mut found = world.matching("group", |group| {
                is_one_of(&body["ServerGroupIds"], &group["ServerGroupId"])
                    && is_one_of(&body["ServerGroupNames"], &group["ServerGroupName"])
                    && has_tags(group, body)
            });
            for current in &mut found {
                let listeners = world
                    .all("listener")
                    .iter()
                    .filter(|of| of["ServerGroupId"] == current["ServerGroupId"]);
                let related: Vec<_> = listeners.map(|of| of["LoadBalancerId"].clone()).collect();
                current["RelatedLoadBalancerIds"] = related.into();
                current["ServerCount"] = json!(array(&current["_servers"]).count());
            }
            world.token_page(found, body, "MaxResults", ["ServerGroups", ""])
        }
        "ListServerGroupServers" => {
            let id = &body["ServerGroupId"];
            let servers = world.find(
                "group",
                "ServerGroupId",
                id,
                "ResourceNotFound.serverGroup",
            )?["_servers"]
                .clone();
            world.token_page(
                array(&servers).cloned().collect(),
                body,
                "MaxResults",
                ["Servers", ""],
            )
        }
        "ListListeners" => {
            let found = world.matching("listener", |listener| {
                is_one_of(&body["LoadBalancerIds"], &listener["LoadBalancerId"])
            });
            world.token_page(found, body, "MaxResults", ["Listeners", ""])
        }
        "GetListenerAttribute" => Ok(listener(world, body)?.clone()),
        "ListListenerCertificates" => {
            let entry = listener(world, body)?.clone();
            let shown = |id: &Value, is_default: bool| json!({"CertificateId": id, "IsDefault": is_default, "CertificateType": "Server", "Status": "Associated"});
            let usual = array(&entry["CertificateIds"]).map(|id| shown(id, true));
            let all = usual
                .chain(array(&entry["_additional"]).map(|id| shown(id, false)))
                .collect();
            world.token_page(all, body, "MaxResults", ["Certificates", ""])
        }
        "ListTagResources" => {
            let found = world.matching("network", |network| {
                is_one_of(&body["ResourceId"], &network["LoadBalancerId"])
            });
            let each = |object: &Value| -> Vec<_> {
                let tag = |tag: &Value| {
                    json!({"ResourceId": object["LoadBalancerId"], "ResourceType": "loadbalancer",
                    "TagKey": tag["Key"], "TagValue": tag["Value"]})
                };
                array(&object["Tags"]).map(tag).collect()
            };
            Ok(json!({"TagResources": found.iter().flat_map(each).collect::<Vec<_>>()}))
        }
        "ListAsynJobs" => Ok(json!({"Jobs": world.jobs(&body["JobIds"])})),
        "GetJobStatus" => Ok(json!({"Status": world.jobs(&json!([body["JobId"]]))[0]["Status"]})),
        "CreateLoadBalancer" => create(world, body),
        "TagResources" | "UntagResources" => {
            let account = world.account;
            let kind = text(&body["ResourceType"]);
            let (things, id) = if kind == "servergroup" {
                ("group", "ServerGroupId")
            } else {
                ("network", "LoadBalancerId")
            };
            change_tags(world.each(things), id, body, TAG, account);
            Ok(json!({}))
        }
        _ if action.contains("Server") => group(world, action, body),
        _ if action.contains("Listener") => change_listener(world, action, body),
        _ => change(world, action, body),
    }
}

fn balancer<'a>(world: &'a mut World, body: &Value) -> Result<&'a mut Value, Refused> {
    world.find(
        "network",
        "LoadBalancerId",
        &body["LoadBalancerId"],
        "ResourceNotFound.loadBalancer",
    )
}

fn listener<'a>(world: &'a mut World, body: &Value) -> Result<&'a mut Value, Refused> {
    world.find(
        "listener",
        "ListenerId",
        &body["ListenerId"],
        "ResourceNotFound.listener",
    )
}

/// Writes values as the API shows them, in whatever case they were sent.
fn shown(mut object: Value) -> Value {
    for (key, values) in [
        ("AddressType", &["Internet", "Intranet"][..]),
        ("Ipv6AddressType", &["Internet", "Intranet"]),
        ("Scheduler", &["Wrr", "Wlc"]),
    ] {
        let known = values
            .iter()
            .find(|value| text(&object[key]).eq_ignore_ascii_case(value));
        known
            .into_iter()
            .for_each(|value| object[key] = json!(value));
    }
    object
}

fn zones(body: &Value) -> Value {
    let zone = |object: &Value| {
        let address = json!({"PrivateIPv4Address": object["PrivateIPv4Address"].as_str().unwrap_or("10.0.0.9"),
            "AllocationId": object["AllocationId"]});
        json!({"ZoneId": object["ZoneId"], "VSwitchId": object["VSwitchId"], "LoadBalancerAddresses": [address]})
    };
    array(&body["ZoneMappings"]).map(zone).collect()
}

fn create(world: &mut World, body: &Value) -> Answer {
    check(
        !body["ZoneMappings"].is_null(),
        "MissingParameter.ZoneMappings",
        "ZoneMappings is missing",
    )?;
    for zone in array(&body["ZoneMappings"]) {
        world.find(
            "vswitch",
            "VSwitchId",
            &zone["VSwitchId"],
            "ResourceNotFound.vSwitch",
        )?;
    }
    let number = world.number();
    let id = format!("nlb-bp1{number:06}");
    let mut object = json!({"AddressIpVersion": "ipv4", "CrossZoneEnabled": true, "LoadBalancerName": id, "SecurityGroupIds": []});
    merge(&mut object, &shown(only(body, SETTINGS)));
    object["ZoneMappings"] = zones(body);
    object["LoadBalancerId"] = id.clone().into();
    object["DNSName"] = format!("{id}.{REGION}.nlb.aliyuncsslb.com").into();
    (
        object["LoadBalancerStatus"],
        object["RegionId"],
        object["Tags"],
    ) = ("Provisioning".into(), REGION.into(), tags(body, TAG));
    object["_job"] = world.begin().into();
    world.add("network", object);
    Ok(json!({"LoadbalancerId": id}))
}

fn change(world: &mut World, action: &str, body: &Value) -> Answer {
    let entry = balancer(world, body)?;
    let is_ready = entry["LoadBalancerStatus"] == "Active" || action == "DeleteLoadBalancer";
    check(
        is_ready,
        "IncorrectStatus.loadBalancer",
        "The load balancer is being provisioned.",
    )?;
    match action {
        "DeleteLoadBalancer" => {
            let is_protected = entry["DeletionProtectionConfig"]["Enabled"] == true;
            check(
                !is_protected,
                "OperationDenied.DeletionProtection",
                "Deletion protection is on.",
            )?;
            let id = entry["LoadBalancerId"].clone();
            for kind in ["network", "listener"] {
                world.remove(kind, |object| object["LoadBalancerId"] == id);
            }
        }
        "UpdateLoadBalancerProtection" => {
            if let Some(text) = body["DeletionProtectionEnabled"].as_str() {
                entry["DeletionProtectionConfig"] = json!({"Enabled": text == "true"});
            }
            if let Some(status) = body["ModificationProtectionStatus"].as_str() {
                entry["ModificationProtectionConfig"] = json!({"Status": status});
            }
            return Ok(json!({}));
        }
        "UpdateLoadBalancerAttribute" | "UpdateLoadBalancerAddressTypeConfig" => {
            merge(entry, &shown(only(body, SETTINGS)));
        }
        "UpdateLoadBalancerZones" => entry["ZoneMappings"] = zones(body),
        "LoadBalancerJoinSecurityGroup" | "LoadBalancerLeaveSecurityGroup" => {
            let has_ids = array(&body["SecurityGroupIds"]).next().is_some();
            check(
                has_ids,
                "MissingParameter.SecurityGroupIds",
                "SecurityGroupIds is missing",
            )?;
            let all = entry["SecurityGroupIds"].as_array_mut();
            let all = all.ok_or_else(|| Refused::new(500, "InternalError", "no list"))?;
            all.retain(|id| {
                !array(&body["SecurityGroupIds"]).any(|security_group_id| security_group_id == id)
            });
            if action.contains("Join") {
                all.extend(array(&body["SecurityGroupIds"]).cloned());
            }
        }
        "EnableLoadBalancerIpv6Internet" => entry["Ipv6AddressType"] = "Internet".into(),
        "DisableLoadBalancerIpv6Internet" => entry["Ipv6AddressType"] = "Intranet".into(),
        "AttachCommonBandwidthPackageToLoadBalancer" => {
            entry["BandwidthPackageId"] = body["BandwidthPackageId"].clone();
        }
        "DetachCommonBandwidthPackageFromLoadBalancer" => entry["BandwidthPackageId"] = Value::Null,
        _ => return refuse("InvalidAction.NotFound", action),
    }
    later(world, json!({}))
}

fn group(world: &mut World, action: &str, body: &Value) -> Answer {
    if action == "CreateServerGroup" {
        world.find("vpc", "VpcId", &body["VpcId"], "ResourceNotFound.vpc")?;
        let mut other_object = json!({"ServerGroupType": "Instance", "Protocol": "TCP", "Scheduler": "Wrr", "AddressIPVersion": "ipv4",
            "ConnectionDrainEnabled": false, "PreserveClientIpEnabled": true, "_servers": []});
        merge(&mut other_object, &shown(only(body, GROUP)));
        other_object["HealthCheck"] = json!({"HealthCheckEnabled": true, "HealthCheckType": "TCP"});
        merge(
            &mut other_object["HealthCheck"],
            &typed(&body["HealthCheckConfig"]),
        );
        let needs_port = other_object["AnyPortEnabled"] == true
            && other_object["HealthCheck"]["HealthCheckEnabled"] == true;
        let has_port = number(&other_object["HealthCheck"]["HealthCheckConnectPort"]) > Some(0);
        check(
            !needs_port || has_port,
            "MissingParameter.HealthCheckConnectPort",
            "HealthCheckConnectPort is missing",
        )?;
        let id = format!("sgp-{}", world.number());
        (
            other_object["ServerGroupId"],
            other_object["ServerGroupStatus"],
            other_object["Tags"],
        ) = (id.clone().into(), "Available".into(), tags(body, TAG));
        world.add("group", other_object);
        return later(world, json!({"ServerGroupId": id}));
    }
    let id = body["ServerGroupId"].clone();
    let servers: Vec<_> = array(&body["Servers"]).map(typed).collect();
    check(
        servers.len() <= 40,
        "InvalidParameter",
        "at most 40 servers in a request",
    )?;
    if action == "AddServersToServerGroup" {
        for current in servers
            .iter()
            .filter(|server| server["ServerType"] == "Ecs")
        {
            let found = world.find(
                "instance",
                "InstanceId",
                &current["ServerId"],
                "ResourceNotFound.server",
            )?;
            check(
                found["VpcAttributes"]["VpcId"] == VPC,
                "InvalidParameter",
                "The server is in another VPC.",
            )?;
        }
    }
    let account = world.account;
    let is_used = world
        .all("listener")
        .iter()
        .any(|object| object["ServerGroupId"] == id && object["_account"] == account);
    let entry = world.find(
        "group",
        "ServerGroupId",
        &id,
        "ResourceNotFound.serverGroup",
    )?;
    let is_same = |one: &Value, other: &Value| {
        one["ServerId"] == other["ServerId"] && number(&one["Port"]) == number(&other["Port"])
    };
    match action {
        "DeleteServerGroup" => {
            check(
                !is_used,
                "ResourceInUse.serverGroup",
                "The server group is used by a listener.",
            )?;
            world.remove("group", |group| group["ServerGroupId"] == id);
        }
        "UpdateServerGroupAttribute" => {
            merge(entry, &shown(only(body, GROUP)));
            merge(
                &mut entry["HealthCheck"],
                &typed(&body["HealthCheckConfig"]),
            );
        }
        _ => {
            let all = entry["_servers"]
                .as_array_mut()
                .ok_or_else(|| Refused::new(500, "InternalError", "no list"))?;
            all.retain(|object| !servers.iter().any(|server| is_same(object, server)));
            if action != "RemoveServersFromServerGroup" {
                all.extend(servers.into_iter().map(|mut server| {
                    server["Status"] = "Available".into();
                    server["ServerGroupId"] = id.clone();
                    server
                }));
            }
        }
    }
    later(world, json!({}))
}

fn change_listener(world: &mut World, action: &str, body: &Value) -> Answer {
    if action == "CreateListener" {
        let status = balancer(world, body)?["LoadBalancerStatus"].clone();
        check(
            status == "Active",
            "IncorrectStatus.loadBalancer",
            "The load balancer is being provisioned.",
        )?;
        let is_udp = body["ListenerProtocol"] == "UDP";
        let span = |object: &Value| match number(&object["ListenerPort"]) {
            Some(0) => ["StartPort", "EndPort"].map(|key| number(&object[key])),
            port => [port; 2],
        };
        let [first, last] = span(body);
        let is_range = first != last;
        check(
            first > Some(0) && first <= last,
            "InvalidParameter.ListenerPort",
            "Ports are missing.",
        )?;
        let is_same = |object: &Value| {
            object["LoadBalancerId"] == body["LoadBalancerId"]
                && span(object)[0] <= last
                && span(object)[1] >= first
                && (object["ListenerProtocol"] == "UDP") == is_udp
        };
        check(
            world.matching("listener", is_same).is_empty(),
            "ResourceAlreadyExist.listener",
            "The port has a listener.",
        )?;
        let group = world.find(
            "group",
            "ServerGroupId",
            &body["ServerGroupId"],
            "ResourceNotFound.serverGroup",
        )?;
        let is_any_port = group["AnyPortEnabled"] == true;
        check(
            is_range == is_any_port,
            "Mismatch.AnyPortEnabled",
            "A range of ports needs a server group for any port.",
        )?;
        let mut current = json!({"IdleTimeout": 900, "ProxyProtocolEnabled": false, "Cps": 0, "ListenerStatus": "Running"});
        merge(&mut current, &only(body, LISTENER));
        for key in ["StartPort", "EndPort"] {
            current[key] = body[key].as_str().filter(|_| is_range).into();
        }
        let id = format!("lsn-{}", world.number());
        current["ListenerId"] = id.clone().into();
        world.add("listener", current);
        return later(world, json!({"ListenerId": id}));
    }
    let fields = only(body, LISTENER);
    let entry = listener(world, body)?;
    match action {
        "AssociateAdditionalCertificatesWithListener"
        | "DisassociateAdditionalCertificatesWithListener" => {
            check(
                entry["ListenerProtocol"] == "TCPSSL",
                "OperationDenied.ListenerProtocol",
                "only with TCPSSL",
            )?;
            let ids = &body["AdditionalCertificateIds"];
            check(
                (1..=15).contains(&array(ids).count()),
                "InvalidParameter",
                "1 to 15 certificates in a request",
            )?;
            let other =
                array(&entry["_additional"]).filter(|id| !array(ids).any(|object| object == *id));
            let new = array(ids).filter(|_| action.starts_with('A'));
            entry["_additional"] = other.chain(new).cloned().collect();
        }
        "UpdateListenerAttribute" => merge(entry, &fields),
        "StartListener" => entry["ListenerStatus"] = "Running".into(),
        "StopListener" => entry["ListenerStatus"] = "Stopped".into(),
        "DeleteListener" => {
            let id = body["ListenerId"].clone();
            world.remove("listener", |listener| listener["ListenerId"] == id);
        }
        _ => return refuse("InvalidAction.NotFound", action),
    }
    later(world, json!({}))
}
