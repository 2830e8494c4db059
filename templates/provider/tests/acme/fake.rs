//! A fake of Acme Cloud's API.

use std::collections::BTreeMap;
use std::time::Duration;

use fake_cloud::{ApiRequest, Cloud, Next, Operations, Page, Refused, Reply, Routes};
use serde_json::{Value, json};
use tokio::time::Instant;

pub(crate) const TOKEN: &str = "fake-token";
/// The account of the token.
pub(crate) const ACCOUNT: &str = "ours";

/// The state of the cloud.
pub(crate) struct Acme {
    /// The account that the token is for.
    pub(crate) account: &'static str,
    pub(crate) servers: Vec<Value>,
    pub(crate) load_balancers: Vec<Value>,
    /// Load balancers that become active in the background.
    work: Operations,
    created: usize,
}

impl Default for Acme {
    fn default() -> Self {
        let servers = Vec::new();
        let load_balancers = Vec::new();
        Self {
            account: ACCOUNT,
            servers,
            load_balancers,
            work: Operations::default(),
            created: 0,
        }
    }
}

impl Acme {
    pub(crate) fn number(&mut self) -> usize {
        self.created += 1;
        self.created
    }

    /// The objects of one collection.
    fn all(&mut self, request: &ApiRequest<()>) -> &mut Vec<Value> {
        if request.path.starts_with("/v1/servers") {
            &mut self.servers
        } else {
            &mut self.load_balancers
        }
    }

    fn find(&mut self, request: &ApiRequest<()>) -> Result<&mut Value, Refused> {
        let found = self
            .all(request)
            .iter_mut()
            .find(|object| object["id"] == request.id() && object["account"] == *request.project);
        found.ok_or_else(|| Refused::new(404, "not_found", "there is no such object"))
    }
}

fn account(cloud: &mut Acme, _: &ApiRequest<()>) -> Result<Reply, Refused> {
    Ok(Reply::new(200, json!({"id": cloud.account})))
}

fn list(cloud: &mut Acme, request: &ApiRequest<()>) -> Result<Reply, Refused> {
    let number = |key: &str| {
        request
            .query(key)
            .and_then(|query| query.parse::<usize>().ok())
    };
    let mut all = cloud.all(request).clone();
    all.retain(|object| {
        object["account"] == *request.project
            && request
                .query("name")
                .is_none_or(|name| object["name"] == name)
    });
    let page = Page::numbered(
        all,
        number("page").unwrap_or(1),
        number("per_page").unwrap_or(20),
        &request.effects,
    );
    let next = match page.next {
        Next::Nothing => None,
        Next::Following => Some(page.number + 1),
        Next::Itself => Some(page.number),
    };
    let collection = request.path.rsplit('/').next().unwrap_or_default();
    let meta = json!({"total": page.total, "next_page": next});
    Ok(Reply::new(
        200,
        json!({collection: page.items, "meta": meta}),
    ))
}

fn get(cloud: &mut Acme, request: &ApiRequest<()>) -> Result<Reply, Refused> {
    Ok(Reply::new(200, cloud.find(request)?.clone()))
}

fn create(cloud: &mut Acme, request: &ApiRequest<()>) -> Result<Reply, Refused> {
    check(cloud, request)?;
    let number = cloud.number();
    let mut created = request.body.clone();
    created["id"] = format!("lb-{number}").into();
    created["account"] = (*request.project).into();
    created["status"] = "pending".into();
    created["ip"] = format!("203.0.{}.{}", 113 + number / 256, number % 256).into();
    cloud.work.begin(
        &format!("lb-{number}"),
        Duration::from_millis(1500),
        &request.effects,
    );
    cloud.load_balancers.push(created.clone());
    Ok(Reply::new(201, created))
}

fn replace(cloud: &mut Acme, request: &ApiRequest<()>) -> Result<Reply, Refused> {
    check(cloud, request)?;
    let found = cloud.find(request)?;
    for (key, value) in request.body.as_object().into_iter().flatten() {
        found[key] = value.clone();
    }
    Ok(Reply::new(200, found.clone()))
}

fn delete(cloud: &mut Acme, request: &ApiRequest<()>) -> Result<Reply, Refused> {
    if cloud.find(request)?["protected"] == true {
        return Err(Refused::new(
            409,
            "protected",
            "the load balancer is protected against deletion",
        ));
    }
    cloud
        .load_balancers
        .retain(|load_balancer| load_balancer["id"] != request.id());
    Ok(Reply::empty(204))
}

/// Refuses targets that are no servers of the account, as the cloud does.
fn check(cloud: &Acme, request: &ApiRequest<()>) -> Result<(), Refused> {
    let is_server = |id: &Value| {
        cloud
            .servers
            .iter()
            .any(|server| server["id"] == *id && server["account"] == *request.project)
    };
    match request.body["targets"]
        .as_array()
        .is_some_and(|targets| targets.iter().all(is_server))
    {
        true => Ok(()),
        false => Err(Refused::new(422, "invalid", "there is no such server")),
    }
}

impl Cloud for Acme {
    type Service = ();
    type Refusal = Refused;
    const ROUTES: &'static [Routes<Self>] = &[Routes {
        prefix: "/v1",
        service: (),
        table: &[
            ("GET", "/account", account),
            ("GET", "/servers", list),
            ("GET", "/servers/{id}", get),
            ("GET", "/load_balancers", list),
            ("POST", "/load_balancers", create),
            ("GET", "/load_balancers/{id}", get),
            ("PUT", "/load_balancers/{id}", replace),
            ("DELETE", "/load_balancers/{id}", delete),
        ],
    }];

    fn advance(&mut self, _: Instant) {
        let finished: BTreeMap<_, _> = self.work.finished().into_iter().collect();
        for load_balancer in &mut self.load_balancers {
            if load_balancer["id"]
                .as_str()
                .is_some_and(|id| finished.contains_key(id))
            {
                load_balancer["status"] = "active".into();
            }
        }
    }
    fn admit(&mut self, request: &mut ApiRequest<()>) -> Result<(), Refused> {
        self.account.clone_into(&mut request.project);
        match request
            .header("authorization")
            .and_then(|header| header.strip_prefix("Bearer "))
        {
            Some(TOKEN) => Ok(()),
            _ => Err(Refused::new(401, "unauthorized", "the token is not valid")),
        }
    }
    fn render_refusal(_: &ApiRequest<()>, refused: Refused) -> Reply {
        let error = json!({"error": {"code": refused.code, "message": refused.message}});
        Reply::new(refused.status.unwrap_or(403), error)
    }
}
