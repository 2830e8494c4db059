//! Authentication and authorization of the clients that call the HTTPS endpoints (APP-8, APP-121).

use serving::access::lookup::LookupError;
use serving::access::{Access, Reviewers};
use tokio_util::sync::CancellationToken;

use crate::controller_set::Settings;
use crate::diagnosis::{Situation, explain};
use crate::exit::Failure;
use crate::flags::Configuration;
use crate::kubernetes::Clients;

/// Sets up authentication and authorization, and reads the API server's request header configuration.
///
/// # Errors
/// If a file that the flags name cannot be used, or if the API server cannot be read and that is not tolerated.
pub(crate) async fn access(
    configuration: &Configuration,
    settings: &Settings,
    stop: &CancellationToken,
) -> Result<Access, Failure> {
    let authentication = configuration.authentication.clone();
    let authorization = configuration.authorization.clone();
    let requests = settings.contact.noting(settings.metrics.requests());
    let reviewers = match &settings.clients {
        Clients::Configured(options) => {
            let connected =
                Reviewers::connect(&authentication, &authorization, options, requests).await;
            connected.map_err(Failure::setup)?
        }
        Clients::Shared(client) => Reviewers {
            authentication: Some(client.clone()),
            authorization: Some(client.clone()),
        },
    };
    if reviewers.authentication.is_none() || reviewers.authorization.is_none() {
        tracing::info!(
            "to authenticate and authorize callers, pass --authentication-kubeconfig and --authorization-kubeconfig, \
             which may be the same file; --kubeconfig is not used for that"
        );
    }
    let asked = reviewers.authentication.clone();
    let access = Access::new(
        authentication,
        authorization,
        reviewers,
        settings.metrics.access(),
    );
    let access = access.map_err(Failure::setup)?;
    match (access.look_up(stop).await, asked) {
        (Ok(()), _) => Ok(access),
        (Err(error @ LookupError::Unreachable { .. }), Some(client)) => Err(Failure::Setup(
            anyhow::anyhow!("{error}. {}", why(&client, settings).await),
        )),
        (Err(error), _) => Err(Failure::setup(error)),
    }
}

/// Returns the reason why the API server does not answer: network, DNS or address (P-40).
async fn why(client: &kube::Client, settings: &Settings) -> String {
    match client.apiserver_version().await {
        Ok(_) => "The API server answers now".to_owned(),
        Err(error) => explain(&error, &situation(settings)),
    }
}

/// Returns the environment of this process, for explanations of connection errors.
pub(crate) fn situation(settings: &Settings) -> Situation {
    match &settings.clients {
        Clients::Configured(options) => Situation::find(options),
        Clients::Shared(_) => Situation::default(),
    }
}
