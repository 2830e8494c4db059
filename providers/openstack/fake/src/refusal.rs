//! Error answers: each service has its own form.

use fake_cloud::Refused;
use http::StatusCode;
use serde_json::{Value, json};

/// A service of the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Identity,
    Compute,
    Network,
    Balancer,
    Keys,
    /// Version documents of the services, which need no token.
    Versions,
}

/// Error response to a refused request.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    /// Type of the error, such as `PortNotFound` or `itemNotFound`, in services that show one.
    kind: String,
    message: String,
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        let kind = if refused.code.is_empty() {
            "overLimit"
        } else {
            &refused.code
        };
        Self::new(refused.status.unwrap_or(400), kind, refused.message)
    }
}

impl Refusal {
    /// Returns the refusal as Octavia shows it: without a type.
    pub(crate) fn untyped(self) -> Self {
        Self {
            kind: String::new(),
            ..self
        }
    }

    pub(crate) fn new(status: u16, kind: &str, message: impl Into<String>) -> Self {
        Self {
            status,
            kind: kind.to_owned(),
            message: message.into(),
        }
    }

    /// Creates error 400 of Neutron's API layer.
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(400, "HTTPBadRequest", message)
    }

    /// Creates Octavia's error 400, which has no type.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(400, "", message)
    }

    /// Creates Octavia's error 409.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(409, "", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(
            401,
            "",
            "The request you have made requires authentication.",
        )
    }

    /// Returns the body, as this service writes it.
    pub(crate) fn body(&self, service: Service) -> Value {
        let status = self.status;
        let message = &self.message;
        let title = StatusCode::from_u16(status)
            .ok()
            .and_then(|status| status.canonical_reason())
            .unwrap_or_default();
        match service {
            // The middleware of every service answers in Keystone's form.
            _ if status == 401 => {
                json!({"error": {"code": 401, "title": title, "message": message}})
            }
            Service::Identity | Service::Versions => {
                json!({"error": {"code": status, "title": title, "message": message}})
            }
            Service::Compute => json!({&self.kind: {"code": status, "message": message}}),
            Service::Network => {
                json!({"NeutronError": {"type": self.kind, "message": message, "detail": ""}})
            }
            // Some components of Octavia show a title.
            Service::Balancer if !self.kind.is_empty() => {
                json!({"code": status, "title": self.kind, "description": message})
            }
            Service::Balancer => {
                let culprit = if status < 500 { "Client" } else { "Server" };
                json!({"faultcode": culprit, "faultstring": message, "debuginfo": null})
            }
            Service::Keys => json!({"code": status, "title": title, "description": message}),
        }
    }
}
