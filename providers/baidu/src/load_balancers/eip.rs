//! The EIP of a BLB: found or created, bound, released. An EIP that was not created for the Service is never deleted.

use std::time::Duration;

use cloud_provider::{Error, EventSubject, Result, Service, SyncCallbacks};
use provider_kit::load_balancers::{
    Attributes, Difference, Identity, ObservedLoadBalancer, OwnerTags,
};
use provider_kit::transport::Call;
use serde_json::{Value, json};

use super::legacy::{GENERATED_NAME, generated_names};
use super::object::DESCRIPTION;
use super::spec::EipSpec;
use super::{BlbLoadBalancers, text_on};
use crate::annotations as key;
use crate::api::Eip;

const ONE: &str = "/v1/eip/{eip}";
/// The beginning of the description of a BLB for which the Go program created an EIP.
pub(super) const LEGACY_MARK: &str = "cce_auto_create_eip";
/// Time between two reads of an EIP that is changing, and the number of reads.
const POLL: Duration = Duration::from_secs(1);
const POLLS: usize = 60;

fn is_bound_to(eip: &Eip, other: &str) -> Error {
    Error::invalid(format!(
        "EIP {} is bound to {other}; unbind it, or name another one",
        eip.eip
    ))
}

/// Returns the EIP that `spec.loadBalancerIP` names. An EIP that is bound to another BLB is an error.
pub(super) fn fixed_eip(eips: &[Eip], ip: &str, blb: &str) -> Result<Eip> {
    let missing = || {
        Error::invalid(format!(
            "loadBalancerIP: there is no EIP {ip} in this account and region"
        ))
    };
    let eip = eips.iter().find(|eip| eip.eip == ip).ok_or_else(missing)?;
    match eip.instance() {
        Some(other) if other != blb && !eip.is_busy() => Err(is_bound_to(eip, other)),
        _ => Ok(eip.clone()),
    }
}

impl BlbLoadBalancers {
    /// Returns the EIP of a BLB: the bound one, or else one that was created for its Service and is not bound yet.
    pub(super) fn eip_of<'a>(
        &self,
        eips: &'a [Eip],
        blb: &ObservedLoadBalancer,
    ) -> Option<&'a Eip> {
        let bound = eips.iter().find(|eip| eip.instance() == Some(&blb.id));
        bound.or_else(|| {
            eips.iter()
                .find(|eip| eip.instance().is_none() && self.is_own(eip, blb))
        })
    }

    /// Returns `true` if an EIP was created for the Service of the BLB, by this program or by the Go program. The
    /// annotation with its address proves nothing, because the author of the Service can write that, too.
    pub(super) fn is_own(&self, eip: &Eip, blb: &ObservedLoadBalancer) -> bool {
        if let Some(uid) = eip.tag(OwnerTags::SERVICE) {
            return blb.owner_tags.service.as_deref() == Some(uid)
                && eip.tag(OwnerTags::CLUSTER) == blb.owner_tags.cluster.as_deref();
        }
        let is_marked = !blb.adopted
            && blb
                .labels
                .get(DESCRIPTION)
                .is_some_and(|text| text.contains(LEGACY_MARK));
        is_marked && !blb.name.is_empty() && eip.name.as_ref() == Some(&blb.name)
    }

    /// Warns of settings that have no effect on an EIP that was found, and not created for the Service.
    pub(super) fn report_found(
        &self,
        service: &Service,
        there: &Attributes,
        change: Option<Difference>,
    ) {
        if let Some(change) = change {
            let ip = there.text("ip").unwrap_or_default();
            let text = format!(
                "EIP {ip} was not created for this Service, so it is yours: {change} has no effect; remove the annotation, \
                 or change the EIP yourself"
            );
            self.deduplicator.warn(
                true,
                EventSubject::Service(service),
                "QuestionableSetting",
                &text,
            );
        }
    }

    /// Returns the EIP that the Service names, or one that was created for it before; creates one otherwise.
    async fn choose(&self, identity: &Identity<'_>, blb: &str, spec: &EipSpec) -> Result<Eip> {
        let eips = self.api.eips().await?;
        let named = |name: &str| {
            eips.iter()
                .filter(|eip| eip.name.as_deref() == Some(name))
                .collect::<Vec<_>>()
        };
        if let Some(ip) = &spec.fixed_ip {
            return fixed_eip(&eips, ip, blb);
        }
        let owner = identity.owner_tags();
        let added = text_on(identity.service, key::ADDED_EIP.key());
        let names = generated_names(&self.api.config.cluster, identity.service);
        let generated: Vec<_> = names
            .iter()
            .flat_map(|name| [name.clone(), format!("{GENERATED_NAME}{name}")])
            .collect();
        let is_own = |eip: &&Eip| {
            let is_tagged = eip.tag(OwnerTags::SERVICE) == owner.service.as_deref()
                && eip.tag(OwnerTags::CLUSTER) == owner.cluster.as_deref();
            let is_legacy = eip.tag(OwnerTags::SERVICE).is_none()
                && (added.as_ref() == Some(&eip.eip)
                    || eip
                        .name
                        .as_ref()
                        .is_some_and(|name| generated.contains(name)));
            eip.instance().is_none() && (is_tagged || is_legacy)
        };
        let bound = eips.iter().find(|eip| eip.instance() == Some(blb));
        if let Some(found) = bound.or_else(|| eips.iter().find(is_own)) {
            return Ok(found.clone());
        }
        let annotation = key::EIP_NAME.key();
        match (
            &spec.name,
            spec.name
                .as_deref()
                .map(named)
                .unwrap_or_default()
                .as_slice(),
        ) {
            (_, []) => {}
            (_, [one]) if one.tag(OwnerTags::SERVICE).is_none() => return Ok((*one).clone()),
            (_, [_]) => {}
            (name, _) => {
                let name = name.as_deref().unwrap_or_default();
                return Err(Error::invalid(format!(
                    "annotation {annotation}: several EIPs have the name {name:?}; give all but one another name"
                )));
            }
        }
        self.create_eip(identity, spec, &owner).await
    }

    async fn create_eip(
        &self,
        identity: &Identity<'_>,
        spec: &EipSpec,
        owner: &OwnerTags,
    ) -> Result<Eip> {
        let name: String = spec
            .name
            .as_ref()
            .unwrap_or(&identity.name)
            .chars()
            .take(super::LONGEST_NAME)
            .collect();
        let billing = match spec.is_prepaid() {
            true => {
                let reservation =
                    json!({"reservationLength": spec.reservation, "reservationTimeUnit": "Month"});
                json!({"paymentTiming": "Prepaid", "reservation": reservation})
            }
            false => {
                let method = spec.billing.as_deref().unwrap_or("ByTraffic");
                json!({"paymentTiming": "Postpaid", "billingMethod": method})
            }
        };
        let tags = [
            (OwnerTags::CLUSTER, &owner.cluster),
            (OwnerTags::SERVICE, &owner.service),
        ];
        let tags = tags.map(|(key, value)| json!({"tagKey": key, "tagValue": value}));
        let bandwidth = spec.bandwidth.unwrap_or_else(|| spec.most_bandwidth());
        let body =
            json!({"name": name, "bandwidthInMbps": bandwidth, "billing": billing, "tags": tags});
        self.api
            .eip
            .read(super::apply::creation("/v1/eip", identity.uid()).json(&body))
            .await
    }

    /// Binds the EIP of the Service to its BLB, and returns the EIP.
    pub(super) async fn bind(
        &self,
        identity: &Identity<'_>,
        blb: &str,
        spec: &EipSpec,
        callbacks: &dyn SyncCallbacks,
    ) -> Result<Eip> {
        let mut eip = self.choose(identity, blb, spec).await?;
        if eip.is_busy() {
            let deleted =
                Error::conflict(format!("EIP {} was deleted before it was bound", eip.eip));
            eip = self.settled(&eip.eip, callbacks).await?.ok_or(deleted)?;
        }
        match eip.instance() {
            Some(id) if id == blb => return Ok(eip),
            Some(other) => return Err(is_bound_to(&eip, other)),
            None => {}
        }
        let body = json!({"instanceType": "BLB", "instanceId": blb});
        self.api
            .eip
            .send(Call::put(ONE, &[&eip.eip]).query("bind", "").json(&body))
            .await?;
        let bound = self.settled(&eip.eip, callbacks).await?;
        let is_bound = |eip: &Eip| eip.instance() == Some(blb);
        bound
            .filter(is_bound)
            .ok_or_else(|| Error::conflict(format!("EIP {} is not bound to {blb}", eip.eip)))
    }

    pub(super) async fn resize(
        &self,
        ip: &str,
        bandwidth: &Value,
        callbacks: &dyn SyncCallbacks,
    ) -> Result<()> {
        let call = Call::put(ONE, &[ip])
            .query("resize", "")
            .json(&json!({"newBandwidthInMbps": bandwidth}));
        self.api.eip.send(call).await?;
        self.settled(ip, callbacks).await.map(drop)
    }

    /// Unbinds an EIP, and deletes it if it was created for the Service.
    pub(super) async fn release(
        &self,
        eip: &Eip,
        is_own: bool,
        service: &Service,
        callbacks: &dyn SyncCallbacks,
    ) -> Result<()> {
        let mut eip = eip.clone();
        if eip.is_busy() {
            let Some(settled) = self.settled(&eip.eip, callbacks).await? else {
                return Ok(());
            };
            eip = settled;
        }
        if eip.instance().is_some() {
            self.api
                .eip
                .remove(Call::put(ONE, &[&eip.eip]).query("unbind", ""))
                .await?;
            let Some(settled) = self.settled(&eip.eip, callbacks).await? else {
                return Ok(());
            };
            eip = settled;
        }
        let reason = match () {
            () if !is_own => return Ok(()),
            () if eip.payment_timing.as_deref() == Some("Prepaid") => {
                "it is prepaid, and cannot be released before it expires"
            }
            () if eip.delete_protect == Some(true) => "it is protected against deletion",
            () if eip.is_shared() => "it shares the bandwidth of a group",
            () => return self.api.eip.remove(Call::delete(ONE, &[&eip.eip])).await,
        };
        let text = format!(
            "EIP {} is unbound and stays: {reason}. Delete it yourself if you do not need it",
            eip.eip
        );
        self.deduplicator.warn(
            true,
            EventSubject::Service(service),
            "EIPNotReleased",
            &text,
        );
        Ok(())
    }

    /// Waits until the cloud has finished its change of an EIP. `None` if the EIP does not exist.
    async fn settled(&self, ip: &str, callbacks: &dyn SyncCallbacks) -> Result<Option<Eip>> {
        callbacks.release_permit();
        let wait = async {
            for poll in 0..POLLS {
                tokio::time::sleep(POLL).await;
                match self.api.eips().await?.iter().find(|eip| eip.eip == ip) {
                    // A new EIP may be missing from the list at first.
                    None if poll < 3 => {}
                    Some(eip) if eip.is_busy() => {}
                    found => return Ok(found.cloned()),
                }
            }
            Err(Error::other(format!(
                "EIP {ip} was not ready within a minute"
            )))
        };
        let outcome = wait.await;
        callbacks.reacquire_permit().await;
        outcome
    }
}
