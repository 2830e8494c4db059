//! The security group that admits the source ranges of a Service.

use std::net::IpAddr;

use cloud_provider::{Error, Result};
use ipnet::IpNet;
use provider_kit::inventory::SharedPriority;
use provider_kit::load_balancers::Identity;
use serde_json::{Value, json};

use super::{SERVICE_TAG, TencentLoadBalancers};
use crate::action::{Action, VPC};
use crate::api::{list, text};

/// Returns the policies that admit these ranges.
fn policies(ranges: &[String]) -> Value {
    let policy = |range: &String| {
        let field = if range.contains(':') {
            "Ipv6CidrBlock"
        } else {
            "CidrBlock"
        };
        json!({"Protocol": "ALL", field: range, "Action": "ACCEPT", "PolicyDescription": "loadBalancerSourceRanges"})
    };
    json!({"Ingress": ranges.iter().map(policy).collect::<Vec<_>>()})
}

/// Returns a range in the form in which it is compared: `192.0.2.1/32` for `192.0.2.1`.
fn normal(range: &str) -> String {
    let address = || range.parse::<IpAddr>().map(IpNet::from);
    range
        .parse()
        .or_else(|_| address())
        .map_or_else(|_| range.to_owned(), |range: IpNet| range.to_string())
}

impl TencentLoadBalancers {
    /// Returns the ID of the security group of a Service, and the ranges that it admits, sorted.
    pub(super) async fn group_of(&self, uid: &str) -> Result<Option<(String, Vec<String>)>> {
        if uid.is_empty() {
            // Without a UID, the group of any Service might be the answer.
            return Ok(None);
        }
        let filter = json!([{"Name": format!("tag:{SERVICE_TAG}"), "Values": [uid]}]);
        let action = Action::new(VPC, "DescribeSecurityGroups").set("Filters", filter);
        let id = |object: &Value| text(object, "SecurityGroupId").to_owned();
        let found = self
            .api
            .pages(
                action,
                ("SecurityGroupSet", true),
                &SharedPriority::default(),
                id,
            )
            .await?;
        let Some(id) = found.complete()?.into_items().first().map(id) else {
            return Ok(None);
        };
        let action = Action::new(VPC, "DescribeSecurityGroupPolicies").set("SecurityGroupId", &id);
        let answer: Value = self.api.send(action).await?;
        let all = list(&answer["SecurityGroupPolicySet"]["Ingress"])
            .filter(|ingress| text(ingress, "Action") == "ACCEPT");
        let range = |object: &Value| {
            let ranges = ["CidrBlock", "Ipv6CidrBlock"].map(|key| text(object, key));
            ranges
                .into_iter()
                .find(|range| !range.is_empty())
                .map(normal)
        };
        let mut ranges: Vec<_> = all.filter_map(range).collect();
        ranges.sort();
        ranges.dedup();
        Ok(Some((id, ranges)))
    }

    /// Creates the security group of a Service, unless it exists, and lets it admit these ranges alone. Returns its ID.
    pub(super) async fn ensure_group(
        &self,
        identity: &Identity<'_>,
        ranges: &[String],
    ) -> Result<String> {
        let id = match self.group_of(identity.uid()).await? {
            Some((id, _)) => id,
            None => {
                let tags = self.tags(identity, true);
                let tags: Vec<_> = tags
                    .iter()
                    .map(|(key, value)| json!({"Key": key, "Value": value}))
                    .collect();
                let action = Action::new(VPC, "CreateSecurityGroup")
                    .set("GroupName", format!("ccm-rs-{}", identity.uid()))
                    .set(
                        "GroupDescription",
                        format!("Source ranges of load balancer {}", identity.name),
                    )
                    .set("Tags", tags);
                let answer: Value = self.api.send(action).await?;
                text(&answer["SecurityGroup"], "SecurityGroupId").to_owned()
            }
        };
        let action = Action::new(VPC, "ReplaceSecurityGroupPolicies").set("SecurityGroupId", &id);
        self.api
            .send::<Value>(action.set("SecurityGroupPolicySet", policies(ranges)))
            .await?;
        Ok(id)
    }

    /// Deletes a security group that no load balancer has any more.
    pub(super) async fn delete_group(&self, id: &str) -> Result<()> {
        let answer: Result<Value> = self
            .api
            .send(Action::new(VPC, "DeleteSecurityGroup").set("SecurityGroupId", id))
            .await;
        match answer {
            Err(error) if !error.is_not_found() => {
                Err(Error::context(error, format!("security group {id}")))
            }
            _ => Ok(()),
        }
    }
}
