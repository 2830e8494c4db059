//! Errors about credentials, without the credentials (INV-5).
//!
//! An exec plugin's error shows its environment, its arguments and all that it wrote. None of that may reach a log.

use std::process::Output;

use kube::client::AuthError;
use serde_saphyr::Location;

/// Maximum number of characters that are kept of a plugin's standard error.
const LONGEST: usize = 300;

/// Returns the error without content that may be secret.
#[must_use]
pub fn redact(error: kube::Error) -> kube::Error {
    match error {
        kube::Error::Auth(error) => kube::Error::Auth(of_credential(error)),
        // Their text has the URL with user and password.
        kube::Error::ProxyProtocolUnsupported { .. }
        | kube::Error::ProxyProtocolDisabled { .. } => kube::Error::Service(
            "the URL of the proxy has a scheme that is not supported: write http:// or https://"
                .into(),
        ),
        // The error is wrapped as by the layers below.
        kube::Error::Service(error) => match error.downcast::<AuthError>() {
            Ok(error) => kube::Error::Auth(of_credential(*error)),
            Err(error) => match error.downcast::<kube::Error>() {
                Ok(error) => redact(*error),
                Err(error) => kube::Error::Service(error),
            },
        },
        error => error,
    }
}

fn of_credential(error: AuthError) -> AuthError {
    match error {
        AuthError::AuthExecRun { out, .. } => AuthError::AuthExec(ended(&out)),
        AuthError::AuthExecParse(error) => AuthError::AuthExec(format!(
            "the plugin's answer is no ExecCredential{}",
            location_text(error.location())
        )),
        // The error may quote the content that could not be read.
        AuthError::ParseTokenKey(_) => AuthError::AuthExec("the token cannot be read".to_owned()),
        error => error,
    }
}

fn ended(out: &Output) -> String {
    let stderr = String::from_utf8_lossy(&out.stderr);
    let stderr = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    let colon = if stderr.is_empty() { "" } else { ": " };
    let stderr: String = stderr.chars().take(LONGEST).collect();
    format!("the plugin ended with {}{colon}{stderr}", out.status)
}

fn location_text(location: Option<Location>) -> String {
    location
        .map(|at| format!(" in line {}, column {}", at.line(), at.column()))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::config::{AuthInfo, ExecConfig};

    /// Returns the error of a client whose plugin is this script.
    fn failing(script: &str) -> kube::Error {
        let exec: ExecConfig = serde_json::from_value(serde_json::json!({
            "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "interactiveMode": "Never",
            "args": ["-c", script, "s3cr3t-argument"], "env": [{"name": "KEY", "value": "s3cr3t"}],
        }))
        .unwrap();
        let mut config = kube::Config::new(http::Uri::from_static("http://127.0.0.1:1"));
        config.auth_info = AuthInfo {
            exec: Some(exec),
            ..AuthInfo::default()
        };
        match kube::client::ClientBuilder::try_from(config) {
            Ok(_) => panic!("{script} is a good plugin"),
            Err(error) => error,
        }
    }

    #[tokio::test]
    async fn error_of_a_failed_exec_plugin_has_only_its_status_and_stderr() {
        let table = [
            (
                "echo s3cr3t-token; echo 'please\n log in' >&2; exit 3",
                "the plugin ended with exit status: 3: please log in",
            ),
            ("exit 1", "the plugin ended with exit status: 1"),
            (
                "echo '{status: {token: [s3cr3t}'",
                "the plugin's answer is no ExecCredential in line 1",
            ),
        ];
        for (script, expected) in table {
            // Told at once, and as it comes through the layers of a client.
            let wrapped = match failing(script) {
                kube::Error::Auth(error) => kube::Error::Service(Box::new(error)),
                error => panic!("{error}"),
            };
            for error in [
                failing(script),
                wrapped,
                kube::Error::Service(Box::new(failing(script))),
            ] {
                assert!(
                    error.to_string().contains("s3cr3t") || script == "exit 1",
                    "the test is of use: {error}"
                );
                let error = redact(error);
                let stderr = format!("{} {error:?}", crate::api_error::api_error(&error));
                assert!(
                    stderr.contains(expected) && !stderr.contains("s3cr3t"),
                    "{stderr}"
                );
            }
        }
    }
}
