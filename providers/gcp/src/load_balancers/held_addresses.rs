//! Addresses of forwarding rules: one is held while its rule is replaced, and one that a user requests is checked.

use cloud_provider::{Error, Result};
use provider_kit::load_balancers::Attributes;
use provider_kit::transport::Method;
use serde_json::{Value, json};

use super::apply::Session;
use super::names::is_ipv6;
use super::objects::{service_description, without_nulls};
use crate::api::ADDRESS;

impl Session<'_> {
    /// Reserves the address of a forwarding rule for the time of its replacement, unless it is reserved already.
    pub(super) async fn hold_address(&self, name: &str, rule: &Attributes) -> Result<()> {
        let Some((ip, length)) = rule
            .text("IPAddress")
            .map(|ip| ip.split_once('/').unwrap_or((ip, "")))
        else {
            return Ok(());
        };
        if !self.addresses(ip).await?.is_empty() {
            return Ok(());
        }
        let is_ipv6 = is_ipv6(name);
        let is_internal = rule.text("loadBalancingScheme") == Some("INTERNAL");
        let subnetwork = rule.text("subnetwork").filter(|_| is_internal || is_ipv6);
        let body = without_nulls(json!({
            "name": name, "address": ip, "description": service_description(&self.spec.service),
            "addressType": is_internal.then_some("INTERNAL"),
            "networkTier": rule.text("networkTier").filter(|_| !is_internal),
            "subnetwork": subnetwork.map(|subnetwork| format!("{}/projects/{subnetwork}", self.place.base)),
            "ipVersion": is_ipv6.then_some("IPV6"),
            "prefixLength": length.parse::<u8>().ok(),
            "ipv6EndpointType": (is_ipv6 && !is_internal).then_some("NETLB"),
        }));
        let creation = || self.place.all(Method::POST, ADDRESS, "").json(&body);
        match self.cloud.api.change(creation()).await {
            // An interrupted replacement left another address under the name: no forwarding rule has it any more.
            Err(error) if error.is_conflict() => {
                self.delete_object(ADDRESS, name).await?;
                self.cloud.api.change(creation()).await
            }
            outcome => outcome,
        }
    }

    async fn addresses(&self, ip: &str) -> Result<Vec<Value>> {
        let call = self
            .place
            .all(Method::GET, ADDRESS, "")
            .list()
            .query("filter", format!("address = \"{ip}\""));
        let found: Value = self.cloud.api.http.read(call).await?;
        Ok(found["items"].as_array().cloned().unwrap_or_default())
    }

    /// Checks that an address that a user asks for is reserved, and of the right network tier.
    pub(super) async fn check_address(&self, ip: &str) -> Result<()> {
        let found = self.addresses(ip).await?;
        let Some(address) = found.first() else {
            return Err(Error::invalid(format!(
                "spec.loadBalancerIP: {ip} is no reserved address of region {}; reserve it with gcloud compute addresses create",
                self.place.region
            )));
        };
        let tier = address["networkTier"].as_str().unwrap_or("PREMIUM");
        let wanted = self.spec.tier.as_deref().unwrap_or("PREMIUM");
        if tier != wanted {
            let key = crate::annotations::NETWORK_TIER.key();
            return Err(Error::invalid(format!(
                "spec.loadBalancerIP: address {ip} is of network tier {tier}, and the Service of {wanted}; set annotation {key}"
            )));
        }
        Ok(())
    }
}
