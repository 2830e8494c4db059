//! Classic load balancers, their listeners and policies.

use fake_cloud::Refused;
use serde_json::{Value, json};

use crate::groups::release;
use crate::world::{array, push, retain, tag, text};
use crate::{Answer, ApiRequest, Kind, REGION, VPC, World, refuse};

fn done() -> Answer {
    Ok(json!({}))
}

fn balancer<'a>(world: &'a mut World, request: &ApiRequest) -> Result<&'a mut Value, Refused> {
    let name = &request.body["LoadBalancerName"];
    let found = world.find(request, Kind::Classic, name);
    found
        .or_else(|_| refuse("LoadBalancerNotFound", format!("There is no ACTIVE Load Balancer named '{}'", text(name))))
}

/// Refuses names that no load balancer can have.
pub(crate) fn check_name(name: &Value) -> Result<(), Refused> {
    let is_inner = |it: char| it.is_ascii_alphanumeric() || it == '-';
    let is_right =
        (1..=32).contains(&text(name).len()) && text(name).chars().all(is_inner) && !text(name).starts_with('-');
    if is_right { Ok(()) } else { refuse("ValidationError", format!("the name {name} is not valid")) }
}

/// Refuses subnets and security groups that are not of the account, and two subnets in a zone.
pub(crate) fn check_network(
    world: &mut World,
    request: &ApiRequest,
    subnets: &[Value],
    groups: &Value,
) -> Result<(), Refused> {
    let mut zones = Vec::new();
    for id in subnets {
        let Ok(subnet) = world.find(request, Kind::Subnet, id) else {
            return refuse("SubnetNotFound", format!("The subnet {id} does not exist"));
        };
        if zones.contains(&subnet["availabilityZone"]) {
            return refuse("InvalidConfigurationRequest", "only one subnet per zone");
        }
        zones.push(subnet["availabilityZone"].clone());
    }
    match array(groups).find(|id| !world.has(request, Kind::Group, id)) {
        Some(id) => refuse("InvalidSecurityGroup", format!("The security group {id} does not exist")),
        None => Ok(()),
    }
}

/// Refuses listeners that no classic load balancer can have.
fn check_listener(listener: &Value) -> Result<(), Refused> {
    let [outer, inner] = ["Protocol", "InstanceProtocol"].map(|key| text(&listener[key]).to_uppercase());
    let is_port = |key: &str| text(&listener[key]).parse::<u16>().is_ok_and(|it| it > 0);
    let layer = |it: &str| match it {
        "TCP" | "SSL" => 4,
        "HTTP" | "HTTPS" => 7,
        _ => 0,
    };
    if !is_port("LoadBalancerPort") || !is_port("InstancePort") || layer(&outer) == 0 || layer(&outer) != layer(&inner)
    {
        return refuse("ValidationError", format!("the listener {listener} is not valid"));
    }
    let (is_secure, certificate) = (["SSL", "HTTPS"].contains(&&*outer), text(&listener["SSLCertificateId"]));
    match (is_secure, certificate.starts_with("arn:")) {
        (true, false) => refuse("CertificateNotFound", "Server Certificate not found for the key"),
        (false, true) => refuse("InvalidConfigurationRequest", "a listener without encryption has no certificate"),
        _ => Ok(()),
    }
}

fn shown(listener: &Value) -> Value {
    let mut listener = listener.clone();
    for key in ["Protocol", "InstanceProtocol"] {
        listener[key] = text(&listener[key]).to_uppercase().into();
    }
    json!({"Listener": listener, "PolicyNames": []})
}

pub(crate) fn balancers(world: &mut World, request: &ApiRequest) -> Answer {
    world.describe(request, Kind::Classic, "LoadBalancerDescriptions")
}

pub(crate) fn create(world: &mut World, request: &ApiRequest) -> Answer {
    let (body, name) = (&request.body, text(&request.body["LoadBalancerName"]));
    check_name(&body["LoadBalancerName"])?;
    if world.has(request, Kind::Classic, &body["LoadBalancerName"]) {
        return refuse("DuplicateLoadBalancerName", format!("The load balancer {name} already exists"));
    }
    let subnets: Vec<_> = array(&body["Subnets"]).cloned().collect();
    check_network(world, request, &subnets, &body["SecurityGroups"])?;
    array(&body["Listeners"]).try_for_each(check_listener)?;
    let Some(first) = array(&body["Listeners"]).next().filter(|_| !subnets.is_empty()) else {
        return refuse("ValidationError", "a load balancer has listeners and subnets");
    };
    let prefix = if body["Scheme"] == "internal" { "internal-" } else { "" };
    let dns = format!("{prefix}{name}-{:09}.{REGION}.elb.amazonaws.com", world.number());
    let mut tags = json!([]);
    array(&body["Tags"]).for_each(|new| tag(&mut tags, ["Key", "Value"], new));
    world.add(Kind::Classic, json!({
        "LoadBalancerName": name, "DNSName": dns, "CanonicalHostedZoneName": dns, "CanonicalHostedZoneNameID": "Z35SXDOTRQ7X7K", "VPCId": VPC,
        "Scheme": body["Scheme"].as_str().unwrap_or("internet-facing"), "Subnets": subnets, "CreatedTime": "2026-01-01T00:00:00.000Z",
        "SecurityGroups": array(&body["SecurityGroups"]).collect::<Vec<_>>(), "Instances": [], "BackendServerDescriptions": [],
        "ListenerDescriptions": array(&body["Listeners"]).map(shown).collect::<Vec<_>>(),
        "HealthCheck": {"Target": format!("TCP:{}", text(&first["InstancePort"])), "Interval": 30, "Timeout": 5, "UnhealthyThreshold": 2, "HealthyThreshold": 10},
        "SourceSecurityGroup": {"OwnerAlias": request.project, "GroupName": "default"}, "_account": request.project, "_tags": tags, "_policies": [],
        "Policies": {"AppCookieStickinessPolicies": [], "LBCookieStickinessPolicies": [], "OtherPolicies": []},
        "_attributes": {"CrossZoneLoadBalancing": {"Enabled": false}, "AccessLog": {"Enabled": false}, "ConnectionSettings": {"IdleTimeout": 60},
            "ConnectionDraining": {"Enabled": false, "Timeout": 300}, "AdditionalAttributes": [{"Key": "elb.http.desyncmitigationmode", "Value": "defensive"}]},
    }));
    Ok(json!({"DNSName": dns}))
}

/// A load balancer that does not exist is deleted, too.
pub(crate) fn delete(world: &mut World, request: &ApiRequest) -> Answer {
    if let Ok(found) = balancer(world, request) {
        let (it, name) = (found.clone(), found["LoadBalancerName"].clone());
        world.each(Kind::Classic).retain(|it| it["LoadBalancerName"] != name);
        release(world, &it);
    }
    done()
}

/// Names are a list where the API has tags.
fn tagged<'a>(world: &'a mut World, request: &ApiRequest) -> Result<&'a mut Value, Refused> {
    let found = world.find(request, Kind::Classic, &request.body["LoadBalancerNames"][0]);
    found.or_else(|_| refuse("LoadBalancerNotFound", "There is no such load balancer"))
}

pub(crate) fn add_tags(world: &mut World, request: &ApiRequest) -> Answer {
    let tags = &mut tagged(world, request)?["_tags"];
    array(&request.body["Tags"]).for_each(|new| tag(tags, ["Key", "Value"], new));
    done()
}

pub(crate) fn remove_tags(world: &mut World, request: &ApiRequest) -> Answer {
    retain(&mut tagged(world, request)?["_tags"], |it| {
        !array(&request.body["Tags"]).any(|gone| gone["Key"] == it["Key"])
    });
    done()
}

pub(crate) fn tags(world: &mut World, request: &ApiRequest) -> Answer {
    let mut shown = Vec::new();
    if array(&request.body["LoadBalancerNames"]).count() > 20 {
        return refuse("ValidationError", "at most 20 load balancers");
    }
    for name in array(&request.body["LoadBalancerNames"]) {
        let found = world.find(request, Kind::Classic, name)?;
        shown.push(json!({"LoadBalancerName": name, "Tags": found["_tags"]}));
    }
    Ok(json!({"TagDescriptions": shown}))
}

pub(crate) fn set_instances(world: &mut World, request: &ApiRequest, is_added: bool) -> Answer {
    balancer(world, request)?;
    let wanted: Vec<_> = array(&request.body["Instances"]).map(|it| it["InstanceId"].clone()).collect();
    if let Some(id) = wanted.iter().find(|id| is_added && !world.has(request, Kind::Instance, id)) {
        return refuse("InvalidInstance", format!("Could not find EC2 instance {id}"));
    }
    let instances = &mut balancer(world, request)?["Instances"];
    retain(instances, |it| !wanted.contains(&it["InstanceId"]));
    wanted.into_iter().filter(|_| is_added).for_each(|id| push(instances, json!({"InstanceId": id})));
    Ok(json!({"Instances": instances}))
}

pub(crate) fn set_subnets(world: &mut World, request: &ApiRequest, is_added: bool) -> Answer {
    let mut subnets: Vec<_> = array(&balancer(world, request)?["Subnets"]).cloned().collect();
    let named: Vec<_> = array(&request.body["Subnets"]).cloned().collect();
    subnets.retain(|it| !named.contains(it));
    subnets.extend(named.into_iter().filter(|_| is_added));
    check_network(world, request, &subnets, &Value::Null)?;
    if subnets.is_empty() {
        return refuse("InvalidConfigurationRequest", "the last subnet cannot be detached");
    }
    balancer(world, request)?["Subnets"] = json!(subnets);
    Ok(json!({"Subnets": subnets}))
}

pub(crate) fn apply_groups(world: &mut World, request: &ApiRequest) -> Answer {
    check_network(world, request, &[], &request.body["SecurityGroups"])?;
    let found = balancer(world, request)?;
    found["SecurityGroups"] = array(&request.body["SecurityGroups"]).cloned().collect();
    Ok(json!({"SecurityGroups": found["SecurityGroups"]}))
}

pub(crate) fn create_listeners(world: &mut World, request: &ApiRequest) -> Answer {
    array(&request.body["Listeners"]).try_for_each(check_listener)?;
    let listeners = &mut balancer(world, request)?["ListenerDescriptions"];
    for listener in array(&request.body["Listeners"]).map(shown) {
        let has = |it: &Value| it["Listener"]["LoadBalancerPort"] == listener["Listener"]["LoadBalancerPort"];
        let there = array(listeners).find(|it| has(it)).cloned();
        match there {
            Some(there) if there["Listener"] == listener["Listener"] => {}
            Some(_) => return refuse("DuplicateListener", "A listener already exists on this port"),
            None => push(listeners, listener),
        }
    }
    done()
}

pub(crate) fn delete_listeners(world: &mut World, request: &ApiRequest) -> Answer {
    let gone: Vec<_> = array(&request.body["LoadBalancerPorts"]).collect();
    retain(&mut balancer(world, request)?["ListenerDescriptions"], |it| {
        !gone.contains(&&it["Listener"]["LoadBalancerPort"])
    });
    done()
}

pub(crate) fn configure_health_check(world: &mut World, request: &ApiRequest) -> Answer {
    let check = &request.body["HealthCheck"];
    let (target, number) = (text(&check["Target"]), |key: &str| text(&check[key]).parse::<u32>().unwrap_or(0));
    let has_path = target.contains('/');
    let needs_path = target.starts_with("HTTP:") || target.starts_with("HTTPS:");
    let is_right =
        ["TCP:", "SSL:", "HTTP:", "HTTPS:"].iter().any(|it| target.starts_with(it)) && has_path == needs_path;
    let in_range = (5..=300).contains(&number("Interval"))
        && (2..=60).contains(&number("Timeout"))
        && number("Timeout") < number("Interval");
    if !is_right
        || !in_range
        || ["UnhealthyThreshold", "HealthyThreshold"].iter().any(|key| !(2..=10).contains(&number(key)))
    {
        return refuse("ValidationError", format!("the health check {check} is not valid"));
    }
    balancer(world, request)?["HealthCheck"] = check.clone();
    Ok(json!({"HealthCheck": check}))
}

pub(crate) fn attributes(world: &mut World, request: &ApiRequest) -> Answer {
    Ok(json!({"LoadBalancerAttributes": balancer(world, request)?["_attributes"]}))
}

pub(crate) fn modify_attributes(world: &mut World, request: &ApiRequest) -> Answer {
    let found = balancer(world, request)?;
    for (group, fields) in request.body["LoadBalancerAttributes"].as_object().into_iter().flatten() {
        if !found["_attributes"][group].is_object() {
            continue;
        }
        for (key, value) in fields.as_object().into_iter().flatten() {
            found["_attributes"][group][key] = value.clone();
        }
    }
    Ok(json!({"LoadBalancerName": found["LoadBalancerName"], "LoadBalancerAttributes": found["_attributes"]}))
}

pub(crate) fn create_policy(world: &mut World, request: &ApiRequest) -> Answer {
    let (body, found) = (&request.body, balancer(world, request)?);
    if !["ProxyProtocolPolicyType", "SSLNegotiationPolicyType"].iter().any(|it| body["PolicyTypeName"] == **it) {
        return refuse("PolicyTypeNotFound", "There is no policy type of this name");
    }
    if array(&found["_policies"]).any(|it| it["PolicyName"] == body["PolicyName"]) {
        return refuse("DuplicatePolicyName", "There is a policy of this name");
    }
    let policy = json!({"PolicyName": body["PolicyName"], "PolicyTypeName": body["PolicyTypeName"], "PolicyAttributeDescriptions": body["PolicyAttributes"]});
    push(&mut found["_policies"], policy);
    push(&mut found["Policies"]["OtherPolicies"], body["PolicyName"].clone());
    done()
}

pub(crate) fn delete_policy(world: &mut World, request: &ApiRequest) -> Answer {
    let (found, name) = (balancer(world, request)?, &request.body["PolicyName"]);
    retain(&mut found["_policies"], |it| it["PolicyName"] != *name);
    retain(&mut found["Policies"]["OtherPolicies"], |it| it != name);
    done()
}

pub(crate) fn policies(world: &mut World, request: &ApiRequest) -> Answer {
    let (found, wanted) = (balancer(world, request)?, array(&request.body["PolicyNames"]).collect::<Vec<_>>());
    let shown: Vec<_> =
        array(&found["_policies"]).filter(|it| wanted.is_empty() || wanted.contains(&&it["PolicyName"])).collect();
    if shown.len() < wanted.len() {
        return refuse("PolicyNotFound", "There is no policy of this name");
    }
    Ok(json!({"PolicyDescriptions": shown}))
}

/// Returns the policies that a request names, if the load balancer has them.
fn named(found: &Value, request: &ApiRequest) -> Answer {
    let names: Vec<_> = array(&request.body["PolicyNames"]).collect();
    match names.iter().find(|name| !array(&found["_policies"]).any(|it| it["PolicyName"] == ***name)) {
        Some(name) => refuse("PolicyNotFound", format!("There is no policy {name}")),
        None => Ok(json!(names)),
    }
}

pub(crate) fn set_backend_policies(world: &mut World, request: &ApiRequest) -> Answer {
    let (found, port) = (balancer(world, request)?, &request.body["InstancePort"]);
    let names = named(found, request)?;
    retain(&mut found["BackendServerDescriptions"], |it| it["InstancePort"] != *port);
    if array(&names).next().is_some() {
        push(&mut found["BackendServerDescriptions"], json!({"InstancePort": port, "PolicyNames": names}));
    }
    done()
}

pub(crate) fn set_listener_policies(world: &mut World, request: &ApiRequest) -> Answer {
    let found = balancer(world, request)?;
    let names = named(found, request)?;
    let listeners = found["ListenerDescriptions"].as_array_mut().into_iter().flatten();
    let is_it = |it: &&mut Value| it["Listener"]["LoadBalancerPort"] == request.body["LoadBalancerPort"];
    match { listeners }.find(is_it) {
        Some(listener) => listener["PolicyNames"] = names,
        None => return refuse("ListenerNotFound", "There is no listener on this port"),
    }
    done()
}
