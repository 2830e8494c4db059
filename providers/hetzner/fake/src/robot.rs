//! Robot, the web service for dedicated servers.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};

use crate::model::Model;
use crate::refusal::{Answer, Refusal};
use crate::routes::{ApiRequest, ok};

/// A dedicated server of the Robot API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RobotServer {
    /// Number of the server.
    pub server_number: u64,
    /// Name of the server.
    pub server_name: String,
    /// IPv4 address of the server, if any.
    pub server_ip: Option<Ipv4Addr>,
    /// The first address of its IPv6 network, if it has one.
    pub server_ipv6_net: Option<Ipv6Addr>,
    /// Product of the server, such as `AX41`.
    pub product: String,
    /// Data centre of the server, such as `FSN1-DC14`.
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

fn found<'a>(model: &'a Model, request: &ApiRequest) -> Result<&'a RobotServer, Refusal> {
    let number = request.id().parse().ok();
    number
        .and_then(|number: u64| model.robot.get(&number))
        .ok_or_else(|| Refusal::robot("SERVER_NOT_FOUND"))
}

pub(crate) fn list(model: &mut Model, _: &ApiRequest) -> Answer {
    if model.robot.is_empty() {
        return Err(Refusal::robot("SERVER_NOT_FOUND"));
    }
    ok(model.robot.values().map(RobotServer::json).collect())
}

pub(crate) fn get(model: &mut Model, request: &ApiRequest) -> Answer {
    ok(found(model, request)?.json())
}

pub(crate) fn reset(model: &mut Model, request: &ApiRequest) -> Answer {
    let server = found(model, request)?;
    ok(
        json!({"reset": {"server_number": server.server_number, "server_ip": server.server_ip, "type": ["hw"],
        "operating_status": server.operating_status}}),
    )
}
