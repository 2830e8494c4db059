//! Client of OpenStack's APIs for the scenarios, independent of the program under test.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use ccm_tests::wait::until_every;
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::scene::{LOOK, SOON};

/// A service of the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Api {
    /// Keystone, the identity service.
    Identity,
    /// Nova, the compute service.
    Compute,
    /// Neutron, the network service.
    Network,
    /// Octavia, the load balancer service.
    Balancer,
}

pub(crate) const APIS: [Api; 4] = [Api::Identity, Api::Compute, Api::Network, Api::Balancer];

impl Api {
    /// Returns the service's type in the catalogue.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Compute => "compute",
            Self::Network => "network",
            Self::Balancer => "load-balancer",
        }
    }

    /// Returns the prefix of the service's paths, after its address.
    fn version(self) -> &'static str {
        match self {
            Self::Identity => "/v3",
            Self::Compute => "/v2.1",
            Self::Network => "/v2.0",
            Self::Balancer => "/v2.0/lbaas",
        }
    }
}

/// User and project of a session.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    /// Keystone, without its version.
    pub(crate) address: String,
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) project: String,
}

/// A way to all services, in one project. Clones share the token.
#[derive(Clone)]
pub(crate) struct Cloud {
    login: Login,
    /// The one that holds now.
    password: Arc<Mutex<String>>,
    client: reqwest::Client,
    session: Arc<Mutex<Session>>,
}

#[derive(Clone, Debug, Default)]
struct Session {
    token: String,
    project: String,
    origins: BTreeMap<Api, String>,
}

/// Returns `http://host:port` of an address.
fn origin(address: &str) -> String {
    let rest = address.split("://").nth(1).unwrap_or_default();
    let host = rest.split('/').next().unwrap_or_default();
    format!(
        "{}://{host}",
        address.split("://").next().unwrap_or_default()
    )
}

impl Cloud {
    /// Logs in with a password.
    pub(crate) async fn login(login: Login) -> Result<Self> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .timeout(SOON)
            .build()?;
        let password = Arc::new(Mutex::new(login.password.clone()));
        let this = Self {
            login,
            password,
            client,
            session: Arc::default(),
        };
        this.renew().await?;
        Ok(this)
    }

    /// Sets the password after a change; the current token expires sooner or later.
    pub(crate) fn set_password(&self, password: &str) {
        password.clone_into(&mut self.password.lock());
    }

    fn session(&self) -> Session {
        self.session.lock().clone()
    }

    /// Returns the id of the project.
    pub(crate) fn project(&self) -> String {
        self.session().project
    }

    /// Returns the origins of the services: `http://host:port`.
    pub(crate) fn origins(&self) -> BTreeMap<Api, String> {
        self.session().origins
    }

    /// Asks for a new token.
    async fn renew(&self) -> Result<()> {
        let domain = json!({"name": "Default"});
        let Login {
            address,
            user,
            project,
            ..
        } = &self.login;
        let password = self.password.lock().clone();
        let request = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": {"name": user, "domain": domain, "password": password}}},
            "scope": {"project": {"name": project, "domain": domain}},
        }});
        let answer = self
            .client
            .post(format!("{address}/v3/auth/tokens"))
            .json(&request)
            .send()
            .await?;
        let status = answer.status();
        let token = answer
            .headers()
            .get("x-subject-token")
            .and_then(|header| header.to_str().ok())
            .map(str::to_owned);
        let body: Value = answer.json().await.unwrap_or_default();
        let token = token.with_context(|| format!("no token for {user}: {status}: {body}"))?;
        let mut origins = BTreeMap::from([(Api::Identity, origin(address))]);
        for service in body["token"]["catalog"].as_array().into_iter().flatten() {
            let public = service["endpoints"]
                .as_array()
                .into_iter()
                .flatten()
                .find(|endpoint| endpoint["interface"] == "public");
            let url = public.and_then(|public| public["url"].as_str());
            let api = APIS.into_iter().find(|api| service["type"] == api.kind());
            if let (Some(api), Some(url)) = (api.filter(|api| *api != Api::Identity), url) {
                origins.insert(api, origin(url));
            }
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let project = text(&body["token"]["project"]["id"]);
        *self.session.lock() = Session {
            token,
            project,
            origins,
        };
        Ok(())
    }

    /// Sends a request; the answer, whatever it is.
    pub(crate) async fn send(
        &self,
        api: Api,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Value)> {
        for is_again in [false, true] {
            let session = self.session();
            let address = session
                .origins
                .get(&api)
                .with_context(|| format!("no {api:?} in the catalogue"))?;
            let mut request = self
                .client
                .request(method.clone(), format!("{address}{}{path}", api.version()));
            request = request.header("x-auth-token", &session.token);
            if let Some(body) = body {
                request = request.json(body);
            }
            let answer = request
                .send()
                .await
                .with_context(|| format!("{method} {api:?} {path}"))?;
            let status = answer.status();
            if status == StatusCode::UNAUTHORIZED && !is_again {
                self.renew().await?;
                continue;
            }
            let text = answer.text().await?;
            let value = serde_json::from_str(&text).unwrap_or(if text.is_empty() {
                Value::Null
            } else {
                json!(text)
            });
            return Ok((status, value));
        }
        bail!("no token is accepted")
    }

    /// Sends a request that must succeed.
    pub(crate) async fn call(
        &self,
        api: Api,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value> {
        let (status, value) = self.send(api, method.clone(), path, body).await?;
        ensure!(
            status.is_success(),
            "{method} {api:?} {path}: {status}: {value}"
        );
        Ok(value)
    }

    pub(crate) async fn get(&self, api: Api, path: &str) -> Result<Value> {
        self.call(api, Method::GET, path, None).await
    }

    /// Creates something; the object inside the answer.
    pub(crate) async fn post(&self, api: Api, path: &str, body: Value) -> Result<Value> {
        let answer = self.call(api, Method::POST, path, Some(&body)).await?;
        Ok(answer
            .as_object()
            .and_then(|answer| answer.values().next())
            .cloned()
            .unwrap_or_default())
    }

    pub(crate) async fn put(&self, api: Api, path: &str, body: Value) -> Result<Value> {
        self.call(api, Method::PUT, path, Some(&body)).await
    }

    /// Deletes an object, which may not exist any more.
    pub(crate) async fn delete(&self, api: Api, path: &str) -> Result<()> {
        let (status, value) = self.send(api, Method::DELETE, path, None).await?;
        ensure!(
            status.is_success() || status == StatusCode::NOT_FOUND,
            "DELETE {api:?} {path}: {status}: {value}"
        );
        Ok(())
    }

    /// Reads all pages of a list.
    pub(crate) async fn list(&self, api: Api, path: &str) -> Result<Vec<Value>> {
        let mut found = Vec::new();
        let mut path = path.to_owned();
        loop {
            let answer = self.get(api, &path).await?;
            let answer = answer
                .as_object()
                .with_context(|| format!("GET {path} is no object"))?;
            let (name, items) = answer
                .iter()
                .find(|(_, answer)| answer.is_array())
                .context("no list in the answer")?;
            let name = name.trim_end_matches("_links").to_owned();
            let items = answer.get(&name).unwrap_or(items);
            found.extend(items.as_array().into_iter().flatten().cloned());
            let links = answer
                .get(&format!("{name}_links"))
                .and_then(Value::as_array);
            let next = links
                .into_iter()
                .flatten()
                .find(|link| link["rel"] == "next")
                .and_then(|link| link["href"].as_str());
            let Some(next) = next else { return Ok(found) };
            let (_, rest) = next
                .split_once(api.version())
                .with_context(|| format!("the link {next:?}"))?;
            path = rest.to_owned();
        }
    }

    /// Waits until a load balancer can be changed.
    pub(crate) async fn balancer_is_active(&self, id: &str) -> Result<Value> {
        let what = format!("load balancer {id} is ACTIVE");
        until_every(LOOK, &what, SOON, async || {
            let balancer = self
                .get(Api::Balancer, &format!("/loadbalancers/{id}"))
                .await?["loadbalancer"]
                .take();
            ensure!(
                balancer["provisioning_status"] == "ACTIVE",
                "it is {}",
                balancer["provisioning_status"]
            );
            Ok(balancer)
        })
        .await
    }
}

/// Returns a text in an answer.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}
