//! The place that credentials come from, chosen without a request.

use std::net::IpAddr;

use cloud_provider::{Environment, Error, Result};
use provider_kit::signing::AwsCredentials;

use crate::profile::Profile;

/// A place that credentials come from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// An access key from the environment or a file.
    Keys(AwsCredentials),
    /// The credential endpoint of a container, and the settings with the token for it.
    Container(String, Profile),
    /// The role of the machine.
    Machine,
    /// The settings of a role, and the credential that may assume it; `None` if a token in a file may do so.
    Role(Profile, Option<Box<Source>>),
}

/// Hosts of credential endpoints that may be reached without TLS, beside those of this machine.
const CONTAINER_HOSTS: [&str; 3] = ["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"];

/// Returns the name of the profile, and `true` if a variable names it.
pub(crate) fn profile_name(variables: &Profile) -> (&str, bool) {
    let named = variables
        .get("profile")
        .or(variables.get("default_profile"));
    (named.unwrap_or("default"), named.is_some())
}

/// Chooses the first place that is configured: environment, profile, web identity, container, machine. Files are read again by
/// each call.
pub(crate) fn choose(environment: &Environment, has_metadata: bool) -> Result<Source> {
    let variables = Profile::of_environment(environment);
    let (name, is_named) = profile_name(&variables);
    if let Some(keys) = keys("the environment", &variables)? {
        return Ok(keys);
    }
    if let Some(source) = of_profile(environment, name, &mut Vec::new(), is_named)? {
        return Ok(source);
    }
    if variables.get("web_identity_token_file").is_some() && variables.get("role_arn").is_some() {
        return Ok(Source::Role(variables, None));
    }
    container(variables)?.or_else(|| has_metadata.then_some(Source::Machine)).ok_or_else(|| {
        Error::unauthorized(
            "no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, AWS_WEB_IDENTITY_TOKEN_FILE and \
             AWS_ROLE_ARN, or AWS_CONTAINER_CREDENTIALS_FULL_URI; the metadata service is disabled by AWS_EC2_METADATA_DISABLED",
        )
    })
}

fn keys(place: &str, of: &Profile) -> Result<Option<Source>> {
    match (of.text("access_key_id"), of.get("secret_access_key")) {
        (None, None) => Ok(None),
        (Some(access_key), Some(secret)) => {
            let session_token = of.get("session_token").map(Into::into);
            Ok(Some(Source::Keys(AwsCredentials {
                access_key,
                secret_key: secret.into(),
                session_token,
            })))
        }
        _ => Err(Error::invalid(format!(
            "{place} has only one of access key ID and secret access key; set both, by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in \
             the environment, or by these names in lower case in a file"
        ))),
    }
}

/// Reads a profile and those that it refers to. `visited` prevents circles.
fn of_profile(
    environment: &Environment,
    name: &str,
    visited: &mut Vec<String>,
    is_required: bool,
) -> Result<Option<Source>> {
    let profile = Profile::of_files(environment, name)?;
    let invalid = |what: &str| Err(Error::invalid(format!("AWS profile {name:?} {what}")));
    if profile.is_empty() && is_required {
        return invalid("is in neither the shared config nor the credentials file");
    }
    let is_again = visited.iter().any(|text| text == name);
    visited.push(name.to_owned());
    if profile.get("role_arn").is_none() || is_again {
        let unknown = ["credential_process", "sso_session", "sso_start_url"]
            .into_iter()
            .find(|key| profile.get(key).is_some());
        return match (keys(&format!("AWS profile {name:?}"), &profile)?, unknown) {
            (None, Some(key)) => invalid(&format!(
                "cannot be used: {key} is not supported; use keys or role_arn"
            )),
            (None, None) if is_again => invalid("refers to itself and has no keys"),
            (keys, _) => Ok(keys),
        };
    }
    let by = match (
        profile.get("source_profile"),
        profile.get("credential_source"),
    ) {
        _ if profile.get("web_identity_token_file").is_some() => {
            return Ok(Some(Source::Role(profile, None)));
        }
        (Some(source), _) => of_profile(environment, source, visited, true)?,
        (None, Some("Environment")) => {
            keys("the environment", &Profile::of_environment(environment))?
        }
        (None, Some("EcsContainer")) => container(Profile::of_environment(environment))?,
        (None, Some("Ec2InstanceMetadata")) => Some(Source::Machine),
        _ => None,
    };
    match by {
        Some(by) => Ok(Some(Source::Role(profile, Some(Box::new(by))))),
        None => invalid(
            "has role_arn and no credentials to assume it with; set source_profile, credential_source (Environment, EcsContainer, \
             Ec2InstanceMetadata) or web_identity_token_file",
        ),
    }
}

fn container(variables: Profile) -> Result<Option<Source>> {
    let relative = variables.get("container_credentials_relative_uri");
    let url = relative.map(|path| format!("http://{}{path}", CONTAINER_HOSTS[0]));
    let Some(url) = url.or(variables.text("container_credentials_full_uri")) else {
        return Ok(None);
    };
    let uri = url.parse::<http::Uri>().unwrap_or_default();
    let host = uri.host().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    let is_local = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
    if uri.scheme_str() == Some("https") || is_local || CONTAINER_HOSTS.contains(&host) {
        return Ok(Some(Source::Container(url, variables)));
    }
    let hosts = CONTAINER_HOSTS.join(", ");
    let what = format!(
        "{host:?} is not allowed without TLS; use https, a loopback address, or one of {hosts}"
    );
    Err(Error::invalid(format!(
        "AWS_CONTAINER_CREDENTIALS_FULL_URI: {what}"
    )))
}
