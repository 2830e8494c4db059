use super::*;

/// Returns requests with this many lists of machines, patches of each kind for Nodes, and created load balancers.
fn requests(list: u64, patches: u64, balancers: u64) -> Requests {
    let by = |sender, resource: &str, verb: &str| (sender, resource.to_owned(), verb.to_owned());
    Requests {
        cloud: [
            ("GET /v1/machines".to_owned(), list),
            ("GET /v1/load-balancers".to_owned(), 1),
            ("POST /v1/load-balancers".to_owned(), balancers),
        ]
        .into(),
        kubernetes: [
            (by(Sender::NodeControllers, "nodes", "patch"), patches),
            (
                by(Sender::NodeControllers, "nodes/status", "patch"),
                patches,
            ),
            (by(Sender::Shared, "nodes", "watch"), 1),
            (by(Sender::NodeControllers, "events", "create"), 5),
            (
                by(Sender::ServiceController, "services/status", "patch"),
                2 * balancers,
            ),
            (by(Sender::ServiceController, "events", "create"), balancers),
            (by(Sender::Kubelets, "nodes", "create"), 5),
        ]
        .into(),
    }
}

pub(in crate::demo) fn report() -> Report {
    let step = |name, millis, requests| StepCost {
        name,
        took: Duration::from_millis(millis),
        requests,
    };
    Report {
        nodes: 5,
        services: 4,
        ok: true,
        steps: vec![
            step("register", 20, Requests::default()),
            step("initialise", 130, requests(1, 5, 0)),
            step("expose", 640, requests(4, 6, 4)),
        ],
        took: Duration::from_secs(2),
        peak_memory: Some(30 * 1024),
    }
}

#[test]
fn tables_are_aligned_and_each_step_shows_its_own_share() {
    let sections = report().sections();
    assert_eq!(
        sections[0].rows,
        [
            "step        seconds  reads  changes  Nodes  Services  events",
            "register       0.02      0        0      0         0       0",
            "initialise     0.13      2        0     10         0       5",
            "expose         0.64      3        4      2         8       4",
        ]
    );
    assert_eq!(sections[2].rows.len(), 8);
    assert_eq!(
        sections[3].rows,
        [
            "a Service is  cloud reads  cloud changes  Service writes  event writes",
            "created              0.00           1.00            2.00          1.00",
        ]
    );
    assert!(
        sections[4].rows[1].starts_with("2.00 writes"),
        "{:?}",
        sections[4].rows
    );
}

#[test]
fn programs_get_the_same_figures() {
    let object = report().object();
    assert_eq!(
        (&object["ok"], &object["writesPerNode"]),
        (&json!(true), &json!(2.0))
    );
    assert_eq!(
        object["steps"][2],
        json!({
            "step": "expose", "seconds": 0.64, "cloudRequests": 7, "cloudChanges": 4, "nodeWrites": 2,
            "serviceWrites": 8, "eventWrites": 4,
        })
    );
    assert_eq!(
        object["perService"],
        json!([{"step": "expose", "cloudReads": 0.0, "cloudChanges": 1.0, "serviceWrites": 2.0, "eventWrites": 1.0}])
    );
}

#[test]
fn peak_memory_is_read_from_the_status_file() {
    assert_eq!(
        vm_hwm("Name:\tx\nVmPeak:\t  99 kB\nVmHWM:\t   12345 kB\n"),
        Some(12345)
    );
    assert_eq!(vm_hwm(""), None);
}
