//! Request handlers, one file for each verb.

mod create;
mod decoding;
mod delete;
mod get;
mod list;
mod patch;
pub(crate) mod review;
mod update;
mod watch;
mod write;

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Method, Response};

use crate::negotiate::{Form, Include, View, respond};
use crate::request::{Request, Target, Verb};
use crate::requests::LoggedRequest;
use crate::resources::{GROUPS, Resource, Verbs};
use crate::server::{Inner, User};
use crate::status::ApiError;
use crate::store::Stored;
use crate::{discovery, openapi, validation};

/// A request for a resource, with everything its handler needs.
pub(crate) struct Call<'a> {
    pub(crate) inner: &'a Arc<Inner>,
    pub(crate) request: &'a Request,
    pub(crate) target: &'a Target,
    pub(crate) body: &'a Bytes,
    pub(crate) form: Form,
    pub(crate) user: &'a User,
}

impl Call<'_> {
    pub(crate) fn resource(&self) -> &'static Resource {
        self.target.resource
    }

    /// Returns the resource under which the objects are stored.
    pub(crate) fn storage(&self) -> &'static str {
        self.resource().storage().plural
    }

    pub(crate) fn subresource(&self) -> &str {
        self.target.subresource.as_deref().unwrap_or_default()
    }

    pub(crate) fn view(&self) -> View {
        View {
            resource: self.resource(),
            form: self.form,
            include: Include::of(self.request.options.get("includeObject")),
            now: self.inner.now().as_second(),
        }
    }

    /// Returns the object that the path names, or 404.
    pub(crate) fn existing(&self) -> Result<Arc<Stored>, ApiError> {
        self.inner
            .store
            .get(self.storage(), &self.target.key())
            .ok_or_else(|| ApiError::not_found(self.resource(), self.target.name()))
    }

    /// Returns the answer with one object and the warnings for the client.
    pub(crate) fn answer(&self, code: u16, stored: &Stored, warnings: &[String]) -> Response<Body> {
        let mut response = respond(self.form, code, self.view().object(stored, true));
        let is_write = matches!(self.request.verb, Verb::Create | Verb::Update | Verb::Patch);
        let own_warnings = if is_write {
            validation::warnings(
                self.resource(),
                self.subresource(),
                &self.view().value(stored),
            )
        } else {
            Vec::new()
        };
        for warning in warnings.iter().chain(&own_warnings) {
            let text = format!(
                "299 - \"{}\"",
                warning.replace('\\', "\\\\").replace('"', "\\\"")
            );
            if let Ok(value) = HeaderValue::from_str(&text) {
                response.headers_mut().append(http::header::WARNING, value);
            }
        }
        response
    }
}

/// Answers a path without a handler: below a known group like the API, any other like the mux before it.
fn unknown_path(path: &str) -> Result<Response<Body>, ApiError> {
    let known = path.starts_with("/api/")
        || GROUPS.iter().any(|(group, _)| {
            path.strip_prefix("/apis/")
                .is_some_and(|p| p.starts_with(&format!("{group}/")))
        });
    if known {
        return Err(ApiError::unknown_path());
    }
    let mut response = Response::new(Body::from("404 page not found\n"));
    *response.status_mut() = http::StatusCode::NOT_FOUND;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, text);
    Ok(response)
}

/// Calls the handler of a request.
pub(crate) async fn dispatch(
    inner: &Arc<Inner>,
    request: &Request,
    method: &Method,
    body: Bytes,
    entry: &LoggedRequest,
    user: &User,
) -> Result<Response<Body>, ApiError> {
    let Some(target) = &request.target else {
        if let Some(response) = discovery::answer(inner, request, method) {
            return response;
        }
        return openapi::answer(inner, request).unwrap_or_else(|| unknown_path(&request.path));
    };
    if !is_allowed(request.verb, target) {
        return Err(ApiError::method_not_allowed());
    }
    let form = Form::of(&request.headers)?;
    check_include(request, form)?;
    let call = Call {
        inner,
        request,
        target,
        body: &body,
        form,
        user,
    };
    let response = match request.verb {
        Verb::Get => get::get(&call),
        Verb::List => list::list(&call),
        Verb::Watch => watch::watch(&call, entry).await,
        Verb::Create if target.subresource.as_deref() == Some("token") => {
            review::token_request(&call)
        }
        Verb::Create if target.resource.verbs == Verbs::CreateOnly => review::review(&call),
        Verb::Create => create::create(&call),
        Verb::Update => update::update(&call),
        Verb::Patch => patch::patch(&call),
        Verb::Delete => delete::delete(&call),
        Verb::DeleteCollection => delete::collection(&call),
        Verb::Other => Err(ApiError::method_not_allowed()),
    };
    response.map(|response| with_deprecation(target.resource, response))
}

/// Adds the warning about a kind that is going away.
fn with_deprecation(resource: &Resource, mut response: Response<Body>) -> Response<Body> {
    if resource.plural == "endpoints" {
        let text =
            "299 - \"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice\"";
        response
            .headers_mut()
            .append(http::header::WARNING, HeaderValue::from_static(text));
    }
    response
}

fn check_include(request: &Request, form: Form) -> Result<(), ApiError> {
    match request.options.get("includeObject") {
        Some(other) if form == Form::Table && !["None", "Metadata", "Object"].contains(&other) => {
            let detail = "must be 'Metadata', 'Object', 'None', or empty";
            Err(ApiError::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: {detail}"
            )))
        }
        _ => Ok(()),
    }
}

fn is_allowed(verb: Verb, target: &Target) -> bool {
    let verbs = target.resource.verbs;
    let sub = target.subresource.as_deref();
    match verb {
        Verb::Create if sub == Some("token") => true,
        Verb::Get | Verb::Update | Verb::Patch if sub == Some("status") => true,
        Verb::Update if sub == Some("finalize") => true,
        _ if sub.is_some() => false,
        Verb::Create => {
            target.name.is_none()
                && verbs != Verbs::ReadOnly
                && (target.namespace.is_some() || !target.resource.namespaced)
        }
        Verb::Update | Verb::Patch => target.name.is_some() && verbs.names().contains(&verb.name()),
        Verb::DeleteCollection => {
            verbs == Verbs::All && (target.namespace.is_some() || !target.resource.namespaced)
        }
        _ => verbs.names().contains(&verb.name()),
    }
}
