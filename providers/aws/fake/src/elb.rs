//! Classic load balancers, their listeners and policies.

use fake_cloud::Refused;
use serde_json::{Value, json};

use crate::groups::release;
use crate::world::{array, merge, new, push, retain, tag, text};
use crate::{Answer, Kind, REGION, World, check, refuse};

pub(crate) fn answer(world: &mut World, action: &str, body: &Value) -> Answer {
    let list = |key: &str| array(&body[key]).cloned().collect::<Vec<_>>();
    match action {
        "DescribeLoadBalancers" => return world.describe(Kind::Classic, body),
        "DescribeLoadBalancerAttributes" => {
            return Ok(json!({"LoadBalancerAttributes": balancer(world, body)?["_attributes"]}));
        }
        "DescribeLoadBalancerPolicies" => return policies(world, body),
        "DescribeTags" => return tags(world, body),
        "CreateLoadBalancer" => return create(world, body),
        // A load balancer that does not exist is deleted, too.
        "DeleteLoadBalancer" => {
            if let Ok(entry) = balancer(world, body).cloned() {
                world.remove(
                    Kind::Classic,
                    "LoadBalancerName",
                    &entry["LoadBalancerName"],
                );
                release(world, &entry);
            }
        }
        "AddTags" => tag(
            &mut tagged(world, body)?["_tags"],
            ["Key", "Value"],
            &body["Tags"],
        ),
        "RemoveTags" => {
            let keys = &body["Tags"];
            retain(&mut tagged(world, body)?["_tags"], |object| {
                !array(keys).any(|gone| gone["Key"] == object["Key"])
            });
        }
        "RegisterInstancesWithLoadBalancer" | "DeregisterInstancesFromLoadBalancer" => {
            return set_instances(world, body, action.starts_with('R'));
        }
        "AttachLoadBalancerToSubnets" | "DetachLoadBalancerFromSubnets" => {
            let is_added = action.starts_with('A');
            let named = list("Subnets");
            let mut subnets: Vec<_> = array(&balancer(world, body)?["Subnets"]).cloned().collect();
            subnets.retain(|subnet| !named.contains(subnet));
            subnets.extend(named.into_iter().filter(|_| is_added));
            check_network(world, &subnets, &Value::Null)?;
            check(
                !subnets.is_empty(),
                "InvalidConfigurationRequest",
                "the last subnet cannot be detached",
            )?;
            balancer(world, body)?["Subnets"] = json!(subnets);
            return Ok(json!({"Subnets": subnets}));
        }
        "ApplySecurityGroupsToLoadBalancer" => {
            check_network(world, &[], &body["SecurityGroups"])?;
            balancer(world, body)?["SecurityGroups"] = json!(list("SecurityGroups"));
            return Ok(json!({"SecurityGroups": list("SecurityGroups")}));
        }
        "CreateLoadBalancerListeners" => create_listeners(world, body)?,
        "DeleteLoadBalancerListeners" => {
            let gone = list("LoadBalancerPorts");
            let listeners = &mut balancer(world, body)?["ListenerDescriptions"];
            retain(listeners, |object| {
                !gone.contains(&object["Listener"]["LoadBalancerPort"])
            });
        }
        "ConfigureHealthCheck" => {
            check_health_check(&body["HealthCheck"])?;
            balancer(world, body)?["HealthCheck"] = body["HealthCheck"].clone();
            return Ok(json!({"HealthCheck": body["HealthCheck"]}));
        }
        "ModifyLoadBalancerAttributes" => {
            let found = balancer(world, body)?;
            for (group, fields) in body["LoadBalancerAttributes"]
                .as_object()
                .into_iter()
                .flatten()
            {
                if found["_attributes"][group].is_object() {
                    merge(&mut found["_attributes"][group], fields);
                }
            }
            return Ok(
                json!({"LoadBalancerName": found["LoadBalancerName"], "LoadBalancerAttributes": found["_attributes"]}),
            );
        }
        "CreateLoadBalancerPolicy" => create_policy(world, body)?,
        "DeleteLoadBalancerPolicy" => {
            let found = balancer(world, body)?;
            retain(&mut found["_policies"], |object| {
                object["PolicyName"] != body["PolicyName"]
            });
            retain(&mut found["Policies"]["OtherPolicies"], |object| {
                *object != body["PolicyName"]
            });
        }
        "SetLoadBalancerPoliciesForBackendServer" | "SetLoadBalancerPoliciesOfListener" => {
            set_policies(world, body)?;
        }
        _ => return Err(Refused::new(404, "InvalidAction", action)),
    }
    Ok(json!({}))
}

fn named<'a>(world: &'a mut World, name: &Value) -> Result<&'a mut Value, Refused> {
    let missing = format!("There is no ACTIVE Load Balancer named '{}'", text(name));
    world
        .find(Kind::Classic, name)
        .or_else(|_| refuse("LoadBalancerNotFound", missing))
}

fn balancer<'a>(world: &'a mut World, body: &Value) -> Result<&'a mut Value, Refused> {
    named(world, &body["LoadBalancerName"])
}

/// Names are a list where the API has tags.
fn tagged<'a>(world: &'a mut World, body: &Value) -> Result<&'a mut Value, Refused> {
    named(world, &body["LoadBalancerNames"][0])
}

/// Refuses names that no load balancer can have.
pub(crate) fn check_name(name: &Value) -> Result<(), Refused> {
    let is_inner = |character: char| character.is_ascii_alphanumeric() || character == '-';
    let is_right = (1..=32).contains(&text(name).len())
        && text(name).chars().all(is_inner)
        && !text(name).starts_with('-');
    check(
        is_right,
        "ValidationError",
        format!("the name {name} is not valid"),
    )
}

/// Refuses subnets and security groups that are not of the account, and two subnets in a zone.
pub(crate) fn check_network(
    world: &mut World,
    subnets: &[Value],
    groups: &Value,
) -> Result<(), Refused> {
    let mut zones = Vec::new();
    for id in subnets {
        let Ok(subnet) = world.find(Kind::Subnet, id) else {
            return refuse("SubnetNotFound", format!("The subnet {id} does not exist"));
        };
        let is_new = !zones.contains(&subnet["availabilityZone"]);
        check(
            is_new,
            "InvalidConfigurationRequest",
            "only one subnet per zone",
        )?;
        zones.push(subnet["availabilityZone"].clone());
    }
    let unknown = array(groups).find(|id| !world.has(Kind::Group, id));
    check(
        unknown.is_none(),
        "InvalidSecurityGroup",
        format!("The security group {unknown:?} does not exist"),
    )
}

/// Refuses listeners that no classic load balancer can have.
fn check_listener(listener: &Value) -> Result<(), Refused> {
    let [outer, inner] =
        ["Protocol", "InstanceProtocol"].map(|key| text(&listener[key]).to_uppercase());
    let are_ports = ["LoadBalancerPort", "InstancePort"].iter().all(|key| {
        text(&listener[*key])
            .parse::<u16>()
            .is_ok_and(|number| number > 0)
    });
    let layers = [["TCP", "SSL"], ["HTTP", "HTTPS"]];
    let is_right = are_ports
        && layers
            .iter()
            .any(|layer| layer.contains(&&*outer) && layer.contains(&&*inner));
    check(
        is_right,
        "ValidationError",
        format!("the listener {listener} is not valid"),
    )?;
    let is_secure = ["SSL", "HTTPS"].contains(&&*outer);
    let certificate = text(&listener["SSLCertificateId"]);
    match (is_secure, certificate.starts_with("arn:")) {
        (true, false) => refuse(
            "CertificateNotFound",
            "Server Certificate not found for the key",
        ),
        (false, true) => refuse(
            "InvalidConfigurationRequest",
            "a listener without encryption has no certificate",
        ),
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

fn create(world: &mut World, body: &Value) -> Answer {
    let name = text(&body["LoadBalancerName"]);
    check_name(&body["LoadBalancerName"])?;
    let is_free = !world.has(Kind::Classic, &body["LoadBalancerName"]);
    check(
        is_free,
        "DuplicateLoadBalancerName",
        format!("The load balancer {name} already exists"),
    )?;
    let subnets: Vec<_> = array(&body["Subnets"]).cloned().collect();
    check_network(world, &subnets, &body["SecurityGroups"])?;
    array(&body["Listeners"]).try_for_each(check_listener)?;
    let Some(first) = array(&body["Listeners"])
        .next()
        .filter(|_| !subnets.is_empty())
    else {
        return refuse(
            "ValidationError",
            "a load balancer has listeners and subnets",
        );
    };
    let prefix = if body["Scheme"] == "internal" {
        "internal-"
    } else {
        ""
    };
    let dns = format!(
        "{prefix}{name}-{:09}.{REGION}.elb.amazonaws.com",
        world.number()
    );
    let mut tags = json!([]);
    tag(&mut tags, ["Key", "Value"], &body["Tags"]);
    let fields = json!({"LoadBalancerName": name, "DNSName": dns, "CanonicalHostedZoneName": dns, "Subnets": subnets, "_tags": tags,
        "Scheme": body["Scheme"].as_str().unwrap_or("internet-facing"), "SecurityGroups": array(&body["SecurityGroups"]).collect::<Vec<_>>(),
        "ListenerDescriptions": array(&body["Listeners"]).map(shown).collect::<Vec<_>>(), "HealthCheck": {"Interval": 30, "Timeout": 5,
            "Target": format!("TCP:{}", text(&first["InstancePort"])), "UnhealthyThreshold": 2, "HealthyThreshold": 10}});
    world.add(Kind::Classic, new(Kind::Classic, &fields));
    Ok(json!({"DNSName": dns}))
}

fn tags(world: &mut World, body: &Value) -> Answer {
    let names: Vec<_> = array(&body["LoadBalancerNames"]).collect();
    check(
        names.len() <= 20,
        "ValidationError",
        "at most 20 load balancers",
    )?;
    let shown = names
        .into_iter()
        .map(|name| Ok(json!({"LoadBalancerName": name, "Tags": named(world, name)?["_tags"]})));
    Ok(json!({"TagDescriptions": shown.collect::<Result<Vec<_>, Refused>>()?}))
}

fn set_instances(world: &mut World, body: &Value, is_added: bool) -> Answer {
    balancer(world, body)?;
    let wanted: Vec<_> = array(&body["Instances"])
        .map(|instances| instances["InstanceId"].clone())
        .collect();
    let is_right = !is_added || wanted.iter().all(|id| world.has(Kind::Instance, id));
    check(
        is_right,
        "InvalidInstance",
        format!("Could not find EC2 instances {wanted:?}"),
    )?;
    let instances = &mut balancer(world, body)?["Instances"];
    retain(instances, |object| !wanted.contains(&object["InstanceId"]));
    wanted
        .into_iter()
        .filter(|_| is_added)
        .for_each(|id| push(instances, json!({"InstanceId": id})));
    Ok(json!({"Instances": instances}))
}

fn create_listeners(world: &mut World, body: &Value) -> Result<(), Refused> {
    array(&body["Listeners"]).try_for_each(check_listener)?;
    let listeners = &mut balancer(world, body)?["ListenerDescriptions"];
    for new in array(&body["Listeners"]).map(shown) {
        let is_beside = |object: &&Value| {
            object["Listener"]["LoadBalancerPort"] == new["Listener"]["LoadBalancerPort"]
        };
        let there = array(listeners)
            .find(is_beside)
            .map(|object| object["Listener"] == new["Listener"]);
        check(
            there != Some(false),
            "DuplicateListener",
            "A listener already exists on this port",
        )?;
        if there.is_none() {
            push(listeners, new);
        }
    }
    Ok(())
}

fn check_health_check(object: &Value) -> Result<(), Refused> {
    let target = text(&object["Target"]);
    let number = |key: &str| text(&object[key]).parse::<u32>().unwrap_or(0);
    let is_http = target.starts_with("HTTP:") || target.starts_with("HTTPS:");
    let is_target = is_http || target.starts_with("TCP:") || target.starts_with("SSL:");
    let is_right = is_target
        && target.contains('/') == is_http
        && (5..=300).contains(&number("Interval"))
        && (2..=60).contains(&number("Timeout"))
        && number("Timeout") < number("Interval")
        && ["UnhealthyThreshold", "HealthyThreshold"]
            .iter()
            .all(|key| (2..=10).contains(&number(key)));
    check(
        is_right,
        "ValidationError",
        format!("the health check {object} is not valid"),
    )
}

fn create_policy(world: &mut World, body: &Value) -> Result<(), Refused> {
    let name = &body["PolicyName"];
    let kind = &body["PolicyTypeName"];
    let found = balancer(world, body)?;
    let is_known = ["ProxyProtocolPolicyType", "SSLNegotiationPolicyType"].contains(&text(kind));
    check(
        is_known,
        "PolicyTypeNotFound",
        "There is no policy type of this name",
    )?;
    let policy = json!({"PolicyName": name, "PolicyTypeName": kind, "PolicyAttributeDescriptions": body["PolicyAttributes"]});
    // Creating the same again changes nothing, and is what the Go cloud-controller-manager does at each sync.
    let there = array(&found["_policies"])
        .find(|policy| policy["PolicyName"] == *name)
        .map(|policies| *policies == policy);
    check(
        there != Some(false),
        "DuplicatePolicyName",
        "There is a policy of this name",
    )?;
    if there.is_some() {
        return Ok(());
    }
    push(&mut found["_policies"], policy);
    push(&mut found["Policies"]["OtherPolicies"], name.clone());
    Ok(())
}

/// Returns the policies that a request names, if the load balancer has them.
fn policies_of(found: &Value, body: &Value) -> Result<Vec<Value>, Refused> {
    let policy = |name: &Value| {
        array(&found["_policies"])
            .find(|policy| policy["PolicyName"] == *name)
            .cloned()
    };
    let all: Option<Vec<_>> = array(&body["PolicyNames"]).map(policy).collect();
    all.map_or_else(
        || refuse("PolicyNotFound", "There is no policy of this name"),
        Ok,
    )
}

fn policies(world: &mut World, body: &Value) -> Answer {
    let found = balancer(world, body)?;
    let wanted = policies_of(found, body)?;
    Ok(
        json!({"PolicyDescriptions": if wanted.is_empty() { found["_policies"].clone() } else { wanted.into() }}),
    )
}

/// Sets the policies of a listener, or of a port of the instances.
fn set_policies(world: &mut World, body: &Value) -> Result<(), Refused> {
    let found = balancer(world, body)?;
    let names: Value = policies_of(found, body)?
        .iter()
        .map(|policies_of| policies_of["PolicyName"].clone())
        .collect();
    if body["InstancePort"].is_string() {
        retain(&mut found["BackendServerDescriptions"], |object| {
            object["InstancePort"] != body["InstancePort"]
        });
        if array(&names).next().is_some() {
            push(
                &mut found["BackendServerDescriptions"],
                json!({"InstancePort": body["InstancePort"], "PolicyNames": names}),
            );
        }
        return Ok(());
    }
    let mut listeners = found["ListenerDescriptions"]
        .as_array_mut()
        .into_iter()
        .flatten();
    match listeners
        .find(|listener| listener["Listener"]["LoadBalancerPort"] == body["LoadBalancerPort"])
    {
        Some(listener) => listener["PolicyNames"] = names,
        None => return refuse("ListenerNotFound", "There is no listener on this port"),
    }
    Ok(())
}
