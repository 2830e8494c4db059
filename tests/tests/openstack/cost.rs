//! INV-8 on the real cloud: what 50 Nodes cost.

use std::time::Duration;

use anyhow::{Result, ensure};
use ccm_conformance::fault_injector::Passed;
use serde_json::json;

use crate::environment::Environment;
use crate::project::SERVERS;
use crate::scene::{Scene, Settings, play};

const NODES: usize = 50;
/// Number of servers that are requested at once.
const AT_ONCE: usize = 8;

fn kinds(requests: &[Passed]) -> String {
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    for request in requests {
        let path = request.target.split('?').next().unwrap_or_default();
        let is_id = |text: &str| {
            text.len() >= 32
                && text
                    .chars()
                    .all(|character| character.is_ascii_hexdigit() || character == '-')
        };
        let words: Vec<&str> = path
            .split('/')
            .map(|part| if is_id(part) { "*" } else { part })
            .collect();
        *counts
            .entry(format!("{} {}", request.method, words.join("/")))
            .or_default() += 1;
    }
    let lines = counts
        .into_iter()
        .map(|(kind, count)| format!("{count}× {kind}"));
    lines.collect::<Vec<_>>().join(", ")
}

/// Returns the requests since `before`, once no further request follows.
async fn asked(scene: &Scene, before: usize) -> Vec<Passed> {
    let mut count = scene.asked().len();
    loop {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let now = scene.asked().len();
        if now == count {
            return scene.asked().split_off(before);
        }
        count = now;
    }
}

fn changes(requests: &[Passed]) -> Vec<Passed> {
    requests
        .iter()
        .filter(|request| request.is_mutation())
        .cloned()
        .collect()
}

pub(crate) async fn reads_grow_with_pages_and_writes_with_changes(
    environment: &Environment,
) -> Result<()> {
    // A Node that is not ready would cause a read in each pass; here all are ready, and passes send no request.
    play(
        environment,
        Settings {
            label: "cost",
            starts_later: true,
            ..Settings::default()
        },
        async |scene| {
            let names: Vec<String> = (SERVERS + 1..=NODES)
                .map(|number| format!("worker-{number}"))
                .collect();
            let mut more = Vec::new();
            // Not all at once: others wait for their servers, too.
            for names in names.chunks(AT_ONCE) {
                more.extend(scene.project.add_servers(&scene.cloud, names).await?);
            }
            scene.did(&format!("{} servers were added", more.len()));

            let all: Vec<String> = (1..NODES)
                .map(|number| format!("worker-{number}"))
                .collect();
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            for name in &all {
                scene.user.register_node(name, &[]).await;
            }
            scene.start()?;
            for name in &all {
                scene
                    .becomes(name, "initialised", |node| {
                        node["spec"]["providerID"].is_string()
                    })
                    .await?;
            }
            let requests = asked(scene, 0).await;
            let reads = requests
                .iter()
                .filter(|request| request.target.contains("/servers"))
                .count();
            scene.did(&format!(
                "{} Nodes were initialised: {}",
                all.len(),
                kinds(&requests)
            ));
            ensure!(
                reads <= 2,
                "{reads} reads of servers, all of which fit on one page: {}",
                kinds(&requests)
            );

            let internal = json!({"metadata": {"annotations":
            {"service.beta.kubernetes.io/openstack-internal-load-balancer": "true"}}});
            let before = scene.asked().len();
            scene
                .create_service("web", &[(80, 30080), (443, 30443)], internal.clone())
                .await;
            scene.published("web").await?;
            scene
                .balanced("web", "all are members", |balanced| {
                    balanced
                        .values()
                        .all(|listener| listener.members.len() == all.len())
                })
                .await?;
            let requests = asked(scene, before).await;
            scene.did(&format!(
                "a load balancer with two ports was made: {}",
                kinds(&requests)
            ));
            ensure!(
                changes(&requests).len() <= 3,
                "{}",
                kinds(&changes(&requests))
            );

            scene.create_service("mail", &[(25, 30025)], internal).await;
            scene.published("mail").await?;
            asked(scene, 0).await;
            let before = scene.asked().len();
            let note = json!({"metadata": {"annotations": {"example.com/note": "nothing"}}});
            scene.change_service("web", note).await?;
            let requests = asked(scene, before).await;
            ensure!(
                changes(&requests).is_empty(),
                "{}",
                kinds(&changes(&requests))
            );
            scene.did(&format!(
                "a Service whose load balancer is as it should be: {}",
                kinds(&requests)
            ));

            let before = scene.asked().len();
            let last = format!("worker-{NODES}");
            scene.join(&[last.as_str()]).await?;
            for name in ["web", "mail"] {
                scene
                    .balanced(name, "the new one is a member", |balanced| {
                        balanced
                            .values()
                            .all(|listener| listener.members.len() == NODES)
                    })
                    .await?;
            }
            let requests = asked(scene, before).await;
            scene.did(&format!("a Node joined three pools: {}", kinds(&requests)));
            ensure!(
                changes(&requests).len() == 3,
                "{}",
                kinds(&changes(&requests))
            );

            let before = scene.asked().len();
            tokio::time::sleep(Duration::from_secs(15)).await;
            let requests = scene.asked().split_off(before);
            ensure!(
                changes(&requests).is_empty(),
                "{}",
                kinds(&changes(&requests))
            );
            scene.did(&format!("fifteen steady seconds: {}", kinds(&requests)));

            let before = scene.asked().len();
            scene.delete_services(&["web", "mail"]).await?;
            let requests = asked(scene, before).await;
            scene.did(&format!("both were deleted: {}", kinds(&requests)));
            ensure!(
                changes(&requests).len() == 2,
                "{}",
                kinds(&changes(&requests))
            );
            scene.end().await?;
            for server in &more {
                scene
                    .cloud
                    .delete(
                        crate::cloud::Api::Compute,
                        &format!("/servers/{}", server.id),
                    )
                    .await?;
            }
            scene.did("the servers were deleted");
            Ok(())
        },
    )
    .await
}
