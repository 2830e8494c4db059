//! Scenarios of the crash proof.

use std::time::Duration;

use super::Scenario;
use super::Step::{Settled, Then};
use super::deeds::{
    a_service, annotations_change, api_forgets, api_remembers, everything_at_once, machine_ends,
    machine_starts, machine_stops, node_joins, ports_change, service_comes, service_goes,
    set_other_class, set_ready, set_type, three_services_one_hopeless, two_nodes,
};

/// Shorter than making a load balancer takes.
const SOON: Duration = Duration::from_millis(700);

/// Long enough for a new list, and shorter than what was forgotten is held.
const A_WHILE: Duration = Duration::from_secs(20);

/// The scenarios in the order of the report.
pub const SCENARIOS: [Scenario; 17] = [
    Scenario {
        name: "a Node is initialised",
        routes: false,
        set_up: None,
        steps: &[Settled(|harness| node_joins(harness, "worker-1"))],
    },
    Scenario {
        name: "a machine is stopped and started",
        routes: false,
        set_up: Some(two_nodes),
        steps: &[
            Settled(|harness| machine_stops(harness, "worker-2")),
            Settled(|harness| machine_starts(harness, "worker-2")),
        ],
    },
    Scenario {
        name: "a machine is terminated and its Node deleted",
        routes: false,
        set_up: Some(two_nodes),
        steps: &[Settled(|harness| machine_ends(harness, "worker-2"))],
    },
    Scenario {
        name: "a Service is created",
        routes: false,
        set_up: Some(two_nodes),
        steps: &[Settled(|harness| service_comes(harness, "web"))],
    },
    Scenario {
        name: "ports change",
        routes: false,
        set_up: Some(a_service),
        steps: &[Settled(ports_change)],
    },
    Scenario {
        name: "annotations change, and ports meanwhile",
        routes: false,
        set_up: Some(a_service),
        steps: &[
            Then(annotations_change, Duration::ZERO),
            Settled(ports_change),
        ],
    },
    Scenario {
        name: "type away and back",
        routes: false,
        set_up: Some(a_service),
        steps: &[
            Settled(|harness| set_type(harness, "ClusterIP")),
            Settled(|harness| set_type(harness, "LoadBalancer")),
        ],
    },
    Scenario {
        name: "type away and back in a hurry",
        routes: false,
        set_up: Some(a_service),
        steps: &[
            Then(|harness| set_type(harness, "ClusterIP"), Duration::ZERO),
            Settled(|harness| set_type(harness, "LoadBalancer")),
        ],
    },
    Scenario {
        name: "class of another controller",
        routes: false,
        set_up: Some(a_service),
        steps: &[
            Settled(|harness| set_type(harness, "ClusterIP")),
            Settled(set_other_class),
        ],
    },
    Scenario {
        name: "class of another controller in a hurry",
        routes: false,
        set_up: Some(a_service),
        steps: &[
            Then(|harness| set_type(harness, "ClusterIP"), Duration::ZERO),
            Settled(set_other_class),
        ],
    },
    Scenario {
        name: "Nodes join, flap and leave",
        routes: false,
        set_up: Some(a_service),
        steps: &[
            Settled(|harness| node_joins(harness, "worker-3")),
            Settled(|harness| set_ready(harness, "worker-3", false)),
            Settled(|harness| set_ready(harness, "worker-3", true)),
            Settled(|harness| machine_ends(harness, "worker-2")),
        ],
    },
    Scenario {
        name: "a Service is deleted",
        routes: false,
        set_up: Some(a_service),
        steps: &[Settled(|harness| service_goes(harness, "web"))],
    },
    Scenario {
        name: "a Service is deleted while it is made",
        routes: false,
        set_up: Some(two_nodes),
        steps: &[
            Then(|harness| service_comes(harness, "web"), SOON),
            Settled(|harness| service_goes(harness, "web")),
        ],
    },
    Scenario {
        name: "three Services, of which one always fails",
        routes: false,
        set_up: Some(two_nodes),
        steps: &[
            Settled(three_services_one_hopeless),
            Settled(|harness| service_goes(harness, "mail")),
        ],
    },
    Scenario {
        name: "the API server forgets and shows again",
        routes: true,
        set_up: Some(a_service),
        steps: &[
            Then(|harness| api_forgets(harness, "services"), A_WHILE),
            Then(|harness| api_remembers(harness, "services"), A_WHILE),
            Then(|harness| api_forgets(harness, "services"), A_WHILE),
            Settled(|harness| api_remembers(harness, "services")),
            Settled(ports_change),
        ],
    },
    Scenario {
        name: "routes follow the Nodes",
        routes: true,
        set_up: Some(two_nodes),
        steps: &[
            Settled(|harness| node_joins(harness, "worker-3")),
            Settled(|harness| machine_ends(harness, "worker-2")),
        ],
    },
    Scenario {
        name: "Nodes, Services and routes, all at once",
        routes: true,
        set_up: Some(a_service),
        steps: &[Settled(everything_at_once)],
    },
];
