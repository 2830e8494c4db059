//! Load balancers, their listeners and targets.

use fake_cloud::Refused;
use serde_json::{Value, json};

use crate::constraints::check_request;
use crate::world::{array, fits, merge, only, text};
use crate::{Answer, REGION, VPC, World, check, refuse};

/// The most targets of one request.
const TARGETS: usize = 500;
const NO_BALANCER: &str = "InvalidParameter.LBIdNotFound";
const NO_LISTENER: &str = "InvalidParameter.ListenerIdNotFound";

pub(crate) fn answer(world: &mut World, action: &str, body: &Value) -> Answer {
    check_request(action, body)?;
    let id = &body["LoadBalancerId"];
    if !id.is_null() {
        world.find("balancer", "LoadBalancerId", id, NO_BALANCER)?;
        let is_change = !action.starts_with("Describe");
        let text = "Your task is working.";
        check(
            !(is_change && world.is_busy(id)),
            "FailedOperation.ResourceInOperating",
            text,
        )?;
    }
    let is_its_object = |object: &Value| object["_balancer"] == *id;
    if ["Listener", "Target"]
        .iter()
        .any(|part| action.contains(part))
        && !id.is_null()
    {
        let is_classic = world.find("balancer", "LoadBalancerId", id, NO_BALANCER)?["Forward"] == 0;
        let text = "The kind of the load balancer does not have this action.";
        check(
            is_classic == action.contains("ClassicalLB"),
            "InvalidParameter",
            text,
        )?;
    }
    match action {
        "DescribeClassicalLBListeners" => {
            let listener = |object: &Value| {
                json!({"ListenerId": object["ListenerId"], "ListenerName": "", "ListenerPort": object["Port"], "Protocol": object["Protocol"],
                    "InstancePort": object["_instance_port"], "SessionExpire": 0, "HealthSwitch": 1, "Status": 1})
            };
            Ok(
                json!({"Listeners": world.matching("listener", is_its_object).iter().map(listener).collect::<Vec<_>>()}),
            )
        }
        "DescribeClassicalLBTargets" => {
            let other_object = world.find("balancer", "LoadBalancerId", id, NO_BALANCER)?;
            let target = |object: &Value| json!({"Type": "CVM", "InstanceId": object, "Weight": 10, "RunFlag": 1});
            Ok(
                json!({"Targets": array(&other_object["_instances"]).map(target).collect::<Vec<_>>()}),
            )
        }
        "RegisterTargetsWithClassicalLB" | "DeregisterTargetsFromClassicalLB" => {
            classic_targets(world, body)
        }
        "DescribeLoadBalancers" => describe(world, body),
        "CreateLoadBalancer" => create(world, body),
        "DeleteLoadBalancer" => delete(world, body),
        "DescribeTaskStatus" => world.task(&body["TaskId"]),
        "ModifyLoadBalancerAttributes" => {
            let (mut answer, succeeds) = world.begin(id);
            answer["DealName"] = json!("");
            let other_world = world.find("balancer", "LoadBalancerId", id, NO_BALANCER)?;
            if succeeds {
                merge(
                    other_world,
                    &only(body, "LoadBalancerName LoadBalancerPassToTarget"),
                );
                if let Value::Object(_) = &body["InternetChargeInfo"] {
                    merge(
                        &mut other_world["NetworkAttributes"],
                        &body["InternetChargeInfo"],
                    );
                }
                if let Some(is_protected) = body["DeleteProtect"].as_bool() {
                    other_world["AttributeFlags"] = if is_protected {
                        json!(["DeleteProtect"])
                    } else {
                        json!([])
                    };
                }
            }
            Ok(answer)
        }
        "SetLoadBalancerSecurityGroups" => {
            for group in array(&body["SecurityGroups"])
                .filter(|security_group| !text(security_group).starts_with("sg-mine"))
            {
                world.find("group", "SecurityGroupId", group, "InvalidParameterValue")?;
            }
            let (answer, _) = world.begin(id);
            let current = world.find("balancer", "LoadBalancerId", id, NO_BALANCER)?;
            current["SecureGroups"] = body["SecurityGroups"].clone();
            Ok(answer)
        }
        "DescribeListeners" => {
            let found = world.matching("listener", |listener| {
                is_its_object(listener) && is_named(body, listener)
            });
            let total = found.len();
            let shown = found
                .iter()
                .map(|object| hidden(object, &["Targets"]))
                .collect::<Vec<_>>();
            Ok(json!({"Listeners": shown, "TotalCount": total}))
        }
        "DescribeTargets" => {
            let found = world.matching("listener", |listener| {
                is_its_object(listener) && is_named(body, listener)
            });
            let shown = found
                .iter()
                .map(|object| only(object, "ListenerId Protocol Port Targets EndPort"));
            let with_rules = |mut object: Value| {
                object["Rules"] = json!([]);
                object
            };
            Ok(json!({"Listeners": shown.map(with_rules).collect::<Vec<_>>()}))
        }
        "DescribeTargetHealth" => Ok(health(world, body)),
        "CreateListener" => create_listener(world, body),
        "ModifyListener" => {
            world.find("listener", "ListenerId", &body["ListenerId"], NO_LISTENER)?;
            let (answer, succeeds) = world.begin(id);
            let entry = world.find("listener", "ListenerId", &body["ListenerId"], NO_LISTENER)?;
            if succeeds {
                set(entry, body);
            }
            Ok(answer)
        }
        "DeleteLoadBalancerListeners" => {
            let ids: Vec<_> = array(&body["ListenerIds"]).cloned().collect();
            check(
                ids.len() <= 20,
                "InvalidParameterValue.Length",
                "At most 20 listeners.",
            )?;
            for listener in &ids {
                world.find("listener", "ListenerId", listener, NO_LISTENER)?;
            }
            let (answer, succeeds) = world.begin(id);
            if succeeds {
                world.remove("listener", |listener| {
                    is_its_object(listener)
                        && (ids.is_empty() || ids.contains(&listener["ListenerId"]))
                });
            }
            Ok(answer)
        }
        "BatchRegisterTargets" | "BatchDeregisterTargets" | "BatchModifyTargetWeight" => {
            targets(world, action, body)
        }
        _ => refuse("InvalidAction", action),
    }
}

fn hidden(object: &Value, names: &[&str]) -> Value {
    let fields = object
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| !names.contains(&key.as_str()));
    fields
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn is_named(body: &Value, object: &Value) -> bool {
    body["ListenerIds"].is_null()
        || array(&body["ListenerIds"]).any(|id| *id == object["ListenerId"])
}

fn describe(world: &mut World, body: &Value) -> Answer {
    let is_one_of = |key: &str, all: &[&Value]| {
        body[key].is_null() || array(&body[key]).any(|wanted| all.contains(&wanted))
    };
    let mut found = world.matching("balancer", |balancer| {
        let vips: Vec<_> = array(&balancer["LoadBalancerVips"]).collect();
        is_one_of("LoadBalancerIds", &[&balancer["LoadBalancerId"]])
            && is_one_of("LoadBalancerVips", &vips)
            && (body["VpcId"].is_null() || body["VpcId"] == balancer["VpcId"])
            && fits(body, |name| {
                let tag = name.strip_prefix("tag:").unwrap_or_default();
                let tags = array(&balancer["Tags"]).filter(|other_tag| other_tag["TagKey"] == tag);
                tags.map(|tags| text(&tags["TagValue"]).to_owned())
                    .collect()
            })
    });
    // The address is known when the load balancer works.
    for entry in found.iter_mut().filter(|object| object["Status"] == 0) {
        entry["LoadBalancerVips"] = json!([]);
    }
    world.page(found, body, "LoadBalancerSet")
}

pub(crate) fn create(world: &mut World, body: &Value) -> Answer {
    let token = &body["ClientToken"];
    if let Some(known) = token.as_str().and_then(|token| world.tokens.get(token)) {
        return Ok(known.clone());
    }
    let is_internal = body["LoadBalancerType"] == "INTERNAL";
    check(
        !is_internal || body["SubnetId"].is_string(),
        "InvalidParameter",
        "SubnetId is required.",
    )?;
    check(
        array(&body["Tags"]).count() <= 20,
        "InvalidParameterValue.Length",
        "At most 20 tags.",
    )?;
    let number = world.number();
    let [.., high, low] = number.to_be_bytes();
    let id = json!(format!("lb-t{number:07}"));
    let (mut answer, _) = world.begin(&id);
    let vip = if is_internal {
        format!("10.1.{high}.{low}")
    } else {
        format!("198.18.{high}.{low}")
    };
    let vip = body["Vip"].as_str().map_or(vip, str::to_owned);
    let network =
        json!({"InternetChargeType": "TRAFFIC_POSTPAID_BY_HOUR", "InternetMaxBandwidthOut": 10});
    let mut object = json!({"LoadBalancerId": id, "LoadBalancerName": format!("lb-{number}"), "Forward": 1, "Status": 0,
        "LoadBalancerVips": [vip], "VpcId": VPC, "Tags": [], "SecureGroups": [], "AttributeFlags": [], "Domain": "",
        "LoadBalancerDomain": "", "LoadBalancerPassToTarget": false, "AddressIPVersion": "ipv4", "CreateTime": "2026-01-02 03:04:05",
        "TargetRegionInfo": {"Region": REGION, "VpcId": VPC, "NumericalVpcId": 1}});
    merge(
        &mut object,
        &only(
            body,
            "LoadBalancerType LoadBalancerName VpcId SubnetId Tags LoadBalancerPassToTarget",
        ),
    );
    if !is_internal {
        object["NetworkAttributes"] = network;
        merge(
            &mut object["NetworkAttributes"],
            &body["InternetAccessible"],
        );
    }
    world.add("balancer", object);
    merge(
        &mut answer,
        &json!({"LoadBalancerIds": [id], "DealName": ""}),
    );
    if let Some(token) = token.as_str() {
        world.tokens.insert(token.to_owned(), answer.clone());
    }
    Ok(answer)
}

pub(crate) fn delete(world: &mut World, body: &Value) -> Answer {
    let id = &body["LoadBalancerIds"][0];
    check(
        !world.is_busy(id),
        "FailedOperation.ResourceInOperating",
        "Your task is working.",
    )?;
    let entry = world.find("balancer", "LoadBalancerId", id, NO_BALANCER)?;
    let is_protected =
        array(&entry["AttributeFlags"]).any(|attribute_flag| attribute_flag == "DeleteProtect");
    check(
        !is_protected,
        "FailedOperation",
        "The load balancer has delete protection.",
    )?;
    let count: usize = world
        .all("listener")
        .iter()
        .filter(|object| object["_balancer"] == *id)
        .map(|object| array(&object["Targets"]).count())
        .sum();
    check(
        count < 20 || body["ForceDelete"] == true,
        "FailedOperation.TargetNumCheckRisk",
        "There are targets.",
    )?;
    let (answer, succeeds) = world.begin(id);
    if succeeds {
        world.remove("listener", |listener| listener["_balancer"] == *id);
        world.remove("balancer", |balancer| balancer["LoadBalancerId"] == *id);
    }
    Ok(answer)
}

fn is_udp(protocol: &Value) -> bool {
    ["UDP", "QUIC"].contains(&text(protocol))
}

/// Sets the fields of a listener where answers show them.
fn set(object: &mut Value, body: &Value) {
    merge(
        object,
        &only(
            body,
            "ListenerName SessionExpireTime Scheduler IdleConnectTimeout",
        ),
    );
    merge(&mut object["HealthCheck"], &body["HealthCheck"]);
    if let Value::Object(_) = &body["Certificate"] {
        object["Certificate"] = json!({"SSLMode": body["Certificate"]["SSLMode"], "CertId": body["Certificate"]["CertId"]});
    }
}

pub(crate) fn create_listener(world: &mut World, body: &Value) -> Answer {
    let id = &body["LoadBalancerId"];
    let ports: Vec<_> = array(&body["Ports"]).cloned().collect();
    for port in &ports {
        let is_taken = |object: &Value| {
            object["_balancer"] == *id
                && object["Port"] == *port
                && is_udp(&object["Protocol"]) == is_udp(&body["Protocol"])
        };
        let is_free = world.matching("listener", is_taken).is_empty();
        check(
            is_free,
            "InvalidParameter.PortCheckFailed",
            "The port is in use.",
        )?;
    }
    let is_tls = body["Protocol"] == "TCP_SSL";
    check(
        !is_tls || body["Certificate"]["CertId"].is_string(),
        "InvalidParameter",
        "A certificate is required.",
    )?;
    let (mut answer, succeeds) = world.begin(id);
    let mut ids = Vec::new();
    for (at, port) in ports.iter().enumerate() {
        let listener = format!("lbl-t{:07}", world.number());
        let usual = if is_udp(&body["Protocol"]) {
            "PING"
        } else {
            "TCP"
        };
        let mut entry = json!({"ListenerId": listener, "_balancer": id, "Protocol": body["Protocol"], "Port": port,
            "ListenerName": body["ListenerNames"][at].as_str().unwrap_or_default(), "Scheduler": "WRR", "SessionExpireTime": 0,
            "SniSwitch": 0, "CreateTime": "2026-01-02 03:04:05", "EndPort": 0, "SessionType": "NORMAL", "Targets": [],
            "HealthCheck": {"HealthSwitch": 1, "TimeOut": 2, "IntervalTime": 5, "HealthNum": 3, "UnHealthNum": 3,
                "CheckType": usual, "SourceIpType": 0}});
        set(&mut entry, body);
        if succeeds {
            world.add("listener", entry);
        }
        ids.push(listener);
    }
    answer["ListenerIds"] = json!(ids);
    Ok(answer)
}

/// Returns a target as answers show it.
fn backend(world: &World, object: &Value) -> Result<Value, Refused> {
    let weight = object["Weight"].as_u64().unwrap_or(10);
    let common =
        json!({"Port": object["Port"], "Weight": weight, "RegisteredTime": "2026-01-02 03:04:05"});
    let mut shown = match object["InstanceId"].as_str() {
        Some(id) => {
            let found = world.matching("instance", |instance| instance["InstanceId"] == id);
            let Some(found) = found.first() else {
                return refuse("InvalidParameter", format!("{id} does not exist."));
            };
            let is_near = found["VirtualPrivateCloud"]["VpcId"] == VPC;
            check(
                is_near,
                "InvalidParameterValue",
                format!("{id} is not in the VPC of the load balancer."),
            )?;
            json!({"Type": "CVM", "InstanceId": id, "PrivateIpAddresses": found["PrivateIpAddresses"]})
        }
        None => {
            json!({"Type": "ENI", "InstanceId": "", "EniId": "eni-testbed1", "PrivateIpAddresses": [object["EniIp"]]})
        }
    };
    merge(&mut shown, &common);
    Ok(shown)
}

fn is_same(one: &Value, other: &Value) -> bool {
    one["InstanceId"] == other["InstanceId"]
        && one["Port"] == other["Port"]
        && one["PrivateIpAddresses"] == other["PrivateIpAddresses"]
}

fn targets(world: &mut World, action: &str, body: &Value) -> Answer {
    let id = &body["LoadBalancerId"];
    let rules = array(&body["ModifyList"]).flat_map(|rule| {
        array(&rule["Targets"]).map(|targets| {
            let mut targets = targets.clone();
            targets["ListenerId"] = rule["ListenerId"].clone();
            targets
        })
    });
    let all: Vec<_> = array(&body["Targets"]).cloned().chain(rules).collect();
    check(
        all.len() <= TARGETS,
        "InvalidParameterValue.Length",
        "At most 500 targets.",
    )?;
    let mut shown = Vec::new();
    for current in &all {
        world.find(
            "listener",
            "ListenerId",
            &current["ListenerId"],
            NO_LISTENER,
        )?;
        match backend(world, current) {
            Ok(backend) => shown.push((current["ListenerId"].clone(), backend)),
            // A target whose instance no longer exists can be removed.
            Err(_) if action == "BatchDeregisterTargets" => {
                let gone = json!({"InstanceId": current["InstanceId"], "Port": current["Port"]});
                shown.push((current["ListenerId"].clone(), gone));
            }
            Err(refused) => return Err(refused),
        }
    }
    let (mut answer, succeeds) = world.begin(id);
    for (listener, backend) in shown.into_iter().filter(|_| succeeds) {
        let entry = world.find("listener", "ListenerId", &listener, NO_LISTENER)?;
        if let Some(all) = entry["Targets"].as_array_mut() {
            all.retain(|object| {
                !is_same(object, &backend)
                    && (!backend["Type"].is_null() || object["InstanceId"] != backend["InstanceId"])
            });
            if action != "BatchDeregisterTargets" {
                all.push(backend);
            }
        }
    }
    if action != "BatchModifyTargetWeight" {
        answer["FailListenerIdSet"] = json!([]);
    }
    Ok(answer)
}

/// Adds `Targets` to a load balancer of the kind `classic`, or removes `InstanceIds`.
fn classic_targets(world: &mut World, body: &Value) -> Answer {
    let new: Vec<_> = array(&body["Targets"])
        .map(|targets| targets["InstanceId"].clone())
        .collect();
    let gone: Vec<_> = array(&body["InstanceIds"]).cloned().collect();
    check(
        !(new.is_empty() && gone.is_empty()),
        "InvalidParameter",
        "There are no targets.",
    )?;
    for id in &new {
        world.find("instance", "InstanceId", id, "InvalidParameter")?;
    }
    let (answer, succeeds) = world.begin(&body["LoadBalancerId"]);
    let object = world.find(
        "balancer",
        "LoadBalancerId",
        &body["LoadBalancerId"],
        NO_BALANCER,
    )?;
    if let Some(all) = object["_instances"].as_array_mut().filter(|_| succeeds) {
        all.retain(|id| !gone.contains(id) && !new.contains(id));
        all.extend(new);
    }
    Ok(answer)
}

fn health(world: &World, body: &Value) -> Value {
    let of = |id: &Value| {
        let listener = |object: &Value| {
            let target = |object: &Value| {
                json!({"IP": object["PrivateIpAddresses"][0], "Port": object["Port"], "HealthStatus": true, "TargetId": object["InstanceId"],
                    "HealthStatusDetail": "Alive", "HealthStatusDetial": "Alive"})
            };
            let targets: Vec<_> = array(&object["Targets"]).map(target).collect();
            json!({"ListenerId": object["ListenerId"], "ListenerName": object["ListenerName"], "Protocol": object["Protocol"],
                "Port": object["Port"], "Rules": [{"LocationId": "", "Targets": targets}]})
        };
        let all: Vec<_> = world
            .matching("listener", |listener| listener["_balancer"] == *id)
            .iter()
            .map(listener)
            .collect();
        json!({"LoadBalancerId": id, "LoadBalancerName": "", "Listeners": all})
    };
    json!({"LoadBalancers": array(&body["LoadBalancerIds"]).map(of).collect::<Vec<_>>()})
}

/// The Tag API, for load balancers.
pub(crate) fn tags(world: &mut World, action: &str, body: &Value) -> Answer {
    check(action == "ModifyResourceTags", "InvalidAction", action)?;
    let id = json!(
        text(&body["Resource"])
            .rsplit('/')
            .next()
            .unwrap_or_default()
    );
    let entry = world.find("balancer", "LoadBalancerId", &id, "ResourceNotFound")?;
    let gone: Vec<_> = ["ReplaceTags", "DeleteTags"]
        .iter()
        .flat_map(|key| array(&body[*key]))
        .map(|object| object["TagKey"].clone())
        .collect();
    if let Some(tags) = entry["Tags"].as_array_mut() {
        tags.retain(|tag| !gone.contains(&tag["TagKey"]));
        tags.extend(array(&body["ReplaceTags"]).cloned());
    }
    Ok(json!({}))
}
