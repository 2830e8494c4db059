//! Instances, routes and tags.

use fake_cloud::Refused;
use serde_json::{Value, json};

use crate::world::{array, data, retain, tag, text};
use crate::{Answer, Kind, World, groups, refuse};

pub(crate) fn answer(world: &mut World, action: &str, body: &Value) -> Answer {
    match action {
        "DescribeNetworkInterfaces" => return world.describe(Kind::Interface, body),
        "DescribeSubnets" => return world.describe(Kind::Subnet, body),
        "DescribeRouteTables" => return world.describe(Kind::Table, body),
        "DescribeSecurityGroups" => return world.describe(Kind::Group, body),
        "DescribeInstances" => return instances(world, body),
        "DescribeInstanceTopology" => return topology(world, body),
        "DescribeAvailabilityZones" => {
            return Ok(json!({"availabilityZoneInfo": data()["there"]["zones"]}));
        }
        "StopInstances" => return change_state(world, body, "stopped", 80),
        "StartInstances" => return change_state(world, body, "running", 16),
        "TerminateInstances" => return change_state(world, body, "terminated", 48),
        "CreateSecurityGroup" => return groups::create(world, body),
        "DeleteSecurityGroup" => return groups::delete(world, body),
        "AuthorizeSecurityGroupIngress" => groups::authorize(world, body)?,
        "RevokeSecurityGroupIngress" => groups::revoke(world, body)?,
        "CreateRoute" | "ReplaceRoute" | "DeleteRoute" => change_route(world, action, body)?,
        "CreateTags" | "DeleteTags" => change_tags(world, action == "CreateTags", body)?,
        "ModifyInstanceAttribute" => {
            let instance = world.find(Kind::Instance, &body["InstanceId"])?;
            instance["sourceDestCheck"] = json!(body["SourceDestCheck"]["Value"] == "true");
        }
        _ => return Err(Refused::new(404, "InvalidAction", action)),
    }
    Ok(json!({"return": true}))
}

/// Each instance is in a reservation of its own.
fn instances(world: &mut World, body: &Value) -> Answer {
    if let Some(id) =
        array(&body["InstanceId"]).find(|instance_id| !text(instance_id).starts_with("i-"))
    {
        return refuse(
            "InvalidInstanceID.Malformed",
            format!("Invalid id: \"{}\"", text(id)),
        );
    }
    let owner = world.account;
    let reservation = |object: Value| {
        let id = text(&object["instanceId"]).replace("i-", "r-");
        json!({"reservationId": id, "ownerId": owner, "groupSet": [], "instancesSet": [object]})
    };
    let found = world
        .chosen(Kind::Instance, body)?
        .into_iter()
        .map(reservation)
        .collect();
    world.paged(body, found, "reservationSet")
}

/// Types without a topology are left out.
fn topology(world: &mut World, body: &Value) -> Answer {
    let has_topology = |object: &Value| {
        ["p", "trn", "hpc"]
            .iter()
            .any(|type_| text(&object["instanceType"]).starts_with(type_))
    };
    let node = |object: Value| {
        json!({"instanceId": object["instanceId"], "instanceType": object["instanceType"], "availabilityZone": object["placement"]["availabilityZone"],
            "networkNodeSet": ["nn-1", "nn-12", "nn-123"]})
    };
    let found = world
        .chosen(Kind::Instance, body)?
        .into_iter()
        .filter(has_topology)
        .map(node)
        .collect();
    world.paged(body, found, "instanceSet")
}

/// Routes to a terminated instance lead nowhere.
fn change_state(world: &mut World, body: &Value, state: &str, code: u8) -> Answer {
    let mut changed = Vec::new();
    let new = json!({"code": code, "name": state});
    for id in array(&body["InstanceId"]) {
        let instance = world.find(Kind::Instance, id)?;
        changed.push(json!({"instanceId": id, "previousState": instance["instanceState"], "currentState": new}));
        instance["instanceState"] = new.clone();
        if state == "terminated" {
            world.break_routes(id);
        }
    }
    Ok(json!({"instancesSet": changed}))
}

impl World {
    /// Lets the routes to an instance lead nowhere.
    pub fn break_routes(&mut self, instance: &Value) {
        let routes = self
            .each(Kind::Table)
            .iter_mut()
            .filter_map(|object| object["routeSet"].as_array_mut())
            .flatten();
        for route in routes.filter(|route| route["instanceId"] == *instance) {
            (route["instanceId"], route["state"]) = (Value::Null, "blackhole".into());
        }
    }
}

const DESTINATIONS: [(&str, &str); 2] = [
    ("DestinationCidrBlock", "destinationCidrBlock"),
    ("DestinationIpv6CidrBlock", "destinationIpv6CidrBlock"),
];

fn change_route(world: &mut World, action: &str, body: &Value) -> Result<(), Refused> {
    let Some((key, field)) = DESTINATIONS
        .into_iter()
        .find(|(key, _)| body[*key].is_string())
    else {
        return refuse("MissingParameter", "a route has a destination");
    };
    let mut route = json!({field: body[key], "instanceOwnerId": world.account, "origin": "CreateRoute", "state": "active"});
    if action != "DeleteRoute" {
        let instance = world.find(Kind::Instance, &body["InstanceId"])?;
        route["instanceId"] = instance["instanceId"].clone();
        route["networkInterfaceId"] =
            instance["networkInterfaceSet"][0]["networkInterfaceId"].clone();
    }
    let table = world.find(Kind::Table, &body["RouteTableId"])?;
    let is_this_object = |object: &Value| object[field] == body[key];
    match (action, array(&table["routeSet"]).any(is_this_object)) {
        ("CreateRoute", true) => {
            return refuse(
                "RouteAlreadyExists",
                format!("The route identified by {} already exists.", body[key]),
            );
        }
        ("ReplaceRoute", false) => {
            return refuse(
                "InvalidParameterValue",
                "There is no route defined for this destination",
            );
        }
        ("DeleteRoute", false) => {
            return refuse("InvalidRoute.NotFound", "no route with that destination");
        }
        _ => {}
    }
    let routes = table["routeSet"].as_array_mut().into_iter();
    routes.for_each(
        |routes| match (action, routes.iter().position(is_this_object)) {
            ("DeleteRoute", _) => routes.retain(|route| !is_this_object(route)),
            (_, Some(at)) => routes[at] = route.clone(),
            _ => routes.push(route.clone()),
        },
    );
    Ok(())
}

/// Returns the kind of an ID.
fn kind_of(id: &Value) -> Result<Kind, Refused> {
    let kinds = [
        ("i-", Kind::Instance),
        ("sg-", Kind::Group),
        ("subnet-", Kind::Subnet),
        ("rtb-", Kind::Table),
    ];
    let found = kinds
        .into_iter()
        .find(|(prefix, _)| text(id).starts_with(prefix));
    found.map_or_else(
        || refuse("InvalidID", format!("The ID '{}' is not valid", text(id))),
        |(_, kind)| Ok(kind),
    )
}

fn change_tags(world: &mut World, is_set: bool, body: &Value) -> Result<(), Refused> {
    for id in array(&body["ResourceId"]) {
        world.find(kind_of(id)?, id)?;
    }
    for id in array(&body["ResourceId"]) {
        if is_set {
            world.later(
                world.lag,
                kind_of(id)?,
                text(id),
                json!({"+tags": body["Tag"]}),
            );
            continue;
        }
        let is_this_object = |object: &Value, has: &Value| {
            object["Key"] == has["key"]
                && (object["Value"].is_null() || object["Value"] == has["value"])
        };
        retain(&mut world.find(kind_of(id)?, id)?["tagSet"], |has| {
            !array(&body["Tag"]).any(|tag| is_this_object(tag, has))
        });
    }
    Ok(())
}

/// Returns the tags of a new object of EC2.
pub(crate) fn new_tags(body: &Value, resource: &str) -> Value {
    let mut tags = json!([]);
    let specifications = array(&body["TagSpecification"])
        .filter(|tag_specification| tag_specification["ResourceType"] == resource);
    specifications
        .for_each(|specification| tag(&mut tags, ["key", "value"], &specification["Tag"]));
    tags
}
