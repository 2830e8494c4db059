//! Certificates of listeners, which Secrets name.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cloud_provider::{Error, Result, Service};

use super::TencentLoadBalancers;
use crate::annotations as key;

impl TencentLoadBalancers {
    /// Returns the ID of the certificate in a Secret.
    pub(super) async fn certificate(&self, service: &Service, name: &str) -> Result<String> {
        let namespace = service.metadata.namespace.as_deref().unwrap_or("default");
        let is_plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        let wrong = |text: &str| {
            Error::invalid(format!(
                "annotation {}: Secret {namespace}/{name} {text}",
                key::PROTOCOLS.key()
            ))
        };
        if name.is_empty() || !name.bytes().all(is_plain) || name.contains("..") {
            return Err(wrong("has no valid name"));
        }
        let (status, secret) = self
            .cluster
            .get(&format!("/api/v1/namespaces/{namespace}/secrets/{name}"))
            .await?;
        match status.as_u16() {
            200 => {}
            404 => return Err(wrong("does not exist")),
            403 => return Err(wrong("cannot be read; allow the controller to get Secrets")),
            status => {
                return Err(Error::other(format!(
                    "Secret {namespace}/{name}: the API server answered {status}"
                )));
            }
        }
        let bytes = secret["data"]["qcloud_cert_id"]
            .as_str()
            .and_then(|text| STANDARD.decode(text).ok());
        let id = bytes
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .map(|id| id.trim().to_owned());
        id.filter(|id| !id.is_empty())
            .ok_or_else(|| wrong("has no ID of a certificate in qcloud_cert_id"))
    }
}
