//! Certificates of load balancers, from Secrets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cloud_provider::{Error, Result, Service};
use parking_lot::Mutex;
use provider_kit::cluster::ClusterView;
use provider_kit::key_pair::KeyPair;
use provider_kit::load_balancers::{Attributes, ResourceGraph, ResourceKey};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use super::objects::{certificate, certificate_settings};
use super::spec::LoadBalancerSpec;

const NAME: &str = "sslConfiguration.certificateName";

/// Certificate, key and authority of a Secret.
pub(super) struct Certificate {
    pair: KeyPair,
    authority: Option<String>,
    passphrase: Option<SecretString>,
}

impl Certificate {
    pub(super) fn settings(&self) -> Attributes {
        certificate_settings(
            &self.pair.certificate,
            self.authority.as_deref().unwrap_or_default(),
        )
    }

    /// Returns the certificate in the form of the API, and the secrets in it.
    fn body(self, name: &str) -> (Value, Vec<SecretString>) {
        let Self {
            pair: KeyPair { certificate, key },
            authority,
            passphrase,
        } = self;
        let mut body = json!({"certificateName": name, "publicCertificate": certificate, "privateKey": key.expose_secret()});
        if let Some(authority) = authority {
            body["caCertificate"] = authority.into();
        }
        if let Some(passphrase) = &passphrase {
            body["passphrase"] = passphrase.expose_secret().into();
        }
        (body, [key].into_iter().chain(passphrase).collect())
    }
}

/// The annotation that is written to a Service whose certificate has changed in its Secret, so that the Service is synced.
const CHANGED: &str = "ccm-rs/certificate";
/// Pause between two reads of the Secrets of Services.
const PAUSE: Duration = Duration::from_secs(300);

/// Namespace and name of an object.
type Name = (String, String);

/// Reads certificates from Secrets, and follows the Secrets of Services. Clones share what they follow.
#[derive(Clone)]
pub(crate) struct Certificates {
    cluster: ClusterView,
    /// Digests of certificates as they were last read for a Service, by Service and Secret.
    followed: Arc<Mutex<BTreeMap<Name, BTreeMap<Name, String>>>>,
}

fn name_of(service: &Service) -> Name {
    let text = |entry: &Option<String>| entry.clone().unwrap_or_default();
    (
        text(&service.metadata.namespace),
        text(&service.metadata.name),
    )
}

impl Certificates {
    pub(super) fn new(cluster: ClusterView) -> Self {
        Self {
            cluster,
            followed: Arc::default(),
        }
    }

    /// Reads the certificates of a Service from its Secrets, by the name of the Secret, and follows them from now on.
    pub(super) async fn of_service<'a>(
        &self,
        service: &Service,
        secrets: impl Iterator<Item = &'a Name>,
    ) -> Result<Vec<(&'a str, Attributes)>> {
        let mut all = Vec::new();
        let mut digests = BTreeMap::new();
        for secret in secrets {
            let settings = self.read(secret).await?.settings();
            digests.insert(secret.clone(), digest(&settings));
            all.push((&*secret.1, settings));
        }
        let mut followed = self.followed.lock();
        match digests.is_empty() {
            true => drop(followed.remove(&name_of(service))),
            false => drop(followed.insert(name_of(service), digests)),
        }
        Ok(all)
    }

    /// Has Services synced whose certificates have changed, until the process ends.
    pub(crate) async fn follow(self) {
        loop {
            tokio::time::sleep(PAUSE).await;
            let followed = self.followed.lock().clone();
            for (service, secrets) in followed {
                if let Err(error) = self.check(&service, &secrets).await {
                    let (namespace, name) = &service;
                    tracing::warn!(service = format!("{namespace}/{name}"), %error, "certificate cannot be compared");
                }
            }
        }
    }

    async fn check(&self, service: &Name, secrets: &BTreeMap<Name, String>) -> Result<()> {
        let is_gone = self
            .cluster
            .services()
            .is_some_and(|all| !all.iter().any(|entry| name_of(entry) == *service));
        if is_gone {
            self.followed.lock().remove(service);
            return Ok(());
        }
        for (secret, known) in secrets {
            let now = digest(&self.read(secret).await?.settings());
            if now != *known {
                let patch = json!({"metadata": {"annotations": {CHANGED: now.get(..16)}}});
                let path = format!("/api/v1/namespaces/{}/services/{}", service.0, service.1);
                return self.cluster.patch_status(&path, &patch).await.map(drop);
            }
        }
        Ok(())
    }

    /// Reads the certificate and the key of a Secret.
    pub(super) async fn read(&self, (namespace, name): &(String, String)) -> Result<Certificate> {
        let pair = KeyPair::read(&self.cluster, namespace, name).await?;
        let (_, secret) = self
            .cluster
            .get(&format!("/api/v1/namespaces/{namespace}/secrets/{name}"))
            .await?;
        let text = |key: &str| {
            let bytes = STANDARD.decode(secret["data"][key].as_str()?).ok()?;
            String::from_utf8(bytes)
                .ok()
                .map(|text| text.trim().to_owned())
                .filter(|text| !text.is_empty())
        };
        Ok(Certificate {
            pair,
            authority: text("ca.crt"),
            passphrase: text("passphrase").map(Into::into),
        })
    }

    /// Returns a certificate of the Service in the form of the API, and its secrets.
    pub(super) async fn body(
        &self,
        name: &str,
        spec: &LoadBalancerSpec,
    ) -> Result<(Value, Vec<SecretString>)> {
        let mut secrets = [&spec.tls_secret, &spec.tls_backend_secret]
            .into_iter()
            .flatten();
        let secret = secrets.find(|secret| name == secret.1 || is_version(name, &secret.1));
        let secret = secret
            .ok_or_else(|| Error::other(format!("no Secret belongs to certificate {name}")))?;
        Ok(self.read(secret).await?.body(name))
    }
}

fn digest(settings: &Attributes) -> String {
    settings.text("certificate").unwrap_or_default().to_owned()
}

/// Returns `true` for the name of a later version of a Secret's certificate: `<secret>-<8 hexadecimal digits>`.
pub(super) fn is_version(name: &str, secret: &str) -> bool {
    let rest = name
        .strip_prefix(secret)
        .and_then(|rest| rest.strip_prefix('-'));
    rest.is_some_and(|rest| rest.len() == 8 && rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Fits the names of certificates to those of an existing load balancer. A certificate cannot be changed: another content
/// gets a name of its own, listeners and backend sets move there, and the former one is deleted. Certificates of others
/// stay. On a load balancer of a user, each certificate has a name of its own, so that no certificate of the user is
/// mistaken for one of the Service.
pub(super) fn fitted(
    mut desired: ResourceGraph,
    seen: &ResourceGraph,
    spec: &LoadBalancerSpec,
    is_of_user: bool,
) -> ResourceGraph {
    let secrets: Vec<_> = [&spec.tls_secret, &spec.tls_backend_secret]
        .into_iter()
        .flatten()
        .map(|pair| pair.1.clone())
        .collect();
    for secret in &secrets {
        let key = certificate(secret);
        let Some(settings) = desired.resources.get(&key).cloned() else {
            continue;
        };
        let is_same = |entry: &Attributes| entry.get("certificate") == settings.get("certificate");
        if !is_of_user && seen.resources.get(&key).is_none_or(is_same) {
            continue;
        }
        let digest = settings.text("certificate").unwrap_or_default();
        let name = format!("{secret}-{}", digest.get(..8).unwrap_or_default());
        desired.resources.remove(&key);
        desired.resources.insert(certificate(&name), settings);
        let uses = |settings: &Attributes| settings.text(NAME) == Some(secret);
        let users: Vec<_> = desired
            .resources
            .iter()
            .filter(|(_, settings)| uses(settings))
            .map(|(key, settings)| (key.clone(), settings.clone()))
            .collect();
        for (key, settings) in users {
            desired.resources.insert(key, settings.set(NAME, &name));
        }
    }
    for (resource, settings) in seen
        .resources
        .iter()
        .filter(|(resource, _)| resource.is_of_kind("certificate"))
    {
        let ResourceKey::CreatedBefore(auxiliary) = resource else {
            continue;
        };
        let is_former = secrets.iter().any(|secret| {
            !is_of_user && auxiliary.name == *secret || is_version(&auxiliary.name, secret)
        });
        let is_rotated = desired
            .resources
            .keys()
            .any(|key| key.is_of_kind("certificate"));
        let is_gone = is_former && is_rotated;
        if !is_gone && !desired.resources.contains_key(resource) {
            desired.resources.insert(resource.clone(), settings.clone());
        }
    }
    desired
}
