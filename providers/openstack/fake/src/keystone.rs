//! Keystone: tokens and the catalogue.

use std::collections::BTreeMap;
use std::time::Duration;

use fake_cloud::Reply;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::model::Model;
use crate::refusal::Refusal;
use crate::requests::{Answer, ApiRequest};
use crate::{
    APPLICATION_CREDENTIAL, APPLICATION_SECRET, DOMAIN, PASSWORD, PROJECT, PROJECT_ID, REGION,
    TRUST, USER, USER_ID,
};

/// Identity service: users, roles and tokens.
pub(crate) struct Identity {
    /// Passwords by user: name, id.
    pub(crate) password: String,
    pub(crate) application_secret: String,
    tokens: BTreeMap<String, Token>,
    made: u64,
    /// Names of projects, by id.
    pub(crate) projects: BTreeMap<String, String>,
    /// Project of new tokens, whatever the request asks for.
    pub(crate) confused: Option<String>,
    pub(crate) roles: Vec<String>,
}

struct Token {
    project: Option<String>,
    ends: Instant,
}

impl Default for Identity {
    fn default() -> Self {
        Self {
            password: PASSWORD.to_owned(),
            application_secret: APPLICATION_SECRET.to_owned(),
            tokens: BTreeMap::new(),
            made: 0,
            projects: BTreeMap::from([(PROJECT_ID.to_owned(), PROJECT.to_owned())]),
            confused: None,
            roles: ["reader", "member", "load-balancer_member"]
                .map(str::to_owned)
                .to_vec(),
        }
    }
}

impl Identity {
    /// Returns the project of a valid token.
    pub(crate) fn project_of(&self, token: &str, now: Instant) -> Option<String> {
        self.tokens
            .get(token)
            .filter(|token| now < token.ends)?
            .project
            .clone()
    }

    /// Returns `true` if the user may do more than read.
    pub(crate) fn may_change(&self) -> bool {
        self.roles
            .iter()
            .any(|role| ["member", "admin"].contains(&role.as_str()))
    }

    /// Invalidates all tokens at once.
    pub(crate) fn forget_tokens(&mut self) {
        self.tokens.clear();
    }

    /// Returns the project that a scope names by id, or by name in the domain.
    fn project(&self, scope: &Value) -> Result<String, Refusal> {
        let by_name = |name: &str| {
            self.projects
                .iter()
                .find(|(_, project)| *project == name)
                .map(|(id, _)| id.clone())
        };
        let found = match (scope["id"].as_str(), scope["name"].as_str()) {
            (Some(id), _) => Some(id.to_owned()).filter(|id| self.projects.contains_key(id)),
            (None, Some(name)) if is_domain(&scope["domain"]) => by_name(name),
            _ => None,
        };
        found.ok_or_else(Refusal::unauthorized)
    }
}

fn is_domain(domain: &Value) -> bool {
    domain["name"] == DOMAIN || domain["id"] == "default"
}

fn is_user(user: &Value) -> bool {
    user["id"] == USER_ID || (user["name"] == USER && is_domain(&user["domain"]))
}

/// Verifies the credential, and returns the project that it implies.
fn prove(model: &Model, request: &ApiRequest, identity: &Value) -> Result<Option<String>, Refusal> {
    let known = &model.identity;
    let is_proven = match identity["methods"][0].as_str() {
        Some("password") => {
            let user = &identity["password"]["user"];
            is_user(user) && user["password"] == known.password.as_str()
        }
        Some("application_credential") => {
            let credential = &identity["application_credential"];
            let is_named = credential["name"] == "ccm" && is_user(&credential["user"]);
            let is_this_match = credential["id"] == APPLICATION_CREDENTIAL || is_named;
            if !is_this_match || credential["secret"] != known.application_secret.as_str() {
                return Err(Refusal::unauthorized());
            }
            return Ok(Some(PROJECT_ID.to_owned()));
        }
        Some("token") => {
            let token = identity["token"]["id"].as_str().unwrap_or_default();
            return known
                .project_of(token, request.now)
                .map(Some)
                .ok_or_else(Refusal::unauthorized);
        }
        _ => false,
    };
    if is_proven {
        Ok(None)
    } else {
        Err(Refusal::unauthorized())
    }
}

pub(crate) fn authenticate(model: &mut Model, request: &ApiRequest) -> Answer {
    let auth = &request.body["auth"];
    let identity = &auth["identity"];
    let scope = &auth["scope"];
    let own = prove(model, request, identity)?;
    let is_application = identity["methods"][0] == "application_credential";
    let project = match scope {
        Value::Null => own,
        _ if is_application => {
            return Err(Refusal::new(
                401,
                "",
                "Application credentials cannot request a scope.",
            ));
        }
        scope if scope["OS-TRUST:trust"]["id"] == TRUST => Some(PROJECT_ID.to_owned()),
        scope if !scope["project"].is_null() => Some(model.identity.project(&scope["project"])?),
        scope if is_domain(&scope["domain"]) => None,
        _ => return Err(Refusal::unauthorized()),
    };
    model.identity.made += 1;
    let name = format!("gAAAAAB-fake-token-{:08x}", model.identity.made);
    let project = model.identity.confused.clone().or(project);
    let token = Token {
        project,
        ends: request.now + model.options.token_life,
    };
    let body = described(
        model,
        token.project.as_deref(),
        &identity["methods"],
        model.options.token_life,
    );
    model.identity.tokens.insert(name.clone(), token);
    Ok(Reply {
        headers: vec![("x-subject-token", name)],
        ..Reply::new(201, body)
    })
}

fn described(model: &Model, project: Option<&str>, methods: &Value, life: Duration) -> Value {
    let domain = json!({"id": "default", "name": DOMAIN});
    let roles = model
        .identity
        .roles
        .iter()
        .map(|name| json!({"id": format!("role-{name}"), "name": name}));
    let mut token = json!({
        "methods": methods,
        "user": {"domain": domain, "id": USER_ID, "name": USER, "password_expires_at": null},
        "audit_ids": ["zi8nYzyzTRiA1Xmr94f2vg"],
        "expires_at": model.clock.precise(life), "issued_at": model.clock.precise(Duration::ZERO),
    });
    if let Some(id) = project {
        let name = model.identity.projects.get(id).map_or(id, String::as_str);
        token["project"] = json!({"domain": domain, "id": id, "name": name});
        token["is_domain"] = false.into();
        token["roles"] = roles.collect();
        token["catalog"] = services(model);
    }
    json!({"token": token})
}

fn services(model: &Model) -> Value {
    let endpoint = &model.options.endpoint;
    let service = |kind: &str, name: &str, path: &str| {
        let endpoints = ["internal", "public", "admin"].map(|interface| {
            let id = format!("{name}-{interface}");
            json!({"id": id, "interface": interface, "region_id": REGION, "region": REGION, "url": format!("{endpoint}{path}")})
        });
        json!({"id": format!("service-{name}"), "type": kind, "name": name, "endpoints": endpoints})
    };
    let mut services = vec![
        service("load-balancer", "octavia", "/load-balancer"),
        service("compute", "nova", "/compute/v2.1"),
        service("network", "neutron", "/network"),
        service("identity", "keystone", "/identity/v3"),
    ];
    if model.options.barbican {
        services.push(service("key-manager", "barbican", "/key-manager"));
    }
    services.into()
}

pub(crate) fn versions(model: &mut Model, _: &ApiRequest) -> Answer {
    let href = format!("{}/identity/v3/", model.options.endpoint);
    let version =
        json!({"id": "v3.14", "status": "stable", "links": [{"rel": "self", "href": href}]});
    Ok(Reply::new(300, json!({"versions": {"values": [version]}})))
}

pub(crate) fn validate(model: &mut Model, request: &ApiRequest) -> Answer {
    let subject = request.header("x-subject-token").unwrap_or_default();
    let project = model.identity.project_of(subject, request.now);
    let project = project.ok_or_else(|| Refusal::new(404, "", "Could not find token: ."))?;
    let left = model
        .identity
        .tokens
        .get(subject)
        .map(|token| token.ends - request.now)
        .unwrap_or_default();
    Ok(Reply::new(
        200,
        described(model, Some(&project), &json!(["password"]), left),
    ))
}

pub(crate) fn catalogue(model: &mut Model, _: &ApiRequest) -> Answer {
    Ok(Reply::new(200, json!({"catalog": services(model)})))
}
