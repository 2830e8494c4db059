//! The control API under `/admin`, which needs no token.

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch, post, put};
use axum::{Json, Router};
use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::admission::{Answer, Refusal};
use super::faults::Fault;
use super::machines::{Machine, MachineChange, NewMachine};
use super::routes::NewRoute;
use super::volumes::Volume;
use super::{Cloud, LoadBalancerChange, LoadBalancerSpec, Options};

/// Page that lists the endpoints.
const INDEX: &str = r#"The simulated cloud. Its API is under /v1 and needs a token; what is under /admin does to the cloud what a person with
its console, its hardware or bad luck does, and needs none. Bodies are JSON: -H 'Content-Type: application/json' -d '{...}'

machines
  GET    /admin/machines                      all machines
  POST   /admin/machines                      {"name": "new-1", "type": "large"}, or {"count": 3, "prefix": "new-"}
  GET    /admin/machines/{id or name}         one
  PATCH  /admin/machines/{id or name}         change addresses, type, zone
  POST   /admin/machines/{id or name}/stop    shut it down; /start starts it
  DELETE /admin/machines/{id or name}         remove it for good
load balancers
  GET    /admin/load-balancers                all, with listeners and targets
  POST   /admin/load-balancers                create one by hand
  PATCH  /admin/load-balancers/{id}           change or protect one by hand
  DELETE /admin/load-balancers/{id}           remove one by hand
routes and volumes
  GET    /admin/routes                        all
  POST   /admin/routes                        create one by hand
  PATCH  /admin/routes/{id}                   {"protected": true}
  DELETE /admin/routes/{id}                   remove one by hand
  POST   /admin/volumes                       create one
credentials
  PUT    /admin/tokens/{token}                {"project": "demo"}: the token is valid for that project
  DELETE /admin/tokens/{token}                the token is revoked
trouble
  GET    /admin/faults                        what is broken
  POST   /admin/faults                        {"kind": "status", "status": 500, "route": "GET /v1/machines", "count": 3}; other kinds:
                                              latency, lost_answer, missing_page, early_end, empty_list, wrong_credentials, hang
  DELETE /admin/faults                        nothing is broken any more
the rest
  GET    /admin/requests                      requests so far, by route; DELETE forgets them
  GET    /admin/options                       options of the cloud; PUT changes them
  POST   /admin/reset                         an empty cloud
"#;

pub(super) fn router(cloud: &Cloud) -> Router {
    Router::new()
        .route("/", get(async || INDEX))
        .route("/admin", get(async || INDEX))
        .route("/admin/machines", get(machines).post(add_machines))
        .route(
            "/admin/machines/{id}",
            get(machine).patch(change_machine).delete(terminate),
        )
        .route("/admin/machines/{id}/{action}", post(act))
        .route(
            "/admin/load-balancers",
            get(load_balancers).post(add_load_balancer),
        )
        .route(
            "/admin/load-balancers/{id}",
            patch(edit_load_balancer).delete(remove_load_balancer),
        )
        .route("/admin/routes", get(routes).post(add_route))
        .route("/admin/routes/{id}", patch(edit_route).delete(remove_route))
        .route("/admin/volumes", post(add_volume))
        .route("/admin/tokens/{token}", put(add_token).delete(revoke_token))
        .route(
            "/admin/faults",
            get(faults).post(inject).delete(clear_faults),
        )
        .route("/admin/requests", get(requests).delete(reset_requests))
        .route("/admin/options", get(options).put(set_options))
        .route("/admin/reset", post(reset))
        .with_state(cloud.clone())
}

type CloudState = State<Cloud>;

fn or_not_found(machine: Option<Machine>, id: &str) -> Answer {
    let refusal = || Refusal::not_found("machine with id or name", id, "any");
    machine
        .map(|machine| Json(machine).into_response())
        .ok_or_else(refusal)
}

async fn machines(State(cloud): CloudState) -> Json<Vec<Machine>> {
    Json(cloud.machines())
}

/// Body of an addition: a single machine, or `count` machines named after `prefix`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Addition {
    Many {
        count: usize,
        prefix: Option<String>,
    },
    One(NewMachine),
}

async fn add_machines(State(cloud): CloudState, Json(addition): Json<Addition>) -> Response {
    match addition {
        Addition::One(machine) => {
            (StatusCode::CREATED, Json(cloud.add_machine(machine))).into_response()
        }
        Addition::Many { count, prefix } => {
            let ids = cloud.create_machines(prefix.as_deref().unwrap_or("machine-"), count);
            (StatusCode::CREATED, Json(json!({ "ids": ids }))).into_response()
        }
    }
}

async fn machine(State(cloud): CloudState, Path(id): Path<String>) -> Answer {
    or_not_found(cloud.machine(&id), &id)
}

async fn change_machine(
    State(cloud): CloudState,
    Path(id): Path<String>,
    Json(change): Json<MachineChange>,
) -> Answer {
    or_not_found(cloud.change_machine(&id, change), &id)
}

async fn terminate(State(cloud): CloudState, Path(id): Path<String>) -> Answer {
    let machine = cloud.machine(&id);
    cloud.terminate(&id);
    or_not_found(machine, &id)
}

async fn act(State(cloud): CloudState, Path((id, action)): Path<(String, String)>) -> Answer {
    let machine = cloud.machine(&id);
    match action.as_str() {
        "start" => cloud.start(&id),
        "stop" => cloud.stop(&id),
        "terminate" => cloud.terminate(&id),
        other => {
            return Err(Refusal::invalid(format!(
                "unknown action {other:?}; known are start, stop, terminate"
            )));
        }
    };
    or_not_found(cloud.machine(&id).or(machine), &id)
}

async fn load_balancers(State(cloud): CloudState) -> Response {
    Json(cloud.load_balancers()).into_response()
}

async fn add_load_balancer(
    State(cloud): CloudState,
    Json(spec): Json<LoadBalancerSpec>,
) -> Response {
    (StatusCode::CREATED, Json(cloud.add_load_balancer(spec))).into_response()
}

async fn edit_load_balancer(
    State(cloud): CloudState,
    Path(id): Path<String>,
    Json(change): Json<LoadBalancerChange>,
) -> Answer {
    let changed = cloud
        .edit_load_balancer(&id, change)
        .map(|changed| Json(changed).into_response());
    changed.ok_or_else(|| Refusal::not_found("load balancer with id or name", &id, "any"))
}

async fn remove_load_balancer(State(cloud): CloudState, Path(id): Path<String>) -> StatusCode {
    if cloud.remove_load_balancer(&id) {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::NOT_FOUND
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteChange {
    protected: bool,
}

async fn edit_route(
    State(cloud): CloudState,
    Path(id): Path<String>,
    Json(change): Json<RouteChange>,
) -> StatusCode {
    if cloud.protect_route(&id, change.protected) {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::NOT_FOUND
    }
}

async fn routes(State(cloud): CloudState) -> Response {
    Json(cloud.routes()).into_response()
}

async fn remove_route(State(cloud): CloudState, Path(id): Path<String>) -> StatusCode {
    if cloud.remove_route(&id) {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::NOT_FOUND
    }
}

async fn add_route(State(cloud): CloudState, Json(route): Json<NewRoute>) -> Response {
    (StatusCode::CREATED, Json(cloud.add_route(route))).into_response()
}

async fn add_volume(State(cloud): CloudState, Json(volume): Json<Volume>) -> StatusCode {
    cloud.add_volume(volume);
    StatusCode::CREATED
}

#[derive(Deserialize)]
struct TokenFor {
    project: String,
}

async fn add_token(
    State(cloud): CloudState,
    Path(token): Path<String>,
    Json(TokenFor { project }): Json<TokenFor>,
) -> StatusCode {
    cloud.add_token(&token, &project);
    StatusCode::NO_CONTENT
}

async fn revoke_token(State(cloud): CloudState, Path(token): Path<String>) -> StatusCode {
    if cloud.revoke_token(&token) {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::NOT_FOUND
    }
}

async fn faults(State(cloud): CloudState) -> Json<Vec<Fault>> {
    Json(cloud.faults())
}

async fn inject(State(cloud): CloudState, Json(fault): Json<Fault>) -> Response {
    cloud.inject(fault.clone());
    (StatusCode::CREATED, Json(fault)).into_response()
}

async fn clear_faults(State(cloud): CloudState) -> StatusCode {
    cloud.clear_faults();
    StatusCode::NO_CONTENT
}

async fn requests(State(cloud): CloudState) -> Response {
    Json(cloud.requests()).into_response()
}

async fn reset_requests(State(cloud): CloudState) -> StatusCode {
    cloud.reset_requests();
    StatusCode::NO_CONTENT
}

async fn options(State(cloud): CloudState) -> Json<Options> {
    Json(cloud.options())
}

async fn set_options(State(cloud): CloudState, Json(options): Json<Options>) -> Json<Options> {
    cloud.set_options(options);
    Json(options)
}

async fn reset(State(cloud): CloudState) -> StatusCode {
    cloud.reset(Options::default());
    StatusCode::NO_CONTENT
}
