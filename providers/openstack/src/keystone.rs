//! Keystone: requests for tokens, and their contents. The kit decides when a token is requested.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Result, async_trait};
use http::HeaderName;
use jiff::Timestamp;
use provider_kit::tokens::{Issued, Issuer, Tokens};
use provider_kit::transport::{Access, Call, Transport};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::catalogue::{Service, base, regions};
use crate::config::{Auth, Interface, Method, Named, Scope, User};

/// The token in use, for all services.
pub(crate) type Keystone = Tokens<Identity>;

/// The credential, and the choice among the endpoints of the catalogue.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) auth: Auth,
    pub(crate) interface: Interface,
    pub(crate) region: Option<String>,
    /// The transport to `auth-url`.
    pub(crate) http: Transport,
}

/// The contents of a token.
pub(crate) struct Token {
    /// The access to each service, in the order of [`Service::ALL`].
    accesses: [Result<Arc<Access>>; Service::ALL.len()],
    /// The ID of the project, if the scope of the token is a project.
    pub(crate) project: Option<String>,
    /// The names of the roles in it.
    pub(crate) roles: Vec<String>,
    /// The regions of the catalogue.
    pub(crate) regions: BTreeSet<String>,
}

impl Token {
    /// # Errors
    /// *Invalid* if the catalogue does not have the service.
    pub(crate) fn access(&self, service: Service) -> Result<Arc<Access>> {
        self.accesses[service as usize].clone()
    }
}

#[async_trait]
impl Issuer for Identity {
    type Token = Token;

    async fn issue(&self) -> Result<Issued<Token>> {
        let call = Call::post("/v3/auth/tokens", &[])
            .reading()
            .json(&self.auth.body())
            .hide(self.auth.secret().clone());
        let answer = self
            .http
            .send(call)
            .await
            .map_err(|err| self.explained(err))?;
        let secret = answer
            .headers
            .get("x-subject-token")
            .and_then(|value| value.to_str().ok());
        let secret = secret
            .ok_or_else(|| Error::other(format!("{} answered without a token", self.place())))?;
        let secret = SecretString::from(secret);
        let body = answer.json::<Value>()?;
        let body = &body["token"];
        let project = body["project"]["id"].as_str().map(str::to_owned);
        let roles = body["roles"].as_array().into_iter().flatten();
        Ok(Issued {
            scope: project
                .as_ref()
                .map_or("no project".to_owned(), |id| format!("project {id}")),
            lifetime: lifetime(body),
            // A token that the user issued cannot be renewed.
            is_renewable: !matches!(self.auth.method, Method::Token(_)),
            token: Token {
                accesses: Service::ALL
                    .map(|service| self.access(&body["catalog"], service, &secret)),
                roles: roles
                    .filter_map(|role| Some(role["name"].as_str()?.to_owned()))
                    .collect(),
                regions: regions(&body["catalog"]),
                project,
            },
        })
    }
}

/// Returns the lifetime by Keystone's clock, which may differ from this machine's.
fn lifetime(token: &Value) -> Duration {
    let time = |key: &str| token[key].as_str()?.parse::<Timestamp>().ok();
    let issued = time("issued_at").unwrap_or_else(Timestamp::now);
    time("expires_at").map_or(Duration::from_secs(3600), |end| {
        Duration::try_from(end.duration_since(issued)).unwrap_or_default()
    })
}

impl Identity {
    fn access(
        &self,
        catalogue: &Value,
        service: Service,
        token: &SecretString,
    ) -> Result<Arc<Access>> {
        let base = base(catalogue, service, self.interface, self.region.as_deref())?;
        let access = Access::new(&base, HeaderName::from_static("x-auth-token"), token);
        access.map(Arc::new).map_err(|err| {
            Error::invalid(format!("Keystone's catalogue, {}: {err}", service.kind()))
        })
    }

    /// Adds the remedy to an answer of Keystone's.
    fn explained(&self, err: Error) -> Error {
        let place = self.place();
        if err.is_unauthorized() {
            let what = self.auth.method.settings();
            return Error::unauthorized(format!(
                "{place} gives no token: {err}; check {what} in [Global]"
            ));
        }
        if err.is_rate_limited() {
            err
        } else {
            err.context(format!("{place} gives no token"))
        }
    }

    fn place(&self) -> String {
        format!("Keystone ({})", self.http.base())
    }
}

impl Auth {
    fn secret(&self) -> &SecretString {
        match &self.method {
            Method::Password { password, .. } => password,
            Method::ApplicationCredential { secret, .. } | Method::Token(secret) => secret,
        }
    }

    /// Returns the body of the request.
    fn body(&self) -> Value {
        let secret = self.secret().expose_secret();
        let (method, mut proof) = match &self.method {
            Method::Password { user, .. } => {
                let mut user = user.json();
                user["password"] = secret.into();
                ("password", json!({ "user": user }))
            }
            Method::ApplicationCredential {
                credential: Named::Id(id),
                ..
            } => (
                "application_credential",
                json!({ "id": id, "secret": secret }),
            ),
            Method::ApplicationCredential {
                credential: Named::Name(name, user),
                ..
            } => (
                "application_credential",
                json!({ "name": name, "user": user.json(), "secret": secret }),
            ),
            Method::Token(_) => ("token", json!({ "id": secret })),
        };
        let mut body =
            json!({ "auth": { "identity": { "methods": [method], method: proof.take() } } });
        if let Some(scope) = self.scope.json() {
            body["auth"]["scope"] = scope;
        }
        body
    }
}

impl Method {
    /// Returns the settings that hold the credential.
    fn settings(&self) -> &'static str {
        match self {
            Self::Password { .. } => "user, password, project and their domains",
            Self::ApplicationCredential { .. } => {
                "application-credential-id and application-credential-secret"
            }
            Self::Token(_) => "token (it may have ended: one that is given cannot be renewed)",
        }
    }
}

impl User {
    fn json(&self) -> Value {
        match self {
            Self::Id(id) => json!({ "id": id }),
            Self::Name(name, domain) => json!({ "name": name, "domain": domain }),
        }
    }
}

impl Scope {
    fn json(&self) -> Option<Value> {
        Some(match self {
            Self::None => return None,
            Self::ProjectId(id) => json!({ "project": { "id": id } }),
            Self::Project(name, domain) => json!({ "project": { "name": name, "domain": domain } }),
            Self::Domain(domain) => json!({ "domain": domain }),
            Self::Trust(id) => json!({ "OS-TRUST:trust": { "id": id } }),
        })
    }
}
