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

fn is_one_of(list: &Value, it: &Value) -> bool {
    list.is_null() || array(list).any(|wanted| wanted == it)
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
            let mut it = balancer(world, body)?.clone();
            let tags: Vec<_> = array(&it["Tags"])
                .map(|tag| json!({"TagKey": tag["Key"], "TagValue": tag["Value"]}))
                .collect();
            it["Tags"] = tags.into();
            Ok(it)
        }
        "ListServerGroups" => {
            let mut found = world.matching("group", |group| {
                is_one_of(&body["ServerGroupIds"], &group["ServerGroupId"])
                    && is_one_of(&body["ServerGroupNames"], &group["ServerGroupName"])
                    && has_tags(group, body)
            });
            for it in &mut found {
                let listeners = world
                    .all("listener")
                    .iter()
                    .filter(|of| of["ServerGroupId"] == it["ServerGroupId"]);
                let related: Vec<_> = listeners.map(|of| of["LoadBalancerId"].clone()).collect();
                it["RelatedLoadBalancerIds"] = related.into();
                it["ServerCount"] = json!(array(&it["_servers"]).count());
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
            let it = listener(world, body)?.clone();
            let shown = |id: &Value, is_default: bool| json!({"CertificateId": id, "IsDefault": is_default, "CertificateType": "Server", "Status": "Associated"});
            let usual = array(&it["CertificateIds"]).map(|id| shown(id, true));
            let all = usual
                .chain(array(&it["_additional"]).map(|id| shown(id, false)))
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
            let (account, kind) = (world.account, text(&body["ResourceType"]));
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
fn shown(mut it: Value) -> Value {
    for (key, values) in [
        ("AddressType", &["Internet", "Intranet"][..]),
        ("Ipv6AddressType", &["Internet", "Intranet"]),
        ("Scheduler", &["Wrr", "Wlc"]),
    ] {
        let known = values
            .iter()
            .find(|value| text(&it[key]).eq_ignore_ascii_case(value));
        known.into_iter().for_each(|value| it[key] = json!(value));
    }
    it
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
    let mut it = json!({"AddressIpVersion": "ipv4", "CrossZoneEnabled": true, "LoadBalancerName": id, "SecurityGroupIds": []});
    merge(&mut it, &shown(only(body, SETTINGS)));
    it["ZoneMappings"] = zones(body);
    it["LoadBalancerId"] = id.clone().into();
    it["DNSName"] = format!("{id}.{REGION}.nlb.aliyuncsslb.com").into();
    (it["LoadBalancerStatus"], it["RegionId"], it["Tags"]) =
        ("Provisioning".into(), REGION.into(), tags(body, TAG));
    it["_job"] = world.begin().into();
    world.add("network", it);
    Ok(json!({"LoadbalancerId": id}))
}

fn change(world: &mut World, action: &str, body: &Value) -> Answer {
    let it = balancer(world, body)?;
    let is_ready = it["LoadBalancerStatus"] == "Active" || action == "DeleteLoadBalancer";
    check(
        is_ready,
        "IncorrectStatus.loadBalancer",
        "The load balancer is being provisioned.",
    )?;
    match action {
        "DeleteLoadBalancer" => {
            let is_protected = it["DeletionProtectionConfig"]["Enabled"] == true;
            check(
                !is_protected,
                "OperationDenied.DeletionProtection",
                "Deletion protection is on.",
            )?;
            let id = it["LoadBalancerId"].clone();
            for kind in ["network", "listener"] {
                world.remove(kind, |object| object["LoadBalancerId"] == id);
            }
        }
        "UpdateLoadBalancerProtection" => {
            if let Some(text) = body["DeletionProtectionEnabled"].as_str() {
                it["DeletionProtectionConfig"] = json!({"Enabled": text == "true"});
            }
            if let Some(status) = body["ModificationProtectionStatus"].as_str() {
                it["ModificationProtectionConfig"] = json!({"Status": status});
            }
            return Ok(json!({}));
        }
        "UpdateLoadBalancerAttribute" | "UpdateLoadBalancerAddressTypeConfig" => {
            merge(it, &shown(only(body, SETTINGS)));
        }
        "UpdateLoadBalancerZones" => it["ZoneMappings"] = zones(body),
        "LoadBalancerJoinSecurityGroup" | "LoadBalancerLeaveSecurityGroup" => {
            let has_ids = array(&body["SecurityGroupIds"]).next().is_some();
            check(
                has_ids,
                "MissingParameter.SecurityGroupIds",
                "SecurityGroupIds is missing",
            )?;
            let all = it["SecurityGroupIds"].as_array_mut();
            let all = all.ok_or_else(|| Refused::new(500, "InternalError", "no list"))?;
            all.retain(|id| {
                !array(&body["SecurityGroupIds"]).any(|security_group_id| security_group_id == id)
            });
            if action.contains("Join") {
                all.extend(array(&body["SecurityGroupIds"]).cloned());
            }
        }
        "EnableLoadBalancerIpv6Internet" => it["Ipv6AddressType"] = "Internet".into(),
        "DisableLoadBalancerIpv6Internet" => it["Ipv6AddressType"] = "Intranet".into(),
        "AttachCommonBandwidthPackageToLoadBalancer" => {
            it["BandwidthPackageId"] = body["BandwidthPackageId"].clone()
        }
        "DetachCommonBandwidthPackageFromLoadBalancer" => it["BandwidthPackageId"] = Value::Null,
        _ => return refuse("InvalidAction.NotFound", action),
    }
    later(world, json!({}))
}

fn group(world: &mut World, action: &str, body: &Value) -> Answer {
    if action == "CreateServerGroup" {
        world.find("vpc", "VpcId", &body["VpcId"], "ResourceNotFound.vpc")?;
        let mut it = json!({"ServerGroupType": "Instance", "Protocol": "TCP", "Scheduler": "Wrr", "AddressIPVersion": "ipv4",
            "ConnectionDrainEnabled": false, "PreserveClientIpEnabled": true, "_servers": []});
        merge(&mut it, &shown(only(body, GROUP)));
        it["HealthCheck"] = json!({"HealthCheckEnabled": true, "HealthCheckType": "TCP"});
        merge(&mut it["HealthCheck"], &typed(&body["HealthCheckConfig"]));
        let needs_port =
            it["AnyPortEnabled"] == true && it["HealthCheck"]["HealthCheckEnabled"] == true;
        let has_port = number(&it["HealthCheck"]["HealthCheckConnectPort"]) > Some(0);
        check(
            !needs_port || has_port,
            "MissingParameter.HealthCheckConnectPort",
            "HealthCheckConnectPort is missing",
        )?;
        let id = format!("sgp-{}", world.number());
        (it["ServerGroupId"], it["ServerGroupStatus"], it["Tags"]) =
            (id.clone().into(), "Available".into(), tags(body, TAG));
        world.add("group", it);
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
        for it in servers
            .iter()
            .filter(|server| server["ServerType"] == "Ecs")
        {
            let found = world.find(
                "instance",
                "InstanceId",
                &it["ServerId"],
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
    let it = world.find(
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
            merge(it, &shown(only(body, GROUP)));
            merge(&mut it["HealthCheck"], &typed(&body["HealthCheckConfig"]));
        }
        _ => {
            let all = it["_servers"]
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
        let mut it = json!({"IdleTimeout": 900, "ProxyProtocolEnabled": false, "Cps": 0, "ListenerStatus": "Running"});
        merge(&mut it, &only(body, LISTENER));
        for key in ["StartPort", "EndPort"] {
            it[key] = body[key].as_str().filter(|_| is_range).into();
        }
        let id = format!("lsn-{}", world.number());
        it["ListenerId"] = id.clone().into();
        world.add("listener", it);
        return later(world, json!({"ListenerId": id}));
    }
    let fields = only(body, LISTENER);
    let it = listener(world, body)?;
    match action {
        "AssociateAdditionalCertificatesWithListener"
        | "DisassociateAdditionalCertificatesWithListener" => {
            check(
                it["ListenerProtocol"] == "TCPSSL",
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
                array(&it["_additional"]).filter(|id| !array(ids).any(|object| object == *id));
            let new = array(ids).filter(|_| action.starts_with('A'));
            it["_additional"] = other.chain(new).cloned().collect();
        }
        "UpdateListenerAttribute" => merge(it, &fields),
        "StartListener" => it["ListenerStatus"] = "Running".into(),
        "StopListener" => it["ListenerStatus"] = "Stopped".into(),
        "DeleteListener" => {
            let id = body["ListenerId"].clone();
            world.remove("listener", |listener| listener["ListenerId"] == id);
        }
        _ => return refuse("InvalidAction.NotFound", action),
    }
    later(world, json!({}))
}
