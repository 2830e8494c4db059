//! From nothing to work.
//!
//! Rules: APP-6, APP-12 to APP-19, APP-69, APP-81, APP-105.

use manager::{Failure, LostLease};
use provider_simulated::cloud::{DEFAULT_PROJECT, DEFAULT_TOKEN, Fault, FaultKind};
use serde_json::json;

use crate::world::{World, lease_of, seconds};

const CONTROLLERS: [&str; 3] = [
    "cloud-node-controller",
    "cloud-node-lifecycle-controller",
    "service-lb-controller",
];

fn names(checks: &[(String, bool)]) -> Vec<&str> {
    checks.iter().map(|(name, _)| name.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_process_alone_leads_works_and_shows_its_controllers_in_the_order_of_their_start() {
    let world = World::new();
    let process = world.start(&[]).await;
    seconds(5).await;
    assert!(world.is_initialised());
    assert_eq!(world.cloud.load_balancers().len(), 1);
    let checks = process.checks("healthz").await;
    assert_eq!(
        names(&checks),
        [&["leaderElection"][..], &CONTROLLERS].concat(),
        "APP-105"
    );
    assert!(checks.iter().all(|(_, well)| *well));
    let (status, text) = process.get("/readyz?verbose").await;
    assert_eq!(status, 200, "{text}");
    process.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_standby_serves_health_and_metrics_is_ready_and_changes_nothing() {
    let world = World::new();
    world.hold_the_lease();
    let process = world.start(&[]).await;
    seconds(10).await;
    assert_eq!(world.holder(), "somebody-else");
    assert_eq!(names(&process.checks("healthz").await), ["leaderElection"]);
    for path in [
        "/healthz",
        "/livez",
        "/readyz",
        "/metrics",
        "/metrics/slis",
        "/configz",
    ] {
        let (status, text) = process.get(path).await;
        assert_eq!(status, 200, "{path}: {text}");
    }
    let (_, metrics) = process.get("/metrics").await;
    let standby = "leader_election_master_status{name=\"cloud-controller-manager\"} 0\n";
    assert!(metrics.contains(standby), "{metrics}");
    assert!(!world.is_initialised() && world.cloud.load_balancers().is_empty());
    process.end().await.unwrap();
    assert_eq!(
        world.holder(),
        "somebody-else",
        "nothing was released that was not held"
    );
}

#[tokio::test(start_paused = true)]
async fn without_election_there_is_no_lease_no_check_of_it_and_work_begins_at_once() {
    let world = World::new();
    let process = world.start(&["--leader-elect=false"]).await;
    assert_eq!(
        names(&process.checks("healthz").await),
        ["ping"],
        "before controllers run"
    );
    seconds(5).await;
    assert!(world.is_initialised() && world.lease().is_none());
    assert_eq!(names(&process.checks("healthz").await), CONTROLLERS);
    process.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_where_no_controller_is_wanted_but_the_process_elects_and_serves() {
    let world = World::new();
    let process = world.start(&["--controllers="]).await;
    seconds(5).await;
    assert!(!world.holder().is_empty() && !world.is_initialised());
    assert_eq!(names(&process.checks("healthz").await), ["leaderElection"]);
    process.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn two_managers_in_one_process_share_nothing_but_the_lease() {
    let world = World::new();
    let first = world.start(&[]).await;
    seconds(3).await;
    let holder = world.holder();
    let second = world.start(&[]).await;
    seconds(30).await;
    assert_eq!(world.holder(), holder);
    assert_eq!(names(&second.checks("healthz").await), ["leaderElection"]);
    let before = tokio::time::Instant::now();
    first.end().await.unwrap();
    while world.holder() == holder || world.holder().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(
        before.elapsed().as_secs() < 1,
        "a release is followed within a second: {:?}",
        before.elapsed()
    );
    seconds(3).await;
    assert_eq!(second.checks("healthz").await.len(), 4);
    second.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn leader_waits_for_a_cloud_that_does_not_answer_and_is_not_ready() {
    let world = World::new();
    world.cloud.inject(Fault::new(FaultKind::Hang));
    let process = world.start(&[]).await;
    seconds(300).await;
    assert!(
        !world.holder().is_empty() && !world.is_initialised(),
        "it leads and does not end"
    );
    let checks = process.checks("readyz").await;
    assert!(
        checks.contains(&("provider".to_owned(), false)),
        "{checks:?}"
    );
    assert!(
        process
            .checks("healthz")
            .await
            .iter()
            .all(|(_, is_well)| *is_well),
        "it is not restarted"
    );
    world.cloud.clear_faults();
    seconds(70).await;
    assert!(world.is_initialised(), "the longest pause is over");
    assert_eq!(process.get("/readyz").await.0, 200);
    process.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn waiting_services_are_retried_when_the_credential_works_again() {
    let world = World::new();
    let process = world.start(&[]).await;
    seconds(5).await;
    world.cloud.revoke_token(DEFAULT_TOKEN);
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "mail", "namespace": "default"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 25, "nodePort": 30025}]},
    });
    world.api.seed(service).unwrap();
    // The fifth attempt was after 75 s, the next one is after 155 s.
    seconds(90).await;
    assert_eq!(world.cloud.load_balancers().len(), 1);
    world.cloud.add_token(DEFAULT_TOKEN, DEFAULT_PROJECT);
    seconds(10).await;
    assert_eq!(
        world.cloud.load_balancers().len(),
        2,
        "a Node that is not ready is asked for every 5 s"
    );
    process.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cloud_of_no_name_that_is_known_ends_the_start_with_255() {
    let world = World::new();
    let (process, _) = world.prepare(&["--cloud-provider=nimbus"], false).await;
    let failure = process.err().expect("there is no such cloud");
    assert_eq!(failure.code(), 255);
    assert!(
        failure
            .to_string()
            .contains("unknown cloud provider \"nimbus\""),
        "{failure}"
    );
}

const MIGRATION: &str = "cloud-provider-extraction-migration";

#[tokio::test(start_paused = true)]
async fn controllers_that_migrate_wait_for_the_second_lease() {
    let world = World::new();
    world
        .api
        .seed(lease_of(MIGRATION, "kube-controller-manager"))
        .unwrap();
    let process = world.start(&["--enable-leader-migration"]).await;
    seconds(10).await;
    assert_eq!(
        names(&process.checks("healthz").await),
        ["leaderElection", "cloud-node-controller"],
        "APP-78, APP-80"
    );
    assert!(world.is_initialised() && world.cloud.load_balancers().is_empty());
    let configuration = process.get("/configz").await.1;
    assert!(configuration.contains(MIGRATION), "{configuration}");
    // The Lease is not renewed.
    seconds(20).await;
    assert_eq!(
        names(&process.checks("healthz").await),
        [&["leaderElection"][..], &CONTROLLERS].concat()
    );
    assert_eq!(world.cloud.load_balancers().len(), 1);
    process.end().await.unwrap();
    let second = world
        .api
        .get("leases", Some("kube-system"), MIGRATION)
        .unwrap();
    assert_eq!(
        (world.holder().as_str(), &second["spec"]["holderIdentity"]),
        ("", &serde_json::json!("")),
        "both released"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_a_migration_file_is_told_before_a_port_is_bound() {
    let world = World::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("--secure-port={}", taken.local_addr().unwrap().port());
    let file = tempfile::NamedTempFile::new().unwrap();
    let config = format!("--leader-migration-config={}", file.path().display());
    let kind =
        "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\n";
    for (text, expected) in [
        (
            "controllers: [".to_owned(),
            "failed to parse leader migration configuration",
        ),
        (kind.replace("/v1", "/v7"), "is not known"),
        (
            format!("{kind}controllerLeaders: [{{name: route-controller}}]\n"),
            "leaderName: Required value",
        ),
        (
            format!("{kind}leaderName: cloud-controller-manager\n"),
            "change leaderName in the file of",
        ),
        (format!("{kind}leaderName: other\n"), "--secure-port"),
    ] {
        std::fs::write(file.path(), &text).unwrap();
        let flags = [
            "--enable-leader-migration",
            &config,
            &port,
            "--bind-address=127.0.0.1",
        ];
        let failure = world
            .prepare(&flags, false)
            .await
            .0
            .err()
            .expect("it cannot start");
        let said = failure.to_string();
        assert!(
            failure.code() == 1 && said.contains(expected) && !said.contains('\n'),
            "{text}: {said}"
        );
    }
    std::fs::remove_file(file.path()).unwrap();
    let failure = world
        .prepare(&["--enable-leader-migration", &config, &port], false)
        .await
        .0
        .err()
        .expect("no file");
    assert!(
        failure.code() == 1 && failure.to_string().contains(file.path().to_str().unwrap()),
        "{failure}"
    );
}

#[tokio::test(start_paused = true)]
async fn losing_the_second_lease_ends_the_process_as_losing_the_first() {
    let world = World::new();
    let process = world.start(&["--enable-leader-migration"]).await;
    seconds(10).await;
    world
        .api
        .seed(lease_of(MIGRATION, "kube-controller-manager"))
        .unwrap();
    let failure = process.task.await.unwrap().unwrap_err();
    assert!(
        matches!(failure, Failure::LostLease(LostLease::Migration)),
        "{failure}"
    );
    assert_eq!(
        (failure.code(), failure.to_string().as_str()),
        (1, "migration leaderelection lost")
    );
}
