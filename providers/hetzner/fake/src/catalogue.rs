//! Catalogue of the cloud: locations and types of load balancers.

use serde_json::{Value, json};

use crate::lists::{names, page};
use crate::model::Model;
use crate::refusal::Answer;
use crate::routes::ApiRequest;

/// A location of the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Name of the location, such as `fsn1`.
    pub name: &'static str,
    /// Network zone of the location, such as `eu-central`.
    pub network_zone: &'static str,
}

/// The locations of the cloud.
pub const LOCATIONS: [Location; 6] = [
    Location {
        name: "fsn1",
        network_zone: "eu-central",
    },
    Location {
        name: "nbg1",
        network_zone: "eu-central",
    },
    Location {
        name: "hel1",
        network_zone: "eu-central",
    },
    Location {
        name: "ash",
        network_zone: "us-east",
    },
    Location {
        name: "hil",
        network_zone: "us-west",
    },
    Location {
        name: "sin",
        network_zone: "ap-southeast",
    },
];

/// Returns a location, also one that is not in the list.
pub(crate) fn location(name: &str) -> Value {
    let found = LOCATIONS.iter().position(|location| location.name == name);
    let zone = found.map_or("eu-central", |at| LOCATIONS[at].network_zone);
    json!({"id": found.unwrap_or(LOCATIONS.len()) + 1, "name": name, "description": name, "country": "DE", "city": name,
        "latitude": 50.0, "longitude": 12.0, "network_zone": zone})
}

/// A type of load balancers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalancerType {
    /// ID of the type.
    pub id: u64,
    /// Name of the type, such as `lb11`.
    pub name: String,
    /// Maximum number of targets.
    pub max_targets: usize,
    /// Maximum number of services.
    pub max_services: usize,
    /// Maximum number of certificates.
    pub max_assigned_certificates: usize,
    /// Times of a deprecation in RFC 3339: its announcement, and the time after which the type is unavailable.
    pub deprecation: Option<(String, String)>,
}

pub(crate) fn types() -> Vec<BalancerType> {
    let all = [
        (1, "lb11", 25, 5, 10),
        (2, "lb21", 75, 15, 25),
        (3, "lb31", 150, 30, 50),
    ];
    let kind = |(id, name, max_targets, max_services, max_assigned_certificates): (
        u64,
        &str,
        usize,
        usize,
        usize,
    )| {
        let name = name.to_owned();
        BalancerType {
            id,
            name,
            max_targets,
            max_services,
            max_assigned_certificates,
            deprecation: None,
        }
    };
    all.map(kind).into()
}

impl BalancerType {
    pub(crate) fn json(&self) -> Value {
        let price = json!({"net": "1.0000", "gross": "1.1900"});
        let prices = json!([{"location": "fsn1", "price_hourly": price, "price_monthly": price,
            "price_per_tb_traffic": price, "included_traffic": 0}]);
        let mut object = json!({
            "id": self.id, "name": self.name, "description": self.name, "max_connections": 10_000,
            "max_targets": self.max_targets, "max_services": self.max_services,
            "max_assigned_certificates": self.max_assigned_certificates, "prices": prices, "deprecated": null,
        });
        if let Some((announced, unavailable_after)) = &self.deprecation {
            object["deprecated"] = json!(unavailable_after);
            object["deprecation"] =
                json!({"announced": announced, "unavailable_after": unavailable_after});
        }
        object
    }
}

pub(crate) fn locations(_: &mut Model, request: &ApiRequest) -> Answer {
    page(
        request,
        "locations",
        LOCATIONS
            .iter()
            .filter(|location| names(request, location.name)),
        |page| location(page.name),
    )
}

pub(crate) fn balancer_types(model: &mut Model, request: &ApiRequest) -> Answer {
    let items = model
        .types
        .iter()
        .filter(|balancer_type| names(request, &balancer_type.name));
    page(request, "load_balancer_types", items, BalancerType::json)
}
