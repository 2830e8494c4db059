//! Destinations of Events: the API server, or a test's list.

use futures::future::BoxFuture;
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::Value;

use crate::api_error::{api_error, is_answer, is_not_found};

/// Errors of an Event sink.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SinkError {
    /// The Event to be patched is not there (any more).
    #[error("{0}")]
    NotFound(String),
    /// The API server refused the Event; a retry would be refused as well.
    #[error("{0}")]
    Rejected(String),
    /// The API server was not reached; trying again may help.
    #[error("{0}")]
    Transport(String),
}

impl From<kube::Error> for SinkError {
    fn from(error: kube::Error) -> Self {
        let text = api_error(&error).to_string();
        match error {
            error if is_not_found(&error) => Self::NotFound(text),
            error if is_answer(&error) => Self::Rejected(text),
            kube::Error::BuildRequest(_) => Self::Rejected(text),
            // The Event was taken, but its copy in the answer was not understood.
            kube::Error::SerdeError(_) => Self::Rejected(text),
            _ => Self::Transport(text),
        }
    }
}

/// Takes Events; the API server, or a test.
pub trait EventSink: Send + Sync + 'static {
    /// Creates an Event object.
    fn create<'a>(
        &'a self,
        namespace: &'a str,
        event: &'a Value,
    ) -> BoxFuture<'a, Result<(), SinkError>>;
    /// Sends a strategic-merge patch to an Event object.
    fn patch<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        patch: &'a Value,
    ) -> BoxFuture<'a, Result<(), SinkError>>;
}

/// Sends Events to the API server.
#[derive(Clone)]
pub struct ApiSink {
    client: Client,
}

impl ApiSink {
    /// Events go where this client leads.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

impl EventSink for ApiSink {
    fn create<'a>(
        &'a self,
        namespace: &'a str,
        event: &'a Value,
    ) -> BoxFuture<'a, Result<(), SinkError>> {
        Box::pin(async move {
            let body = serde_json::to_vec(event).map_err(|e| SinkError::Rejected(e.to_string()))?;
            let request = kube::core::Request::new(url(namespace))
                .create(&PostParams::default(), body)
                .map_err(|e| SinkError::Rejected(e.to_string()))?;
            self.client
                .request::<serde::de::IgnoredAny>(request)
                .await
                .map(drop)
                .map_err(SinkError::from)
        })
    }

    fn patch<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        patch: &'a Value,
    ) -> BoxFuture<'a, Result<(), SinkError>> {
        Box::pin(async move {
            let request = kube::core::Request::new(url(namespace))
                .patch(name, &PatchParams::default(), &Patch::Strategic(patch))
                .map_err(|e| SinkError::Rejected(e.to_string()))?;
            self.client
                .request::<serde::de::IgnoredAny>(request)
                .await
                .map(drop)
                .map_err(SinkError::from)
        })
    }
}

fn url(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/events")
}
