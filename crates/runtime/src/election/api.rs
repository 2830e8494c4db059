//! The requests of an election.

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::Client;
use kube::api::{GetParams, PostParams, WatchEvent, WatchParams};
use kube::core::Request;

use super::config::ElectionConfig;
use super::lease::Lease;
use super::step::Failure;
use crate::api_error::{api_error, is_answer, is_conflict, is_forbidden, is_not_found};

/// The Lease of one election at the API server.
#[derive(Clone)]
pub(super) struct LeaseApi {
    client: Client,
    url: String,
    name: String,
}

/// Reasons for which a watch ended or did not begin.
pub(super) enum WatchFailure {
    /// RBAC forbids the watch.
    Forbidden,
    /// Any other error's message.
    Other(String),
}

impl LeaseApi {
    pub(super) fn new(client: Client, config: &ElectionConfig) -> Self {
        let url = format!(
            "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
            config.namespace
        );
        Self {
            client,
            url,
            name: config.name.clone(),
        }
    }

    fn request(&self) -> Request {
        Request::new(self.url.as_str())
    }

    /// Reads the Lease; `None` if the API server itself answers that it does not exist.
    pub(super) async fn read(&self) -> Result<Option<Lease>, kube::Error> {
        let request = self
            .request()
            .get(&self.name, &GetParams::default())
            .map_err(kube::Error::BuildRequest)?;
        match self.client.request(request).await.and_then(whole) {
            Ok(lease) => Ok(Some(lease)),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn create(&self, lease: &Lease) -> Result<Lease, kube::Error> {
        let body = serde_json::to_vec(lease).map_err(kube::Error::SerdeError)?;
        let request = self
            .request()
            .create(&PostParams::default(), body)
            .map_err(kube::Error::BuildRequest)?;
        self.client.request(request).await.and_then(whole)
    }

    pub(super) async fn update(&self, lease: &Lease) -> Result<Lease, kube::Error> {
        let body = serde_json::to_vec(lease).map_err(kube::Error::SerdeError)?;
        let request = self
            .request()
            .replace(&self.name, &PostParams::default(), body)
            .map_err(kube::Error::BuildRequest)?;
        self.client.request(request).await.and_then(whole)
    }

    /// Watches the Lease, beginning with its current state; `None` stands for a deleted Lease. Needs only the verb
    /// `watch`.
    pub(super) async fn watch(
        &self,
    ) -> Result<BoxStream<'static, Result<Option<Lease>, WatchFailure>>, WatchFailure> {
        let params = WatchParams::default()
            .fields(&format!("metadata.name={}", self.name))
            .disable_bookmarks();
        let request = self
            .request()
            .watch(&params, "")
            .map_err(|error| WatchFailure::Other(error.to_string()))?;
        let events = self
            .client
            .request_events::<Lease>(request)
            .await
            .map_err(|error| watch_failure(&error))?;
        let leases = events.map(|event| match event {
            Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease)) => Ok(Some(lease)),
            Ok(WatchEvent::Deleted(_)) => Ok(None),
            Ok(WatchEvent::Bookmark(_)) => {
                Err(WatchFailure::Other("an unexpected bookmark".into()))
            }
            Ok(WatchEvent::Error(status)) if status.code == 403 => Err(WatchFailure::Forbidden),
            Ok(WatchEvent::Error(status)) => Err(WatchFailure::Other(status.message)),
            Err(error) => Err(watch_failure(&error)),
        });
        Ok(leases.boxed())
    }
}

/// Checks that the object is a Lease: a proxy in between may answer 200 with any content, which must not decide the
/// election.
fn whole(lease: Lease) -> Result<Lease, kube::Error> {
    if lease.is_stored() {
        return Ok(lease);
    }
    let text = "the answer is no Lease: does something other than an API server answer here?";
    Err(kube::Error::SerdeError(serde::de::Error::custom(text)))
}

fn watch_failure(error: &kube::Error) -> WatchFailure {
    if is_forbidden(error) {
        WatchFailure::Forbidden
    } else {
        WatchFailure::Other(api_error(error).to_string())
    }
}

/// Classifies the error of a read or write of the Lease.
pub(super) fn failure(error: &kube::Error) -> Failure {
    match error {
        error if lost_race(error) => Failure::Conflict,
        // A response of 5xx does not mean that the request was not executed.
        kube::Error::Api(status) if status.code >= 500 => Failure::Unknown,
        error if is_answer(error) => Failure::Refused,
        _ => Failure::Unknown,
    }
}

/// Returns `true` if another candidate wrote the Lease first, which is normal in an election.
pub(super) fn lost_race(error: &kube::Error) -> bool {
    is_conflict(error) || crate::api_error::is_already_exists(error)
}
