//! Load balancer types and certificates of the project. Each is one list, shared by all Services.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cloud_provider::{Error, Result, SyncCallbacks};
use jiff::Timestamp;
use provider_kit::catalog::Catalog;
use provider_kit::events::PendingEvents;
use provider_kit::transport::Call;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::spec::ManagedCertificate;
use super::wire::LEGACY_OWNER_LABEL;
use crate::actions::Action;
use crate::annotations::CertificateRef;
use crate::api::Api;

/// Types hardly ever change.
const TYPES_AGE: Duration = Duration::from_secs(3600);
/// A certificate may be replaced by another of the same name.
const CERTIFICATES_AGE: Duration = Duration::from_secs(60);

/// A type of load balancer.
#[derive(Deserialize)]
pub(crate) struct BalancerType {
    id: u64,
    pub(crate) name: String,
    pub(super) max_targets: usize,
    deprecation: Option<Deprecation>,
}

#[derive(Deserialize)]
struct Deprecation {
    unavailable_after: Timestamp,
}

/// A certificate of the project.
#[derive(Clone, Deserialize)]
pub(super) struct Certificate {
    pub(super) id: u64,
    pub(super) name: String,
    r#type: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) domain_names: Vec<String>,
    #[serde(default)]
    used_by: Vec<User>,
}

/// A load balancer that uses a certificate.
#[derive(Clone, Deserialize)]
struct User {
    id: u64,
}

#[derive(Deserialize)]
struct Made {
    action: Option<Action>,
}

pub(crate) struct Catalogue {
    api: Api,
    pub(crate) types: Catalog<BalancerType>,
    certificates: Catalog<Certificate>,
}

/// Returns a catalog of the list at `path`.
fn catalog<T: DeserializeOwned + Send + Sync + 'static>(
    api: &Api,
    kind: &'static str,
    max_age: Duration,
    path: &'static str,
    id: fn(&T) -> u64,
) -> Catalog<T> {
    let api = api.clone();
    Catalog::new(kind, max_age, move || {
        let api = api.clone();
        async move {
            let list = api
                .list(
                    path.trim_start_matches('/'),
                    Call::get(path, &[]),
                    |item| item,
                    id,
                )
                .await?;
            Ok(list.complete()?.into_items())
        }
    })
}

impl Catalogue {
    pub(crate) fn new(api: Api) -> Self {
        let types = catalog(
            &api,
            "load balancer type",
            TYPES_AGE,
            "/load_balancer_types",
            |balancer_type: &BalancerType| balancer_type.id,
        );
        let certificates = catalog(
            &api,
            "certificate",
            CERTIFICATES_AGE,
            "/certificates",
            |certificate: &Certificate| certificate.id,
        );
        Self {
            api,
            types,
            certificates,
        }
    }

    /// Returns the IDs of certificates.
    pub(super) async fn uploaded(&self, certificates: &[CertificateRef]) -> Result<Vec<u64>> {
        let mut ids = Vec::new();
        for certificate in certificates {
            ids.push(match certificate {
                CertificateRef::Id(id) => *id,
                CertificateRef::Name(name) => {
                    self.certificates
                        .named(
                            name,
                            |certificate| &certificate.name,
                            |certificate| certificate.id,
                        )
                        .await?
                        .0
                }
            });
        }
        Ok(ids)
    }

    /// Returns the certificate that was created for a Service.
    pub(super) async fn managed(&self, uid: &str) -> Result<Option<Certificate>> {
        let list = self.certificates.list().await?;
        let mut ours = list.iter().filter(|certificate| certificate.is_of(uid));
        match (ours.next(), ours.next()) {
            (Some(one), Some(other)) => Err(Error::invalid(format!(
                "certificates {} ({:?}) and {} ({:?}) both carry label {LEGACY_OWNER_LABEL}={uid}; delete one of them",
                one.id, one.name, other.id, other.name
            ))),
            (found, _) => Ok(found.cloned()),
        }
    }

    /// Creates the managed certificate, and waits until it is issued.
    pub(super) async fn make_managed(
        &self,
        wanted: &ManagedCertificate,
        uid: &str,
        callbacks: &dyn SyncCallbacks,
    ) -> Result<()> {
        self.certificates.forget().await;
        let mut labels = BTreeMap::from([(LEGACY_OWNER_LABEL, uid)]);
        if wanted.is_staging {
            labels.insert("HC-Use-Staging-CA", "true");
        }
        let body = json!({"name": wanted.name, "type": "managed", "domain_names": wanted.domains, "labels": labels});
        let call = Call::post("/certificates", &[]).json(&body).repeatable();
        match self.api.actions.send(call, callbacks).await {
            Ok(made) => self
                .api
                .actions
                .finish(made.json::<Made>()?.action, callbacks)
                .await
                .map_err(|err| {
                    err.context(format!(
                        "managed certificate {:?} for {}",
                        wanted.name,
                        wanted.domains.join(", ")
                    ))
                }),
            Err(err) if err.is_conflict() => match self.managed(uid).await? {
                Some(_) => Ok(()),
                None => Err(Error::invalid(format!(
                    "there is a certificate {:?} already, and it was not created for this Service; choose another name",
                    wanted.name
                ))),
            },
            Err(err) => Err(err),
        }
    }

    /// Deletes those among `ids` (`None`: all) that were created for this Service. A certificate that another object
    /// than `balancer` uses is kept and reported.
    pub(super) async fn delete_managed(
        &self,
        uid: &str,
        ids: Option<&[u64]>,
        balancer: &str,
    ) -> Result<PendingEvents> {
        let list = self.certificates.refresh().await?;
        let mut kept = PendingEvents::default();
        for certificate in list.iter().filter(|certificate| {
            certificate.is_of(uid) && ids.is_none_or(|ids| ids.contains(&certificate.id))
        }) {
            let Certificate {
                id, name, used_by, ..
            } = certificate;
            if let Some(user) = used_by.iter().find(|user| user.id.to_string() != balancer) {
                kept.warn(
                    "CertificateInUse",
                    format!(
                        "certificate {name:?} ({id}) stays: {} uses it, too",
                        user.id
                    ),
                );
                continue;
            }
            self.certificates.forget().await;
            self.api
                .http
                .remove(Call::delete("/certificates/{id}", &[&id.to_string()]))
                .await?;
        }
        Ok(kept)
    }
}

impl BalancerType {
    /// Returns the time from which load balancers of this type can no longer be created.
    pub(crate) fn unavailable_after(&self) -> Option<Timestamp> {
        self.deprecation
            .as_ref()
            .map(|deprecation| deprecation.unavailable_after)
    }

    /// Returns the text of a warning about a deprecated type.
    pub(super) fn deprecated(&self) -> Option<String> {
        let after = self.unavailable_after()?;
        Some(format!(
            "load balancer type {:?} is deprecated, and cannot be created after {after}",
            self.name
        ))
    }

    /// Checks that a load balancer can still become one of this type.
    pub(super) fn available(&self, now: Timestamp) -> Result<()> {
        match self.unavailable_after().filter(|after| *after <= now) {
            Some(after) => Err(Error::invalid(format!(
                "load balancer type {:?} can no longer be created since {after}; choose another one",
                self.name
            ))),
            None => Ok(()),
        }
    }
}

impl Certificate {
    /// Returns the text of a warning if the certificate is for other domains than these.
    pub(super) fn for_others(&self, domains: &[String]) -> Option<String> {
        let all = |list: &[String]| {
            list.iter()
                .map(|text| text.to_ascii_lowercase())
                .collect::<BTreeSet<_>>()
        };
        let text = || {
            format!(
                "certificate {:?} is for {}, not for {}: domains cannot be changed. Delete it, or choose another name",
                self.name,
                self.domain_names.join(", "),
                domains.join(", ")
            )
        };
        let differ = all(&self.domain_names) != all(domains);
        differ.then(text)
    }

    fn is_of(&self, uid: &str) -> bool {
        self.r#type.as_deref() != Some("uploaded")
            && self
                .labels
                .get(LEGACY_OWNER_LABEL)
                .is_some_and(|legacy_owner_label| legacy_owner_label == uid)
    }
}
