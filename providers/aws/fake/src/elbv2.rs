//! Network load balancers, target groups and listeners.

use fake_cloud::Refused;
use serde_json::{Value, json};

use crate::elb::{check_name, check_network};
use crate::groups::release;
use crate::world::{array, push, retain, tag, text};
use crate::{Answer, ApiRequest, Kind, REGION, VPC, World, refuse};

fn done() -> Answer {
    Ok(json!({}))
}

/// Returns the object of a kind that a request is for.
fn of<'a>(world: &'a mut World, request: &ApiRequest, kind: Kind) -> Result<&'a mut Value, Refused> {
    let key = match kind {
        Kind::Network => "LoadBalancerArn",
        Kind::Listener => "ListenerArn",
        _ => "TargetGroupArn",
    };
    world.find(request, kind, &request.body[key])
}

fn arn(world: &mut World, request: &ApiRequest, path: &str) -> String {
    format!("arn:aws:elasticloadbalancing:{REGION}:{}:{path}/{:016x}", request.project, world.number())
}

fn pairs(all: &[(&str, &str)]) -> Value {
    all.iter().map(|(key, value)| json!({"Key": key, "Value": value})).collect()
}

fn new_tags(request: &ApiRequest) -> Value {
    let mut tags = json!([]);
    array(&request.body["Tags"]).for_each(|new| tag(&mut tags, ["Key", "Value"], new));
    tags
}

/// Returns what a request wants, without its tags: creating the same again changes nothing.
fn settings(request: &ApiRequest) -> Value {
    let mut body = request.body.clone();
    body["Tags"] = Value::Null;
    body
}

/// Returns the object of this name if it was created with the same settings.
fn existing(
    world: &World,
    request: &ApiRequest,
    kind: &str,
    field: &str,
    duplicate: &str,
) -> Result<Option<Value>, Refused> {
    let found =
        world.all(kind).iter().find(|it| it["_account"] == *request.project && it[field] == request.body["Name"]);
    match found {
        Some(it) if it["_settings"] == settings(request) => Ok(Some(it.clone())),
        Some(_) => refuse(duplicate, format!("{} exists with other settings", request.body["Name"])),
        None => Ok(None),
    }
}

pub(crate) fn balancers(world: &mut World, request: &ApiRequest) -> Answer {
    world.describe(request, Kind::Network, "LoadBalancers")
}

/// Returns the subnets of a request as its mappings.
fn mappings(request: &ApiRequest) -> Vec<Value> {
    let plain = array(&request.body["Subnets"]).map(|it| json!({"SubnetId": it}));
    array(&request.body["SubnetMappings"]).cloned().chain(plain).collect()
}

/// Returns the zones of a load balancer with these mappings.
fn zones(world: &mut World, request: &ApiRequest, groups: &Value) -> Answer {
    let all = mappings(request);
    let subnets: Vec<_> = all.iter().map(|it| it["SubnetId"].clone()).collect();
    check_network(world, request, &subnets, groups)?;
    let mut zones = Vec::new();
    for it in &all {
        let zone = world.find(request, Kind::Subnet, &it["SubnetId"])?["availabilityZone"].clone();
        let address = json!({"AllocationId": it["AllocationId"], "PrivateIPv4Address": it["PrivateIPv4Address"]});
        let is_fixed = it["AllocationId"].is_string() || it["PrivateIPv4Address"].is_string();
        zones.push(json!({"ZoneName": zone, "SubnetId": it["SubnetId"], "LoadBalancerAddresses": if is_fixed { json!([address]) } else { json!([]) }}));
    }
    if zones.is_empty() { refuse("ValidationError", "a load balancer has subnets") } else { Ok(zones.into()) }
}

pub(crate) fn create(world: &mut World, request: &ApiRequest) -> Answer {
    let (body, name) = (&request.body, text(&request.body["Name"]));
    check_name(&body["Name"])?;
    if body["Type"] != "network" {
        return refuse("ValidationError", "only network load balancers are there");
    }
    if let Some(it) = existing(world, request, "network", "LoadBalancerName", "DuplicateLoadBalancerName")? {
        return Ok(json!({"LoadBalancers": [it]}));
    }
    let zones = zones(world, request, &body["SecurityGroups"])?;
    let arn = arn(world, request, &format!("loadbalancer/net/{name}"));
    let number = arn.rsplit('/').next().unwrap_or_default();
    let groups: Vec<_> = array(&body["SecurityGroups"]).collect();
    let it = json!({
        "LoadBalancerArn": arn, "LoadBalancerName": name, "DNSName": format!("{name}-{number}.elb.{REGION}.amazonaws.com"), "Type": "network",
        "CanonicalHostedZoneId": "Z26RNL4JYFTOTI", "CreatedTime": "2026-01-01T00:00:00.000Z", "VpcId": VPC, "State": {"Code": "provisioning"},
        "Scheme": body["Scheme"].as_str().unwrap_or("internet-facing"), "IpAddressType": body["IpAddressType"].as_str().unwrap_or("ipv4"),
        "AvailabilityZones": zones, "SecurityGroups": if groups.is_empty() { Value::Null } else { json!(groups) }, "_account": request.project,
        "_tags": new_tags(request), "_settings": settings(request),
        "_attributes": pairs(&[("access_logs.s3.bucket", ""), ("access_logs.s3.enabled", "false"), ("access_logs.s3.prefix", ""),
            ("deletion_protection.enabled", "false"), ("dns_record.client_routing_policy", "any_availability_zone"),
            ("load_balancing.cross_zone.enabled", "false"), ("zonal_shift.config.enabled", "false")]),
    });
    world.add(Kind::Network, it.clone());
    world.later(world.provisioning, Kind::Network, &arn, json!({"State": {"Code": "active"}}));
    Ok(json!({"LoadBalancers": [it]}))
}

pub(crate) fn delete(world: &mut World, request: &ApiRequest) -> Answer {
    let Ok(it) = of(world, request, Kind::Network).cloned() else { return done() };
    if array(&it["_attributes"]).any(|it| it["Key"] == "deletion_protection.enabled" && it["Value"] == "true") {
        return refuse(
            "OperationNotPermitted",
            "Load balancer cannot be deleted because deletion protection is enabled",
        );
    }
    let arn = &it["LoadBalancerArn"];
    world.each(Kind::Network).retain(|it| it["LoadBalancerArn"] != *arn);
    world.each(Kind::Listener).retain(|it| it["LoadBalancerArn"] != *arn);
    world.relink();
    release(world, &it);
    done()
}

/// A load balancer that was created without security groups never gets any.
pub(crate) fn set_groups(world: &mut World, request: &ApiRequest) -> Answer {
    check_network(world, request, &[], &request.body["SecurityGroups"])?;
    let it = of(world, request, Kind::Network)?;
    if it["SecurityGroups"].is_null() || array(&request.body["SecurityGroups"]).next().is_none() {
        return refuse("InvalidConfigurationRequest", "security groups are set when the load balancer is created");
    }
    it["SecurityGroups"] = array(&request.body["SecurityGroups"]).cloned().collect();
    Ok(json!({"SecurityGroupIds": it["SecurityGroups"]}))
}

pub(crate) fn set_subnets(world: &mut World, request: &ApiRequest) -> Answer {
    let zones = zones(world, request, &Value::Null)?;
    let it = of(world, request, Kind::Network)?;
    it["AvailabilityZones"] = zones;
    if request.body["IpAddressType"].is_string() {
        it["IpAddressType"] = request.body["IpAddressType"].clone();
    }
    Ok(json!({"AvailabilityZones": it["AvailabilityZones"], "IpAddressType": it["IpAddressType"]}))
}

pub(crate) fn set_address_type(world: &mut World, request: &ApiRequest) -> Answer {
    let it = of(world, request, Kind::Network)?;
    it["IpAddressType"] = request.body["IpAddressType"].clone();
    Ok(json!({"IpAddressType": it["IpAddressType"]}))
}

pub(crate) fn attributes(world: &mut World, request: &ApiRequest, kind: Kind) -> Answer {
    Ok(json!({"Attributes": of(world, request, kind)?["_attributes"]}))
}

pub(crate) fn modify_attributes(world: &mut World, request: &ApiRequest, kind: Kind) -> Answer {
    let it = of(world, request, kind)?;
    let known = |new: &&Value| array(&it["_attributes"]).any(|has| has["Key"] == new["Key"]);
    if let Some(new) = array(&request.body["Attributes"]).find(|new| !known(new)) {
        return refuse("ValidationError", format!("The attribute {} is not known", new["Key"]));
    }
    array(&request.body["Attributes"]).for_each(|new| tag(&mut it["_attributes"], ["Key", "Value"], new));
    Ok(json!({"Attributes": it["_attributes"]}))
}

fn check_health_check(it: &Value) -> Result<(), Refused> {
    let within = |key: &str, range: std::ops::RangeInclusive<u32>| {
        it[key].is_null() || text(&it[key]).parse().is_ok_and(|it| range.contains(&it))
    };
    let is_right = within("HealthCheckIntervalSeconds", 5..=300)
        && within("HealthCheckTimeoutSeconds", 2..=120)
        && within("HealthyThresholdCount", 2..=10)
        && within("UnhealthyThresholdCount", 2..=10);
    let has_path = it["HealthCheckPath"].is_string();
    match (is_right, text(&it["HealthCheckProtocol"])) {
        (true, "HTTP" | "HTTPS") => Ok(()),
        (true, "TCP" | "") if !has_path => Ok(()),
        _ => refuse("ValidationError", "the health check is not valid"),
    }
}

pub(crate) fn create_target_group(world: &mut World, request: &ApiRequest) -> Answer {
    let body = &request.body;
    check_name(&body["Name"])?;
    check_health_check(body)?;
    if !["TCP", "UDP", "TLS", "TCP_UDP"].iter().any(|it| body["Protocol"] == **it) || body["VpcId"] != VPC {
        return refuse("ValidationError", "the protocol or the VPC of the target group is not valid");
    }
    if let Some(it) = existing(world, request, "target-group", "TargetGroupName", "DuplicateTargetGroupName")? {
        return Ok(json!({"TargetGroups": [it]}));
    }
    let arn = arn(world, request, &format!("targetgroup/{}", text(&body["Name"])));
    let is_http = text(&body["HealthCheckProtocol"]).starts_with("HTTP");
    let mut it = json!({
        "HealthCheckProtocol": "TCP", "HealthCheckPort": "traffic-port", "HealthCheckEnabled": true, "HealthCheckIntervalSeconds": 30,
        "HealthCheckTimeoutSeconds": if is_http { 6 } else { 10 }, "HealthyThresholdCount": 5, "UnhealthyThresholdCount": 2, "IpAddressType": "ipv4",
        "TargetType": "instance", "LoadBalancerArns": [], "_account": request.project, "_tags": new_tags(request), "_settings": settings(request), "_targets": [],
        "_attributes": pairs(&[("deregistration_delay.timeout_seconds", "300"), ("deregistration_delay.connection_termination.enabled", "false"),
            ("preserve_client_ip.enabled", "true"), ("proxy_protocol_v2.enabled", "false"), ("stickiness.enabled", "false"), ("stickiness.type", "source_ip"),
            ("load_balancing.cross_zone.enabled", "use_load_balancer_configuration")]),
    });
    if is_http {
        (it["HealthCheckPath"], it["Matcher"]) = ("/".into(), json!({"HttpCode": "200-399"}));
    }
    for (key, value) in body.as_object().into_iter().flatten().filter(|(key, _)| *key != "Tags" && *key != "Name") {
        it[key] = value.clone();
    }
    (it["TargetGroupArn"], it["TargetGroupName"]) = (arn.into(), body["Name"].clone());
    world.add(Kind::TargetGroup, it.clone());
    Ok(json!({"TargetGroups": [it]}))
}

pub(crate) fn modify_target_group(world: &mut World, request: &ApiRequest) -> Answer {
    let it = of(world, request, Kind::TargetGroup)?;
    let mut merged = it.clone();
    for (key, value) in request.body.as_object().into_iter().flatten() {
        merged[key] = value.clone();
    }
    if !text(&merged["HealthCheckProtocol"]).starts_with("HTTP") {
        (merged["HealthCheckPath"], merged["Matcher"]) = (request.body["HealthCheckPath"].clone(), Value::Null);
    } else if merged["HealthCheckPath"].is_null() {
        merged["HealthCheckPath"] = "/".into();
    }
    check_health_check(&request.body)?;
    it.clone_from(&merged);
    Ok(json!({"TargetGroups": [merged]}))
}

pub(crate) fn delete_target_group(world: &mut World, request: &ApiRequest) -> Answer {
    let Ok(it) = of(world, request, Kind::TargetGroup).cloned() else { return done() };
    let arn = &it["TargetGroupArn"];
    if array(&it["LoadBalancerArns"]).next().is_some() {
        return refuse("ResourceInUse", format!("Target group {arn} is currently in use by a listener"));
    }
    world.each(Kind::TargetGroup).retain(|it| it["TargetGroupArn"] != *arn);
    done()
}

/// Target groups are listed of a load balancer, or by name or ARN, or all.
pub(crate) fn target_groups(world: &mut World, request: &ApiRequest) -> Answer {
    let mut found = world.chosen(request, Kind::TargetGroup)?;
    if request.body["LoadBalancerArn"].is_string() {
        let arn = &of(world, request, Kind::Network)?["LoadBalancerArn"];
        found.retain(|it| array(&it["LoadBalancerArns"]).any(|it| it == arn));
    }
    world.paged(request, found, "TargetGroups")
}

pub(crate) fn health(world: &mut World, request: &ApiRequest) -> Answer {
    let it = of(world, request, Kind::TargetGroup)?;
    let health = |target: &Value| json!({"Target": target, "HealthCheckPort": target["Port"], "TargetHealth": {"State": "healthy"}});
    Ok(json!({"TargetHealthDescriptions": array(&it["_targets"]).map(health).collect::<Vec<_>>()}))
}

/// Returns the targets of a request with their ports.
fn targets(world: &mut World, request: &ApiRequest) -> Result<Vec<Value>, Refused> {
    let port = of(world, request, Kind::TargetGroup)?["Port"].clone();
    let target = |it: &Value| json!({"Id": it["Id"], "Port": if it["Port"].is_null() { &port } else { &it["Port"] }});
    Ok(array(&request.body["Targets"]).map(target).collect())
}

pub(crate) fn register(world: &mut World, request: &ApiRequest) -> Answer {
    let new = targets(world, request)?;
    for it in &new {
        let is_running =
            world.find(request, Kind::Instance, &it["Id"]).is_ok_and(|it| it["instanceState"]["name"] != "terminated");
        if !is_running {
            return refuse("InvalidTarget", format!("The following targets are not in a running state: {}", it["Id"]));
        }
    }
    let all = &mut of(world, request, Kind::TargetGroup)?["_targets"];
    retain(all, |it| !new.contains(it));
    new.into_iter().for_each(|it| push(all, it));
    done()
}

pub(crate) fn deregister(world: &mut World, request: &ApiRequest) -> Answer {
    let gone = targets(world, request)?;
    retain(&mut of(world, request, Kind::TargetGroup)?["_targets"], |it| !gone.contains(it));
    done()
}

impl World {
    /// Says of each target group whose it is.
    fn relink(&mut self) {
        let listeners = self.all("listener").to_vec();
        for group in self.each(Kind::TargetGroup) {
            let uses = |it: &&Value| {
                array(&it["DefaultActions"]).any(|action| action["TargetGroupArn"] == group["TargetGroupArn"])
            };
            let mut arns: Vec<_> = listeners.iter().filter(uses).map(|it| it["LoadBalancerArn"].clone()).collect();
            arns.dedup();
            group["LoadBalancerArns"] = arns.into();
        }
    }
}

/// Listeners are listed of a load balancer, or by ARN.
pub(crate) fn listeners(world: &mut World, request: &ApiRequest) -> Answer {
    let mut found = world.chosen(request, Kind::Listener)?;
    if request.body["LoadBalancerArn"].is_string() {
        let arn = &of(world, request, Kind::Network)?["LoadBalancerArn"];
        found.retain(|it| it["LoadBalancerArn"] == *arn);
    } else if request.body["ListenerArns"].is_null() {
        return refuse("ValidationError", "a load balancer or listeners must be named");
    }
    world.paged(request, found, "Listeners")
}

/// Refuses a listener that does not fit its target group, or the listeners beside it.
fn check_listener(world: &mut World, request: &ApiRequest, listener: &Value) -> Result<(), Refused> {
    let group = world.find(request, Kind::TargetGroup, &listener["DefaultActions"][0]["TargetGroupArn"])?.clone();
    let (outer, inner) = (text(&listener["Protocol"]), text(&group["Protocol"]));
    let is_tls = outer == "TLS";
    if outer != inner && !(is_tls && inner == "TCP") {
        return refuse(
            "InvalidConfigurationRequest",
            format!("a {outer} listener cannot forward to a {inner} target group"),
        );
    }
    if array(&group["LoadBalancerArns"]).any(|it| *it != listener["LoadBalancerArn"]) {
        return refuse("TargetGroupAssociationLimit", "the target group is another load balancer's");
    }
    let certificate = text(&listener["Certificates"][0]["CertificateArn"]);
    if is_tls != certificate.starts_with("arn:") || (!is_tls && listener["SslPolicy"].is_string()) {
        return refuse(
            if is_tls { "CertificateNotFound" } else { "InvalidConfigurationRequest" },
            "certificates are for TLS listeners",
        );
    }
    let is_beside = |it: &Value| {
        it["LoadBalancerArn"] == listener["LoadBalancerArn"]
            && it["Port"] == listener["Port"]
            && it["ListenerArn"] != listener["ListenerArn"]
    };
    let is_taken = world.all("listener").iter().any(is_beside);
    if is_taken {
        refuse("DuplicateListener", "A listener already exists on this port for this load balancer")
    } else {
        Ok(())
    }
}

fn with_defaults(mut it: Value) -> Value {
    if it["Protocol"] == "TLS" && it["SslPolicy"].is_null() {
        it["SslPolicy"] = "ELBSecurityPolicy-2016-08".into();
    }
    it
}

pub(crate) fn create_listener(world: &mut World, request: &ApiRequest) -> Answer {
    let balancer = of(world, request, Kind::Network)?["LoadBalancerArn"].clone();
    let mut it = settings(request);
    check_listener(world, request, &it)?;
    let arn = arn(
        world,
        request,
        &text(&balancer).split(':').next_back().unwrap_or_default().replacen("loadbalancer", "listener", 1),
    );
    (it["ListenerArn"], it["_account"], it["_tags"]) = (arn.into(), request.project.clone().into(), new_tags(request));
    let it = with_defaults(it);
    world.add(Kind::Listener, it.clone());
    world.relink();
    Ok(json!({"Listeners": [it]}))
}

pub(crate) fn modify_listener(world: &mut World, request: &ApiRequest) -> Answer {
    let mut it = of(world, request, Kind::Listener)?.clone();
    for (key, value) in request.body.as_object().into_iter().flatten() {
        it[key] = value.clone();
    }
    if it["Protocol"] != "TLS" && request.body["Protocol"].is_string() {
        (it["Certificates"], it["SslPolicy"]) =
            (request.body["Certificates"].clone(), request.body["SslPolicy"].clone());
    }
    check_listener(world, request, &it)?;
    let it = with_defaults(it);
    of(world, request, Kind::Listener)?.clone_from(&it);
    world.relink();
    Ok(json!({"Listeners": [it]}))
}

pub(crate) fn delete_listener(world: &mut World, request: &ApiRequest) -> Answer {
    let arn = of(world, request, Kind::Listener)?["ListenerArn"].clone();
    world.each(Kind::Listener).retain(|it| it["ListenerArn"] != arn);
    world.relink();
    done()
}

/// Returns the tags of each ARN of a request.
fn each_tagged(world: &mut World, request: &ApiRequest, mut change: impl FnMut(&Value, &mut Value)) -> Answer {
    let arns: Vec<_> = array(&request.body["ResourceArns"]).collect();
    if arns.len() > 20 {
        return refuse("ValidationError", "at most 20 resources");
    }
    for arn in arns {
        let kind = match text(arn).split(':').nth(5).unwrap_or_default().split('/').next() {
            Some("targetgroup") => Kind::TargetGroup,
            Some("listener") => Kind::Listener,
            _ => Kind::Network,
        };
        change(arn, &mut world.find(request, kind, arn)?["_tags"]);
    }
    done()
}

pub(crate) fn tags(world: &mut World, request: &ApiRequest) -> Answer {
    let mut shown = Vec::new();
    each_tagged(world, request, |arn, tags| shown.push(json!({"ResourceArn": arn, "Tags": tags})))?;
    Ok(json!({"TagDescriptions": shown}))
}

pub(crate) fn add_tags(world: &mut World, request: &ApiRequest) -> Answer {
    each_tagged(world, request, |_, tags| array(&request.body["Tags"]).for_each(|new| tag(tags, ["Key", "Value"], new)))
}

pub(crate) fn remove_tags(world: &mut World, request: &ApiRequest) -> Answer {
    each_tagged(world, request, |_, tags| {
        retain(tags, |it| !array(&request.body["TagKeys"]).any(|key| *key == it["Key"]))
    })
}
