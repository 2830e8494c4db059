//! AWS Signature Version 4, which clouds with a compatible API use as well.

use bytes::Bytes;
use cloud_provider::{Error, Result, async_trait};
use http::header::{AUTHORIZATION, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use secrecy::{ExposeSecret, SecretString};

use super::Signer;
use super::canonical::{canonical_headers, canonical_query, hex, hmac_sha256, sha256_hex};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const FORMAT: &str = "%Y%m%dT%H%M%SZ";
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const SESSION_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// Headers that a proxy may change on the way, and which are therefore not signed.
const UNSIGNED: [&str; 4] = ["authorization", "user-agent", "accept", "x-amzn-trace-id"];

/// An access key, its secret and, for temporary credentials, a session token. `Debug` shows the access key alone.
#[derive(Clone)]
pub struct AwsCredentials {
    /// The access key ID, which appears in requests and in the cloud's audit log.
    pub access_key: String,
    /// The secret access key.
    pub secret_key: SecretString,
    /// The session token of temporary credentials.
    pub session_token: Option<SecretString>,
}

impl AwsCredentials {
    /// Returns `true` if a request with these headers was signed with these credentials.
    #[must_use]
    pub fn have_signed(&self, request: &HeaderMap) -> bool {
        let text = |name| request.get(name).map_or(&b""[..], HeaderValue::as_bytes);
        let token = self
            .session_token
            .as_ref()
            .map_or("", |token| token.expose_secret());
        let credential = format!("{ALGORITHM} Credential={}/", self.access_key);
        text(AUTHORIZATION).starts_with(credential.as_bytes())
            && text(SESSION_TOKEN) == token.as_bytes()
    }

    /// Returns `text` with the secrets replaced.
    #[must_use]
    pub fn redact(&self, text: String) -> String {
        let secrets = [Some(&self.secret_key), self.session_token.as_ref()]
            .into_iter()
            .flatten();
        let secrets = secrets
            .map(ExposeSecret::expose_secret)
            .filter(|secret| !secret.is_empty());
        secrets.fold(text, |text, secret| text.replace(secret, "[redacted]"))
    }
}

impl std::fmt::Debug for AwsCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AwsCredentials({}, redacted)", self.access_key)
    }
}

/// Signs requests to one service in one region.
#[derive(Clone, Debug)]
pub struct SigV4 {
    /// The credentials to sign with.
    pub credentials: AwsCredentials,
    /// The region that the endpoint signs for, such as `eu-central-1`.
    pub region: String,
    /// The service's signing name, such as `ec2` or `elasticloadbalancing`.
    pub service: String,
}

impl SigV4 {
    /// Adds date, session token and signature to a request that has no signature yet.
    ///
    /// # Errors
    /// *Invalid* if the request has no host, or a credential that no HTTP header can carry.
    pub fn sign_at(&self, request: &mut Request<Bytes>, now: Timestamp) -> Result<()> {
        let date = now.to_zoned(TimeZone::UTC).strftime(FORMAT).to_string();
        let host = request
            .uri()
            .authority()
            .map(|authority| authority.as_str().to_owned());
        let host =
            host.ok_or_else(|| Error::invalid("a request without a host cannot be signed"))?;
        let headers = request.headers_mut();
        headers.insert(HOST, header_value(&host)?);
        headers.insert(DATE, header_value(&date)?);
        if let Some(token) = &self.credentials.session_token {
            headers.insert(SESSION_TOKEN, secret_header(token.expose_secret())?);
        }
        let (canonical, signed_headers) = canonical_request(request);
        let scope = format!(
            "{}/{}/{}/aws4_request",
            &date[..8],
            self.region,
            self.service
        );
        let signature = self.signature(&date, &scope, &canonical);
        let access_key = &self.credentials.access_key;
        let authorization = format!(
            "{ALGORITHM} Credential={access_key}/{scope}, SignedHeaders={signed_headers}, Signature={signature}"
        );
        request
            .headers_mut()
            .insert(AUTHORIZATION, secret_header(&authorization)?);
        Ok(())
    }

    /// Returns the time at which a request with these headers was signed.
    #[must_use]
    pub fn signed_at(request: &HeaderMap) -> Option<Timestamp> {
        let date = DateTime::strptime(FORMAT, request.get(DATE)?.to_str().ok()?).ok()?;
        date.to_zoned(TimeZone::UTC)
            .ok()
            .map(|date| date.timestamp())
    }

    fn signature(&self, date: &str, scope: &str, canonical: &str) -> String {
        let to_sign = format!(
            "{ALGORITHM}\n{date}\n{scope}\n{}",
            sha256_hex(canonical.as_bytes())
        );
        let secret = format!("AWS4{}", self.credentials.secret_key.expose_secret());
        let key = [&date[..8], &self.region, &self.service, "aws4_request"]
            .iter()
            .fold(secret.into_bytes(), |key, part| {
                hmac_sha256(&key, part.as_bytes()).to_vec()
            });
        hex(&hmac_sha256(&key, to_sign.as_bytes()))
    }
}

#[async_trait]
impl Signer for SigV4 {
    async fn sign(&self, request: &mut Request<Bytes>, now: Timestamp) -> Result<()> {
        self.sign_at(request, now)
    }

    fn redact(&self, text: String) -> String {
        self.credentials.redact(text)
    }
}

/// Returns the request in canonical form, and the names of the headers that it covers.
fn canonical_request(request: &Request<Bytes>) -> (String, String) {
    let (headers, names) = canonical_headers(request.headers(), |name| !UNSIGNED.contains(&name));
    let path = match request.uri().path() {
        "" => "/",
        path => path,
    };
    let query = canonical_query(request.uri().query().unwrap_or_default());
    let body = sha256_hex(request.body());
    (
        format!(
            "{}\n{path}\n{query}\n{headers}\n{names}\n{body}",
            request.method()
        ),
        names,
    )
}

fn header_value(text: &str) -> Result<HeaderValue> {
    HeaderValue::try_from(text)
        .map_err(|_| Error::invalid("a credential has characters that no HTTP header can carry"))
}

fn secret_header(text: &str) -> Result<HeaderValue> {
    let mut value = header_value(text)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    /// The credentials of the examples that AWS publishes.
    fn signer(service: &str) -> SigV4 {
        SigV4 {
            credentials: AwsCredentials {
                access_key: "AKIDEXAMPLE".into(),
                secret_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
                session_token: None,
            },
            region: "us-east-1".into(),
            service: service.into(),
        }
    }

    fn now() -> Timestamp {
        "2015-08-30T12:36:00Z".parse().unwrap()
    }

    fn request(
        method: Method,
        uri: &str,
        headers: &[(&str, &str)],
        body: &'static str,
    ) -> Request<Bytes> {
        let builder = Request::builder().method(method).uri(uri);
        let builder = headers.iter().fold(builder, |builder, (name, value)| {
            builder.header(*name, *value)
        });
        builder.body(Bytes::from_static(body.as_bytes())).unwrap()
    }

    fn authorization(request: &Request<Bytes>) -> &str {
        request.headers()[AUTHORIZATION].to_str().unwrap()
    }

    /// The signatures are those of the AWS documentation and of its published test suite.
    #[test]
    fn published_examples_get_their_published_signatures() {
        const FORM: &str = "application/x-www-form-urlencoded";
        const FORM_UTF8: &str = "application/x-www-form-urlencoded; charset=utf-8";
        type Row = (&'static str, Request<Bytes>, &'static str, &'static str);
        let table: [Row; 4] = [
            (
                "iam",
                request(
                    Method::GET,
                    "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08",
                    &[("content-type", FORM_UTF8)],
                    "",
                ),
                "content-type;host;x-amz-date",
                "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7",
            ),
            (
                "service",
                request(Method::GET, "https://example.amazonaws.com/", &[], ""),
                "host;x-amz-date",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "service",
                request(
                    Method::GET,
                    "https://example.amazonaws.com/?Param2=value2&Param1=value1",
                    &[],
                    "",
                ),
                "host;x-amz-date",
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
            (
                "service",
                request(
                    Method::POST,
                    "https://example.amazonaws.com/",
                    &[("content-type", FORM)],
                    "Param1=value1",
                ),
                "content-type;host;x-amz-date",
                "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
            ),
        ];
        for (service, mut request, headers, signature) in table {
            signer(service).sign_at(&mut request, now()).unwrap();
            let expected = format!(
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/{service}/aws4_request, \
                 SignedHeaders={headers}, Signature={signature}"
            );
            assert_eq!(
                authorization(&request),
                expected,
                "{} {}",
                request.method(),
                request.uri()
            );
        }
    }

    #[test]
    fn a_session_token_is_sent_signed_and_shown_nowhere() {
        let mut signer = signer("ec2");
        signer.credentials.session_token = Some("session/token".into());
        let mut request = request(
            Method::POST,
            "https://ec2.us-east-1.amazonaws.com/",
            &[],
            "Action=X",
        );
        signer.sign_at(&mut request, now()).unwrap();
        assert_eq!(request.headers()[SESSION_TOKEN], "session/token");
        assert!(
            authorization(&request).contains("SignedHeaders=host;x-amz-date;x-amz-security-token")
        );
        assert!(signer.credentials.have_signed(request.headers()));
        assert_eq!(SigV4::signed_at(request.headers()), Some(now()));
        let other = AwsCredentials {
            session_token: Some("other/token".into()),
            ..signer.credentials.clone()
        };
        assert!(!other.have_signed(request.headers()));
        let shown = format!("{signer:?} {:?}", request.headers());
        assert!(
            !shown.contains("session/token")
                && !shown.contains("wJalr")
                && !shown.contains("Signature"),
            "{shown}"
        );
        let empty = AwsCredentials {
            session_token: Some("".into()),
            ..signer.credentials.clone()
        };
        assert_eq!(
            SigV4 {
                credentials: empty,
                ..signer.clone()
            }
            .redact("as it was".into()),
            "as it was"
        );
        let refusal = signer
            .redact("no key wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY, no session/token".into());
        assert_eq!(refusal, "no key [redacted], no [redacted]");
    }

    #[test]
    fn a_request_without_a_host_is_refused_before_it_is_signed() {
        let mut request = request(Method::GET, "/", &[], "");
        let err = signer("ec2").sign_at(&mut request, now()).unwrap_err();
        assert!(
            err.is_invalid() && request.headers().get(AUTHORIZATION).is_none(),
            "{err}"
        );
    }
}
