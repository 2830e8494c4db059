//! Robot, the web service for dedicated servers.

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::{Value, json};

use crate::Fake;

/// A dedicated server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RobotServer {
    /// Its number.
    pub server_number: u64,
    /// Its name.
    pub server_name: String,
    /// Its IPv4 address, if it has one.
    pub server_ip: Option<Ipv4Addr>,
    /// The first address of its IPv6 network, if it has one.
    pub server_ipv6_net: Option<Ipv6Addr>,
    /// `AX41`.
    pub product: String,
    /// `FSN1-DC14`.
    pub dc: String,
    /// `running`, `shut off`, `not supported`.
    pub operating_status: String,
}

impl RobotServer {
    fn json(&self) -> Value {
        json!({"server": {
            "server_number": self.server_number, "server_name": self.server_name, "server_ip": self.server_ip,
            "server_ipv6_net": self.server_ipv6_net, "product": self.product, "dc": self.dc, "status": "ready",
            "traffic": "unlimited", "cancelled": false, "paid_until": "2027-01-01",
        }})
    }
}

/// An error in Robot's words.
pub(crate) struct RobotRefusal(String);

impl RobotRefusal {
    pub(crate) fn new(code: &str) -> Self {
        Self(code.to_owned())
    }
}

impl IntoResponse for RobotRefusal {
    fn into_response(self) -> Response {
        let status = match self.0.as_str() {
            "UNAUTHORIZED" => StatusCode::UNAUTHORIZED,
            "RATE_LIMIT_EXCEEDED" => StatusCode::FORBIDDEN,
            "SERVER_NOT_FOUND" | "NOT_FOUND" | "RESET_NOT_AVAILABLE" => StatusCode::NOT_FOUND,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let body = json!({"error": {"status": status.as_u16(), "code": self.0, "message": self.0.to_lowercase()}});
        (status, Json(body)).into_response()
    }
}

pub(crate) async fn list(State(fake): State<Fake>) -> Response {
    let model = fake.model();
    if model.robot.is_empty() {
        return RobotRefusal::new("SERVER_NOT_FOUND").into_response();
    }
    Json(model.robot.values().map(RobotServer::json).collect::<Vec<_>>()).into_response()
}

pub(crate) async fn get(State(fake): State<Fake>, Path(number): Path<u64>) -> Response {
    match fake.model().robot.get(&number) {
        None => RobotRefusal::new("SERVER_NOT_FOUND").into_response(),
        Some(server) => Json(server.json()).into_response(),
    }
}

pub(crate) async fn reset(State(fake): State<Fake>, Path(number): Path<u64>) -> Response {
    match fake.model().robot.get(&number) {
        None => RobotRefusal::new("SERVER_NOT_FOUND").into_response(),
        Some(server) => Json(json!({"reset": {
            "server_number": number, "server_ip": server.server_ip, "type": ["hw"],
            "operating_status": server.operating_status,
        }}))
        .into_response(),
    }
}
