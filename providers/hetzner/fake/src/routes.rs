//! The routers.

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::refusal::Refusal;
use crate::{
    Fake, actions, balancer_actions, balancers, catalogue, certificates, gate, metadata, networks, robot, servers,
};

/// A body, strictly: what the API does not know is refused, because it is a mistake of the client.
pub(crate) fn parse<T: DeserializeOwned>(body: &Bytes) -> Result<T, Refusal> {
    if serde_json::from_slice::<serde_json::Value>(body).is_err() {
        return Err(Refusal::new("json_error", "the body is no JSON"));
    }
    serde_json::from_slice(body).map_err(|error| Refusal::field("body", &error.to_string()))
}

async fn unknown() -> impl IntoResponse {
    Refusal::new("not_found", "there is no such path")
}

impl Fake {
    /// The cloud's API, under `/v1`.
    pub fn router(&self) -> Router {
        let api = Router::new()
            .route("/locations", get(catalogue::locations))
            .route("/load_balancer_types", get(catalogue::balancer_types))
            .route("/servers", get(servers::list))
            .route("/servers/{id}", get(servers::get))
            .route("/networks", get(networks::list))
            .route("/networks/{id}", get(networks::get))
            .route("/networks/{id}/actions/add_route", post(networks::add_route))
            .route("/networks/{id}/actions/delete_route", post(networks::delete_route))
            .route("/load_balancers", get(balancers::list).post(balancers::create))
            .route("/load_balancers/{id}", get(balancers::get).put(balancers::change).delete(balancers::delete))
            .route("/load_balancers/{id}/actions/{action}", post(balancer_actions::act))
            .route("/certificates", get(certificates::list).post(certificates::create))
            .route("/certificates/{id}", get(certificates::get).delete(certificates::delete))
            .route("/actions", get(actions::list))
            .route("/actions/{id}", get(actions::get))
            .route_layer(from_fn_with_state(self.clone(), gate::cloud));
        Router::new().nest("/v1", api).fallback(unknown).with_state(self.clone())
    }

    /// Robot's web service.
    pub fn robot(&self) -> Router {
        Router::new()
            .route("/server", get(robot::list))
            .route("/server/{number}", get(robot::get))
            .route("/reset/{number}", get(robot::reset))
            .route_layer(from_fn_with_state(self.clone(), gate::robot))
            .with_state(self.clone())
    }

    /// All three, for one port: their paths are different.
    pub fn all(&self) -> Router {
        self.router().merge(self.robot()).merge(self.metadata())
    }

    /// The metadata service, with the path that it has on `169.254.169.254`.
    pub fn metadata(&self) -> Router {
        let service = Router::new()
            .route("/private-networks", get(metadata::private_networks))
            .route_layer(from_fn_with_state(self.clone(), gate::open));
        Router::new().nest("/hetzner/v1/metadata", service).with_state(self.clone())
    }
}
