//! Changes of the settings of load balancers of both kinds.

use provider_kit::load_balancers::{Attributes, Difference, changed_tags};

use super::apply::{Made, Work};
use super::source_ranges::RANGES;

impl Work<'_> {
    pub(super) async fn update(&self, settings: &Attributes, changes: &[Difference]) -> Made {
        let tags = changed_tags(changes);
        if !tags.is_empty() {
            self.set_tags(&tags).await?;
        }
        let is_changed = |key: &str| changes.iter().any(|difference| difference.key == key);
        // Zones are sent as the annotation states them.
        let zones = self.spec.balancer.clone().only(&["ZoneMappings"]);
        let of = |action, keys: &[&str]| {
            let query = self.query(action).fields(settings.clone().only(keys));
            if keys.contains(&"ZoneMappings") {
                query.fields(&zones)
            } else {
                query
            }
        };
        let table: &[(&'static str, &[&str])] = match self.is_network {
            false => &[
                ("SetLoadBalancerName", &["LoadBalancerName"]),
                (
                    "ModifyLoadBalancerInstanceChargeType",
                    &["InstanceChargeType", "LoadBalancerSpec"],
                ),
                ("ModifyLoadBalancerInstanceSpec", &["LoadBalancerSpec"]),
                (
                    "ModifyLoadBalancerInternetSpec",
                    &["InternetChargeType", "Bandwidth"],
                ),
                ("SetLoadBalancerDeleteProtection", &["DeleteProtection"]),
                (
                    "SetLoadBalancerModificationProtection",
                    &["ModificationProtectionStatus"],
                ),
            ],
            true => &[
                (
                    "UpdateLoadBalancerAddressTypeConfig",
                    &["AddressType", "ZoneMappings"],
                ),
                ("UpdateLoadBalancerZones", &["ZoneMappings"]),
                (
                    "UpdateLoadBalancerAttribute",
                    &["LoadBalancerName", "CrossZoneEnabled"],
                ),
            ],
        };
        for (action, keys) in table {
            // The first key decides where other parameters only go along.
            let goes_along = matches!(
                *action,
                "ModifyLoadBalancerInstanceChargeType" | "UpdateLoadBalancerAddressTypeConfig"
            );
            let is_due = if goes_along {
                is_changed(keys[0])
            } else {
                keys.iter().any(|key| is_changed(key))
            };
            if is_due {
                self.send(of(action, keys)).await?;
            }
        }
        if self.is_network {
            self.update_network(settings, &is_changed).await
        } else {
            Ok(None)
        }
    }

    /// Changes the settings of an NLB, and returns the ID of the security group for source ranges, if they changed.
    async fn update_network(
        &self,
        settings: &Attributes,
        is_changed: &(impl Fn(&str) -> bool + Sync),
    ) -> Made {
        let group = if is_changed(RANGES) {
            self.set_ranges(settings).await?
        } else {
            None
        };
        if is_changed("Ipv6AddressType") {
            let action = match settings.text("Ipv6AddressType") {
                Some("Internet") => "EnableLoadBalancerIpv6Internet",
                _ => "DisableLoadBalancerIpv6Internet",
            };
            self.send(self.query(action)).await?;
        }
        let ids = |settings: Option<&Attributes>| -> Vec<String> {
            settings
                .and_then(|settings| {
                    serde_json::from_value(settings.get("SecurityGroupIds")?.clone()).ok()
                })
                .unwrap_or_default()
        };
        if is_changed("SecurityGroupIds") {
            let existing_ids = ids(self.before.balancer_attributes());
            let wanted = ids(Some(settings));
            let new: Vec<_> = wanted
                .iter()
                .filter(|id| !existing_ids.contains(id))
                .collect();
            let gone: Vec<_> = existing_ids
                .iter()
                .filter(|id| !wanted.contains(id))
                .collect();
            let send = async |action, ids: &[&String]| match ids {
                [] => Ok(None),
                ids => {
                    self.send(self.query(action).set("SecurityGroupIds", ids))
                        .await
                }
            };
            match send("LoadBalancerJoinSecurityGroup", &new).await {
                // There is no room for both the old and the new groups.
                Err(error) if error.is_quota() && !gone.is_empty() => {
                    send("LoadBalancerLeaveSecurityGroup", &gone).await?;
                    send("LoadBalancerJoinSecurityGroup", &new).await?;
                }
                outcome => {
                    outcome?;
                    send("LoadBalancerLeaveSecurityGroup", &gone).await?;
                }
            }
        }
        if is_changed("BandwidthPackageId") {
            let package = |settings: Option<&Attributes>| {
                Some(settings?.text("BandwidthPackageId")?.to_owned()).filter(|id| !id.is_empty())
            };
            if let Some(id) = package(self.before.balancer_attributes()) {
                let query = self.query("DetachCommonBandwidthPackageFromLoadBalancer");
                self.send(query.set("BandwidthPackageId", id)).await?;
            }
            if let Some(id) = package(Some(settings)) {
                self.send(
                    self.query("AttachCommonBandwidthPackageToLoadBalancer")
                        .set("BandwidthPackageId", id),
                )
                .await?;
            }
        }
        Ok(group)
    }
}
