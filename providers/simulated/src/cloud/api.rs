//! The API under `/v1`.

use std::collections::BTreeSet;

use axum::extract::{Path, Query as UrlQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router, middleware};
use http::StatusCode;
use serde_json::json;
use tokio::time::Instant;

use super::Cloud;
use super::admission::{self, Answer, Project, Refusal};
use super::faults::ListEffects;
use super::listing::{self, Listed, Query};
use super::load_balancers::{LoadBalancerSpec, StoredLoadBalancer};
use super::machines::{Machine, MachineState};
use super::model::{Model, Stored};
use super::routes::NewRoute;

pub(super) fn router(cloud: &Cloud) -> Router {
    Router::new()
        .route("/v1/token", get(token))
        .route("/v1/machines", get(list_machines))
        .route("/v1/machines/{id}", get(machine))
        .route(
            "/v1/load-balancers",
            get(list_load_balancers).post(create_load_balancer),
        )
        .route(
            "/v1/load-balancers/{id}",
            get(load_balancer)
                .put(change_load_balancer)
                .delete(delete_load_balancer),
        )
        .route("/v1/load-balancers/{id}/targets", get(target_health))
        .route("/v1/routes", get(list_routes).post(create_route))
        .route("/v1/routes/{id}", get(route).delete(delete_route))
        .route("/v1/volumes", get(list_volumes))
        .route("/v1/volumes/{id}", get(volume))
        .route("/v1/operations/{id}", get(operation))
        .route_layer(middleware::from_fn_with_state(
            cloud.clone(),
            admission::pass,
        ))
        .with_state(cloud.clone())
}

type RequestProject = Extension<Project>;
type InjectedFaults = Extension<ListEffects>;
type ListQuery = UrlQuery<Query>;
type Of = State<Cloud>;

impl Listed for Machine {
    fn project(&self) -> &str {
        &self.project
    }
    fn id(&self) -> &str {
        &self.id
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }
}

/// Returns an object of this project; for another project's, the error "not found".
fn find<'m, T: Listed>(
    objects: &'m std::collections::BTreeMap<String, Stored<T>>,
    what: &str,
    id: &str,
    project: &str,
) -> Result<&'m T, Refusal> {
    let object = objects
        .get(id)
        .map(|stored| &stored.object)
        .filter(|object| object.project() == project);
    object.ok_or_else(|| Refusal::not_found(what, id, project))
}

async fn token(Extension(Project(project)): RequestProject) -> Response {
    Json(json!({ "project": project })).into_response()
}

async fn list_machines(
    State(cloud): Of,
    Extension(Project(project)): RequestProject,
    Extension(wrong): InjectedFaults,
    UrlQuery(query): ListQuery,
) -> Response {
    listing::page(
        "machines",
        &project,
        cloud.model().machines.values(),
        &query,
        wrong,
        |machine| machine,
    )
}

async fn machine(
    State(cloud): Of,
    Extension(Project(project)): RequestProject,
    Path(id): Path<String>,
) -> Answer {
    Ok(Json(find(&cloud.model().machines, "machine", &id, &project)?).into_response())
}

async fn list_load_balancers(
    State(cloud): Of,
    Extension(Project(project)): RequestProject,
    Extension(wrong): InjectedFaults,
    UrlQuery(query): ListQuery,
) -> Response {
    let model = cloud.model();
    listing::page(
        "load_balancers",
        &project,
        model.load_balancers.values(),
        &query,
        wrong,
        StoredLoadBalancer::show,
    )
}

async fn load_balancer(
    State(cloud): Of,
    Extension(Project(project)): RequestProject,
    Path(id): Path<String>,
) -> Answer {
    Ok(Json(
        find(
            &cloud.model().load_balancers,
            "load balancer",
            &id,
            &project,
        )?
        .show(),
    )
    .into_response())
}

/// Returns the targets, each with the result of its health check: machines that run answer.
async fn target_health(
    State(cloud): Of,
    Extension(Project(project)): RequestProject,
    Path(id): Path<String>,
) -> Answer {
    let model = cloud.model();
    let targets = &find(&model.load_balancers, "load balancer", &id, &project)?
        .spec
        .targets;
    let health = |target: &String| {
        let detail = match model.machines.get(target).map(|stored| stored.object.state) {
            Some(MachineState::Running) => "",
            Some(MachineState::Stopped) => "connection timed out: the machine is stopped",
            None => "no such machine",
        };
        json!({"id": target, "healthy": detail.is_empty(), "detail": detail})
    };
    Ok(Json(json!({ "targets": targets.iter().map(health).collect::<Vec<_>>() })).into_response())
}

/// Checks that names and addresses are unique, targets exist, and settings are valid.
fn check(
    model: &Model,
    project: &str,
    id: Option<&str>,
    spec: &LoadBalancerSpec,
) -> Result<(), Refusal> {
    let others = model
        .load_balancers
        .values()
        .map(|stored| &stored.object)
        .filter(|lb| Some(&*lb.id) != id);
    for other in others {
        if other.project == project && other.spec.name == spec.name {
            return Err(Refusal::conflict(
                "name_taken",
                format!("a load balancer named {:?} exists", spec.name),
            ));
        }
        if other.ip == spec.address {
            return Err(Refusal::invalid(format!(
                "address {} is in use",
                spec.address
            )));
        }
    }
    if !["", "basic", "premium"].contains(&&*spec.tier) {
        return Err(Refusal::invalid(format!(
            "tier {:?} is not one of basic, premium",
            spec.tier
        )));
    }
    let ports: BTreeSet<_> = spec
        .listeners
        .iter()
        .map(|listener| (listener.port, &listener.protocol))
        .collect();
    if ports.len() < spec.listeners.len()
        || ports
            .iter()
            .any(|(_, protocol)| !["TCP", "UDP"].contains(&&***protocol))
    {
        return Err(Refusal::invalid(
            "every listener needs a port of its own, TCP or UDP".to_owned(),
        ));
    }
    for target in &spec.targets {
        find(&model.machines, "machine", target, project).map_err(|_| {
            Refusal::invalid(format!(
                "target {target:?} is not a machine of project {project:?}"
            ))
        })?;
    }
    Ok(())
}

fn check_quota(model: &Model, project: &str) -> Result<(), Refusal> {
    let count = model
        .load_balancers
        .values()
        .filter(|stored| stored.object.project == project)
        .count();
    match model.options.load_balancer_quota {
        Some(quota) if count >= quota => Err(Refusal::quota("load balancers", quota, project)),
        _ => Ok(()),
    }
}

async fn create_load_balancer(
    State(cloud): Of,
    Extension(Project(project)): RequestProject,
    Json(spec): Json<LoadBalancerSpec>,
) -> Answer {
    let mut model = cloud.model();
    check(&model, &project, None, &spec)?;
    check_quota(&model, &project)?;
    Ok((
        StatusCode::ACCEPTED,
        Json(model.add_load_balancer(&project, spec)),
    )
        .into_response())
}

async fn change_load_balancer(
    State(cloud): Of,
    Extension(Project(project)): RequestProject,
    Path(id): Path<String>,
    Json(spec): Json<LoadBalancerSpec>,
) -> Answer {
    let mut model = cloud.model();
    if find(&model.load_balancers, "load balancer", &id, &project)?.is_pending() {
        return Err(Refusal::conflict(
            "locked",
            format!("an operation runs on load balancer {id:?}"),
        ));
    }
    check(&model, &project, Some(&id), &spec)?;
    if find(&model.load_balancers, "load balancer", &id, &project)?
        .spec
        .address
        != spec.address
    {
        return Err(Refusal::invalid(
            "the address of a load balancer cannot be changed".to_owned(),
        ));
    }
    Ok((
        StatusCode::ACCEPTED,
        Json(model.change_load_balancer(&project, &id, spec)),
    )
        .into_response())
}

async fn delete_load_balancer(
    State(cloud): Of,
    Extension(Project(project)): RequestProject,
    Path(id): Path<String>,
) -> Answer {
    let mut model = cloud.model();
    if find(&model.load_balancers, "load balancer", &id, &project)?.is_protected {
        return Err(Refusal::protected("load balancer", &id));
    }
    model.load_balancers.remove(&id);
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn list_routes(
    State(cloud): Of,
    Extension(Project(project)): RequestProject,
    Extension(wrong): InjectedFaults,
    UrlQuery(query): ListQuery,
) -> Response {
    let model = cloud.model();
    listing::page(
        "routes",
        &project,
        model.routes.values(),
        &query,
        wrong,
        |route| model.show_route(route),
    )
}

async fn route(
    State(cloud): Of,
    Extension(Project(project)): RequestProject,
    Path(id): Path<String>,
) -> Answer {
    let model = cloud.model();
    Ok(Json(model.show_route(find(&model.routes, "route", &id, &project)?)).into_response())
}

async fn create_route(
    State(cloud): Of,
    Extension(Project(project)): RequestProject,
    Json(route): Json<NewRoute>,
) -> Answer {
    let mut model = cloud.model();
    find(&model.machines, "machine", &route.machine, &project)?;
    let mut routes = model.routes.values().map(|stored| &stored.object);
    if routes.any(|other| other.project == project && other.route.destination == route.destination)
    {
        let message = format!("a route to {} exists", route.destination);
        return Err(Refusal::conflict("destination_taken", message));
    }
    Ok((StatusCode::CREATED, Json(model.add_route(&project, route))).into_response())
}

async fn delete_route(
    State(cloud): Of,
    Extension(Project(project)): RequestProject,
    Path(id): Path<String>,
) -> Answer {
    let mut model = cloud.model();
    if find(&model.routes, "route", &id, &project)?.is_protected {
        return Err(Refusal::protected("route", &id));
    }
    model.routes.remove(&id);
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn list_volumes(
    State(cloud): Of,
    Extension(Project(project)): RequestProject,
    Extension(wrong): InjectedFaults,
    UrlQuery(query): ListQuery,
) -> Response {
    listing::page(
        "volumes",
        &project,
        cloud.model().volumes.values(),
        &query,
        wrong,
        |volume| volume,
    )
}

async fn volume(
    State(cloud): Of,
    Extension(Project(project)): RequestProject,
    Path(id): Path<String>,
) -> Answer {
    Ok(Json(find(&cloud.model().volumes, "volume", &id, &project)?).into_response())
}

async fn operation(
    State(cloud): Of,
    Extension(Project(project)): RequestProject,
    Path(id): Path<String>,
) -> Answer {
    let model = cloud.model();
    let operation = model
        .operations
        .get(&id)
        .filter(|operation| operation.project == project);
    let operation = operation.ok_or_else(|| Refusal::not_found("operation", &id, &project))?;
    let status = if operation.done_at <= Instant::now() {
        "done"
    } else {
        "running"
    };
    Ok(Json(json!({ "id": id, "status": status, "target": operation.target })).into_response())
}
