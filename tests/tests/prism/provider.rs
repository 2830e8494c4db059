//! Every request that the provider can send.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use ccm_conformance::Harness;
use ccm_tests::profiles::HetznerCloud;
use cloud_provider::{CloudProvider, Fence, Setup};
use provider_hetzner::Hetzner;
use provider_hetzner::config::{CachePolicy, Config};
use provider_kit::transport::Transport;
use regex_lite::Regex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::scene::Scene;

/// Routes of the cloud's API that the provider uses.
const ROUTES: [&str; 29] = [
    "GET /locations",
    "GET /servers",
    "GET /servers/{id}",
    "GET /networks",
    "GET /networks/{id}",
    "POST /networks/{id}/actions/add_route",
    "POST /networks/{id}/actions/delete_route",
    "GET /load_balancer_types",
    "GET /load_balancers",
    "GET /load_balancers/{id}",
    "POST /load_balancers",
    "PUT /load_balancers/{id}",
    "DELETE /load_balancers/{id}",
    "POST /load_balancers/{id}/actions/change_algorithm",
    "POST /load_balancers/{id}/actions/change_type",
    "POST /load_balancers/{id}/actions/change_dns_ptr",
    "POST /load_balancers/{id}/actions/attach_to_network",
    "POST /load_balancers/{id}/actions/detach_from_network",
    "POST /load_balancers/{id}/actions/enable_public_interface",
    "POST /load_balancers/{id}/actions/disable_public_interface",
    "POST /load_balancers/{id}/actions/add_service",
    "POST /load_balancers/{id}/actions/update_service",
    "POST /load_balancers/{id}/actions/delete_service",
    "POST /load_balancers/{id}/actions/add_target",
    "POST /load_balancers/{id}/actions/remove_target",
    "GET /certificates",
    "POST /certificates",
    "DELETE /certificates/{id}",
    "GET /actions",
];

/// Time-out until a change shows.
const SOON: Duration = Duration::from_secs(120);

/// Routes of Robot and of the metadata service, for which there is no document.
const OTHER_APIS: [&str; 4] = [
    "/server",
    "/server/{number}",
    "/reset/{number}",
    "/private-networks",
];

/// Returns the program between an API server of its own and the cloud behind the proxy.
fn harness(scene: &Scene, cloud: &HetznerCloud, cache: CachePolicy) -> Harness {
    let connector = scene.connector();
    let endpoint = scene.proxy.clone();
    let behind = cloud.clone();
    let provider = move || -> Arc<dyn CloudProvider> {
        let mut config = Config {
            endpoint: endpoint.clone(),
            ..behind.config()
        };
        config.instances.cache = cache;
        let transport = provider_hetzner::transports::cloud(&config, &Setup::default())
            .connector(connector.clone());
        let transport = transport.build().expect("CCM_TEST_HETZNER_PROXY is a URL");
        let metadata =
            Transport::builder("http://metadata/hetzner/v1/metadata").service(behind.fake.router());
        let metadata = metadata.build().expect("the address is an address");
        Arc::new(Hetzner::over(config, transport, None, metadata))
    };
    Harness::of(cloud)
        .routes()
        .provider(move |_, _, _| provider())
        .build()
}

/// Waits until a request on this route is sent, after the `before` earlier ones.
async fn until_sent(scene: &Scene, harness: &Harness, route: &str, before: usize) -> Result<()> {
    let begun = Instant::now();
    while scene.fake.count(route) == before {
        scene.judge()?;
        let counts = scene.fake.counts();
        ensure!(
            begun.elapsed() < SOON,
            "{route} was not sent; {:?}; {counts:#?}",
            harness.warnings(5)
        );
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Annotations without their prefix; `None`: taken off.
type Annotations = &'static [(&'static str, Option<&'static str>)];

async fn annotate(harness: &Harness, service: &str, annotations: Annotations) {
    let annotations: serde_json::Map<String, Value> = annotations
        .iter()
        .map(|(key, value)| (format!("load-balancer.hetzner.cloud/{key}"), json!(value)))
        .collect();
    harness
        .user
        .patch_service(service, &json!({"metadata": {"annotations": annotations}}))
        .await;
}

async fn settle(harness: &Harness) -> Result<()> {
    harness
        .settle_within(SOON)
        .await
        .map_err(|left| anyhow!("{left:?}, {:?}", harness.warnings(5)))
}

/// Makes one change after the other, each until its request was sent.
async fn play(scene: &Scene, harness: &Harness) -> Result<()> {
    let act = |name: &str| format!("POST /load_balancers/{{id}}/actions/{name}");
    for number in 1..=3 {
        harness.cloud.add_machine(&format!("worker-{number}"));
        harness
            .user
            .register_node(
                &format!("worker-{number}"),
                &[format!("10.244.{number}.0/24")],
            )
            .await;
    }
    harness.user.create_service("web", &[80, 443]).await;
    settle(harness).await?;

    let changes: [(Annotations, &str); 9] = [
        (
            &[("algorithm-type", Some("least_connections"))],
            "change_algorithm",
        ),
        (&[("type", Some("lb21"))], "change_type"),
        (&[("ipv4-rdns", Some("lb.example.com"))], "change_dns_ptr"),
        (&[("use-private-ip", Some("true"))], "remove_target"),
        (
            &[("disable-public-network", Some("true"))],
            "disable_public_interface",
        ),
        (
            &[("disable-public-network", Some("false"))],
            "enable_public_interface",
        ),
        (
            &[("private-ipv4", Some("10.0.0.77"))],
            "detach_from_network",
        ),
        (
            &[
                ("health-check-protocol", Some("http")),
                ("health-check-http-path", Some("/healthz")),
            ],
            "update_service",
        ),
        (
            &[
                ("protocol", Some("https")),
                ("http-certificates", Some("mine")),
                ("http-sticky-sessions", Some("true")),
            ],
            "update_service",
        ),
    ];
    for (annotations, action) in changes {
        let before = scene.fake.count(&act(action));
        annotate(harness, "web", annotations).await;
        until_sent(scene, harness, &act(action), before).await?;
        settle_quietly(scene, harness).await;
    }
    annotate(harness, "web", &[("name", Some("renamed"))]).await;
    until_sent(scene, harness, "PUT /load_balancers/{id}", 0).await?;
    harness.user.set_ports("web", &[443, 8443]).await;
    until_sent(scene, harness, &act("delete_service"), 0).await?;
    settle_quietly(scene, harness).await;

    harness.user.create_service("managed", &[443]).await;
    let managed: Annotations = &[
        ("protocol", Some("https")),
        ("certificate-type", Some("managed")),
        ("http-managed-certificate-domains", Some("example.com")),
    ];
    annotate(harness, "managed", managed).await;
    until_sent(scene, harness, "POST /certificates", 0).await?;
    settle_quietly(scene, harness).await;
    harness.user.delete_service("managed").await;
    until_sent(scene, harness, "DELETE /certificates/{id}", 0).await?;
    harness.user.delete_node("worker-3").await;
    until_sent(
        scene,
        harness,
        "POST /networks/{id}/actions/delete_route",
        0,
    )
    .await?;
    harness.user.delete_service("web").await;
    until_sent(scene, harness, "DELETE /load_balancers/{id}", 0).await?;
    Ok(())
}

/// Waits until no further request is sent, and none is pending.
async fn settle_quietly(scene: &Scene, harness: &Harness) {
    let look = || (harness.api.revision(), scene.traffic());
    let mut before = look();
    let mut quiet = 0;
    while quiet < 3 {
        sleep(Duration::from_millis(150)).await;
        let now = look();
        quiet = if now == before && now.1.0 == 0 {
            quiet + 1
        } else {
            0
        };
        before = now;
    }
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        match path.is_dir() {
            true => found.extend(sources(&path)?),
            false => found.push(path),
        }
    }
    Ok(found)
}

/// Paths and actions that stand in the provider's sources.
fn written() -> Result<BTreeSet<String>> {
    let path = Regex::new(r#"Call::\w+\(\s*"(/[a-z_{}/-]+)"|const \w+: &str = "(/[a-z_{}/-]+)";"#)?;
    let action = Regex::new(r#"action!\(\s*[a-z_.]+,\s*"(\w+)"[,)]"#)?;
    let mut written = BTreeSet::new();
    for file in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../providers/hetzner/src"))? {
        let text = std::fs::read_to_string(&file)?;
        let group = |captures: regex_lite::Captures<'_>| {
            captures
                .iter()
                .skip(1)
                .flatten()
                .next()
                .map(|matched| matched.as_str().to_owned())
        };
        written.extend(path.captures_iter(&text).filter_map(group));
        let full = |captures: regex_lite::Captures<'_>| {
            format!("/load_balancers/{{id}}/actions/{}", &captures[1])
        };
        written.extend(action.captures_iter(&text).map(full));
    }
    ensure!(written.len() > 20, "the sources are not found: {written:?}");
    Ok(written)
}

pub(crate) async fn every_request_of_the_provider_and_its_answer_is_valid(
    scene: &Scene,
) -> Result<()> {
    let known: BTreeSet<String> = ROUTES
        .iter()
        .filter_map(|route| route.split(' ').nth(1))
        .map(str::to_owned)
        .collect();
    let unknown: Vec<_> = written()?
        .into_iter()
        .filter(|text| !known.contains(text) && !OTHER_APIS.contains(&text.as_str()))
        .collect();
    ensure!(
        unknown.is_empty(),
        "the provider sends what is not in this test: {unknown:?}"
    );

    let cloud = HetznerCloud::of(scene.fake.clone());
    scene.fake.add_certificate("mine");
    let first = harness(scene, &cloud, CachePolicy::Shared);
    let program = first.start().await?;
    play(scene, &first).await?;
    let findings = first.provider(&Fence::open()).diagnose().await;
    ensure!(!findings.is_empty(), "nothing is told to doctor");
    program.stop().await;

    // Reads get one server at a time.
    let second = harness(scene, &cloud, CachePolicy::One(Duration::ZERO));
    let program = second.start().await?;
    second.cloud.add_machine("worker-9");
    second
        .user
        .register_node("worker-9", &["10.244.9.0/24".to_owned()])
        .await;
    settle(&second).await?;
    // The machine is read by its ID to determine whether it exists and runs.
    second.user.set_ready("worker-9", false).await;
    until_sent(scene, &second, "GET /servers/{id}", 0).await?;
    program.stop().await;

    scene.used.print();
    scene.print_routes();
    let counts = scene.fake.counts();
    let missing: Vec<_> = ROUTES
        .iter()
        .filter(|route| !counts.contains_key(**route))
        .collect();
    scene.judge()?;
    ensure!(missing.is_empty(), "never sent: {missing:?}");
    Ok(())
}
