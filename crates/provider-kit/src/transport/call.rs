//! Requests to a cloud, and their answers.

use std::fmt::{self, Display};
use std::marker::PhantomData;

use bytes::Bytes;
use cloud_provider::{Error, Result, excerpt};
use http::{HeaderMap, Method, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_json::Value;

use super::failure::RateLimitReport;
use super::inside::Inside;
use super::{Format, Json, Priority};

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
    is_form: bool,
    /// Name of the operation, for APIs whose requests have one path.
    operation: Option<String>,
}

impl Call {
    /// Returns a call with any method. `parameters` fill the `{…}` of the template, in order.
    ///
    /// ```
    /// use provider_kit::transport::{Call, Method};
    ///
    /// assert_eq!(Call::new(Method::HEAD, "/v1/machines/{id}", &["7"]).route(), "HEAD /v1/machines/{id}");
    /// ```
    #[must_use]
    pub fn new(method: Method, template: &'static str, parameters: &[&str]) -> Self {
        let idempotent = method.is_idempotent();
        let changes = !method.is_safe();
        let priority = if method == Method::DELETE {
            Priority::Urgent
        } else {
            Priority::Ordinary
        };
        let path = fill(template, parameters);
        let (query, headers, hidden) = Default::default();
        let body = Ok(None);
        let field = None;
        let operation = None;
        let is_list = false;
        let is_form = false;
        Self {
            method,
            template,
            path,
            query,
            headers,
            hidden,
            body,
            idempotent,
            changes,
            priority,
            field,
            is_list,
            is_form,
            operation,
        }
    }

    /// Returns a GET. `parameters` fill the `{…}` of the template, in order.
    #[must_use]
    pub fn get(template: &'static str, parameters: &[&str]) -> Self {
        Self::new(Method::GET, template, parameters)
    }
    /// Returns a POST. Not sent again after a lost answer, unless [`repeatable`](Self::repeatable).
    #[must_use]
    pub fn post(template: &'static str, parameters: &[&str]) -> Self {
        Self::new(Method::POST, template, parameters)
    }
    /// Returns a PUT request.
    #[must_use]
    pub fn put(template: &'static str, parameters: &[&str]) -> Self {
        Self::new(Method::PUT, template, parameters)
    }
    /// Returns a PATCH. Not sent again after a lost answer, unless [`repeatable`](Self::repeatable).
    #[must_use]
    pub fn patch(template: &'static str, parameters: &[&str]) -> Self {
        Self::new(Method::PATCH, template, parameters)
    }
    /// Returns a DELETE request.
    #[must_use]
    pub fn delete(template: &'static str, parameters: &[&str]) -> Self {
        Self::new(Method::DELETE, template, parameters)
    }

    /// Adds a query parameter.
    #[must_use]
    pub fn query(mut self, key: &str, value: impl Display) -> Self {
        self.query
            .push(if self.query.is_empty() { '?' } else { '&' });
        self.query.extend(utf8_percent_encode(key, RESERVED));
        self.query.push('=');
        self.query
            .extend(utf8_percent_encode(&value.to_string(), RESERVED));
        self
    }

    /// Adds a header, such as `if-match`; its name is in lower case. A value that is not valid in a header fails when
    /// the call is sent.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Display) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }

    /// Declares a secret in the body, which is removed from messages and logs (INV-5) if the cloud repeats it, plain or
    /// JSON-escaped.
    #[must_use]
    pub fn hide(mut self, secret: SecretString) -> Self {
        let written = Value::from(secret.expose_secret()).to_string();
        self.hidden
            .extend([SecretString::from(&written[1..written.len() - 1]), secret]);
        self
    }

    /// Sets the body. A value that does not serialize to JSON fails when the call is sent.
    #[must_use]
    pub fn json(mut self, body: &impl Serialize) -> Self {
        self.body = serde_json::to_vec(body)
            .map(|bytes| Some(bytes.into()))
            .map_err(|err| {
                Error::other(format!(
                    "{}: the request cannot be written as JSON: {err}",
                    self.route()
                ))
            });
        self
    }

    /// Sends the parameters of the [query](Self::query) in the body instead of the URL, as HTML forms do.
    ///
    /// ```
    /// use provider_kit::transport::Call;
    ///
    /// let call = Call::post("/", &[]).form().operation("ec2 DescribeVpcs").query("Action", "DescribeVpcs");
    /// assert_eq!((&*call.uri(), &*call.route()), ("/", "ec2 DescribeVpcs"));
    /// ```
    #[must_use]
    pub fn form(mut self) -> Self {
        self.is_form = true;
        self
    }

    /// Adds query parameters for a nested value, as many APIs with forms do: `Key.Field=…` for a map, `Key.1=…` for a list, whose
    /// items may have a prefix such as `member.`; nothing for null.
    ///
    /// ```
    /// use provider_kit::transport::Call;
    /// use serde_json::json;
    ///
    /// let call = Call::get("/", &[]).nested("Tags", &json!([{"Key": "a"}, {"Key": null}]), "member.");
    /// assert_eq!(call.uri(), "/?Tags.member.1.Key=a");
    /// ```
    #[must_use]
    pub fn nested(self, key: &str, value: &Value, item: &str) -> Self {
        match value {
            Value::Null => self,
            Value::String(text) => self.query(key, text),
            Value::Bool(_) | Value::Number(_) => self.query(key, value),
            Value::Array(items) => (1..).zip(items).fold(self, |call, (number, value)| {
                call.nested(&format!("{key}.{item}{number}"), value, item)
            }),
            Value::Object(fields) => fields.iter().fold(self, |call, (name, value)| {
                call.nested(&format!("{key}.{name}"), value, item)
            }),
        }
    }

    /// Names the operation, for metrics and messages: APIs that send everything to one path tell them apart by a parameter.
    #[must_use]
    pub fn operation(mut self, name: impl Into<String>) -> Self {
        self.operation = Some(name.into());
        self
    }

    /// Marks the call as safe to repeat (an action that sets a state, a creation with an idempotency key), so that it
    /// is retried like a GET.
    #[must_use]
    pub fn repeatable(mut self) -> Self {
        self.idempotent = true;
        self
    }

    /// Marks a call that changes nothing although it is not a GET, as in APIs that use POST for reads, or where a token
    /// is fetched: it is retried like a GET, and passes a closed fence.
    #[must_use]
    pub fn reading(mut self) -> Self {
        (self.idempotent, self.changes) = (true, false);
        self
    }

    /// Selects a field of the answer: `server` of `{"server": {…}}`.
    #[must_use]
    pub fn inside(mut self, field: &'static str) -> Self {
        self.field = Some(field);
        self
    }

    /// Marks the answer as a list, or as an object that holds one: up to 16 MiB of it are read, and of any other answer
    /// 1 MiB. A longer answer is an error.
    #[must_use]
    pub fn list(mut self) -> Self {
        self.is_list = true;
        self
    }

    /// Returns the priority of the call.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// Sets the priority. By default, a DELETE is [`Urgent`](Priority::Urgent), and every other call
    /// [`Ordinary`](Priority::Ordinary).
    #[must_use]
    pub fn with_priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Returns method and template, for metrics: few distinct values.
    #[must_use]
    pub fn route(&self) -> String {
        self.operation
            .clone()
            .unwrap_or_else(|| format!("{} {}", self.method, self.template))
    }

    /// Returns method and path, for messages, without the query, which may be long.
    pub(super) fn place(&self) -> String {
        self.operation
            .clone()
            .unwrap_or_else(|| format!("{} {}", self.method, self.path))
    }

    /// Returns path and query.
    #[must_use]
    pub fn uri(&self) -> String {
        if self.is_form {
            self.path.clone()
        } else {
            format!("{}{}", self.path, self.query)
        }
    }

    /// Returns the body and its type.
    pub(super) fn content(&self) -> Result<Option<(Bytes, &'static str)>> {
        if self.is_form {
            // In a form, unlike a URL, a space is a plus.
            let form = self
                .query
                .strip_prefix('?')
                .unwrap_or_default()
                .replace("%20", "+");
            return Ok(Some((
                form.into(),
                "application/x-www-form-urlencoded; charset=utf-8",
            )));
        }
        Ok(self.body.clone()?.map(|body| (body, "application/json")))
    }
}

fn fill(template: &str, parameters: &[&str]) -> String {
    debug_assert_eq!(
        template.matches('{').count(),
        parameters.len(),
        "parameters of {template}"
    );
    let mut parameters = parameters.iter();
    let mut path = String::with_capacity(template.len() + 16);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        path.push_str(before);
        path.extend(utf8_percent_encode(
            parameters.next().copied().unwrap_or_default(),
            RESERVED,
        ));
        rest = after.split_once('}').map_or("", |(_, rest)| rest);
    }
    path + rest
}

/// Characters that are percent-encoded: all but RFC 3986's unreserved ones.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Shows only method and URI: headers and body may hold a secret (INV-5).
impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({} {})", self.method, self.uri())
    }
}

/// A successful answer. Its `Debug` does not show headers and body, which may hold a secret.
#[derive(Clone)]
pub struct Answer {
    pub(super) place: String,
    pub(super) field: Option<&'static str>,
    /// HTTP status: 2xx, or 300.
    pub status: StatusCode,
    /// Headers of the answer.
    pub headers: HeaderMap,
    /// Body of the answer.
    pub body: Bytes,
    pub(super) report: RateLimitReport,
}

impl Answer {
    /// Deserializes the body from JSON, or the field that was [selected](Call::inside).
    ///
    /// # Errors
    /// *Other*, naming the route, if the body has another form: a proxy's page, a changed API.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        self.read_as::<Json, T>()
    }

    /// Deserializes the body, or the field that was [selected](Call::inside), from another format.
    ///
    /// # Errors
    /// *Other*, naming the route, if the body has another form.
    pub fn read_as<F: Format, T: DeserializeOwned>(&self) -> Result<T> {
        match self.field {
            None => self.decoded::<F, _>(PhantomData),
            Some(field) => self.decoded::<F, _>(Inside::of(field)),
        }
    }

    pub(crate) fn decoded<'a, F: Format, S: DeserializeSeed<'a>>(
        &'a self,
        seed: S,
    ) -> Result<S::Value> {
        F::read(&self.body, seed).map_err(|err| self.unexpected(&err))
    }

    pub(crate) fn unexpected(&self, err: &dyn Display) -> Error {
        let err = excerpt(err.to_string());
        Error::other(format!(
            "{} answered {} with an unexpected body: {err}",
            self.place,
            self.status.as_u16()
        ))
    }

    #[cfg(test)]
    pub(crate) fn of(body: impl Into<Bytes>) -> Self {
        let place = "GET /".to_owned();
        let status = StatusCode::OK;
        let headers = HeaderMap::new();
        Self {
            place,
            field: None,
            status,
            headers,
            body: body.into(),
            report: RateLimitReport::default(),
        }
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
        let call = Call::post("/tokens", &[])
            .json(&"s3cret")
            .header("x-key", "s3cret")
            .hide("s3cret".to_owned().into());
        let shown = format!("{call:?} {:?}", Answer::of("s3cret"));
        assert_eq!(shown, "Call(POST /tokens) Answer(200 to GET /)");
    }

    #[test]
    fn selected_field_is_read_without_its_siblings() {
        let answer = |body: &'static str| Answer {
            field: Some("server"),
            ..Answer::of(body)
        };
        assert_eq!(
            answer(r#"{"meta": {"server": 1}, "server": [7], "x": 0}"#)
                .json::<Vec<u8>>()
                .unwrap(),
            [7]
        );
        for (body, said) in [
            (r#"{"servers": [7]}"#, "missing field `server`"),
            (r#"{"server": "x"}"#, "invalid type"),
            (r#"{"server": [7]} {}"#, "trailing characters"),
            ("[7]", "expected an object with \"server\""),
        ] {
            let error = answer(body).json::<Vec<u8>>().unwrap_err().to_string();
            assert!(
                error.starts_with("GET / answered 200 with an unexpected body")
                    && error.contains(said),
                "{error}"
            );
        }
    }

    #[test]
    fn a_parameter_cannot_leave_its_place_in_the_path() {
        let call = Call::delete("/v1/{kind}/{id}/x", &["lb", "../tokens?a=b#c"]);
        assert_eq!(call.uri(), "/v1/lb/..%2Ftokens%3Fa%3Db%23c/x");
    }

    #[test]
    fn only_calls_that_may_be_repeated_are_idempotent() {
        assert!(
            Call::get("/", &[]).idempotent
                && Call::put("/", &[]).idempotent
                && Call::delete("/", &[]).idempotent
        );
        for call in [Call::post("/", &[]), Call::patch("/", &[])] {
            assert!(!call.idempotent && call.changes && call.repeatable().idempotent);
        }
    }
}
