//! `cloud-controller-manager doctor`: each check has a test in which it fails, and what a person reads is held as a whole.
//!
//! Rules: DEP-31, DEP-95, P-6.

mod diagnosis;
mod world;

use cloud_provider::Severity;
use embedded_apiserver::Action;
use manager::doctor::{json, text};
use provider_simulated::cloud::{DEFAULT_TOKEN, Fault, FaultKind, LoadBalancerSpec};
use tokio::time::Instant;
use world::{World, rounded};

#[tokio::test(start_paused = true)]
async fn a_cluster_in_which_all_is_well_is_told_so_line_by_line() {
    let world = World::well();
    let report = world.examine().await;
    assert_eq!(rounded(&text(&report)), include_str!("golden/well.txt"));
    assert_eq!(report.exit_code(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_sick_cluster_is_told_what_to_do_in_text_and_in_json() {
    let mut world = World::well();
    world.deny("delete", "nodes").deny("watch", "leases");
    world.skew_seconds = -7;
    world.seed_node("wroker-2", 20, true, "");
    world.seed_service(
        "shop",
        30,
        Some(("QuotaExceeded", "The quota is used up. Raise it.")),
    );
    world.seed_lease(
        "kube-system",
        "hcloud-cloud-controller-manager",
        "other_1",
        1,
    );
    let report = world.examine().await;
    assert_eq!(rounded(&text(&report)), include_str!("golden/sick.txt"));
    assert_eq!(
        rounded(&format!("{:#}\n", json(&report))),
        include_str!("golden/sick.json")
    );
    assert_eq!(report.exit_code(), 1);
}

#[test]
fn sample_of_the_page_is_the_output_for_the_sick_cluster() {
    let sample: String = include_str!("golden/sick.txt")
        .lines()
        .map(|line| format!("    {line}\n"))
        .collect();
    let page = include_str!("../../../docs/doctor.md");
    assert!(
        page.contains(&sample),
        "docs/doctor.md shows another output than:\n{sample}"
    );
}

/// Returns the findings of one check, each as `severity text; remedy`.
async fn of(world: &World, check: &str) -> Vec<String> {
    let report = world.examine().await;
    let found = report
        .findings
        .iter()
        .filter(|finding| finding.check == check);
    let said: Vec<_> = found
        .map(|finding| {
            let mark = match finding.severity {
                Severity::Ok => "ok",
                Severity::Warning => "warn",
                Severity::Failure => "FAIL",
            };
            format!(
                "{mark} {}; {}",
                finding.text,
                finding.remedy.as_deref().unwrap_or_default()
            )
        })
        .collect();
    assert!(
        !said.is_empty(),
        "no finding of {check:?} in:\n{}",
        text(&report)
    );
    said
}

async fn expect(world: &World, check: &str, parts: &[&str]) {
    let said = of(world, check).await.join("\n");
    for part in parts {
        assert!(said.contains(part), "{part:?} is missing in: {said}");
    }
}

#[tokio::test(start_paused = true)]
async fn node_without_provider_id_and_taint_is_a_warning_with_the_flags() {
    let world = World::well();
    world.seed_node("worker-1", 600, false, "");
    world.seed_node("worker-2", 600, false, "");
    let parts = [
        "warn worker-1, worker-2: neither a provider ID",
        "--cloud-provider=external",
        "--adopt-nodes",
    ];
    expect(&world, "nodes", &parts).await;
}

#[tokio::test(start_paused = true)]
async fn nodes_that_are_all_of_another_cloud_are_a_warning() {
    let world = World::well();
    world.seed_node("worker-1", 600, false, "k3s://worker-1");
    assert!(
        !of(&world, "nodes")
            .await
            .iter()
            .any(|finding| finding.starts_with("warn")),
        "a hybrid cluster"
    );
    world.seed_node("worker-2", 600, false, "k3s://worker-2");
    let parts = [
        "warn all 2 Nodes have the provider ID of another cloud",
        "k3s://worker-1",
        "--disable-cloud-controller",
    ];
    expect(&world, "nodes", &parts).await;
}

#[tokio::test(start_paused = true)]
async fn load_balancer_that_somebody_deleted_is_a_warning() {
    let world = World::well();
    let balancer = world.cloud.load_balancers()[0].id.clone();
    assert!(world.cloud.remove_load_balancer(&balancer));
    let parts = [
        "warn default/web: LoadBalancerMissing",
        "restart the manager",
    ];
    expect(&world, "services", &parts).await;
}

#[tokio::test(start_paused = true)]
async fn load_balancer_of_a_deleted_service_is_a_warning() {
    let world = World::well();
    let namespace = world.api.get("namespaces", None, "kube-system").unwrap();
    let cluster = namespace["metadata"]["uid"].as_str().unwrap();
    let labels = [("ccm-rs/cluster", cluster), ("ccm-rs/service", "dead")];
    let labels = labels
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    world.cloud.add_load_balancer(LoadBalancerSpec {
        name: "left".into(),
        labels,
        ..LoadBalancerSpec::default()
    });
    let parts = [
        "warn load balancer \"left\" (lb-",
        "its owner no longer exists",
        "orphans --delete to delete them",
    ];
    expect(&world, "orphans", &parts).await;
}

#[tokio::test(start_paused = true)]
async fn node_whose_instance_is_shut_down_is_a_warning() {
    let world = World::well();
    world.cloud.stop("worker-2");
    expect(
        &world,
        "nodes",
        &["warn worker-2: the cloud reports its instance as shut down; start the instance"],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_fails_and_what_needs_it_is_named_once() {
    let world = World::well();
    world.api.faults().add(World::any(), Action::Refused);
    expect(&world, "api", &["FAIL"]).await;
    expect(
        &world,
        "cluster",
        &["permissions, clock, lease, Nodes and Services were not checked"],
    )
    .await;
    expect(&world, "cloud token", &["ok"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_know_us_or_is_busy_is_told_apart() {
    for (code, reason, check, part) in [
        (
            401,
            "Unauthorized",
            "api credential",
            "does not know who asks (401)",
        ),
        (503, "ServiceUnavailable", "api", "answers 503"),
    ] {
        let world = World::well();
        let reason = reason.to_owned();
        let message = "no".to_owned();
        world.api.faults().add(
            World::any(),
            Action::Status {
                code,
                reason,
                message,
                retry_after_seconds: None,
            },
        );
        expect(&world, check, &["FAIL", part]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_old_version_warns() {
    let remedy = "upgrade the cluster to 1.34 or later";
    expect(
        &World::of_version("v1.33.4"),
        "api version",
        &["warn v1.33.4 is older than 1.34", remedy],
    )
    .await;
    expect(
        &World::of_version("v1.27.4"),
        "api version",
        &["warn v1.27.4 is older than 1.30", remedy],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_version_newer_than_the_tested_ones_is_fine_and_named() {
    expect(
        &World::of_version("v1.38.0"),
        "api version",
        &["ok v1.38.0; newer than 1.37"],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_permission_that_is_missing_fails_with_the_rule_and_an_optional_one_warns() {
    let mut world = World::well();
    world.deny("patch", "services").deny("get", "namespaces");
    let said = of(&world, "permissions").await;
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said[0].starts_with("warn may not get namespaces \"kube-system\""),
        "{said:?}"
    );
    assert!(
        said[1].starts_with("FAIL may not patch services/status"),
        "{said:?}"
    );
    assert!(
        said[1].contains("- {apiGroups: [\"\"], resources: [services/status], verbs: [patch]}"),
        "{said:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_name_that_does_not_resolve_fails_with_the_resolver_that_was_asked() {
    let mut world = World::well();
    world.situation.server = "https://api.example.invalid:6443".into();
    expect(
        &world,
        "dns",
        &[
            "FAIL",
            "\"api.example.invalid\"",
            "asked 10.96.0.10",
            "dnsPolicy: Default",
        ],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_off_warns_and_far_off_fails() {
    let mut world = World::well();
    for (skew, parts) in [
        (5, ["warn", "behind"]),
        (-5, ["warn", "ahead of"]),
        (40, ["FAIL", "more than a lease lasts (15 s)"]),
    ] {
        world.skew_seconds = skew;
        expect(&world, "clock", &parts).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_nobody_renews_or_holds_warns() {
    let world = World::well();
    world.seed_lease("kube-system", "cloud-controller-manager", "ccm-1_x", 3600);
    expect(
        &world,
        "lease",
        &[
            "warn",
            "ccm-1_x, which has not renewed it for 60 min: no replica leads",
        ],
    )
    .await;
    world.seed_lease("kube-system", "cloud-controller-manager", "", 1);
    expect(&world, "lease", &["warn", "held by nobody"]).await;
    world
        .api
        .remove("leases", Some("kube-system"), "cloud-controller-manager");
    expect(&world, "lease", &["warn", "no replica has led yet"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_another_manager_that_is_renewed_warns_and_an_old_one_does_not() {
    let world = World::well();
    world.seed_lease(
        "kube-system",
        "openstack-cloud-controller-manager",
        "other_1",
        3600,
    );
    let report = world.examine().await;
    assert!(
        report
            .findings
            .iter()
            .all(|finding| finding.check != "rivals"),
        "{}",
        text(&report)
    );
    world.seed_lease(
        "kube-system",
        "openstack-cloud-controller-manager",
        "other_1",
        2,
    );
    expect(
        &world,
        "rivals",
        &[
            "warn",
            "lease kube-system/openstack-cloud-controller-manager is held by other_1",
        ],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_refuses_the_token_or_a_permission_or_does_not_answer_fails() {
    let world = World::well();
    world
        .cloud
        .inject(Fault::status(403).on("GET /v1/load-balancers"));
    expect(
        &world,
        "cloud permissions",
        &["FAIL cannot list load balancers", "give the token's role"],
    )
    .await;
    world.cloud.clear_faults();
    world.cloud.inject(Fault::status(500));
    expect(&world, "cloud endpoint", &["FAIL", "check `endpoint`"]).await;
    world.cloud.clear_faults();
    world.cloud.revoke_token(DEFAULT_TOKEN);
    expect(
        &world,
        "cloud token",
        &["FAIL", "put a valid one into `token`"],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_cannot_be_made_or_panics_fails_and_the_rest_is_checked() {
    let mut world = World::well();
    world.no_provider = Some("unknown cloud provider \"acme\"".into());
    expect(
        &world,
        "cloud configuration",
        &["FAIL unknown cloud provider \"acme\"; correct --cloud-provider"],
    )
    .await;
    expect(&world, "lease", &["ok"]).await;
    world.no_provider = None;
    world.panics = true;
    expect(&world, "cloud", &["FAIL the provider panicked"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_machine_fails_with_the_closest_names() {
    let world = World::well();
    world.seed_node("wroker-1", 1, true, "");
    expect(
        &world,
        "nodes",
        &[
            "FAIL wroker-1 matches no machine",
            "closest: \"worker-1\"",
            "--hostname-override",
        ],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_waits_for_its_initialisation_for_long_warns_and_a_young_one_does_not() {
    let world = World::well();
    world.add_machine("late-1");
    world.seed_node("late-1", 3, true, "");
    expect(&world, "nodes", &["ok"]).await;
    world.seed_node("late-1", 12, true, "");
    expect(
        &world,
        "nodes",
        &["warn late-1 has a machine, but waits for its initialisation for 12 min"],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn nodes_of_which_the_cloud_says_nothing_fail() {
    let world = World::well();
    world
        .cloud
        .inject(Fault::status(403).on("GET /v1/machines"));
    world
        .cloud
        .inject(Fault::status(403).on("GET /v1/machines/{id}"));
    expect(
        &world,
        "nodes",
        &["FAIL worker-1: GET /v1/machines/m-000001 answered 403"],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn cloud_that_hangs_is_told_at_once_and_once() {
    let world = World::well();
    world.cloud.inject(Fault::new(FaultKind::Hang));
    let begin = Instant::now();
    let mut told = Vec::new();
    let report = world
        .examine_telling(&mut |finding| told.push((finding.check.clone(), begin.elapsed())))
        .await;
    let at = |check: &str| {
        told.iter()
            .find(|(text, _)| text == check)
            .map(|(_, at)| at.as_secs())
    };
    // The requests of the start and of the provider's checks share a connection.
    assert!(
        at("lease") == Some(0) && at("cloud endpoint").is_some_and(|at| at < 12),
        "{told:?}"
    );
    assert!(
        at("nodes").is_some_and(|at| at < 25),
        "two requests, one after the other: {told:?}"
    );
    let text = text(&report);
    assert!(
        text.contains(
            "warn  nodes: worker-1, worker-2: not checked, because the cloud does not answer"
        ),
        "{text}"
    );
    assert_eq!(text.matches("check `endpoint`").count(), 1, "{text}");
}

#[tokio::test(start_paused = true)]
async fn provider_has_its_access_to_kubernetes_before_its_own_checks() {
    let mut world = World::well();
    world.needs_context = true;
    let report = text(&world.examine().await);
    assert!(
        report.contains("can start") && !report.contains("no access"),
        "{report}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_the_manager_would_not_start_with_fails() {
    let mut world = World::well();
    world.refusal = Some("no ClusterID found".to_owned());
    expect(
        &world,
        "cloud configuration",
        &["FAIL no ClusterID found; the manager does not start"],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_waits_warns_with_the_reason_that_is_written_on_it() {
    let world = World::well();
    world.seed_service("shop", 30, Some(("Unauthorized", "The token is refused.")));
    expect(
        &world,
        "services",
        &["warn default/shop has no address for 30 min: Unauthorized; The token is refused"],
    )
    .await;
    world.seed_service("shop", 30, None);
    expect(
        &world,
        "services",
        &["warn default/shop has no address for 30 min, and no condition says why"],
    )
    .await;
    world.seed_service("shop", 3, None);
    expect(&world, "services", &["ok"]).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_changed_whatever_is_found() {
    let world = World::well();
    world.seed_node("wroker-1", 10, true, "");
    world.seed_service("shop", 30, None);
    let revision = world.api.revision();
    world.examine().await;
    assert_eq!(world.api.revision(), revision);
    let reviews = |path: &str| path.ends_with("accessreviews");
    let writes: Vec<_> = world
        .api
        .requests()
        .writes()
        .into_iter()
        .filter(|request| !reviews(&request.path))
        .collect();
    assert!(writes.is_empty(), "{writes:?}");
    assert!(
        world
            .cloud
            .requests()
            .into_keys()
            .all(|route| route.starts_with("GET "))
    );
}
