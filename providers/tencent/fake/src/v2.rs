//! The old API 2.0, as far as the vendor's Go program speaks it: the same objects, with other names.

use serde_json::{Value, json};

use crate::world::{array, fits, text};
use crate::{Answer, World, clb, refuse, vpc};

/// Returns the parameters of a request as JSON: `listeners.0.protocol=2` is `{"listeners": [{"protocol": "2"}]}`.
pub(crate) fn parameters(query: &[(String, String)]) -> Value {
    let mut tree = json!({});
    for (key, value) in query {
        let mut at = &mut tree;
        for part in key.split('.') {
            if !at.is_object() {
                *at = json!({});
            }
            at = &mut at[part];
        }
        *at = json!(value);
    }
    listed(&tree)
}

fn listed(object: &Value) -> Value {
    let Value::Object(fields) = object else {
        return object.clone();
    };
    let mut items: Vec<_> = fields
        .iter()
        .filter_map(|(key, value)| Some((key.parse::<u32>().ok()?, value)))
        .collect();
    if items.is_empty() {
        return fields
            .iter()
            .map(|(key, value)| (key.clone(), listed(value)))
            .collect();
    }
    items.sort_by_key(|(number, _)| *number);
    items.into_iter().map(|(_, value)| listed(value)).collect()
}

fn number(object: &Value) -> u64 {
    object
        .as_u64()
        .or_else(|| text(object).parse().ok())
        .unwrap_or_default()
}

fn protocol(object: &Value) -> &'static str {
    if number(object) == 3 { "UDP" } else { "TCP" }
}

fn protocol_number(object: &Value) -> u64 {
    if object == "UDP" { 3 } else { 2 }
}

/// Returns the number of the task that an answer of API 3.0 names.
fn begun(answer: &Value) -> Value {
    let id = text(&answer["RequestId"])
        .trim_start_matches("task-")
        .parse::<u64>()
        .unwrap_or_default();
    json!({"requestId": id})
}

fn listeners(world: &World, id: &Value) -> Vec<Value> {
    world.matching("listener", |listener| listener["_balancer"] == *id)
}

pub(crate) fn answer(world: &mut World, action: &str, body: &Value) -> Answer {
    let id = &body["loadBalancerId"];
    match action {
        "DescribeInstances" => instances(world, body),
        "DescribeLoadBalancers" => {
            let special = &body["special"];
            let found = world.matching("balancer", |balancer| {
                special.is_null() || balancer["_special"] == *special
            });
            let shown = found.iter().map(|object| {
                json!({"loadBalancerId": object["LoadBalancerId"], "unLoadBalancerId": object["LoadBalancerId"],
                    "loadBalancerName": object["LoadBalancerName"], "loadBalancerVips": object["LoadBalancerVips"],
                    "loadBalancerType": if object["LoadBalancerType"] == "INTERNAL" { 3 } else { 2 },
                    "status": object["Status"], "forward": object["Forward"], "uniqVpcId": object["VpcId"]})
            });
            let shown: Vec<_> = shown.collect();
            Ok(json!({"totalCount": shown.len(), "loadBalancerSet": shown}))
        }
        "CreateLoadBalancer" => {
            let kind = if number(&body["loadBalancerType"]) == 3 {
                "INTERNAL"
            } else {
                "OPEN"
            };
            let request = json!({"LoadBalancerType": kind, "LoadBalancerName": body["loadBalancerName"],
                "VpcId": body["vpcId"], "SubnetId": body["subnetId"]});
            let answer = clb::create(world, &request)?;
            if let Some(current) = world.each("balancer").last_mut() {
                current["_special"] = body["special"].clone();
                current["Forward"] = number(&body["forward"]).into();
            }
            Ok(begun(&answer))
        }
        "DeleteLoadBalancers" => {
            let request = json!({"LoadBalancerIds": body["loadBalancerIds"], "ForceDelete": true});
            clb::delete(world, &request).map(|answer| begun(&answer))
        }
        "DescribeLoadBalancersTaskResult" => {
            let task = world.task(&json!(format!("task-{}", number(&body["requestId"]))))?;
            Ok(json!({"data": {"status": task["Status"]}}))
        }
        "DescribeForwardLBListeners" => {
            let shown = listeners(world, id).into_iter().map(|listener| {
                json!({"listenerid": listener["ListenerId"], "protocol": protocol_number(&listener["Protocol"]),
                    "protocoltype": listener["Protocol"], "loadbalancerport": listener["Port"]})
            });
            Ok(json!({"listenerSet": shown.collect::<Vec<_>>()}))
        }
        "CreateForwardLBFourthLayerListeners" => {
            let mut last = json!({});
            for entry in array(&body["listeners"]) {
                let request = json!({"LoadBalancerId": id, "Ports": [number(&entry["loadBalancerPort"])],
                    "Protocol": protocol(&entry["protocol"]), "ListenerNames": [entry["listenerName"]]});
                last = begun(&clb::create_listener(world, &request)?);
            }
            Ok(last)
        }
        "DeleteForwardLBListener" => {
            let request = json!({"LoadBalancerId": id, "ListenerIds": [body["listenerId"]]});
            clb::answer(world, "DeleteLoadBalancerListeners", &request).map(|answer| begun(&answer))
        }
        "DescribeForwardLBBackends" => {
            let shown = listeners(world, id).into_iter().map(|listener| {
                let backend = |object: &Value| {
                    json!({"LanIp": object["PrivateIpAddresses"][0], "Port": object["Port"], "Weight": object["Weight"],
                        "UnInstanceId": object["InstanceId"]})
                };
                let backends: Vec<_> = array(&listener["Targets"]).map(backend).collect();
                json!({"listenerId": listener["ListenerId"], "protocol": protocol_number(&listener["Protocol"]),
                    "protocolType": listener["Protocol"], "loadBalancerPort": listener["Port"], "backends": backends})
            });
            Ok(json!({"data": shown.collect::<Vec<_>>()}))
        }
        "RegisterInstancesWithForwardLBFourthListener"
        | "DeregisterInstancesFromForwardLBFourthListener" => {
            let action = if action.starts_with('R') {
                "BatchRegisterTargets"
            } else {
                "BatchDeregisterTargets"
            };
            let target = |object: &Value| json!({"ListenerId": body["listenerId"], "InstanceId": object["instanceId"], "Port": number(&object["port"])});
            let targets: Vec<_> = array(&body["backends"]).map(target).collect();
            let request = json!({"LoadBalancerId": id, "Targets": targets});
            clb::answer(world, action, &request).map(|answer| begun(&answer))
        }
        "DescribeClusterRoute" => {
            vpc::routes(world, "DescribeClusterRoutes", body).map(|data| json!({"data": data}))
        }
        "CreateClusterRoute" | "DeleteClusterRoute" => vpc::routes(world, action, body),
        _ => refuse("InvalidAction", action),
    }
}

/// Returns instances, with any number of values in a filter.
fn instances(world: &mut World, body: &Value) -> Answer {
    let found = world.matching("instance", |instance| {
        fits(body, |name| match name {
            "private-ip-address" => array(&instance["PrivateIpAddresses"])
                .map(|private_ip_addresses| text(private_ip_addresses).to_owned())
                .collect(),
            "instance-id" => vec![text(&instance["InstanceId"]).to_owned()],
            _ => Vec::new(),
        })
    });
    world.page(found, body, "InstanceSet")
}
