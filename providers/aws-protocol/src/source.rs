//! The place that credentials come from, chosen without a request.

use cloud_provider::{Environment, Error, Result};
use provider_kit::signing::AwsCredentials;

use crate::profile::{Profile, profile};

/// A place that credentials come from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// An access key from the environment or a file.
    Keys(AwsCredentials),
    /// A role for a token in a file, such as that of a service account.
    WebIdentity { role: Role, token_file: String },
    /// The credential endpoint of a container.
    Container { url: String, token: Option<String>, token_file: Option<String> },
    /// The role of the machine.
    Machine,
    /// A role that another credential may assume.
    Role { role: Role, by: Box<Source> },
}

/// A role to assume.
#[derive(Clone, Debug, Default)]
pub(crate) struct Role {
    pub(crate) arn: String,
    pub(crate) session: Option<String>,
    pub(crate) external_id: Option<String>,
    pub(crate) seconds: Option<String>,
    pub(crate) source_arn: Option<String>,
    /// Requires the headers against confused deputies.
    pub(crate) has_source: bool,
}

/// Hosts of credential endpoints that may be reached without TLS, beside those of this machine.
const CONTAINER_HOSTS: [&str; 3] = ["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"];

/// Returns the name of the profile, and `true` if a variable names it.
pub(crate) fn profile_name(environment: &Environment) -> (&str, bool) {
    let named = set(environment, "AWS_PROFILE").or_else(|| set(environment, "AWS_DEFAULT_PROFILE"));
    (named.unwrap_or("default"), named.is_some())
}

/// Chooses the first place that is configured: environment, profile, web identity, container, machine. Files are read again by
/// each call.
pub(crate) fn choose(environment: &Environment, has_metadata: bool) -> Result<Source> {
    if let Some(keys) = from_environment(environment)? {
        return Ok(keys);
    }
    let (name, is_named) = profile_name(environment);
    if let Some(source) = from_profile(environment, name, &mut Vec::new(), is_named)? {
        return Ok(source);
    }
    if let (Some(token_file), Some(arn)) =
        (set(environment, "AWS_WEB_IDENTITY_TOKEN_FILE"), set(environment, "AWS_ROLE_ARN"))
    {
        let session = set(environment, "AWS_ROLE_SESSION_NAME").map(str::to_owned);
        let role = Role { arn: arn.to_owned(), session, ..Role::default() };
        return Ok(Source::WebIdentity { role, token_file: token_file.to_owned() });
    }
    match container(environment)? {
        Some(container) => Ok(container),
        None if has_metadata => Ok(Source::Machine),
        None => Err(Error::unauthorized(
            "no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, AWS_WEB_IDENTITY_TOKEN_FILE and \
             AWS_ROLE_ARN, or AWS_CONTAINER_CREDENTIALS_FULL_URI; the metadata service is disabled by AWS_EC2_METADATA_DISABLED",
        )),
    }
}

fn set<'a>(environment: &'a Environment, name: &str) -> Option<&'a str> {
    environment.get(name).map(str::trim).filter(|value| !value.is_empty())
}

fn from_environment(environment: &Environment) -> Result<Option<Source>> {
    let value = |name: &str| set(environment, name);
    let names = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];
    keys("the environment", names, value)
}

fn keys<'a>(place: &str, names: [&str; 3], value: impl Fn(&str) -> Option<&'a str>) -> Result<Option<Source>> {
    match names.map(value) {
        [None, None, _] => Ok(None),
        [Some(access_key), Some(secret), token] => Ok(Some(Source::Keys(AwsCredentials {
            access_key: access_key.to_owned(),
            secret_key: secret.into(),
            session_token: token.map(Into::into),
        }))),
        _ => Err(Error::invalid(format!("{place} has only one of {} and {}; set both", names[0], names[1]))),
    }
}

/// Reads a profile and those that it refers to. `visited` prevents circles.
fn from_profile(
    environment: &Environment,
    name: &str,
    visited: &mut Vec<String>,
    is_required: bool,
) -> Result<Option<Source>> {
    let profile = profile(environment, name)?;
    let place = format!("AWS profile {name:?}");
    if profile.is_empty() && is_required {
        return Err(Error::invalid(format!("{place} is in neither the shared config nor the credentials file")));
    }
    let is_again = visited.iter().any(|it| it == name);
    visited.push(name.to_owned());
    if let Some(arn) = profile.get("role_arn").filter(|_| !is_again) {
        return role_of(environment, &profile, &place, arn, visited).map(Some);
    }
    let names = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"];
    let keys = keys(&place, names, |key| profile.get(key))?;
    let unknown =
        ["credential_process", "sso_session", "sso_start_url"].into_iter().find(|key| profile.get(key).is_some());
    match (keys, unknown) {
        (None, Some(key)) => Err(Error::invalid(format!("{place}: {key} is not supported; use keys or role_arn"))),
        (None, None) if is_again => Err(Error::invalid(format!("{place} refers to itself and has no keys"))),
        (keys, _) => Ok(keys),
    }
}

fn role_of(
    environment: &Environment,
    profile: &Profile,
    place: &str,
    arn: &str,
    visited: &mut Vec<String>,
) -> Result<Source> {
    let text = |key| profile.get(key).map(str::to_owned);
    let (session, external_id, seconds) = (text("role_session_name"), text("external_id"), text("duration_seconds"));
    let role = Role { arn: arn.to_owned(), session, external_id, seconds, ..Role::default() };
    if let Some(token_file) = text("web_identity_token_file") {
        return Ok(Source::WebIdentity { role, token_file });
    }
    let by = match (profile.get("source_profile"), profile.get("credential_source")) {
        (Some(source), _) => from_profile(environment, source, visited, true)?,
        (None, Some("Environment")) => from_environment(environment)?,
        (None, Some("EcsContainer")) => container(environment)?,
        (None, Some("Ec2InstanceMetadata")) => Some(Source::Machine),
        _ => None,
    };
    let by = by.ok_or_else(|| {
        let keys = "source_profile, credential_source (Environment, EcsContainer, Ec2InstanceMetadata) or web_identity_token_file";
        Error::invalid(format!("{place} has role_arn and no credentials to assume it with; set {keys}"))
    })?;
    Ok(Source::Role { role, by: Box::new(by) })
}

fn container(environment: &Environment) -> Result<Option<Source>> {
    let relative = set(environment, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    let url = relative.map(|path| format!("http://{}{path}", CONTAINER_HOSTS[0]));
    let full = || set(environment, "AWS_CONTAINER_CREDENTIALS_FULL_URI").map(str::to_owned);
    let Some(url) = url.or_else(full) else { return Ok(None) };
    let uri = url.parse::<http::Uri>().ok();
    let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    let is_local = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
    let is_secure = uri.as_ref().and_then(http::Uri::scheme_str) == Some("https");
    if !is_secure && !is_local && !CONTAINER_HOSTS.contains(&host) {
        return Err(Error::invalid(format!(
            "AWS_CONTAINER_CREDENTIALS_FULL_URI: {host:?} is not allowed without TLS; use https, a loopback address, or one of {}",
            CONTAINER_HOSTS.join(", ")
        )));
    }
    let text = |name| set(environment, name).map(str::to_owned);
    let token_file = text("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    Ok(Some(Source::Container { url, token: text("AWS_CONTAINER_AUTHORIZATION_TOKEN"), token_file }))
}
