//! The creation of a load balancer.

use cloud_provider::{Error, Result};
use provider_kit::load_balancers::{Applied, Change, ObservedLoadBalancer, ResourceGraph, State};
use provider_kit::signing::sha256_hex;
use serde_json::{Value, json};

use super::read::is_in;
use super::spec::Spec;
use super::{INTERNAL, RANGES_TAG, TencentLoadBalancers};
use crate::action::{Action, CLB};
use crate::annotations as key;
use crate::api::{text, texts};

impl TencentLoadBalancers {
    /// Creates a load balancer, and nothing else: listeners follow when it works and has its security groups.
    pub(super) async fn create(&self, change: Change<'_>, spec: &Spec) -> Result<Applied> {
        let identity = change.identity;
        let vpc = self.api.metadata.vpc().await?;
        if let Some(id) = &identity.requested_id {
            // Another state of it is known: from before the annotation named it.
            let found = self.with_ids(std::slice::from_ref(id)).await?;
            if found
                .iter()
                .any(|object| is_in(object, &vpc) && self.head(object).adopted)
            {
                return Err(Error::conflict(format!(
                    "load balancer {id} has become one of yours"
                )));
            }
            return Err(Error::invalid(format!(
                "annotation {}: there is no load balancer {id} of yours in VPC {vpc}",
                key::EXISTING.key()
            )));
        }
        self.check_account().await?;
        let graph = change
            .outcome_of_all()
            .and_then(|load_balancer| load_balancer.graph)
            .unwrap_or_default();
        let settings = graph.balancer_attributes().cloned().unwrap_or_default();
        let mut tags = self.tags(identity, true);
        if !spec.ranges.is_empty() {
            tags.insert(RANGES_TAG.to_owned(), "yes".to_owned());
        }
        let tags = tags
            .iter()
            .map(|(key, value)| json!({"TagKey": key, "TagValue": value}));
        let tags: Vec<_> = tags.chain(spec.tags.iter().cloned()).collect();
        let metadata = &identity.service.metadata;
        let version = metadata.resource_version.as_deref().unwrap_or_default();
        // A load balancer of another kind is another creation of the same Service, and so is one after a creation that
        // the cloud has answered: the token of a creation that failed later gets the same answer again.
        let number = self
            .creations
            .lock()
            .get(identity.uid())
            .copied()
            .unwrap_or_default();
        let token = sha256_hex(
            format!("{} {version} {} {number}", identity.uid(), identity.kind).as_bytes(),
        );
        let service = identity.service.spec.as_ref();
        let address = service
            .and_then(|service| service.load_balancer_ip.clone())
            .filter(|load_balancer_ip| !load_balancer_ip.is_empty());
        let is_internal = settings.text("LoadBalancerType") == Some(INTERNAL);
        let of_request = ["LoadBalancerType", "SubnetId", "LoadBalancerPassToTarget"];
        let mut body = settings.clone().only(&of_request).nested();
        body["Forward"] = 1.into();
        let network = settings
            .clone()
            .only(&["InternetChargeType", "InternetMaxBandwidthOut"])
            .nested();
        if network
            .as_object()
            .is_some_and(|network| !network.is_empty())
        {
            body["InternetAccessible"] = network;
        }
        // What the annotation states comes first: it replaces nothing that the program sets.
        let action = Action::new(CLB, "CreateLoadBalancer")
            .fields(spec.creation.clone().into())
            .fields(body);
        let action = action
            .set("LoadBalancerName", &identity.name)
            .set("VpcId", vpc);
        let action = action.set("Vip", address.filter(|_| is_internal));
        let action = action.set("Tags", tags).set("ClientToken", &token[..40]);
        let answer: Value = self.api.send(action).await?;
        *self
            .creations
            .lock()
            .entry(identity.uid().to_owned())
            .or_default() += 1;
        let mut ids = texts(&answer["LoadBalancerIds"]);
        if ids.is_empty() {
            change.callbacks.release_permit();
            let outcome = self.api.wait(&answer).await;
            change.callbacks.reacquire_permit().await;
            ids = outcome?;
        }
        let id = ids.into_iter().next().ok_or_else(|| {
            Error::conflict(format!(
                "CreateLoadBalancer {} began no load balancer",
                text(&answer, "RequestId")
            ))
        })?;
        // The credential may have become another account's since the check, and would not show this load balancer again.
        if let Err(error) = self.check_account().await {
            return Err(self.discarded(&id, error).await);
        }
        let of_creation = [
            "LoadBalancerType",
            "SubnetId",
            "LoadBalancerPassToTarget",
            "InternetChargeType",
        ];
        let created = settings.only(&[&of_creation[..], &["InternetMaxBandwidthOut"]].concat());
        let graph = Some(ResourceGraph::default().balancer(created.set("DeleteProtect", false)));
        let outcome = change.outcome_of_all().unwrap_or_default();
        let created = ObservedLoadBalancer {
            id,
            graph,
            state: State::Busy,
            ..outcome
        };
        Ok(Applied::PlanAgain(Box::new(created)))
    }

    /// Deletes a new load balancer whose account could not be confirmed, and returns the reason.
    async fn discarded(&self, id: &str, reason: Error) -> Error {
        let action = Action::new(CLB, "DeleteLoadBalancer").set("LoadBalancerIds", [id]);
        match self.api.send::<Value>(action).await {
            Err(error) if !error.is_not_found() => reason.context(format!(
                "load balancer {id} could not be deleted again: {error}"
            )),
            _ => reason,
        }
    }
}
