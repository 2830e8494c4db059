//! VPCs, vSwitches, EIPs, route tables, and the publication of routes to a CEN.

use fake_cloud::Refused;
use serde_json::{Value, json};

use crate::world::{array, only};
use crate::{Answer, VPC, World, check, refuse};

pub(crate) fn answer(world: &mut World, action: &str, body: &Value) -> Answer {
    match action {
        "DescribeRouteTableList" => {
            let found = world.matching("table", |object| {
                body["VpcId"].is_null() || body["VpcId"] == object["VpcId"]
            });
            world.numbered_page(found, body, ["RouterTableList", "RouterTableListType"])
        }
        "DescribeVSwitches" => {
            let found = world.matching("vswitch", |_| true);
            world.numbered_page(found, body, ["VSwitches", "VSwitch"])
        }
        "DescribeVpcs" => {
            let found = world.matching("vpc", |vpc| {
                body["VpcId"].is_null() || body["VpcId"] == vpc["VpcId"]
            });
            world.numbered_page(found, body, ["Vpcs", "Vpc"])
        }
        "DescribeVpcAttribute" => Ok(json!({"VpcId": VPC, "CidrBlock": "10.0.0.0/8"})),
        "DescribeEipAddresses" => {
            let found = world.matching("eip", |_| true);
            world.numbered_page(found, body, ["EipAddresses", "EipAddress"])
        }
        "DescribeRouteEntryList" => {
            let found = world.matching("route", |route| {
                route["RouteTableId"] == body["RouteTableId"]
            });
            world.token_page(found, body, "MaxResult", ["RouteEntrys", "RouteEntry"])
        }
        "CreateRouteEntries" => {
            let entries: Vec<_> = array(&body["RouteEntries"]).cloned().collect();
            check(
                !entries.is_empty() && entries.len() <= 50,
                "InvalidParameter",
                "1 to 50 entries",
            )?;
            let mut failed = Vec::new();
            for entry in &entries {
                if let Err(refused) = create_route(world, entry) {
                    failed.push(
                        json!({"DstCidrBlock": entry["DstCidrBlock"], "NextHop": entry["NextHop"],
                        "FailedCode": refused.code, "FailedMessage": refused.message}),
                    );
                }
            }
            Ok(
                json!({"SuccessCount": entries.len() - failed.len(), "FailedCount": failed.len(), "FailedRouteEntries": failed}),
            )
        }
        "CreateRouteEntry" => {
            let entry = json!({"RouteTableId": body["RouteTableId"], "DstCidrBlock": body["DestinationCidrBlock"],
                "NextHop": body["NextHopId"]});
            create_route(world, &entry).map(|()| json!({}))
        }
        "DeleteRouteEntries" | "DeleteRouteEntry" => {
            let single = [
                json!({"RouteTableId": body["RouteTableId"], "RouteEntryId": body["RouteEntryId"],
                "DstCidrBlock": body["DestinationCidrBlock"], "NextHop": body["NextHopId"]}),
            ];
            let entries: Vec<_> = if action.ends_with('y') {
                single.into()
            } else {
                array(&body["RouteEntries"]).cloned().collect()
            };
            let mut failed = Vec::new();
            for entry in &entries {
                let is_this_object = |object: &Value| {
                    object["RouteTableId"] == entry["RouteTableId"]
                        && (entry["RouteEntryId"] == object["RouteEntryId"]
                            || entry["DstCidrBlock"] == object["DestinationCidrBlock"]
                                && (entry["NextHop"].is_null()
                                    || entry["NextHop"]
                                        == object["NextHops"]["NextHop"][0]["NextHopId"]))
                };
                let is_published = world
                    .matching("route", is_this_object)
                    .iter()
                    .any(|object| object["_published"] == true);
                if is_published {
                    failed.push(json!({"DstCidrBlock": entry["DstCidrBlock"], "FailedCode": "RouteEntryPublished"}));
                } else if world.remove("route", is_this_object) == 0 {
                    failed.push(
                        json!({"DstCidrBlock": entry["DstCidrBlock"], "FailedCode": "VPC_ROUTER_ENTRY_NOT_EXIST"}),
                    );
                }
            }
            Ok(
                json!({"SuccessCount": entries.len() - failed.len(), "FailedCount": failed.len(), "FailedRouteEntries": failed}),
            )
        }
        _ => refuse("InvalidAction.NotFound", action),
    }
}

fn create_route(world: &mut World, entry: &Value) -> Result<(), Refused> {
    world.find(
        "table",
        "RouteTableId",
        &entry["RouteTableId"],
        "InvalidRouteTableId.NotFound",
    )?;
    let id = &entry["NextHop"];
    world.find("instance", "InstanceId", id, "InvalidNextHopId.NotFound")?;
    let is_same = |object: &Value| {
        object["RouteTableId"] == entry["RouteTableId"]
            && object["DestinationCidrBlock"] == entry["DstCidrBlock"]
    };
    let is_free = world.matching("route", is_same).is_empty();
    check(
        is_free,
        "VPC_ROUTE_ENTRY_CIDR_BLOCK_DUPLICATE",
        "The route entry already exists.",
    )?;
    let number = world.number();
    let mut route = only(entry, "RouteTableId");
    route["DestinationCidrBlock"] = entry["DstCidrBlock"].clone();
    route["RouteEntryId"] = format!("rte-{number}").into();
    (route["Type"], route["Status"]) = ("Custom".into(), "Available".into());
    route["NextHops"] = json!({"NextHop": [{"NextHopId": id, "NextHopType": "Instance"}]});
    world.add("route", route);
    Ok(())
}

/// Answers of CEN: routes are published when a request asks so.
pub(crate) fn enterprise(world: &mut World, action: &str, body: &Value) -> Answer {
    for key in [
        "CenId",
        "ChildInstanceId",
        "ChildInstanceType",
        "ChildInstanceRegionId",
        "ChildInstanceRouteTableId",
    ] {
        check(
            body[key].is_string(),
            &format!("MissingParameter.{key}"),
            "A parameter is missing.",
        )?;
    }
    let is_this_object = |object: &Value| {
        object["RouteTableId"] == body["ChildInstanceRouteTableId"]
            && (body["DestinationCidrBlock"].is_null()
                || object["DestinationCidrBlock"] == body["DestinationCidrBlock"])
    };
    if action == "DescribePublishedRouteEntries" {
        let shown = |object: &Value| {
            let status = if object["_published"] == true {
                "Published"
            } else {
                "NonPublished"
            };
            json!({"DestinationCidrBlock": object["DestinationCidrBlock"], "ChildInstanceRouteTableId": object["RouteTableId"],
                "NextHopId": object["NextHops"]["NextHop"][0]["NextHopId"], "NextHopType": "Instance", "RouteType": "Custom",
                "PublishStatus": status, "OperationalMode": true})
        };
        let found = world
            .matching("route", is_this_object)
            .iter()
            .map(shown)
            .collect();
        return world.numbered_page(
            found,
            body,
            ["PublishedRouteEntries", "PublishedRouteEntry"],
        );
    }
    let is_published = match action {
        "PublishRouteEntries" => true,
        "WithdrawPublishedRouteEntries" => false,
        _ => return refuse("InvalidAction.NotFound", action),
    };
    let account = world.account;
    let found = world
        .each("route")
        .iter_mut()
        .find(|route| route["_account"] == account && is_this_object(route));
    let Some(route) = found else {
        return refuse(
            "InvalidRouteEntry.NotFound",
            "The route entry does not exist.",
        );
    };
    route["_published"] = is_published.into();
    Ok(json!({}))
}
