//! Instances, subnets and the route table.

use fake_cloud::{Refused, Reply};
use serde_json::{Value, json};

use crate::{
    ACCOUNT, Answer, ApiRequest, Baidu, SUBNET, TABLE, VPC, array, conflict, done, find, not_found,
    only, page, refuse, required, shown,
};

impl Baidu {
    /// Adds a running instance, and returns its ID.
    pub fn add_instance(&mut self, account: &str, name: &str) -> String {
        let number = self.number();
        let [high, low] = u16::try_from(number).unwrap_or_default().to_be_bytes();
        let id = format!("i-{number:08x}");
        let (vpc, subnet) = if account == ACCOUNT {
            (VPC, SUBNET)
        } else {
            ("vpc-theirs", "sbn-theirs")
        };
        self.instances.push(json!({
            "id": id, "account": account, "name": name, "hostname": name, "spec": "bcc.g4.c2m8", "status": "Running",
            "internalIp": format!("192.168.{high}.{low}"), "publicIp": "", "ipv6": "", "zoneName": "cn-bj-a", "vpcId": vpc,
            "subnetId": subnet, "cardCount": "0",
        }));
        id
    }

    /// Returns `true` if the account has the instance.
    pub(crate) fn has_instance(&self, id: &Value, account: &str) -> bool {
        self.instances.iter().any(|instance| {
            instance["id"] == *id
                && instance["account"] == account
                && instance["status"] != "Deleted"
        })
    }

    /// Adds a rule to the route table, and returns its ID.
    pub fn add_rule(&mut self, instance: &str, destination: &str, description: &str) -> String {
        let id = format!("rr-{}", self.number());
        let source = if destination.contains(':') {
            "::/0"
        } else {
            "0.0.0.0/0"
        };
        self.rules.push(json!({
            "routeRuleId": id, "account": ACCOUNT, "routeTableId": TABLE, "sourceAddress": source, "destinationAddress": destination,
            "nexthopId": instance, "nexthopType": "custom", "description": description,
        }));
        id
    }
}

pub(crate) fn list(cloud: &mut Baidu, request: &ApiRequest) -> Answer {
    let fits = |object: &Value| {
        [
            ("vpcId", "vpcId"),
            ("internalIp", "internalIp"),
            ("instanceNames", "name"),
        ]
        .iter()
        .all(|(query, key)| {
            request
                .query(query)
                .is_none_or(|wanted| object[key] == wanted)
        })
    };
    page(
        request,
        cloud.has_more,
        "instances",
        cloud
            .instances
            .iter()
            .filter(|instance| fits(instance))
            .cloned(),
    )
}

/// Lists instances as the gateway does for a cluster.
pub(crate) fn of_cluster(cloud: &mut Baidu, request: &ApiRequest) -> Answer {
    let own = cloud
        .instances
        .iter()
        .filter(|instance| instance["account"] == *request.project);
    let of_cluster = |object: &Value| {
        let mut object = shown(object, &["hostname", "spec"]);
        (object["instancetype"], object["status"]) = ("10".into(), "RUNNING".into());
        object
    };
    Ok(Reply::new(
        200,
        json!({"instances": own.map(of_cluster).collect::<Vec<_>>()}),
    ))
}

pub(crate) fn one(cloud: &mut Baidu, request: &ApiRequest) -> Answer {
    let found = find(&mut cloud.instances, "id", request.id(), request)?;
    Ok(Reply::new(200, json!({"instance": shown(found, &[])})))
}

pub(crate) fn subnets(cloud: &mut Baidu, request: &ApiRequest) -> Answer {
    let fits = |object: &&Value| {
        request
            .query("vpcId")
            .filter(|query| !query.is_empty())
            .is_none_or(|vpc| object["vpcId"] == vpc)
    };
    page(
        request,
        cloud.has_more,
        "subnets",
        cloud.subnets.iter().filter(fits).cloned(),
    )
}

pub(crate) fn subnet(cloud: &mut Baidu, request: &ApiRequest) -> Answer {
    let found = find(&mut cloud.subnets, "subnetId", request.id(), request)?;
    Ok(Reply::new(200, json!({"subnet": shown(found, &[])})))
}

fn is_vpc(request: &ApiRequest, vpc: Option<&str>) -> Result<(), Refused> {
    if vpc == Some(VPC) && request.project == ACCOUNT {
        Ok(())
    } else {
        Err(not_found("VPC"))
    }
}

pub(crate) fn table(cloud: &mut Baidu, request: &ApiRequest) -> Answer {
    is_vpc(request, request.query("vpcId"))?;
    let rules: Vec<_> = cloud.rules.iter().map(|rule| shown(rule, &[])).collect();
    Ok(Reply::new(
        200,
        json!({"routeTableId": TABLE, "vpcId": VPC, "name": "default", "routeRules": rules}),
    ))
}

pub(crate) fn create_rule(cloud: &mut Baidu, request: &ApiRequest) -> Answer {
    let body = &request.body;
    only(
        body,
        &[
            "routeTableId",
            "sourceAddress",
            "destinationAddress",
            "nexthopId",
            "ipVersion",
            "nexthopType",
            "description",
        ],
    )?;
    let destination = required(body, "destinationAddress")?;
    let instance = required(body, "nexthopId")?;
    if required(body, "routeTableId")? != TABLE
        || request.project != ACCOUNT
        || !cloud.has_instance(&body["nexthopId"], ACCOUNT)
    {
        return Err(not_found("route table or instance"));
    }
    let is_ipv6 = destination.contains(':');
    if required(body, "sourceAddress")? != if is_ipv6 { "::/0" } else { "0.0.0.0/0" }
        || is_ipv6 != (body["ipVersion"] == "6")
    {
        return Err(refuse(
            "InappropriateJSON",
            "sourceAddress and ipVersion do not fit the destination",
        ));
    }
    if cloud
        .rules
        .iter()
        .any(|rule| rule["destinationAddress"] == destination)
    {
        return Err(conflict("There is a rule for this destination."));
    }
    let id = cloud.add_rule(
        instance,
        destination,
        body["description"].as_str().unwrap_or_default(),
    );
    Ok(Reply::new(200, json!({"routeRuleId": id})))
}

pub(crate) fn delete_rule(cloud: &mut Baidu, request: &ApiRequest) -> Answer {
    let id = find(&mut cloud.rules, "routeRuleId", request.id(), request)?["routeRuleId"].clone();
    cloud.rules.retain(|rule| rule["routeRuleId"] != id);
    done()
}

/// Returns `true` if a list of the body has a value.
pub(crate) fn has(list: &Value, value: &Value) -> bool {
    array(list).any(|object| object == value)
}
