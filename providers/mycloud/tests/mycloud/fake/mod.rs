//! A fake of mycloud's API.

mod load_balancers;
mod parts;
mod routes;

use std::collections::BTreeMap;
use std::time::Duration;

use fake_cloud::{Cloud, Next, Operation, Page, Refused, Reply, Routes};
use serde_json::{Value, json};
use tokio::time::Instant;

pub(crate) const TOKEN: &str = "fake-token";
pub(crate) const REGION: &str = "cn-north-1";
/// The route table of the cluster's VPC.
pub(crate) const TABLE: &str = "rt-1";
/// The account of the token.
pub(crate) const ACCOUNT: &str = "ours";

pub(crate) type ApiRequest = fake_cloud::ApiRequest<()>;
pub(crate) type Answer = Result<Reply, Refused>;

/// The state of the cloud.
pub(crate) struct Mycloud {
    /// The account that the token is for.
    pub(crate) account: &'static str,
    /// Time that a task takes.
    pub(crate) task_time: Duration,
    pub(crate) instances: Vec<Value>,
    pub(crate) load_balancers: Vec<Value>,
    pub(crate) routes: Vec<Value>,
    tasks: BTreeMap<String, Task>,
    created: usize,
}

/// A change that the cloud carries out in the background.
struct Task {
    operation: Operation,
    /// The load balancer that the task changes; empty for a route.
    load_balancer: String,
    kind: Kind,
    is_settled: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Creation,
    Change,
    Deletion,
}

impl Default for Mycloud {
    fn default() -> Self {
        Self {
            account: ACCOUNT,
            task_time: Duration::from_millis(1300),
            instances: Vec::new(),
            load_balancers: Vec::new(),
            routes: Vec::new(),
            tasks: BTreeMap::new(),
            created: 0,
        }
    }
}

impl Mycloud {
    pub(crate) fn number(&mut self) -> usize {
        self.created += 1;
        self.created
    }

    pub(crate) fn has_instance(&self, account: &str, id: &Value) -> bool {
        self.instances
            .iter()
            .any(|instance| instance["id"] == *id && instance["account"] == account)
    }

    /// Begins a task, and answers with it.
    fn begin(
        &mut self,
        request: &ApiRequest,
        kind: Kind,
        load_balancer: &str,
        resource: &Value,
    ) -> Answer {
        let id = format!("t-{}", self.number());
        let operation = Operation::begin(self.task_time, &request.effects);
        let load_balancer = load_balancer.to_owned();
        self.tasks.insert(
            id.clone(),
            Task {
                operation,
                load_balancer,
                kind,
                is_settled: false,
            },
        );
        Ok(Reply::new(
            202,
            json!({"task": {"id": id, "status": "RUNNING"}, "resource": resource}),
        ))
    }

    /// Ends a task whose time has come.
    fn settle(&mut self, id: &str) {
        let Some(task) = self.tasks.get_mut(id) else {
            return;
        };
        task.is_settled = true;
        let name = task.load_balancer.clone();
        let kind = task.kind;
        let is_failed = task.operation.error.is_some();
        let is_quiet = !self
            .tasks
            .values()
            .any(|task| task.load_balancer == name && !task.is_settled);
        if kind == Kind::Deletion && !is_failed {
            self.load_balancers
                .retain(|load_balancer| load_balancer["id"] != *name);
        }
        let number = self.created;
        let Some(found) = self
            .load_balancers
            .iter_mut()
            .find(|load_balancer| load_balancer["id"] == *name)
        else {
            return;
        };
        match kind {
            Kind::Creation if is_failed => found["status"] = "ERROR".into(),
            Kind::Creation => load_balancers::activate(found, number),
            Kind::Deletion => found["status"] = "ACTIVE".into(),
            Kind::Change if is_quiet && found["status"] == "UPDATING" => {
                found["status"] = "ACTIVE".into();
            }
            Kind::Change => {}
        }
    }
}

pub(crate) fn invalid(message: &str) -> Refused {
    Refused::new(422, "InvalidParameter", message)
}

pub(crate) fn not_found() -> Refused {
    Refused::new(404, "NotFound", "there is no such object")
}

/// Answers with a page of the account's items.
fn page(request: &ApiRequest, items: impl Iterator<Item = Value>) -> Answer {
    let size = request
        .query("page_size")
        .map_or(Some(50), |query| query.parse().ok())
        .filter(|number| (1..=100).contains(number));
    let size = size.ok_or_else(|| invalid("page_size is a number from 1 to 100"))?;
    let number = request
        .query("page_token")
        .map_or(Some(1), |query| query.strip_prefix("page-")?.parse().ok());
    let number = number.ok_or_else(|| invalid("page_token is not one of ours"))?;
    let own: Vec<Value> = items
        .filter(|object| object["account"] == *request.project)
        .collect();
    let page = Page::numbered(own, number, size, &request.effects);
    let next = match page.next {
        Next::Nothing => String::new(),
        Next::Following => format!("page-{}", page.number + 1),
        Next::Itself => format!("page-{}", page.number),
    };
    Ok(Reply::new(
        200,
        json!({"items": page.items, "next_page_token": next}),
    ))
}

fn instances(cloud: &mut Mycloud, request: &ApiRequest) -> Answer {
    let is = |key: &str, value: &Value| request.query(key).is_none_or(|wanted| value == wanted);
    let found = cloud.instances.iter().filter(|instance| {
        is(
            "cluster_id",
            &instance["labels"]["kubernetes.io/cluster-id"],
        ) && is("hostname", &instance["hostname"])
            && is("name", &instance["name"])
            && is("private_ip", &instance["nics"][0]["ipv4"])
    });
    page(request, found.cloned())
}

fn instance(cloud: &mut Mycloud, request: &ApiRequest) -> Answer {
    let found = cloud
        .instances
        .iter()
        .find(|instance| instance["id"] == request.id() && instance["account"] == *request.project);
    found
        .map(|object| Reply::new(200, object.clone()))
        .ok_or_else(not_found)
}

fn tasks(cloud: &mut Mycloud, request: &ApiRequest) -> Answer {
    let ids: Vec<&str> = request
        .query("ids")
        .unwrap_or_default()
        .split(',')
        .collect();
    if ids.len() > 50 {
        return Err(invalid("ids: at most 50"));
    }
    let shown = ids.iter().filter_map(|id| {
        let operation = &cloud.tasks.get(*id)?.operation;
        let error = operation
            .error
            .as_ref()
            .map(|code| json!({"code": code, "message": "on purpose"}));
        let status = match &error {
            _ if !operation.is_over() => "RUNNING",
            Some(_) => "FAILED",
            None => "SUCCEEDED",
        };
        Some(json!({"id": id, "status": status, "error": error.filter(|_| status == "FAILED")}))
    });
    Ok(Reply::new(200, json!({"items": shown.collect::<Vec<_>>()})))
}

impl Cloud for Mycloud {
    type Service = ();
    type Refusal = Refused;
    const ROUTES: &'static [Routes<Self>] = &[Routes {
        prefix: "/v1",
        service: (),
        table: &[
            ("GET", "/instances", instances),
            ("GET", "/instances/{id}", instance),
            ("GET", "/tasks", tasks),
            ("GET", "/loadbalancers", load_balancers::list),
            ("POST", "/loadbalancers", load_balancers::create),
            ("GET", "/loadbalancers/{id}", load_balancers::get),
            ("PATCH", "/loadbalancers/{id}", load_balancers::update),
            ("DELETE", "/loadbalancers/{id}", load_balancers::delete),
            (
                "POST",
                "/loadbalancers/{id}/listeners",
                parts::create_listener,
            ),
            (
                "PATCH",
                "/loadbalancers/{id}/listeners/{part}",
                parts::update_listener,
            ),
            (
                "DELETE",
                "/loadbalancers/{id}/listeners/{part}",
                parts::delete_listener,
            ),
            ("POST", "/loadbalancers/{id}/groups", parts::create_group),
            (
                "PATCH",
                "/loadbalancers/{id}/groups/{part}",
                parts::update_group,
            ),
            (
                "DELETE",
                "/loadbalancers/{id}/groups/{part}",
                parts::delete_group,
            ),
            (
                "POST",
                "/loadbalancers/{id}/groups/{part}/members:batchAdd",
                parts::add_members,
            ),
            (
                "POST",
                "/loadbalancers/{id}/groups/{part}/members:batchUpdate",
                parts::update_members,
            ),
            (
                "POST",
                "/loadbalancers/{id}/groups/{part}/members:batchRemove",
                parts::remove_members,
            ),
            ("POST", "/access-lists", parts::create_access_list),
            ("POST", "/certificates", parts::create_certificate),
            ("DELETE", "/certificates/{id}", parts::delete_certificate),
            ("PATCH", "/access-lists/{id}", parts::update_access_list),
            ("DELETE", "/access-lists/{id}", parts::delete_access_list),
            ("GET", "/route-tables/{table}/routes", routes::list),
            ("POST", "/route-tables/{table}/routes", routes::create),
            (
                "DELETE",
                "/route-tables/{table}/routes/{id}",
                routes::delete,
            ),
        ],
    }];

    fn advance(&mut self, _: Instant) {
        let over = |(id, task): (&String, &Task)| {
            (!task.is_settled && task.operation.is_over())
                .then(|| (task.operation.ends, id.clone()))
        };
        let mut due: Vec<_> = self.tasks.iter().filter_map(over).collect();
        due.sort();
        due.iter().for_each(|(_, id)| self.settle(id));
    }

    fn admit(&mut self, request: &mut ApiRequest) -> Result<(), Refused> {
        self.account.clone_into(&mut request.project);
        request.on_answer.push((
            "x-request-id",
            request
                .header("x-request-id")
                .unwrap_or_default()
                .to_owned(),
        ));
        if request.header("authorization") != Some(&format!("Bearer {TOKEN}")) {
            return Err(Refused::new(401, "Unauthorized", "the token is not valid"));
        }
        if request.header("x-region") != Some(REGION) {
            return Err(invalid("x-region: there is no such region"));
        }
        if request.route.starts_with("POST") && request.header("idempotency-key").is_none() {
            return Err(invalid("idempotency-key is missing"));
        }
        Ok(())
    }
    fn render_refusal(_: &ApiRequest, refused: Refused) -> Reply {
        let status = refused.status.unwrap_or(match &*refused.code {
            "QuotaExceeded" => 403,
            "ResourceBusy" | "AlreadyExists" => 409,
            _ => 422,
        });
        let error = json!({"code": refused.code, "message": refused.message, "request_id": "r-1", "details": []});
        Reply::new(status, json!({"error": error}))
    }
}
