//! Certificates: found by name, and followed when Let's Encrypt renews them under a new ID.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cloud_provider::{Error, Result};
use provider_kit::load_balancers::{Actual, Tree};
use provider_kit::transport::Call;
use serde::Deserialize;
use tokio::time::Instant;

use super::spec::Certificate;
use crate::api::Api;

const SETTING: &str = "certificate_id";
/// How long the ID of a name is used.
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
    state: Mutex<CertificateState>,
}

#[derive(Default)]
struct CertificateState {
    ids: HashMap<String, (Instant, String)>,
    /// By the ID on the load balancer and the ID in the annotation: whether the first is a renewal of the second.
    renewals: HashMap<(String, String), bool>,
}

impl Certificates {
    pub(super) fn new(api: Api) -> Self {
        Self { api, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, CertificateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds the ID of a certificate.
    ///
    /// # Errors
    /// *Invalid*, if there is none of the name, with those that there are.
    pub(super) async fn id(&self, certificate: &Certificate) -> Result<String> {
        let name = match certificate {
            Certificate::Id(id) => return Ok(id.clone()),
            Certificate::Name(name) => name,
        };
        if let Some((_, id)) = self.state().ids.get(name).filter(|(at, _)| at.elapsed() < MAX_AGE) {
            return Ok(id.clone());
        }
        let key = |it: &CertificateAnswer| it.id.clone();
        let all = self.api.all("certificates", Call::get("/v2/certificates", &[]), key).await?;
        let Some(found) = all.iter().find(|it| it.name == *name) else {
            let known: Vec<_> = all.iter().map(|it| format!("{:?}", it.name)).collect();
            let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
            return Err(Error::invalid(format!("no certificate named {name:?}; available: {known}")));
        };
        let now = Instant::now();
        self.state().ids.extend(all.iter().map(|it| (it.name.clone(), (now, it.id.clone()))));
        Ok(found.id.clone())
    }

    /// Finds out whether the certificate on a load balancer is a renewal of the one that its Service states. Returns `true` if
    /// that was not known before and is so.
    pub(super) async fn decide(&self, stated: &str, observed: &Actual) -> Result<bool> {
        let Some(has) = certificate_on(observed).filter(|has| has != stated) else { return Ok(false) };
        let pair = (has, stated.to_owned());
        if self.state().renewals.contains_key(&pair) {
            return Ok(false);
        }
        let is_renewal = match self.read(&pair.0).await? {
            Some(has) if has.kind == "lets_encrypt" => {
                self.read(stated).await?.is_none_or(|stated| stated.name == has.name)
            }
            _ => false,
        };
        self.state().renewals.insert(pair, is_renewal);
        Ok(is_renewal)
    }

    async fn read(&self, id: &str) -> Result<Option<CertificateAnswer>> {
        self.api.http.find(Call::get("/v2/certificates/{id}", &[id]).inside("certificate")).await
    }

    /// Returns the ID on the load balancer, if it is a renewal of the stated one.
    pub(super) fn renewed(&self, stated: &str, observed: &Actual) -> Option<String> {
        let has = certificate_on(observed)?;
        let pair = (has, stated.to_owned());
        self.state().renewals.get(&pair).filter(|is_renewal| **is_renewal)?;
        Some(pair.0)
    }

    /// Leaves a renewed certificate where it is.
    pub(super) fn keep_renewed(&self, desired: &mut Tree, observed: &Actual) {
        let Some(stated) = certificate_in(desired) else { return };
        let Some(renewed) = self.renewed(&stated, observed) else { return };
        for settings in desired.parts.values_mut() {
            if settings.text(SETTING) == Some(&stated) {
                *settings = std::mem::take(settings).set(SETTING, &renewed);
            }
        }
    }
}

fn certificate_in(tree: &Tree) -> Option<String> {
    tree.listeners().find_map(|(_, settings)| settings.text(SETTING).map(str::to_owned))
}

fn certificate_on(observed: &Actual) -> Option<String> {
    observed.tree.as_ref().and_then(certificate_in)
}
