//! Network load balancers, target groups and listeners.

use std::ops::RangeInclusive;

use fake_cloud::Refused;
use serde_json::{Value, json};

use crate::elb::{check_name, check_network};
use crate::groups::release;
use crate::health::contains;
use crate::world::{array, merge, new, push, retain, tag, text};
use crate::{Answer, Kind, REGION, VPC, World, check, refuse};

pub(crate) fn answer(world: &mut World, action: &str, body: &Value) -> Answer {
    let kind = match action {
        _ if action.contains("Target") => Kind::TargetGroup,
        _ if action.contains("Listener") => Kind::Listener,
        _ => Kind::Network,
    };
    match action {
        "DescribeLoadBalancers" => return world.describe(Kind::Network, body),
        "DescribeTargetGroups" | "DescribeListeners" => return list(world, kind, body),
        "DescribeTargetHealth" => return health(world, body),
        "CreateLoadBalancer" => return create(world, body),
        "CreateTargetGroup" => return create_target_group(world, body),
        "CreateListener" => return create_listener(world, body),
        "ModifyTargetGroup" => return modify_target_group(world, body),
        "ModifyListener" => return modify_listener(world, body),
        "DeleteLoadBalancer" | "DeleteTargetGroup" | "DeleteListener" => delete(world, kind, body)?,
        "RegisterTargets" | "DeregisterTargets" => {
            set_targets(world, body, action.starts_with('R'))?;
        }
        "DescribeLoadBalancerAttributes" | "DescribeTargetGroupAttributes" => {
            return Ok(json!({"Attributes": of(world, kind, body)?["_attributes"]}));
        }
        "ModifyLoadBalancerAttributes" | "ModifyTargetGroupAttributes" => {
            let other_of = of(world, kind, body)?;
            let known =
                |new: &&Value| array(&other_of["_attributes"]).any(|has| has["Key"] == new["Key"]);
            if let Some(new) = array(&body["Attributes"]).find(|new| !known(new)) {
                return refuse(
                    "ValidationError",
                    format!("The attribute {} is not known", new["Key"]),
                );
            }
            tag(
                &mut other_of["_attributes"],
                ["Key", "Value"],
                &body["Attributes"],
            );
            return Ok(json!({"Attributes": other_of["_attributes"]}));
        }
        // A load balancer that was created without security groups never gets any.
        "SetSecurityGroups" => {
            check_network(world, &[], &body["SecurityGroups"])?;
            let current = of(world, kind, body)?;
            let is_right = !current["SecurityGroups"].is_null()
                && array(&body["SecurityGroups"]).next().is_some();
            check(
                is_right,
                "InvalidConfigurationRequest",
                "security groups are set when the load balancer is created",
            )?;
            current["SecurityGroups"] = body["SecurityGroups"].clone();
            return Ok(json!({"SecurityGroupIds": current["SecurityGroups"]}));
        }
        "SetSubnets" | "SetIpAddressType" => {
            let zones = if action == "SetSubnets" {
                Some(zones(world, body, &Value::Null)?)
            } else {
                None
            };
            let entry = of(world, kind, body)?;
            zones
                .into_iter()
                .for_each(|zones| entry["AvailabilityZones"] = zones);
            if body["IpAddressType"].is_string() {
                entry["IpAddressType"] = body["IpAddressType"].clone();
            }
            let zones = if action == "SetSubnets" {
                entry["AvailabilityZones"].clone()
            } else {
                Value::Null
            };
            return Ok(
                json!({"AvailabilityZones": zones, "IpAddressType": entry["IpAddressType"]}),
            );
        }
        "DescribeTags" => {
            let mut shown = Vec::new();
            each_tagged(world, body, |arn, tags| {
                shown.push(json!({"ResourceArn": arn, "Tags": tags}));
            })?;
            return Ok(json!({"TagDescriptions": shown}));
        }
        "AddTags" => each_tagged(world, body, |_, tags| {
            tag(tags, ["Key", "Value"], &body["Tags"]);
        })?,
        "RemoveTags" => {
            let is_gone = |object: &Value| array(&body["TagKeys"]).any(|key| *key == object["Key"]);
            each_tagged(world, body, |_, tags| {
                retain(tags, |object| !is_gone(object));
            })?;
        }
        _ => return Err(Refused::new(404, "InvalidAction", action)),
    }
    Ok(json!({}))
}

/// Returns the object of a kind that a request is for.
fn of<'a>(world: &'a mut World, kind: Kind, body: &Value) -> Result<&'a mut Value, Refused> {
    world.find(kind, &body[kind.id()])
}

fn arn(world: &mut World, path: &str) -> String {
    let account = world.account;
    let number = world.number();
    format!("arn:aws:elasticloadbalancing:{REGION}:{account}:{path}/{number:016x}")
}

fn new_tags(body: &Value) -> Value {
    let mut tags = json!([]);
    tag(&mut tags, ["Key", "Value"], &body["Tags"]);
    tags
}

/// Returns what a request wants, without its tags: creating the same again changes nothing.
fn settings(body: &Value) -> Value {
    let mut body = body.clone();
    body["Tags"] = Value::Null;
    body
}

/// Returns the object of this name if it was created with the same settings.
fn existing(world: &mut World, kind: Kind, body: &Value) -> Result<Option<Value>, Refused> {
    let account = world.account;
    let name = if kind == Kind::Network {
        "LoadBalancer"
    } else {
        "TargetGroup"
    };
    let is_this_object = |object: &&mut Value| {
        object["_account"] == account && object[format!("{name}Name")] == body["Name"]
    };
    let Some(found) = world.each(kind).iter_mut().find(is_this_object) else {
        return Ok(None);
    };
    let is_same = found["_settings"] == settings(body);
    check(
        is_same,
        &format!("Duplicate{name}Name"),
        format!("{} exists with other settings", body["Name"]),
    )?;
    Ok(Some(found.clone()))
}

/// Returns the zones of a load balancer with the subnets of a request.
fn zones(world: &mut World, body: &Value, groups: &Value) -> Answer {
    let plain = array(&body["Subnets"]).map(|subnets| json!({"SubnetId": subnets}));
    let all: Vec<_> = array(&body["SubnetMappings"])
        .cloned()
        .chain(plain)
        .collect();
    let subnets: Vec<_> = all
        .iter()
        .map(|object| object["SubnetId"].clone())
        .collect();
    check_network(world, &subnets, groups)?;
    check(
        !all.is_empty(),
        "ValidationError",
        "a load balancer has subnets",
    )?;
    let zone = |object: &Value| {
        let subnet = world.find(Kind::Subnet, &object["SubnetId"])?.clone();
        let zone = subnet["availabilityZone"].clone();
        let is_inside = object["PrivateIPv4Address"].is_null()
            || contains(
                text(&subnet["cidrBlock"]),
                text(&object["PrivateIPv4Address"]),
            );
        let outside = format!(
            "The private IP address {} is not in the subnet {}",
            object["PrivateIPv4Address"], object["SubnetId"]
        );
        check(is_inside, "ValidationError", outside)?;
        let address = json!({"AllocationId": object["AllocationId"], "PrivateIPv4Address": object["PrivateIPv4Address"]});
        let is_fixed =
            object["AllocationId"].is_string() || object["PrivateIPv4Address"].is_string();
        Ok(
            json!({"ZoneName": zone, "SubnetId": object["SubnetId"], "LoadBalancerAddresses": if is_fixed { json!([address]) } else { json!([]) }}),
        )
    };
    all.iter().map(zone).collect()
}

fn create(world: &mut World, body: &Value) -> Answer {
    let name = text(&body["Name"]);
    check_name(&body["Name"])?;
    check(
        body["Type"] == "network",
        "ValidationError",
        "only network load balancers are there",
    )?;
    if let Some(current) = existing(world, Kind::Network, body)? {
        return Ok(json!({"LoadBalancers": [current]}));
    }
    let zones = zones(world, body, &body["SecurityGroups"])?;
    let arn = arn(world, &format!("loadbalancer/net/{name}"));
    let number = arn.rsplit('/').next().unwrap_or_default();
    let groups = Some(&body["SecurityGroups"]).filter(|object| array(object).next().is_some());
    let fields = json!({"LoadBalancerArn": arn, "LoadBalancerName": name, "DNSName": format!("{name}-{number}.elb.{REGION}.amazonaws.com"),
        "Scheme": body["Scheme"].as_str().unwrap_or("internet-facing"), "IpAddressType": body["IpAddressType"].as_str().unwrap_or("ipv4"),
        "AvailabilityZones": zones, "SecurityGroups": groups, "_tags": new_tags(body), "_settings": settings(body), "_account": world.account});
    let entry = new(Kind::Network, &fields);
    world.add(Kind::Network, entry.clone());
    world.later(
        world.provisioning,
        Kind::Network,
        &arn,
        json!({"State": {"Code": "active"}}),
    );
    Ok(json!({"LoadBalancers": [entry]}))
}

fn delete(world: &mut World, kind: Kind, body: &Value) -> Result<(), Refused> {
    let entry = match (kind, of(world, kind, body)) {
        (_, Ok(it)) => it.clone(),
        (Kind::Listener, Err(missing)) => return Err(missing),
        _ => return Ok(()),
    };
    let is_protection = |object: &Value| {
        object["Key"] == "deletion_protection.enabled" && object["Value"] == "true"
    };
    let protected = "Load balancer cannot be deleted because deletion protection is enabled";
    check(
        !array(&entry["_attributes"]).any(is_protection),
        "OperationNotPermitted",
        protected,
    )?;
    let used = format!(
        "Target group {} is currently in use by a listener",
        entry["TargetGroupArn"]
    );
    check(
        array(&entry["LoadBalancerArns"]).next().is_none(),
        "ResourceInUse",
        used,
    )?;
    world.remove(kind, kind.id(), &entry[kind.id()]);
    if kind == Kind::Network {
        world.remove(Kind::Listener, kind.id(), &entry[kind.id()]);
        release(world, &entry);
    }
    world.relink();
    Ok(())
}

fn check_health_check(object: &Value) -> Result<(), Refused> {
    let within = |key: &str, range: RangeInclusive<u32>| {
        object[key].is_null()
            || object[key]
                .to_string()
                .trim_matches('"')
                .parse()
                .is_ok_and(|number| range.contains(&number))
    };
    let is_protocol = match text(&object["HealthCheckProtocol"]) {
        "HTTP" | "HTTPS" => true,
        "TCP" | "" => object["HealthCheckPath"].is_null(),
        _ => false,
    };
    let is_right = is_protocol
        && within("HealthCheckIntervalSeconds", 5..=300)
        && within("HealthCheckTimeoutSeconds", 2..=120)
        && within("HealthyThresholdCount", 2..=10)
        && within("UnhealthyThresholdCount", 2..=10);
    check(is_right, "ValidationError", "the health check is not valid")
}

fn create_target_group(world: &mut World, body: &Value) -> Answer {
    check_name(&body["Name"])?;
    check_health_check(body)?;
    let is_right = ["TCP", "UDP", "TLS", "TCP_UDP"].contains(&text(&body["Protocol"]));
    check(
        is_right,
        "ValidationError",
        "the protocol of the target group is not valid",
    )?;
    let account = world.account;
    let has_vpc = body["VpcId"] == VPC
        && world
            .all("subnet")
            .iter()
            .any(|object| object["_account"] == account);
    check(
        has_vpc,
        "ValidationError",
        format!("The VPC ID '{}' is not found", text(&body["VpcId"])),
    )?;
    if let Some(current) = existing(world, Kind::TargetGroup, body)? {
        return Ok(json!({"TargetGroups": [current]}));
    }
    let arn = arn(world, &format!("targetgroup/{}", text(&body["Name"])));
    let mut entry = new(
        Kind::TargetGroup,
        &json!({"_tags": new_tags(body), "_settings": settings(body)}),
    );
    if text(&body["HealthCheckProtocol"]).starts_with("HTTP") {
        merge(
            &mut entry,
            &json!({"HealthCheckPath": "/", "Matcher": {"HttpCode": "200-399"}, "HealthCheckTimeoutSeconds": 6}),
        );
    }
    merge(&mut entry, &settings(body));
    (entry["TargetGroupArn"], entry["TargetGroupName"]) = (arn.into(), entry["Name"].take());
    world.add(Kind::TargetGroup, entry.clone());
    Ok(json!({"TargetGroups": [entry]}))
}

fn modify_target_group(world: &mut World, body: &Value) -> Answer {
    let mut object = of(world, Kind::TargetGroup, body)?.clone();
    merge(&mut object, body);
    if !text(&object["HealthCheckProtocol"]).starts_with("HTTP") {
        (object["HealthCheckPath"], object["Matcher"]) =
            (body["HealthCheckPath"].clone(), Value::Null);
    } else if object["HealthCheckPath"].is_null() {
        object["HealthCheckPath"] = "/".into();
    }
    check_health_check(&object)?;
    of(world, Kind::TargetGroup, body)?.clone_from(&object);
    Ok(json!({"TargetGroups": [object]}))
}

/// Target groups and listeners are listed of a load balancer, or by ARN; target groups also by name, or all.
fn list(world: &mut World, kind: Kind, body: &Value) -> Answer {
    let mut found = world.chosen(kind, body)?;
    if body["LoadBalancerArn"].is_string() {
        let arn = &of(world, Kind::Network, body)?["LoadBalancerArn"];
        found.retain(|object| {
            object["LoadBalancerArn"] == *arn
                || array(&object["LoadBalancerArns"])
                    .any(|load_balancer_arn| load_balancer_arn == arn)
        });
    } else {
        let is_named = kind == Kind::TargetGroup || !body["ListenerArns"].is_null();
        check(
            is_named,
            "ValidationError",
            "a load balancer or listeners must be named",
        )?;
    }
    world.paged(
        body,
        found,
        if kind == Kind::Listener {
            "Listeners"
        } else {
            "TargetGroups"
        },
    )
}

fn health(world: &mut World, body: &Value) -> Answer {
    let object = of(world, Kind::TargetGroup, body)?.clone();
    let health = array(&object["_targets"]).map(|target| world.health_of(&object, target));
    Ok(json!({"TargetHealthDescriptions": health.collect::<Vec<_>>()}))
}

fn set_targets(world: &mut World, body: &Value, is_added: bool) -> Result<(), Refused> {
    let port = of(world, Kind::TargetGroup, body)?["Port"].clone();
    let target = |object: &Value| json!({"Id": object["Id"], "Port": if object["Port"].is_null() { &port } else { &object["Port"] }});
    let named: Vec<_> = array(&body["Targets"]).map(target).collect();
    let is_running = |world: &mut World, object: &Value| {
        world
            .find(Kind::Instance, &object["Id"])
            .is_ok_and(|object| object["instanceState"]["name"] == "running")
    };
    let stopped = named
        .iter()
        .find(|object| is_added && !is_running(world, object));
    check(
        stopped.is_none(),
        "InvalidTarget",
        format!("The following targets are not in a running state: {stopped:?}"),
    )?;
    let all = &mut of(world, Kind::TargetGroup, body)?["_targets"];
    retain(all, |object| !named.contains(object));
    named
        .into_iter()
        .filter(|_| is_added)
        .for_each(|object| push(all, object));
    Ok(())
}

impl World {
    /// Says of each target group whose it is.
    fn relink(&mut self) {
        let listeners = self.all("listener").to_vec();
        for group in self.each(Kind::TargetGroup) {
            let uses = |object: &&Value| {
                array(&object["DefaultActions"]).any(|default_action| {
                    default_action["TargetGroupArn"] == group["TargetGroupArn"]
                })
            };
            let mut arns: Vec<_> = listeners
                .iter()
                .filter(uses)
                .map(|listener| listener["LoadBalancerArn"].clone())
                .collect();
            arns.dedup();
            group["LoadBalancerArns"] = arns.into();
        }
    }
}

/// Refuses a listener that does not fit its target group, or the listeners beside it.
fn check_listener(world: &mut World, listener: &Value) -> Result<(), Refused> {
    let group = world
        .find(
            Kind::TargetGroup,
            &listener["DefaultActions"][0]["TargetGroupArn"],
        )?
        .clone();
    let outer = text(&listener["Protocol"]);
    let inner = text(&group["Protocol"]);
    let fits = outer == inner || (outer == "TLS" && inner == "TCP");
    let unfit = format!("a {outer} listener cannot forward to a {inner} target group");
    check(fits, "InvalidConfigurationRequest", unfit)?;
    let is_own = array(&group["LoadBalancerArns"])
        .all(|load_balancer_arn| *load_balancer_arn == listener["LoadBalancerArn"]);
    check(
        is_own,
        "TargetGroupAssociationLimit",
        "the target group is another load balancer's",
    )?;
    let has_certificate = text(&listener["Certificates"][0]["CertificateArn"]).starts_with("arn:");
    let certificates = "certificates are for TLS listeners";
    check(
        outer != "TLS" || has_certificate,
        "CertificateNotFound",
        certificates,
    )?;
    let is_plain = !has_certificate && !listener["SslPolicy"].is_string();
    check(
        outer == "TLS" || is_plain,
        "InvalidConfigurationRequest",
        certificates,
    )?;
    let is_beside = |object: &Value| {
        let same = |key: &str| object[key] == listener[key];
        same("LoadBalancerArn") && same("Port") && !same("ListenerArn")
    };
    let is_free = !world.all("listener").iter().any(is_beside);
    check(
        is_free,
        "DuplicateListener",
        "A listener already exists on this port for this load balancer",
    )
}

fn with_defaults(mut object: Value) -> Value {
    if object["Protocol"] == "TLS" && object["SslPolicy"].is_null() {
        object["SslPolicy"] = "ELBSecurityPolicy-2016-08".into();
    }
    object
}

fn create_listener(world: &mut World, body: &Value) -> Answer {
    let balancer = text(&of(world, Kind::Network, body)?["LoadBalancerArn"]).to_owned();
    let mut object = settings(body);
    check_listener(world, &object)?;
    let path = balancer
        .split(':')
        .next_back()
        .unwrap_or_default()
        .replacen("loadbalancer", "listener", 1);
    (object["ListenerArn"], object["_tags"]) = (arn(world, &path).into(), new_tags(body));
    let entry = with_defaults(object);
    world.add(Kind::Listener, entry.clone());
    world.relink();
    Ok(json!({"Listeners": [entry]}))
}

fn modify_listener(world: &mut World, body: &Value) -> Answer {
    let mut object = of(world, Kind::Listener, body)?.clone();
    merge(&mut object, body);
    if object["Protocol"] != "TLS" && body["Protocol"].is_string() {
        (object["Certificates"], object["SslPolicy"]) =
            (body["Certificates"].clone(), body["SslPolicy"].clone());
    }
    check_listener(world, &object)?;
    let entry = with_defaults(object);
    of(world, Kind::Listener, body)?.clone_from(&entry);
    world.relink();
    Ok(json!({"Listeners": [entry]}))
}

/// Changes the tags of each ARN of a request.
fn each_tagged(
    world: &mut World,
    body: &Value,
    mut change: impl FnMut(&Value, &mut Value),
) -> Result<(), Refused> {
    let arns: Vec<_> = array(&body["ResourceArns"]).collect();
    check(arns.len() <= 20, "ValidationError", "at most 20 resources")?;
    for arn in arns {
        let kind = match text(arn)
            .split(':')
            .nth(5)
            .unwrap_or_default()
            .split('/')
            .next()
        {
            Some("targetgroup") => Kind::TargetGroup,
            Some("listener") => Kind::Listener,
            _ => Kind::Network,
        };
        change(arn, &mut world.find(kind, arn)?["_tags"]);
    }
    Ok(())
}
