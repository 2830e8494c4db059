//! Keystone: one token for all services, renewed before it ends (§5.1).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cloud_provider::{Error, Result, async_trait};
use http::HeaderName;
use jiff::Timestamp;
use provider_kit::transport::{Access, Call, Session, Transport};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::catalogue::{Catalogue, Service};
use crate::config::{Auth, Domain, Interface, Method, Named, Scope, User};

/// A token is renewed so long before its end, or when a quarter of its time is left.
const BEFORE_ITS_END: Duration = Duration::from_secs(300);
/// What Keystone refused is not shown to it again for so long: it may lock an account after some refusals.
const AFTER_A_REFUSAL: Duration = Duration::from_secs(30);
/// After any other failure, those who wanted a token at the same time are told of it.
const AFTER_A_FAILURE: Duration = Duration::from_secs(1);
/// What was concluded from another project's lists is forgotten after so long.
const AFTER_A_MOVE: Duration = Duration::from_secs(60);

/// Who asks for a token, and what of the catalogue is used.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) auth: Auth,
    pub(crate) interface: Interface,
    pub(crate) region: Option<String>,
    /// To `auth-url`.
    pub(crate) http: Transport,
}

/// A token, and where it may be used.
pub(crate) struct Token {
    /// Of each service, in the order of [`Service::ALL`].
    accesses: [Result<Arc<Access>>; Service::ALL.len()],
    /// What it is for, unless that is no project.
    pub(crate) project: Option<String>,
    /// The names of the roles in it.
    pub(crate) roles: Vec<String>,
    renew: Instant,
    end: Instant,
}

/// The token in use, for all services.
pub(crate) struct Keystone {
    state: Mutex<State>,
    /// Held by who asks for a token: one at a time.
    asking: tokio::sync::Mutex<()>,
}

struct State {
    identity: Arc<Identity>,
    token: Option<Arc<Token>>,
    /// When a token that is still good is to be renewed.
    renew: Instant,
    /// The last failure, and until when all are told of it, if nothing was better since.
    failed: Option<(Instant, Error)>,
}

/// One service, reached with the token in use.
pub(crate) struct Authorised {
    pub(crate) keystone: Arc<Keystone>,
    pub(crate) service: Service,
}

#[async_trait]
impl Session for Authorised {
    async fn access(&self) -> Result<Arc<Access>> {
        self.keystone.token().await?.access(self.service)
    }

    async fn renewed(&self, refused: &Arc<Access>) -> Result<Option<Arc<Access>>> {
        let is_other = |token: &Token| !token.access(self.service).is_ok_and(|its| Arc::ptr_eq(&its, refused));
        self.keystone.ask(is_other).await?.access(self.service).map(Some)
    }
}

impl Token {
    /// # Errors
    /// *Invalid* if the catalogue does not have the service.
    pub(crate) fn access(&self, service: Service) -> Result<Arc<Access>> {
        self.accesses[service as usize].clone()
    }

    /// What it is for, in words.
    fn place(&self) -> String {
        self.project.as_ref().map_or("no project".to_owned(), |id| format!("project {id}"))
    }
}

impl Keystone {
    pub(crate) fn new(identity: Identity) -> Self {
        let state = State { identity: Arc::new(identity), token: None, renew: Instant::now(), failed: None };
        Self { state: Mutex::new(state), asking: tokio::sync::Mutex::new(()) }
    }

    /// The token to use now. It is renewed by one caller while it is still good; the others go on with it.
    ///
    /// # Errors
    /// What Keystone answered.
    pub(crate) async fn token(&self) -> Result<Arc<Token>> {
        let Some((token, due)) = self.current() else { return self.ask(|_| true).await };
        let Some(_asking) = due.then(|| self.asking.try_lock().ok()).flatten() else { return Ok(token) };
        let identity = self.renewing();
        match identity.token().await {
            Ok(newer) => self.lock().take(&identity, newer),
            Err(err) => {
                tracing::warn!(%err, "the token could not be renewed; it stays in use until it ends");
                Ok(token)
            }
        }
    }

    /// A new token, unless somebody else had one made that `fits` while this waited.
    async fn ask(&self, fits: impl Fn(&Token) -> bool) -> Result<Arc<Token>> {
        let _asking = self.asking.lock().await;
        if let Some((token, _)) = self.current().filter(|(token, _)| fits(token)) {
            return Ok(token);
        }
        let identity = {
            let state = self.lock();
            match &state.failed {
                Some((until, err)) if Instant::now() < *until => return Err(err.clone()),
                _ => Arc::clone(&state.identity),
            }
        };
        match identity.token().await {
            Ok(token) => self.lock().take(&identity, token),
            Err(err) => {
                self.lock().failed = Some((Instant::now() + spared(&err), err.clone()));
                Err(err)
            }
        }
    }

    /// Another identity takes the place of the one in use, if Keystone accepts it (P-39).
    ///
    /// # Errors
    /// What Keystone answered, or *invalid* if it is for another project; the one in use stays.
    pub(crate) async fn reload(&self, identity: Identity) -> Result<()> {
        let token = identity.token().await?;
        let mut state = self.lock();
        // There, everything of this cluster would seem to be gone.
        if let Some(used) = state.token.as_ref().filter(|used| used.project != token.project) {
            let (new, used) = (token.place(), used.place());
            return Err(Error::invalid(format!(
                "the new credential is for {new}, and this cluster's machines are in {used}; put one for {used} into [Global], or \
                 restart if the cluster has moved"
            )));
        }
        state.identity = Arc::new(identity);
        let identity = Arc::clone(&state.identity);
        state.take(&identity, token).map(drop)
    }

    /// The one in use, unless it has ended; and whether to renew it.
    fn current(&self) -> Option<(Arc<Token>, bool)> {
        let (state, now) = (self.lock(), Instant::now());
        let token = state.token.as_ref().filter(|token| now < token.end)?;
        Some((Arc::clone(token), now >= state.renew))
    }

    /// Whoever comes while this renewal is under way, or soon after it failed, does not start one.
    fn renewing(&self) -> Arc<Identity> {
        let mut state = self.lock();
        state.renew = Instant::now() + AFTER_A_REFUSAL;
        Arc::clone(&state.identity)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The token is in use from now on, unless another identity took over while it was asked for.
    ///
    /// One for another project than before is refused at first: who did not see something there would make it here.
    fn take(&mut self, identity: &Arc<Identity>, token: Token) -> Result<Arc<Token>> {
        let token = Arc::new(token);
        if !Arc::ptr_eq(identity, &self.identity) {
            return Ok(token);
        }
        if let Some(before) = self.token.take_if(|before| before.project != token.project) {
            let (new, before) = (token.place(), before.place());
            let err = Error::unauthorized(format!(
                "the credential is for {new} now, and was for {before}: nothing is done for a minute, so that nothing follows here \
                 from what was read there; if {new} is wrong, correct [Global]"
            ));
            tracing::warn!(%err);
            self.failed = Some((Instant::now() + AFTER_A_MOVE, err.clone()));
            return Err(err);
        }
        (self.renew, self.failed) = (token.renew, None);
        self.token = Some(Arc::clone(&token));
        Ok(token)
    }
}

/// How long Keystone is not asked again.
fn spared(failure: &Error) -> Duration {
    if failure.is_unauthorized() { AFTER_A_REFUSAL } else { AFTER_A_FAILURE }
}

#[derive(Deserialize)]
struct Answer {
    token: Body,
}

#[derive(Deserialize)]
struct Body {
    expires_at: Option<Timestamp>,
    issued_at: Option<Timestamp>,
    project: Option<Project>,
    #[serde(default)]
    roles: Vec<Role>,
    #[serde(default)]
    catalog: Catalogue,
}

#[derive(Deserialize)]
struct Project {
    id: String,
}

#[derive(Deserialize)]
struct Role {
    name: String,
}

impl Identity {
    /// Asks Keystone.
    async fn token(&self) -> Result<Token> {
        let asked = Instant::now();
        let call =
            Call::post("/v3/auth/tokens", &[]).reading().json(&self.auth.body()).hide(self.auth.secret().clone());
        let answer = self.http.send(call).await.map_err(|err| self.explained(&err))?;
        let secret = answer.headers.get("x-subject-token").and_then(|value| value.to_str().ok());
        let secret = secret.ok_or_else(|| Error::other(format!("{} answered without a token", self.place())))?;
        let secret = SecretString::from(secret.to_owned());
        let Answer { token } = answer.json()?;
        let (end, lifetime) = token.end(asked);
        // A token that somebody else made ends when it ends.
        let made = !matches!(self.auth.method, Method::Token(_));
        let renew = if made { end - BEFORE_ITS_END.min(lifetime / 4) } else { end };
        Ok(Token {
            accesses: Service::ALL.map(|service| self.access(&token.catalog, service, &secret)),
            project: token.project.map(|project| project.id),
            roles: token.roles.into_iter().map(|role| role.name).collect(),
            renew,
            end,
        })
    }

    fn access(&self, catalogue: &Catalogue, service: Service, token: &SecretString) -> Result<Arc<Access>> {
        let base = catalogue.base(service, self.interface, self.region.as_deref())?;
        let access = Access::new(&base, HeaderName::from_static("x-auth-token"), token);
        access.map(Arc::new).map_err(|err| Error::invalid(format!("Keystone's catalogue, {}: {err}", service.kind())))
    }

    /// What to do about an answer of Keystone's.
    fn explained(&self, err: &Error) -> Error {
        let place = self.place();
        if err.is_unauthorized() {
            let what = self.auth.method.settings();
            return Error::unauthorized(format!("{place} gives no token: {err}; check {what} in [Global]"));
        }
        if err.is_rate_limited() { err.clone() } else { err.clone().context(format!("{place} gives no token")) }
    }

    fn place(&self) -> String {
        format!("Keystone ({})", self.http.base())
    }
}

impl Body {
    /// When it ends, by our clock, and how long it lives: Keystone's clock may be another.
    fn end(&self, asked: Instant) -> (Instant, Duration) {
        let issued = self.issued_at.unwrap_or_else(Timestamp::now);
        let lifetime = self.expires_at.map_or(Duration::from_secs(3600), |end| {
            Duration::try_from(end.duration_since(issued)).unwrap_or_default()
        });
        (asked + lifetime, lifetime)
    }
}

impl Auth {
    fn secret(&self) -> &SecretString {
        match &self.method {
            Method::Password { password, .. } => password,
            Method::ApplicationCredential { secret, .. } | Method::Token(secret) => secret,
        }
    }

    /// What Keystone is asked with.
    fn body(&self) -> Value {
        let secret = self.secret().expose_secret();
        let (method, mut proof) = match &self.method {
            Method::Password { user, .. } => {
                let mut user = user.json();
                user["password"] = secret.into();
                ("password", json!({ "user": user }))
            }
            Method::ApplicationCredential { credential: Named::Id(id), .. } => {
                ("application_credential", json!({ "id": id, "secret": secret }))
            }
            Method::ApplicationCredential { credential: Named::Name(name, user), .. } => {
                ("application_credential", json!({ "name": name, "user": user.json(), "secret": secret }))
            }
            Method::Token(_) => ("token", json!({ "id": secret })),
        };
        let mut body = json!({ "auth": { "identity": { "methods": [method], method: proof.take() } } });
        if let Some(scope) = self.scope.json() {
            body["auth"]["scope"] = scope;
        }
        body
    }
}

impl Method {
    /// The keys that say it.
    fn settings(&self) -> &'static str {
        match self {
            Self::Password { .. } => "user, password, project and their domains",
            Self::ApplicationCredential { .. } => "application-credential-id and application-credential-secret",
            Self::Token(_) => "token (it may have ended: one that is given cannot be renewed)",
        }
    }
}

impl User {
    fn json(&self) -> Value {
        match self {
            Self::Id(id) => json!({ "id": id }),
            Self::Name(name, domain) => json!({ "name": name, "domain": domain.json() }),
        }
    }
}

impl Domain {
    fn json(&self) -> Value {
        match self {
            Self::Id(id) => json!({ "id": id }),
            Self::Name(name) => json!({ "name": name }),
        }
    }
}

impl Scope {
    fn json(&self) -> Option<Value> {
        Some(match self {
            Self::None => return None,
            Self::ProjectId(id) => json!({ "project": { "id": id } }),
            Self::Project(name, domain) => json!({ "project": { "name": name, "domain": domain.json() } }),
            Self::Domain(domain) => json!({ "domain": domain.json() }),
            Self::Trust(id) => json!({ "OS-TRUST:trust": { "id": id } }),
        })
    }
}
