//! Instances, network interfaces, route tables, vSwitches, STS and the metadata service.

use fake_cloud::{Refused, Reply};
use serde_json::{Value, json};

use crate::world::{array, has_tags, only, text};
use crate::{Answer, KEY_ID, REGION, SECRET, VPC, World, check, refuse};

pub(crate) fn answer(world: &mut World, action: &str, body: &Value) -> Answer {
    // Instances may be in other regions.
    let is_known = body["RegionId"] == REGION || action == "DescribeInstances";
    check(is_known, "InvalidRegionId.NotFound", "The specified region does not exist.")?;
    match action {
        "DescribeInstances" => {
            let of = |it: &Value, key: &str, path: &[&str]| {
                let shown = path.iter().fold(it, |it, key| &it[*key]);
                body[key].is_null()
                    || array(&body[key]).any(|wanted| wanted == shown || array(shown).any(|it| it == wanted))
            };
            let is_equal =
                |it: &Value, key: &str, shown: &Value| body[key].is_null() || body[key] == *shown && !it.is_null();
            let found = world.matching("instance", |it| {
                body["RegionId"] == it["RegionId"]
                    && of(it, "InstanceIds", &["InstanceId"])
                    && of(it, "PrivateIpAddresses", &["VpcAttributes", "PrivateIpAddress", "IpAddress"])
                    && is_equal(it, "VpcId", &it["VpcAttributes"]["VpcId"])
                    && is_equal(it, "InstanceName", &it["InstanceName"])
                    && has_tags(it, body)
            });
            let size = if body["MaxResults"].is_null() { "PageSize" } else { "MaxResults" };
            let count = found.len();
            let mut answer = world.token_page(found, body, size, ["Instances", "Instance"])?;
            answer["TotalCount"] = json!(count);
            Ok(answer)
        }
        "DescribeNetworkInterfaces" => {
            let is_one_of = |key: &str, it: &Value| body[key].is_null() || array(&body[key]).any(|wanted| wanted == it);
            let found = world.matching("interface", |it| {
                is_one_of("NetworkInterfaceId", &it["NetworkInterfaceId"])
                    && (is_one_of("PrivateIpAddress", &it["PrivateIpAddress"])
                        || array(&it["PrivateIpSets"]["PrivateIpSet"])
                            .any(|set| is_one_of("PrivateIpAddress", &set["PrivateIpAddress"])))
                    && (body["InstanceId"].is_null() || body["InstanceId"] == it["InstanceId"])
            });
            world.token_page(found, body, "MaxResults", ["NetworkInterfaceSets", "NetworkInterfaceSet"])
        }
        "ModifyNetworkInterfaceAttribute" => {
            let it =
                world.find("interface", "NetworkInterfaceId", &body["NetworkInterfaceId"], "InvalidEniId.NotFound")?;
            it["SourceDestCheck"] = json!(body["SourceDestCheck"] == "true");
            Ok(json!({}))
        }
        _ => refuse("InvalidAction.NotFound", action),
    }
}

pub(crate) fn network(world: &mut World, action: &str, body: &Value) -> Answer {
    match action {
        "DescribeRouteTableList" => {
            let found = world.matching("table", |it| body["VpcId"].is_null() || body["VpcId"] == it["VpcId"]);
            world.numbered_page(found, body, ["RouterTableList", "RouterTableListType"])
        }
        "DescribeVSwitches" => {
            let found = world.matching("vswitch", |_| true);
            world.numbered_page(found, body, ["VSwitches", "VSwitch"])
        }
        "DescribeVpcs" => {
            let found = world.matching("vpc", |it| body["VpcId"].is_null() || body["VpcId"] == it["VpcId"]);
            world.numbered_page(found, body, ["Vpcs", "Vpc"])
        }
        "DescribeVpcAttribute" => Ok(json!({"VpcId": VPC, "CidrBlock": "10.0.0.0/8"})),
        "DescribeEipAddresses" => {
            let found = world.matching("eip", |_| true);
            world.numbered_page(found, body, ["EipAddresses", "EipAddress"])
        }
        "DescribeRouteEntryList" => {
            let found = world.matching("route", |it| it["RouteTableId"] == body["RouteTableId"]);
            world.token_page(found, body, "MaxResult", ["RouteEntrys", "RouteEntry"])
        }
        "CreateRouteEntries" => {
            let entries: Vec<_> = array(&body["RouteEntries"]).cloned().collect();
            check(!entries.is_empty() && entries.len() <= 50, "InvalidParameter", "1 to 50 entries")?;
            let mut failed = Vec::new();
            for entry in &entries {
                if let Err(refused) = create_route(world, entry) {
                    failed.push(json!({"DstCidrBlock": entry["DstCidrBlock"], "NextHop": entry["NextHop"],
                        "FailedCode": refused.code, "FailedMessage": refused.message}));
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
            let single = [json!({"RouteTableId": body["RouteTableId"], "RouteEntryId": body["RouteEntryId"],
                "DstCidrBlock": body["DestinationCidrBlock"], "NextHop": body["NextHopId"]})];
            let entries: Vec<_> =
                if action.ends_with('y') { single.into() } else { array(&body["RouteEntries"]).cloned().collect() };
            let mut failed = Vec::new();
            for entry in &entries {
                let is_it = |it: &Value| {
                    it["RouteTableId"] == entry["RouteTableId"]
                        && (entry["RouteEntryId"] == it["RouteEntryId"]
                            || entry["DstCidrBlock"] == it["DestinationCidrBlock"]
                                && (entry["NextHop"].is_null()
                                    || entry["NextHop"] == it["NextHops"]["NextHop"][0]["NextHopId"]))
                };
                if world.remove("route", is_it) == 0 {
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
    world.find("table", "RouteTableId", &entry["RouteTableId"], "InvalidRouteTableId.NotFound")?;
    let id = &entry["NextHop"];
    world.find("instance", "InstanceId", id, "InvalidNextHopId.NotFound")?;
    let is_same =
        |it: &Value| it["RouteTableId"] == entry["RouteTableId"] && it["DestinationCidrBlock"] == entry["DstCidrBlock"];
    let is_free = world.matching("route", is_same).is_empty();
    check(is_free, "VPC_ROUTE_ENTRY_CIDR_BLOCK_DUPLICATE", "The route entry already exists.")?;
    let number = world.number();
    let mut route = only(entry, "RouteTableId");
    route["DestinationCidrBlock"] = entry["DstCidrBlock"].clone();
    route["RouteEntryId"] = format!("rte-{number}").into();
    (route["Type"], route["Status"]) = ("Custom".into(), "Available".into());
    route["NextHops"] = json!({"NextHop": [{"NextHopId": id, "NextHopType": "Instance"}]});
    world.add("route", route);
    Ok(())
}

pub(crate) fn credentials(action: &str, body: &Value) -> Answer {
    check(action == "AssumeRoleWithOIDC", "InvalidAction.NotFound", action)?;
    check(!text(&body["OIDCToken"]).is_empty(), "MissingOIDCToken", "OIDCToken is missing")?;
    Ok(json!({"Credentials": {"AccessKeyId": KEY_ID, "AccessKeySecret": SECRET, "SecurityToken": "",
        "Expiration": "2099-01-01T00:00:00Z"}}))
}

pub(crate) fn metadata(path: &str) -> Result<Reply, Refused> {
    let answer = match path.trim_start_matches("/latest/") {
        "api/token" => "token".to_owned(),
        "meta-data/region-id" => REGION.to_owned(),
        "meta-data/zone-id" => format!("{REGION}-a"),
        "meta-data/vpc-id" => VPC.to_owned(),
        "meta-data/vswitch-id" => "vsw-a".to_owned(),
        "meta-data/ram/security-credentials/" => "worker".to_owned(),
        "meta-data/ram/security-credentials/worker" => json!({"Code": "Success", "AccessKeyId": KEY_ID,
            "AccessKeySecret": SECRET, "SecurityToken": "", "Expiration": "2099-01-01T00:00:00Z"})
        .to_string(),
        _ => return Err(Refused::new(404, "NotFound", "no such path")),
    };
    Ok(Reply::text(200, "text/plain", answer))
}
