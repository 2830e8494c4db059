//! Instances, routes and tags.

use fake_cloud::Refused;
use serde_json::{Value, json};

use crate::world::{array, retain, tag, text, zone};
use crate::{Answer, ApiRequest, Kind, REGION, World, refuse};

/// The answer of changes that show nothing.
pub(crate) fn done() -> Answer {
    Ok(json!({"return": true}))
}

/// Each instance is in a reservation of its own.
pub(crate) fn instances(world: &mut World, request: &ApiRequest) -> Answer {
    if let Some(id) = array(&request.body["InstanceId"]).find(|it| !text(it).starts_with("i-")) {
        return refuse("InvalidInstanceID.Malformed", format!("Invalid id: \"{}\"", text(id)));
    }
    let instances = world.chosen(request, Kind::Instance)?;
    let reservation = |it: Value| {
        let id = text(&it["instanceId"]).replace("i-", "r-");
        json!({"reservationId": id, "ownerId": request.project, "groupSet": [], "instancesSet": [it]})
    };
    world.paged(request, instances.into_iter().map(reservation).collect(), "reservationSet")
}

/// Types without a topology are left out.
pub(crate) fn topology(world: &mut World, request: &ApiRequest) -> Answer {
    let has_topology =
        |it: &Value| ["p", "trn", "hpc"].iter().any(|family| text(&it["instanceType"]).starts_with(family));
    let node = |it: Value| {
        json!({"instanceId": it["instanceId"], "instanceType": it["instanceType"], "availabilityZone": it["placement"]["availabilityZone"],
            "networkNodeSet": ["nn-1", "nn-12", "nn-123"]})
    };
    let found = world.chosen(request, Kind::Instance)?.into_iter().filter(has_topology).map(node).collect();
    world.paged(request, found, "instanceSet")
}

pub(crate) fn zones(_: &mut World, _: &ApiRequest) -> Answer {
    let local = json!({"zoneName": "us-east-1-lax-1a", "zoneId": "use1-lax1-az1", "zoneType": "local-zone", "zoneState": "available", "regionName": REGION});
    let usual = |number| json!({"zoneName": zone(number), "zoneId": format!("use1-az{}", number + 1), "zoneType": "availability-zone", "zoneState": "available", "regionName": REGION});
    Ok(json!({"availabilityZoneInfo": [usual(0), usual(1), local]}))
}

/// Routes to a terminated instance lead nowhere.
pub(crate) fn change_state(world: &mut World, request: &ApiRequest, state: &str) -> Answer {
    let mut changed = Vec::new();
    for id in array(&request.body["InstanceId"]) {
        let instance = world.find(request, Kind::Instance, id)?;
        let code = match state {
            "running" => 16,
            "terminated" => 48,
            _ => 80,
        };
        let new = json!({"code": code, "name": state});
        changed.push(json!({"instanceId": id, "previousState": instance["instanceState"], "currentState": new}));
        instance["instanceState"] = new;
        if state == "terminated" {
            world.break_routes(id);
        }
    }
    Ok(json!({"instancesSet": changed}))
}

impl World {
    /// Lets the routes to an instance lead nowhere.
    pub fn break_routes(&mut self, instance: &Value) {
        let routes = self.each(Kind::Table).iter_mut().filter_map(|it| it["routeSet"].as_array_mut()).flatten();
        for route in routes.filter(|it| it["instanceId"] == *instance) {
            (route["instanceId"], route["state"]) = (Value::Null, "blackhole".into());
        }
    }
}

pub(crate) fn modify_instance(world: &mut World, request: &ApiRequest) -> Answer {
    let instance = world.find(request, Kind::Instance, &request.body["InstanceId"])?;
    instance["sourceDestCheck"] = json!(request.body["SourceDestCheck"]["Value"] == "true");
    done()
}

const DESTINATIONS: [(&str, &str); 2] =
    [("DestinationCidrBlock", "destinationCidrBlock"), ("DestinationIpv6CidrBlock", "destinationIpv6CidrBlock")];

/// Returns the routes of the table, the field and value of the destination, and the place of its route.
type Place<'a> = (&'a mut Vec<Value>, &'static str, Value, Option<usize>);

fn place<'a>(world: &'a mut World, request: &ApiRequest) -> Result<Place<'a>, Refused> {
    let table = world.find(request, Kind::Table, &request.body["RouteTableId"])?;
    let Some((key, field)) = DESTINATIONS.into_iter().find(|(key, _)| request.body[*key].is_string()) else {
        return refuse("MissingParameter", "a route has a destination");
    };
    let (destination, Some(routes)) = (request.body[key].clone(), table["routeSet"].as_array_mut()) else {
        return refuse("InternalError", "the table has no routes");
    };
    let at = routes.iter().position(|it| it[field] == destination);
    Ok((routes, field, destination, at))
}

fn route(world: &mut World, request: &ApiRequest) -> Answer {
    let instance = world.find(request, Kind::Instance, &request.body["InstanceId"])?.clone();
    let interface = &instance["networkInterfaceSet"][0]["networkInterfaceId"];
    Ok(
        json!({"instanceId": instance["instanceId"], "instanceOwnerId": request.project, "networkInterfaceId": interface, "origin": "CreateRoute", "state": "active"}),
    )
}

pub(crate) fn create_route(world: &mut World, request: &ApiRequest) -> Answer {
    let mut route = route(world, request)?;
    let (routes, field, destination, at) = place(world, request)?;
    if at.is_some() {
        return refuse("RouteAlreadyExists", format!("The route identified by {destination} already exists."));
    }
    route[field] = destination;
    routes.push(route);
    done()
}

pub(crate) fn replace_route(world: &mut World, request: &ApiRequest) -> Answer {
    let mut route = route(world, request)?;
    let (routes, field, destination, Some(at)) = place(world, request)? else {
        return refuse("InvalidParameterValue", "There is no route defined for this destination");
    };
    route[field] = destination;
    routes[at] = route;
    done()
}

pub(crate) fn delete_route(world: &mut World, request: &ApiRequest) -> Answer {
    let (routes, .., Some(at)) = place(world, request)? else {
        return refuse("InvalidRoute.NotFound", "no route with that destination");
    };
    routes.remove(at);
    done()
}

/// Returns the kind of an ID.
fn kind_of(id: &Value) -> Result<Kind, Refused> {
    let kinds = [("i-", Kind::Instance), ("sg-", Kind::Group), ("subnet-", Kind::Subnet), ("rtb-", Kind::Table)];
    let found = kinds.into_iter().find(|(prefix, _)| text(id).starts_with(prefix));
    found.map_or_else(|| refuse("InvalidID", format!("The ID '{}' is not valid", text(id))), |(_, kind)| Ok(kind))
}

pub(crate) fn create_tags(world: &mut World, request: &ApiRequest) -> Answer {
    for id in array(&request.body["ResourceId"]) {
        world.find(request, kind_of(id)?, id)?;
    }
    for id in array(&request.body["ResourceId"]) {
        world.later(world.lag, kind_of(id)?, text(id), json!({"+tags": request.body["Tag"]}));
    }
    done()
}

pub(crate) fn delete_tags(world: &mut World, request: &ApiRequest) -> Answer {
    for id in array(&request.body["ResourceId"]) {
        let tags = &mut world.find(request, kind_of(id)?, id)?["tagSet"];
        retain(tags, |has| {
            let is_it = |it: &Value| it["Key"] == has["key"] && (it["Value"].is_null() || it["Value"] == has["value"]);
            !array(&request.body["Tag"]).any(is_it)
        });
    }
    done()
}

/// Returns the tags of a new object of EC2.
pub(crate) fn new_tags(request: &ApiRequest, resource: &str) -> Value {
    let mut tags = json!([]);
    for specification in array(&request.body["TagSpecification"]).filter(|it| it["ResourceType"] == resource) {
        array(&specification["Tag"]).for_each(|new| tag(&mut tags, ["key", "value"], new));
    }
    tags
}

impl World {
    /// Adds a network interface of Fargate with this address.
    pub fn add_interface(&mut self, address: &str) {
        let id = format!("eni-{:08x}", self.number());
        let interface = json!({"networkInterfaceId": id, "availabilityZone": zone(0), "privateIpAddress": address, "vpcId": crate::VPC,
            "privateDnsName": format!("ip-{}.ec2.internal", address.replace('.', "-")), "attachment": {"status": "attached"},
            "ipv6AddressesSet": [], "_account": self.account});
        self.add(Kind::Interface, interface);
    }
}
