//! Certificates of load balancers, from Secrets.

use cloud_provider::Result;
use provider_kit::cluster::ClusterView;
use provider_kit::key_pair::KeyPair;
use provider_kit::load_balancers::{Attributes, ResourceGraph, ResourceKey};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use super::objects::certificate;
use super::spec::LoadBalancerSpec;

const NAME: &str = "sslConfiguration.certificateName";

/// Reads certificates from Secrets.
pub(super) struct Certificates(ClusterView);

impl Certificates {
    pub(super) fn new(cluster: ClusterView) -> Self {
        Self(cluster)
    }

    /// Reads the certificate and the key of a Secret.
    pub(super) async fn read(&self, (namespace, name): &(String, String)) -> Result<KeyPair> {
        KeyPair::read(&self.0, namespace, name).await
    }

    /// Returns a certificate in the form of the API.
    pub(super) async fn body(
        &self,
        name: &str,
        spec: &LoadBalancerSpec,
    ) -> Result<(Value, Vec<secrecy::SecretString>)> {
        let is_its = |secret: &&&(String, String)| name == secret.1 || is_version(name, &secret.1);
        let secrets = [&spec.tls_secret, &spec.tls_backend_secret];
        let Some(secret) = secrets.iter().filter_map(|it| it.as_ref()).collect::<Vec<_>>().iter().find(is_its).copied()
        else {
            return Ok((Value::Null, Vec::new()));
        };
        let pair = self.read(secret).await?;
        let mut body = json!({"certificateName": name, "publicCertificate": pair.certificate, "privateKey": pair.key.expose_secret()});
        let mut hidden = vec![pair.key];
        let path = format!("/api/v1/namespaces/{}/secrets/{}", secret.0, secret.1);
        let (_, document) = self.0.get(&path).await?;
        for (key, field) in [("ca.crt", "caCertificate"), ("passphrase", "passphrase")] {
            use base64::Engine;
            let bytes =
                document["data"][key].as_str().and_then(|it| base64::engine::general_purpose::STANDARD.decode(it).ok());
            if let Some(text) = bytes.and_then(|it| String::from_utf8(it).ok()).filter(|it| !it.is_empty()) {
                if field == "passphrase" {
                    hidden.push(text.clone().into());
                }
                body[field] = text.into();
            }
        }
        Ok((body, hidden))
    }
}

/// Returns `true` for the name of a later version of a Secret's certificate: `<secret>-<8 hexadecimal digits>`.
fn is_version(name: &str, secret: &str) -> bool {
    let rest = name.strip_prefix(secret).and_then(|rest| rest.strip_prefix('-'));
    rest.is_some_and(|rest| rest.len() == 8 && rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Fits the names of certificates to those of an existing load balancer. A certificate cannot be changed: another content
/// gets a name of its own, listeners and backend sets move there, and the former one is deleted. Certificates of others
/// stay.
pub(super) fn fitted(mut desired: ResourceGraph, seen: &ResourceGraph, spec: &LoadBalancerSpec) -> ResourceGraph {
    let secrets: Vec<_> =
        [&spec.tls_secret, &spec.tls_backend_secret].into_iter().flatten().map(|it| it.1.clone()).collect();
    for secret in &secrets {
        let key = certificate(secret);
        let Some(settings) = desired.resources.get(&key).cloned() else { continue };
        let is_same = |it: &Attributes| it.get("certificate") == settings.get("certificate");
        if seen.resources.get(&key).is_none_or(is_same) {
            continue;
        }
        let digest = settings.text("certificate").unwrap_or_default();
        let name = format!("{secret}-{}", digest.get(..8).unwrap_or_default());
        desired.resources.remove(&key);
        desired.resources.insert(certificate(&name), settings);
        let uses = |it: &Attributes| it.text(NAME) == Some(secret);
        let users: Vec<_> =
            desired.resources.iter().filter(|(_, it)| uses(it)).map(|(key, it)| (key.clone(), it.clone())).collect();
        for (key, settings) in users {
            desired.resources.insert(key, settings.set(NAME, &name));
        }
    }
    for (resource, settings) in seen.resources.iter().filter(|(resource, _)| resource.is_of_kind("certificate")) {
        let ResourceKey::CreatedBefore(it) = resource else { continue };
        let is_former = secrets.iter().any(|secret| it.name == *secret || is_version(&it.name, secret));
        let is_rotated = desired.resources.keys().any(|key| key.is_of_kind("certificate"));
        if !(is_former && is_rotated) && !desired.resources.contains_key(resource) {
            desired.resources.insert(resource.clone(), settings.clone());
        }
    }
    desired
}
