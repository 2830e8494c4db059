//! Credentials as files and plugins give them, and as a header can hold them.
//!
//! An editor or `echo` leaves a newline behind a token, which no header can hold: kube-client panics on it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kube::config::AuthInfo;
use secrecy::{ExposeSecret as _, SecretString};

use super::plugin;

/// Keys of a legacy `auth-provider` that hold a token.
const TOKENS_OF_PROVIDERS: [&str; 2] = ["id-token", "access-token"];

/// Returns a bearer token without the white space around it.
///
/// # Errors
/// Returns the token, or its error without the token itself.
pub(super) fn token(text: &str) -> Result<&str, String> {
    let token = text.trim();
    match token.chars().find(|c| !c.is_ascii_graphic()) {
        _ if token.is_empty() => Err("the token is empty".to_owned()),
        None => Ok(token),
        Some(c) if c == '\n' || c == '\r' => Err("the token has more than one line".to_owned()),
        Some(_) => Err("the token has a character in it that is not visible ASCII".to_owned()),
    }
}

/// Returns a user name or a password without surrounding line breaks. The text is encoded when it is sent, so that
/// other characters are harmless, but RFC 7617 allows no control characters.
fn basic<'a>(what: &str, text: &'a str) -> Result<&'a str, String> {
    let text = text.trim_matches(['\n', '\r']);
    match text.chars().any(char::is_control) {
        true => Err(format!("the {what} has a control character in it")),
        false => Ok(text),
    }
}

/// Runs the plugin of a user, if its credential counts, and tidies every kind of credential. Returns when the plugin's
/// credential ends, if it does.
///
/// # Errors
/// Why the credential cannot be used, without the credential.
pub(super) async fn prepare(user: &mut AuthInfo) -> Result<Option<Timestamp>, String> {
    tidy(user)?;
    let is_basic = user.username.is_some() && user.password.is_some();
    let has_other = is_basic
        || user.token.is_some()
        || user.token_file.is_some()
        || user.auth_provider.is_some();
    let Some(exec) = user.exec.take().filter(|_| !has_other) else {
        return Ok(None);
    };
    let given = plugin::run(exec, plugin::PLUGIN_TIMEOUT).await?;
    match (given.certificate, given.key) {
        (Some(certificate), Some(key)) => {
            user.client_certificate_data = Some(STANDARD.encode(certificate));
            user.client_key_data = Some(SecretString::from(STANDARD.encode(key)));
        }
        _ => user.token = given.token.map(SecretString::from),
    }
    tidy(user).map_err(|problem| format!("the plugin's answer cannot be used: {problem}"))?;
    Ok(given.end)
}

fn tidy(user: &mut AuthInfo) -> Result<(), String> {
    if let Some(given) = &mut user.token {
        *given = token(given.expose_secret())?.to_owned().into();
    }
    if let Some(name) = &mut user.username {
        *name = basic("user name", name)?.to_owned();
    }
    if let Some(password) = &mut user.password {
        *password = basic("password", password.expose_secret())?
            .to_owned()
            .into();
    }
    let tokens = user
        .auth_provider
        .iter_mut()
        .flat_map(|provider| &mut provider.config);
    for (key, value) in tokens.filter(|(key, _)| TOKENS_OF_PROVIDERS.contains(&key.as_str())) {
        *value = token(value)
            .map_err(|problem| format!("auth-provider, {key}: {problem}"))?
            .to_owned();
    }
    Ok(())
}

/// Returns `true` if requests carry a secret of this user.
pub(super) fn is_sent(user: &AuthInfo) -> bool {
    user.token.is_some()
        || user.token_file.is_some()
        || user.password.is_some()
        || user.auth_provider.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(json: serde_json::Value) -> AuthInfo {
        serde_json::from_value(json).unwrap()
    }

    #[tokio::test]
    async fn white_space_around_a_credential_is_dropped() {
        let mut given = user(serde_json::json!({"token": " s3cr3t\r\n"}));
        prepare(&mut given).await.unwrap();
        assert_eq!(given.token.unwrap().expose_secret(), "s3cr3t");
        let mut given = user(serde_json::json!({"username": "admin\n", "password": " p w\n"}));
        prepare(&mut given).await.unwrap();
        assert_eq!(
            (
                given.username.as_deref(),
                given.password.unwrap().expose_secret()
            ),
            (Some("admin"), " p w")
        );
        let mut given = user(
            serde_json::json!({"auth-provider": {"name": "oidc", "config": {"id-token": "a.b.c\n"}}}),
        );
        prepare(&mut given).await.unwrap();
        assert_eq!(given.auth_provider.unwrap().config["id-token"], "a.b.c");
    }

    #[tokio::test]
    async fn credential_that_no_header_can_hold_is_refused_and_not_repeated() {
        let provider = |token: &str| serde_json::json!({"auth-provider": {"name": "oidc", "config": {"id-token": token}}});
        let table = [
            (
                serde_json::json!({"token": "s3\ncr3t"}),
                "the token has more than one line",
            ),
            (
                serde_json::json!({"token": "s3\u{0}cr3t"}),
                "the token has a character in it",
            ),
            (
                serde_json::json!({"token": "s3cr3t ü"}),
                "the token has a character in it",
            ),
            (serde_json::json!({"token": " \n"}), "the token is empty"),
            (
                serde_json::json!({"username": "a\nb", "password": "s3cr3t"}),
                "the user name has a control character",
            ),
            (
                serde_json::json!({"username": "a", "password": "s3\ncr3t"}),
                "the password has a control character",
            ),
            (
                provider("s3\ncr3t"),
                "auth-provider, id-token: the token has more than one line",
            ),
        ];
        for (given, expected) in table {
            let problem = prepare(&mut user(given)).await.unwrap_err();
            assert!(
                problem.starts_with(expected) && !problem.contains("s3"),
                "{problem}"
            );
        }
    }
}
