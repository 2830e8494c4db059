//! Certificates: found by name, and followed when Let's Encrypt renews them under a new ID.

use std::collections::HashSet;
use std::time::Duration;

use cloud_provider::Result;
use parking_lot::{Mutex, MutexGuard};
use provider_kit::catalog::Catalog;
use provider_kit::load_balancers::{ObservedLoadBalancer, ResourceGraph};
use provider_kit::transport::Call;
use serde::Deserialize;

use super::spec::Certificate;
use crate::api::Api;

const SETTING: &str = "certificate_id";
/// TTL of the cached list of certificates.
const MAX_AGE: Duration = Duration::from_secs(60);

/// A certificate, as the API shows it.
#[derive(Deserialize)]
struct CertificateAnswer {
    id: String,
    name: String,
    #[serde(rename = "type")]
    kind: String,
}

/// Certificates of the account.
pub(super) struct Certificates {
    api: Api,
    catalog: Catalog<CertificateAnswer>,
    /// Known renewals: the ID of the certificate on a load balancer, and the ID in the annotation, of which the first
    /// is a renewal.
    renewals: Mutex<HashSet<(String, String)>>,
}

impl Certificates {
    pub(super) fn new(api: Api) -> Self {
        let reader = api.clone();
        let catalog = Catalog::new("certificate", MAX_AGE, move || {
            let api = reader.clone();
            async move {
                api.all("/v2/certificates", |certificate: &CertificateAnswer| {
                    certificate.id.clone()
                })
                .await
            }
        });
        Self {
            api,
            catalog,
            renewals: Mutex::default(),
        }
    }

    fn renewals(&self) -> MutexGuard<'_, HashSet<(String, String)>> {
        self.renewals.lock()
    }

    /// Finds the ID of a certificate.
    ///
    /// # Errors
    /// *Invalid*, if no certificate has the name; the message lists the existing ones.
    pub(super) async fn id(&self, certificate: &Certificate) -> Result<String> {
        match certificate {
            Certificate::Id(id) => Ok(id.clone()),
            Certificate::Name(name) => Ok(self
                .catalog
                .named(
                    name,
                    |certificate| &certificate.name,
                    |certificate| certificate.id.clone(),
                )
                .await?
                .0),
        }
    }

    /// Checks if the certificate on a load balancer is a renewal of the one in the Service's annotation. Returns `true`
    /// if it is, and this was not known before.
    pub(super) async fn decide(
        &self,
        stated: &str,
        observed: &ObservedLoadBalancer,
    ) -> Result<bool> {
        let Some(has) = certificate_on(observed).filter(|has| has != stated) else {
            return Ok(false);
        };
        let pair = (has, stated.to_owned());
        if self.renewals().contains(&pair) {
            return Ok(false);
        }
        let is_renewal = match self.read(&pair.0).await? {
            Some(has) if has.kind == "lets_encrypt" => self
                .read(stated)
                .await?
                .is_none_or(|stated| stated.name == has.name),
            _ => false,
        };
        Ok(is_renewal && self.renewals().insert(pair))
    }

    async fn read(&self, id: &str) -> Result<Option<CertificateAnswer>> {
        self.api
            .http
            .find(Call::get("/v2/certificates/{id}", &[id]).inside("certificate"))
            .await
    }

    /// Returns the ID on the load balancer, if it is a renewal of the stated one.
    pub(super) fn renewed(&self, stated: &str, observed: &ObservedLoadBalancer) -> Option<String> {
        let pair = (certificate_on(observed)?, stated.to_owned());
        self.renewals().contains(&pair).then_some(pair.0)
    }

    /// Puts the renewed certificate of the observed state into the desired state, so that the annotation's old ID does
    /// not replace it.
    pub(super) fn keep_renewed(
        &self,
        desired: &mut ResourceGraph,
        observed: &ObservedLoadBalancer,
    ) {
        let Some(stated) = certificate_in(desired) else {
            return;
        };
        let Some(renewed) = self.renewed(&stated, observed) else {
            return;
        };
        for settings in desired.resources.values_mut() {
            if settings.text(SETTING) == Some(&stated) {
                *settings = std::mem::take(settings).set(SETTING, &renewed);
            }
        }
    }
}

fn certificate_in(graph: &ResourceGraph) -> Option<String> {
    graph
        .listeners()
        .find_map(|(_, settings)| settings.text(SETTING).map(str::to_owned))
}

fn certificate_on(observed: &ObservedLoadBalancer) -> Option<String> {
    observed.graph.as_ref().and_then(certificate_in)
}
