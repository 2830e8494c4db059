//! The exposed series are those of the specification: every row of its tables, and in addition only series with the
//! program's own prefix.
//!
//! Rules: MET-3, MET-4, MET-10, MET-11, MET-21, MET-22, MET-25 to MET-27, MET-40, MET-50, NODE-80, SVC-91.

// The helpers of these tests too may fail a test by a panic.
#![allow(clippy::unwrap_used)]

#[path = "metrics/drive.rs"]
mod drive;
#[path = "metrics/running.rs"]
mod running;
#[path = "metrics/table.rs"]
mod table;

use std::collections::{BTreeMap, BTreeSet};

use ccm_tests::exposition::{Family, parse};
use metrics::Metrics;
use serving::health::Health;
use table::{Presence, Priority, Row, rows};

const PROVIDER: &str = "simulated";

/// Returns the families of both metrics paths.
fn shown(metrics: &Metrics, health: &Health) -> [BTreeMap<String, Family>; 2] {
    [
        parse(&metrics.render()),
        parse(&metrics.render_slis(health)),
    ]
}

/// Returns the families of a process that has used every hook once.
fn driven() -> [BTreeMap<String, Family>; 2] {
    let metrics = drive::started();
    let health = Health::new();
    drive::controllers(&metrics);
    drive::everything(&metrics, &health, PROVIDER);
    shown(&metrics, &health)
}

#[tokio::test]
async fn every_row_is_shown_as_the_specification_says() {
    let [metrics, slis] = driven();
    let mut faults = Vec::new();
    for row in rows().iter().filter(|row| row.lacking.is_none()) {
        let families = if row.section == 9 { &slis } else { &metrics };
        faults.extend(row.faults(families.get(&row.name(PROVIDER))));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn nothing_that_must_be_there_is_lacking_and_nothing_accidental_is_there() {
    for row in rows() {
        match row.priority {
            Priority::Must => assert_eq!(row.lacking, None, "{}", row.name),
            Priority::No => assert!(row.lacking.is_some(), "{}", row.name),
            // An optional series that is missing has its reason in the table.
            Priority::Should | Priority::Opt => {}
        }
    }
}

#[tokio::test]
async fn what_is_in_no_table_has_our_prefix() {
    let known: BTreeSet<String> = rows().iter().map(|row| row.name(PROVIDER)).collect();
    for name in driven().iter().flat_map(BTreeMap::keys) {
        assert!(name.starts_with("ccm_") || known.contains(name), "{name}");
    }
    for row in rows().iter().filter(|row| row.lacking.is_some()) {
        let prefix = row.name.trim_end_matches('*');
        let found = driven()
            .iter()
            .flat_map(BTreeMap::keys)
            .any(|name| name == prefix || row.is_family(name));
        assert!(
            !found,
            "{} is there, though the table says why it is not",
            row.name
        );
    }
}

#[tokio::test]
async fn a_standby_shows_what_is_there_from_the_start_and_a_leader_more() {
    let metrics = drive::started();
    let health = Health::new();
    let expect = |families: &[BTreeMap<String, Family>; 2], there: &[Presence]| {
        for row in rows()
            .iter()
            .filter(|row| row.lacking.is_none() && row.presence != Presence::Any)
        {
            let found = families[usize::from(row.section == 9)].contains_key(&row.name(PROVIDER));
            assert_eq!(
                found,
                there.contains(&row.presence),
                "{} is there from: {:?}",
                row.name,
                row.presence
            );
        }
    };
    expect(&shown(&metrics, &health), &[Presence::Start]);
    drive::controllers(&metrics);
    expect(
        &shown(&metrics, &health),
        &[Presence::Start, Presence::Leader],
    );
}

#[tokio::test]
async fn every_declaration_is_shown_once_it_is_used() {
    let shown = driven();
    for series in metrics::series::all() {
        let name = series.name.replace(metrics::series::PROVIDER, PROVIDER);
        assert!(
            shown.iter().any(|families| families.contains_key(&name)),
            "{name} is declared and never shown"
        );
    }
}

#[test]
fn rows_name_each_series_once() {
    let rows: Vec<Row> = rows();
    assert!(rows.len() > 90, "{}", rows.len());
    let names: BTreeSet<_> = rows
        .iter()
        .map(|row| (row.section == 9, &row.name))
        .collect();
    assert_eq!(names.len(), rows.len());
}

/// Series that fifteen quiet minutes in this process do not produce.
const NO_OCCASION: &[&str] = &[
    // Callers come over TLS, and webhooks too; their own tests drive the hooks.
    "authentication_",
    "authenticated_user_requests",
    "authorization_",
    "apiserver_delegated_",
    "cloud_provider_webhook_",
    // Nothing goes wrong.
    "leader_election_slowpath_total",
    "rest_client_request_retries_total",
    "cloudprovider_simulated_api_throttled_requests_total",
    "ccm_cloud_api_rate_limit_remaining",
    "ccm_node_deletion_suppressed_total",
    "ccm_loadbalancer_deletion_suppressed_total",
];

#[tokio::test(start_paused = true)]
async fn a_running_manager_shows_what_the_specification_says() {
    tokio::task::LocalSet::new()
        .run_until(quarter_of_an_hour())
        .await;
}

async fn quarter_of_an_hour() {
    let program = running::Running::start().await;
    program.wait(60).await;
    // A Node joins: the load balancer's targets change. The machine of another is shut down, and then deleted.
    program.api.seed(running::node(2, "True")).unwrap();
    program.api.seed(running::node(3, "False")).unwrap();
    program.wait(120).await;
    assert!(program.cloud.stop("worker-3"));
    program.wait(60).await;
    assert!(program.cloud.terminate("worker-3"));
    program.wait(660).await;
    _ = program.get("/healthz").await;
    let metrics = parse(&program.get("/metrics").await);
    let slis = parse(&program.get("/metrics/slis").await);
    let mut faults = Vec::new();
    for row in rows().iter().filter(|row| row.lacking.is_none()) {
        let name = row.name(PROVIDER);
        let families = if row.section == 9 { &slis } else { &metrics };
        let excused = NO_OCCASION.iter().any(|prefix| name.starts_with(prefix));
        if !excused || families.contains_key(&name) {
            faults.extend(row.faults(families.get(&name)));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));

    let of = |name: &str, label: &str| -> BTreeMap<String, f64> {
        metrics[name]
            .samples
            .iter()
            .map(|sample| (sample.labels[label].clone(), sample.value))
            .collect()
    };
    let all = ["cloud-node", "cloud-node-lifecycle", "route", "service"]
        .map(|name| (name.to_owned(), 1.0));
    assert_eq!(
        of("running_managed_controllers", "name"),
        BTreeMap::from(all)
    );
    assert_eq!(
        of("leader_election_master_status", "name")["cloud-controller-manager"],
        1.0
    );
    // MET-15; Routes has a queue in watch mode only.
    let queues: Vec<String> = of("workqueue_depth", "name").into_keys().collect();
    assert_eq!(queues, ["Nodes", "node", "service"]);
    assert_eq!(
        metrics["node_controller_initial_node_sync_delay_seconds"]
            .samples
            .last()
            .map(|sample| sample.value),
        Some(3.0)
    );
    assert_eq!(
        of("ccm_node_shutdown_taints_total", "operation")["set"],
        1.0
    );
    assert_eq!(of("ccm_node_deletions_total", "reason")["gone"], 1.0);
    assert_eq!(of("ccm_loadbalancer_state", "state")["ready"], 1.0);
    assert_eq!(
        of("ccm_orphaned_resources", "kind"),
        BTreeMap::from([("load_balancer".to_owned(), 0.0)])
    );
    assert_eq!(metrics["ccm_node_uninitialized"].samples[0].value, 0.0);
    let routes = of("ccm_routes", "state");
    assert_eq!(
        (routes["desired"], routes["present"], routes["failed"]),
        (2.0, 2.0, 0.0)
    );
    program.stop().await;
}
