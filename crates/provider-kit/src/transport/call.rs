//! One request to a cloud, and its answer.

use std::fmt::{self, Display, Write};

use bytes::Bytes;
use cloud_provider::{Error, Result, excerpt};
use http::{HeaderMap, Method, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_json::Value;

use super::Priority;
use super::inside::Inside;

/// A request: method, path made from a template, query, JSON body.
///
/// The template names the route in metrics; the path names the object in messages.
///
/// ```
/// use provider_kit::transport::Call;
///
/// let call = Call::get("/v1/machines/{id}", &["m 1"]).query("verbose", true);
/// assert_eq!(call.route(), "GET /v1/machines/{id}");
/// assert_eq!(call.uri(), "/v1/machines/m%201?verbose=true");
/// ```
#[derive(Clone)]
pub struct Call {
    pub(super) method: Method,
    template: &'static str,
    path: String,
    query: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) hidden: Vec<SecretString>,
    pub(super) body: Result<Option<Bytes>>,
    pub(super) idempotent: bool,
    pub(super) changes: bool,
    pub(super) priority: Priority,
    pub(super) field: Option<&'static str>,
    pub(super) is_list: bool,
}

impl Call {
    /// A call with any method. `parameters` fill the `{…}` of the template, in order.
    ///
    /// ```
    /// use provider_kit::transport::{Call, Method};
    ///
    /// assert_eq!(Call::new(Method::HEAD, "/v1/machines/{id}", &["7"]).route(), "HEAD /v1/machines/{id}");
    /// ```
    #[must_use]
    pub fn new(method: Method, template: &'static str, parameters: &[&str]) -> Self {
        let (idempotent, changes) = (method.is_idempotent(), !method.is_safe());
        let priority = if method == Method::DELETE { Priority::Urgent } else { Priority::Ordinary };
        let path = fill(template, parameters);
        let (query, headers, hidden) = Default::default();
        let (body, field, is_list) = (Ok(None), None, false);
        Self { method, template, path, query, headers, hidden, body, idempotent, changes, priority, field, is_list }
    }

    /// A GET. `parameters` fill the `{…}` of the template, in order.
    #[must_use]
    pub fn get(template: &'static str, parameters: &[&str]) -> Self {
        Self::new(Method::GET, template, parameters)
    }
    /// A POST. Not sent again after a lost answer, unless [`repeatable`](Self::repeatable).
    #[must_use]
    pub fn post(template: &'static str, parameters: &[&str]) -> Self {
        Self::new(Method::POST, template, parameters)
    }
    /// A PUT.
    #[must_use]
    pub fn put(template: &'static str, parameters: &[&str]) -> Self {
        Self::new(Method::PUT, template, parameters)
    }
    /// A PATCH. Not sent again after a lost answer, unless [`repeatable`](Self::repeatable).
    #[must_use]
    pub fn patch(template: &'static str, parameters: &[&str]) -> Self {
        Self::new(Method::PATCH, template, parameters)
    }
    /// A DELETE.
    #[must_use]
    pub fn delete(template: &'static str, parameters: &[&str]) -> Self {
        Self::new(Method::DELETE, template, parameters)
    }

    /// Adds a query parameter.
    #[must_use]
    pub fn query(mut self, key: &str, value: impl Display) -> Self {
        self.query.push(if self.query.is_empty() { '?' } else { '&' });
        self.query.push_str(&encode(key));
        self.query.push('=');
        self.query.push_str(&encode(&value.to_string()));
        self
    }

    /// Adds a header, such as `if-match`; its name in lower case. A value that no header can carry fails when the call is
    /// sent.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Display) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }

    /// Says that the body holds this, which must appear in no message and no log (INV-5), should the cloud repeat it, be it as
    /// JSON has it.
    #[must_use]
    pub fn hide(mut self, secret: SecretString) -> Self {
        let written = Value::from(secret.expose_secret()).to_string();
        self.hidden.extend([SecretString::from(&written[1..written.len() - 1]), secret]);
        self
    }

    /// Sets the body. A value that cannot be JSON fails when the call is sent.
    #[must_use]
    pub fn json(mut self, body: &impl Serialize) -> Self {
        self.body = serde_json::to_vec(body)
            .map(|bytes| Some(bytes.into()))
            .map_err(|err| Error::other(format!("{}: the request cannot be written as JSON: {err}", self.route())));
        self
    }

    /// Sets the body to a form, as OAuth token services expect it.
    #[must_use]
    pub fn form(mut self, fields: &[(&str, &str)]) -> Self {
        let fields: Vec<_> = fields.iter().map(|(key, value)| format!("{}={}", encode(key), encode(value))).collect();
        self.body = Ok(Some(fields.join("&").into()));
        self.header("content-type", "application/x-www-form-urlencoded")
    }

    /// Says that sending this again does no harm (an action that sets a state, a create with an idempotency key), so that
    /// it is retried like a GET.
    #[must_use]
    pub fn repeatable(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Says that this changes nothing though it is no GET, as in APIs that ask everything by POST, or where a token is
    /// fetched: it is repeated like a GET, and passes a closed fence.
    #[must_use]
    pub fn reading(mut self) -> Self {
        (self.idempotent, self.changes) = (true, false);
        self
    }

    /// Says that what is asked for is the answer's field of this name: `server` of `{"server": {…}}`.
    #[must_use]
    pub fn inside(mut self, field: &'static str) -> Self {
        self.field = Some(field);
        self
    }

    /// Says that the answer is a list, or holds one: 16 MiB of it are read, and of any other answer 1 MiB. A longer one is an
    /// error.
    #[must_use]
    pub fn list(mut self) -> Self {
        self.is_list = true;
        self
    }

    /// How urgent it is.
    #[must_use]
    pub fn urgency(&self) -> Priority {
        self.priority
    }

    /// Makes it so urgent; a DELETE is [`Urgent`](Priority::Urgent), everything else [`Ordinary`](Priority::Ordinary).
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Method and template, for metrics: few distinct values.
    #[must_use]
    pub fn route(&self) -> String {
        format!("{} {}", self.method, self.template)
    }

    /// Method and path, for messages. Without the query, which may be long.
    pub(super) fn place(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// Path and query.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("{}{}", self.path, self.query)
    }
}

fn fill(template: &str, parameters: &[&str]) -> String {
    debug_assert_eq!(template.matches('{').count(), parameters.len(), "parameters of {template}");
    let mut parameters = parameters.iter();
    let mut path = String::with_capacity(template.len() + 16);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        path.push_str(before);
        path.push_str(&encode(parameters.next().copied().unwrap_or_default()));
        rest = after.split_once('}').map_or("", |(_, rest)| rest);
    }
    path + rest
}

/// Percent-encoding of everything but RFC 3986's unreserved characters.
fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Without what it says: headers and body may hold a secret (INV-5).
impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({} {})", self.method, self.uri())
    }
}

/// A successful answer. Its `Debug` does not show headers and body: they may hold a secret.
#[derive(Clone)]
pub struct Answer {
    pub(super) place: String,
    pub(super) field: Option<&'static str>,
    /// The status: 2xx, or 300.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    /// The body as JSON, or its field that was [asked for](Call::inside).
    ///
    /// # Errors
    /// *Other*, naming the route, if it is something else: a proxy's page, a changed API.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        let mut json = serde_json::Deserializer::from_slice(&self.body);
        let read = match self.field {
            None => T::deserialize(&mut json),
            Some(field) => Inside::of(field).deserialize(&mut json),
        };
        read.and_then(|value| json.end().map(|()| value)).map_err(|err| self.unexpected(&err))
    }

    pub(crate) fn unexpected(&self, err: &dyn Display) -> Error {
        let err = excerpt(err.to_string());
        Error::other(format!("{} answered {} with an unexpected body: {err}", self.place, self.status.as_u16()))
    }

    #[cfg(test)]
    pub(crate) fn of(body: impl Into<Bytes>) -> Self {
        let (place, status, headers) = ("GET /".to_owned(), StatusCode::OK, HeaderMap::new());
        Self { place, field: None, status, headers, body: body.into() }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Answer({} to {})", self.status.as_u16(), self.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_neither_headers_nor_bodies() {
        let call =
            Call::post("/tokens", &[]).json(&"s3cret").header("x-key", "s3cret").hide("s3cret".to_owned().into());
        let shown = format!("{call:?} {:?}", Answer::of("s3cret"));
        assert_eq!(shown, "Call(POST /tokens) Answer(200 to GET /)");
    }

    #[test]
    fn what_is_inside_a_field_is_read_without_what_is_around_it() {
        let answer = |body: &'static str| Answer { field: Some("server"), ..Answer::of(body) };
        assert_eq!(answer(r#"{"meta": {"server": 1}, "server": [7], "x": 0}"#).json::<Vec<u8>>().unwrap(), [7]);
        for (body, said) in [
            (r#"{"servers": [7]}"#, "missing field `server`"),
            (r#"{"server": "x"}"#, "invalid type"),
            (r#"{"server": [7]} {}"#, "trailing characters"),
            ("[7]", "expected an object with \"server\""),
        ] {
            let error = answer(body).json::<Vec<u8>>().unwrap_err().to_string();
            assert!(error.starts_with("GET / answered 200 with an unexpected body") && error.contains(said), "{error}");
        }
    }

    #[test]
    fn form_is_encoded_and_says_its_type() {
        let call = Call::post("/token", &[]).form(&[("grant_type", "urn:x"), ("assertion", "a b")]);
        assert_eq!(call.body.unwrap().unwrap(), "grant_type=urn%3Ax&assertion=a%20b");
        assert_eq!(call.headers, [("content-type", "application/x-www-form-urlencoded".to_owned())]);
    }

    #[test]
    fn a_parameter_cannot_leave_its_place_in_the_path() {
        let call = Call::delete("/v1/{kind}/{id}/x", &["lb", "../tokens?a=b#c"]);
        assert_eq!(call.uri(), "/v1/lb/..%2Ftokens%3Fa%3Db%23c/x");
    }

    #[test]
    fn only_calls_that_may_be_repeated_are_idempotent() {
        assert!(Call::get("/", &[]).idempotent && Call::put("/", &[]).idempotent && Call::delete("/", &[]).idempotent);
        for call in [Call::post("/", &[]), Call::patch("/", &[])] {
            assert!(!call.idempotent && call.changes && call.repeatable().idempotent);
        }
    }
}
