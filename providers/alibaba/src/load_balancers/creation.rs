//! The creation of load balancers of both kinds.

use cloud_provider::{Error, Result};
use provider_kit::load_balancers::{Applied, Attributes, ObservedLoadBalancer, State, tag_key};
use serde_json::{Value, json};

use super::apply::Work;
use super::names::is_reused;
use super::read::{created_id, text};
use crate::api::{Query, VPC, tag_list};

impl Work<'_> {
    pub(super) async fn create(&self, settings: &Attributes) -> Result<Applied> {
        if let Some(id) = self
            .spec
            .requested
            .as_ref()
            .filter(|_| is_reused(self.kind))
        {
            return Err(Error::invalid(format!(
                "annotation {}: load balancer {id} does not exist in the region; name one that exists",
                crate::annotations::ID.key()
            )));
        }
        let mut tags = settings.tags();
        tags.extend(self.owner_tags());
        let plain = settings.clone().matching(|key| tag_key(key).is_none());
        let name = settings
            .text("LoadBalancerName")
            .unwrap_or(&self.change.identity.name)
            .to_owned();
        let query = Query::new(self.product(), "CreateLoadBalancer").set("Tag", tag_list(&tags));
        let query = query.set("ResourceGroupId", &self.cloud.api.config.resource_group);
        let query = query.set(
            "AddressType",
            if self.is_network {
                "Internet"
            } else {
                "internet"
            },
        );
        let (mut outcome, created) = if !self.is_network {
            let defaults = json!({"DeleteProtection": "on", "ModificationProtectionStatus": "ConsoleProtection",
                "ModificationProtectionReason": "managed.by.ack", "InstanceChargeType": "PayByCLCU"});
            let query = query
                .fields(defaults)
                .fields(plain.clone().matching(|key| key != "NetworkType"));
            let query = query.set("LoadBalancerName", &name);
            self.cloud.account.check().await?;
            let answer = self.create_classic(query, &plain).await?;
            let ingress = vec![ObservedLoadBalancer::ip(text(&answer, "Address"))];
            let id = created_id(&answer, "LoadBalancerId")?;
            // The credential may have become another account's since the check, and would not show this CLB again.
            if let Err(error) = self.cloud.account.check().await {
                return Err(self.discarded(&id, error).await);
            }
            let head = ObservedLoadBalancer {
                id,
                ingress,
                ..self.change.outcome(1).unwrap_or_default()
            };
            (head, plain.set("NetworkType", text(&answer, "NetworkType")))
        } else {
            let of_creation = [
                "AddressType",
                "AddressIpVersion",
                "ResourceGroupId",
                "ZoneMappings",
                "BandwidthPackageId",
            ];
            let plain = plain.only(&of_creation);
            let protection = json!({"Status": "ConsoleProtection", "Reason": "managed.by.ack"});
            let query = query.fields(&plain).set("LoadBalancerName", &name);
            let query = query.set("VpcId", self.cloud.api.metadata.vpc().await?);
            let query = query.set("DeletionProtectionConfig", json!({"Enabled": true}));
            let answer = self
                .cloud
                .api
                .create(query.set("ModificationProtectionConfig", protection))
                .await?;
            let id = created_id(&answer, "LoadbalancerId")?;
            let head = ObservedLoadBalancer {
                id,
                state: State::Busy,
                ..self.change.outcome(1).unwrap_or_default()
            };
            // What a creation cannot set is changed from these values afterwards.
            let plain = plain
                .set("SecurityGroupIds", json!([]))
                .set("CrossZoneEnabled", true);
            (head, plain.set("Ipv6AddressType", "Intranet"))
        };
        let graph = outcome.graph.take().unwrap_or_default();
        outcome.graph = Some(graph.balancer(created.set("LoadBalancerName", name).tagged(&tags)));
        // The creation of an NLB takes a part of the settings only.
        Ok(if self.is_network {
            Applied::PlanAgain(Box::new(outcome))
        } else {
            Applied::Shown(1, Box::new(outcome))
        })
    }

    /// Deletes a new CLB whose account could not be confirmed, and returns the reason.
    async fn discarded(&self, id: &str, reason: Error) -> Error {
        let query = |action| Query::new(self.product(), action).set("LoadBalancerId", id);
        let deleted = async {
            self.cloud
                .api
                .change(query("SetLoadBalancerDeleteProtection").set("DeleteProtection", "off"))
                .await?;
            self.cloud.api.change(query("DeleteLoadBalancer")).await
        };
        match deleted.await {
            Err(error) if !error.is_not_found() => {
                reason.context(format!("CLB {id} could not be deleted again: {error}"))
            }
            _ => reason,
        }
    }

    /// Creates a CLB; an internal one in a vSwitch that has an address left.
    async fn create_classic(&self, query: Query, settings: &Attributes) -> Result<Value> {
        let api = &self.cloud.api;
        let is_in_vpc = settings.text("AddressType") == Some("intranet")
            && settings.text("NetworkType") != Some("classic");
        if !is_in_vpc || settings.text("VSwitchId").is_some() {
            return api.create(query).await;
        }
        let first = match api.config.vswitches.first() {
            Some(id) => id.clone(),
            None => api.metadata.vswitch().await?,
        };
        match api.create(query.clone().set("VSwitchId", &first)).await {
            Err(error) if error.code().contains("VSwitchAvailableIpNotExist") => {
                let all =
                    Query::new(VPC, "DescribeVSwitches").set("VpcId", api.metadata.vpc().await?);
                let id = |object: &Value| text(object, "VSwitchId").to_owned();
                let all = api
                    .pages(all, 50, "/VSwitches/VSwitch", id)
                    .await?
                    .complete()?
                    .into_items();
                let has_room = |object: &&Value| {
                    id(object) != first && object["AvailableIpAddressCount"].as_u64() > Some(0)
                };
                let Some(other) = all.iter().find(has_room) else {
                    return Err(error);
                };
                api.create(query.set("VSwitchId", id(other))).await
            }
            answer => answer,
        }
    }
}
