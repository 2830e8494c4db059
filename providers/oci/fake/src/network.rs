//! The network: subnets, security lists and network security groups.

use fake_cloud::{Refused, Reply};
use serde_json::{Value, json};

use crate::{
    Answer, ApiRequest, COMPARTMENT, LB_SUBNET, NODE_SUBNET, Oracle, VCN, array, constraints,
    not_found, ok, page, refuse,
};

/// The limit of rules in one request to a group.
const BATCH: usize = 25;

impl Oracle {
    pub(crate) fn add_network(&mut self) {
        let time = "2025-01-01T00:00:00Z";
        self.insert(&json!({
            "id": VCN, "compartmentId": COMPARTMENT, "cidrBlock": "10.0.0.0/16", "cidrBlocks": ["10.0.0.0/16"],
            "lifecycleState": "AVAILABLE", "displayName": "cluster",
        }));
        for (id, list, range) in [
            (NODE_SUBNET, "nodes", "10.0.0.0/17"),
            (LB_SUBNET, "balancers", "10.0.128.0/24"),
        ] {
            self.insert(&json!({
                "id": id, "compartmentId": COMPARTMENT, "vcnId": VCN, "cidrBlock": range, "displayName": list,
                "lifecycleState": "AVAILABLE", "routeTableId": "ocid1.routetable.oc1.phx.a", "virtualRouterMac": "00:00:17:00:00:01",
                "securityListIds": [format!("ocid1.securitylist.oc1.phx.{list}")], "prohibitPublicIpOnVnic": true,
                "timeCreated": time,
            }));
            let ssh = json!({"protocol": "6", "source": "0.0.0.0/0", "isStateless": false, "description": "ssh",
                "tcpOptions": {"destinationPortRange": {"min": 22, "max": 22}}});
            self.insert(&json!({
                "id": format!("ocid1.securitylist.oc1.phx.{list}"), "compartmentId": COMPARTMENT, "vcnId": VCN, "displayName": list,
                "lifecycleState": "AVAILABLE", "timeCreated": time, "ingressSecurityRules": [ssh], "egressSecurityRules": [], "etag": 1,
            }));
        }
    }

    /// Adds a network security group, and returns its OCID.
    pub fn add_group(&mut self, name: &str) -> String {
        let id = self.ocid("networksecuritygroup");
        self.insert(&json!({
            "id": id, "compartmentId": COMPARTMENT, "vcnId": VCN, "displayName": name, "freeformTags": {}, "lifecycleState": "AVAILABLE",
            "timeCreated": self.time(), "etag": 1, "securityRules": [],
        }))
    }
}

fn without_rules(group: &Value) -> Value {
    let mut shown = group.clone();
    shown
        .as_object_mut()
        .map(|object| object.remove("securityRules"));
    shown
}

pub(crate) fn subnets(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    page(
        request,
        cloud
            .visible("subnet")
            .cloned()
            .collect::<Vec<_>>()
            .into_iter(),
        false,
    )
}

pub(crate) fn lists(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    page(
        request,
        cloud
            .visible("securitylist")
            .cloned()
            .collect::<Vec<_>>()
            .into_iter(),
        false,
    )
}

pub(crate) fn update_list(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    let count = |key: &str| request.body[key].as_array().map_or(0, Vec::len);
    if count("ingressSecurityRules") > 200 || count("egressSecurityRules") > 200 {
        return Err(refuse(
            400,
            "LimitExceeded",
            "A security list has at most 200 ingress and 200 egress rules.",
        ));
    }
    let found = cloud.matched(request)?;
    for key in [
        "ingressSecurityRules",
        "egressSecurityRules",
        "displayName",
        "freeformTags",
    ] {
        request
            .body
            .get(key)
            .into_iter()
            .for_each(|value| found[key] = value.clone());
    }
    ok(found)
}

pub(crate) fn groups(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    let fits = |object: &&Value| {
        ["displayName", "vcnId"]
            .iter()
            .all(|key| request.query(key).is_none_or(|value| object[*key] == value))
    };
    page(
        request,
        cloud
            .visible("networksecuritygroup")
            .filter(fits)
            .map(without_rules)
            .collect::<Vec<_>>()
            .into_iter(),
        false,
    )
}

pub(crate) fn group(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    ok(&without_rules(cloud.find(request)?))
}

pub(crate) fn create_group(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    let token = request
        .header("opc-retry-token")
        .unwrap_or_default()
        .to_owned()
        + "/group";
    if !cloud
        .visible("vcn")
        .any(|object| object["id"] == request.body["vcnId"])
    {
        return Err(not_found());
    }
    if let Some(known) = cloud.tokens.get(&token) {
        let deleted = || {
            refuse(
                409,
                "InvalidatedRetryToken",
                "The group of this retry token was deleted.",
            )
        };
        return ok(&without_rules(
            cloud.objects.get(known).ok_or_else(deleted)?,
        ));
    }
    let id = cloud.add_group(request.body["displayName"].as_str().unwrap_or_default());
    cloud.tokens.insert(token, id.clone());
    let group = cloud.objects.get_mut(&id).ok_or_else(not_found)?;
    group["freeformTags"] = request.body["freeformTags"].clone();
    ok(&without_rules(group))
}

pub(crate) fn update_group(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    let found = cloud.matched(request)?;
    for key in ["displayName", "freeformTags", "definedTags"] {
        request
            .body
            .get(key)
            .into_iter()
            .for_each(|value| found[key] = value.clone());
    }
    ok(&without_rules(found))
}

pub(crate) fn delete_group(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    let id = cloud.find(request)?["id"].clone();
    let uses = |object: &Value| array(&object["networkSecurityGroupIds"]).any(|group| *group == id);
    if cloud.objects.values().any(uses) {
        return Err(refuse(409, "IncorrectState", "The group has VNICs."));
    }
    cloud.objects.remove(request.id());
    Ok(Reply::empty(204))
}

pub(crate) fn rules(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    let rules = cloud.find(request)?["securityRules"].clone();
    let fits = |object: &&Value| {
        request
            .query("direction")
            .is_none_or(|value| object["direction"] == value)
    };
    page(
        request,
        array(&rules)
            .filter(fits)
            .cloned()
            .collect::<Vec<_>>()
            .into_iter(),
        false,
    )
}

fn batch(request: &ApiRequest, key: &str) -> Result<Vec<Value>, Refused> {
    let all: Vec<_> = array(&request.body[key]).cloned().collect();
    if all.len() > BATCH {
        Err(refuse(
            400,
            "InvalidParameter",
            "at most 25 rules in a request",
        ))
    } else {
        Ok(all)
    }
}

pub(crate) fn add_rules(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    let mut added = batch(request, "securityRules")?;
    added.iter().try_for_each(constraints::rule)?;
    for rule in &mut added {
        rule["id"] = format!("{:06X}", cloud.number()).into();
    }
    let found = cloud.find(request)?;
    found["securityRules"]
        .as_array_mut()
        .into_iter()
        .for_each(|all| all.extend(added.clone()));
    Ok(Reply::new(200, json!({ "securityRules": added })))
}

pub(crate) fn remove_rules(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    let gone = batch(request, "securityRuleIds")?;
    let found = cloud.find(request)?;
    found["securityRules"]
        .as_array_mut()
        .into_iter()
        .for_each(|all| all.retain(|object| !gone.contains(&object["id"])));
    Ok(Reply::empty(204))
}
