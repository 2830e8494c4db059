//! An AWS in the same process: a function answers, and every request is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_protocol::{Aws, Settings};
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use cloud_provider::{Environment, Result, Setup};
use parking_lot::Mutex;
use serde_json::json;

/// A request that arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The method and the whole URL.
    pub(crate) url: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) form: BTreeMap<String, String>,
}

impl Seen {
    /// Returns the access key that signed the request; empty without one.
    pub(crate) fn key(&self) -> &str {
        let signature = self.headers.get("authorization").map_or("", String::as_str);
        signature
            .split_once("Credential=")
            .and_then(|(_, rest)| rest.split('/').next())
            .unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub(crate) fn action(&self) -> &str {
        self.form.get("Action").map_or("", String::as_str)
    }
}

pub(crate) type Log = Arc<Mutex<Vec<Seen>>>;

/// Status, headers and body.
pub(crate) type Reply = (u16, Vec<(&'static str, String)>, String);

pub(crate) fn ok(body: impl Into<String>) -> Reply {
    (200, Vec::new(), body.into())
}

pub(crate) fn refusal(status: u16, code: &str) -> Reply {
    let message = "the words of the cloud";
    let body = format!(
        "<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors></Response>"
    );
    (status, Vec::new(), body)
}

/// Credentials of this name, as the services for machines and containers answer them; valid for so many seconds.
pub(crate) fn keys(name: &str, seconds: i64) -> String {
    let end = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
    let secret = format!("secret-of-{name}");
    let token = format!("token-of-{name}");
    json!({"Code": "Success", "AccessKeyId": name, "SecretAccessKey": secret, "Token": token, "Expiration": end.to_string()})
        .to_string()
}

/// The same, as STS answers them.
pub(crate) fn assumed(action: &str, name: &str) -> String {
    let end = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(3600);
    format!(
        "<{action}Response><{action}Result><Credentials><AccessKeyId>{name}</AccessKeyId>\
         <SecretAccessKey>secret-of-{name}</SecretAccessKey><SessionToken>token-of-{name}</SessionToken>\
         <Expiration>{end}</Expiration></Credentials></{action}Result></{action}Response>"
    )
}

pub(crate) const KEYS: [(&str, &str); 3] = [
    ("AWS_ACCESS_KEY_ID", "AKENV"),
    ("AWS_SECRET_ACCESS_KEY", "secret-of-env"),
    ("AWS_REGION", "eu-central-1"),
];

pub(crate) fn region() -> Settings {
    Settings {
        region: Some("eu-central-1".into()),
        ..Settings::default()
    }
}

pub(crate) fn aws(
    variables: &[(&str, &str)],
    settings: Settings,
    answer: impl Fn(&Seen, usize) -> Reply + Send + Sync + 'static,
) -> (Result<Aws>, Log) {
    let log = Log::default();
    let kept = Arc::clone(&log);
    let answer = Arc::new(answer);
    let service = tower_service(move |request| {
        let kept = Arc::clone(&kept);
        let answer = Arc::clone(&answer);
        async move {
            let seen = seen(request).await;
            let number = {
                let mut kept = kept.lock();
                kept.push(seen.clone());
                kept.len()
            };
            let (status, headers, body) = answer(&seen, number);
            if status == 0 {
                std::future::pending::<()>().await;
            }
            let response = Response::builder().status(status);
            let response = headers
                .into_iter()
                .fold(response, |response, (name, value)| {
                    response.header(name, value)
                });
            response.body(Body::from(body)).unwrap()
        }
    });
    let setup = Setup {
        environment: Environment::of(variables.iter().copied()),
        ..Setup::default()
    };
    (
        Aws::new(&setup, settings, move |http| http.service(service.clone())),
        log,
    )
}

fn tower_service<F, A>(answer: F) -> axum::Router
where
    F: Fn(Request) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Response> + Send + 'static,
{
    axum::Router::new().fallback(answer)
}

async fn seen(request: Request) -> Seen {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap();
    let pair = |pair: &str| {
        pair.split_once('=')
            .map(|(key, value)| (decoded(key), decoded(value)))
    };
    let form = std::str::from_utf8(&body)
        .unwrap()
        .split('&')
        .filter_map(pair)
        .collect();
    let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
    let headers = parts
        .headers
        .iter()
        .map(|(name, value)| (name.to_string(), text(value)))
        .collect();
    Seen {
        url: format!("{} {}", parts.method, parts.uri),
        headers,
        form,
    }
}

fn decoded(text: &str) -> String {
    let text = text.replace('+', " ");
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend(part[2..].bytes());
    }
    String::from_utf8(bytes).unwrap()
}
