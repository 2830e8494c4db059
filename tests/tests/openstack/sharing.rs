//! Load balancers that several Services share, and floating IPs that are kept and taken.

use anyhow::{Result, ensure};
use ccm_tests::wait::until;
use serde_json::{Value, json};

use crate::cloud::Api;
use crate::environment::Environment;
use crate::scene::{ID, SOON, Scene, Settings, play};
use crate::services::EVERYTHING;

pub(crate) const INTERNAL: &str = "service.beta.kubernetes.io/openstack-internal-load-balancer";
const KEEP: &str = "loadbalancer.openstack.org/keep-floatingip";

pub(crate) fn annotated(key: &str, value: &str) -> Value {
    json!({"metadata": {"annotations": {key: value}}})
}

/// Returns the tags of a Service's load balancer that name Services.
async fn tags(scene: &Scene, name: &str) -> Result<Vec<String>> {
    let path = format!("/loadbalancers/{}", scene.balancer_id(name)?);
    let balancer = scene.cloud.get(Api::Balancer, &path).await?;
    let tags = balancer["loadbalancer"]["tags"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    Ok(tags
        .filter(|tag| tag.starts_with("kube_service_"))
        .map(str::to_owned)
        .collect())
}

pub(crate) async fn services_share_a_load_balancer_and_the_last_takes_it_along(
    environment: &Environment,
) -> Result<()> {
    play(
        environment,
        Settings {
            label: "sharing",
            balancers: EVERYTHING,
            ..Settings::default()
        },
        async |scene| {
            scene.join(&["worker-1", "worker-2"]).await?;
            scene.create_service("web", &[(80, 30080)], json!({})).await;
            let address = scene.published("web").await?;
            let id = scene.balancer_id("web")?;
            scene
                .create_service("mail", &[(25, 30025)], annotated(ID, &id))
                .await;
            ensure!(
                scene.published("mail").await? == address,
                "mail is published elsewhere"
            );
            scene
                .balanced("web", "the listeners of both", |balanced| {
                    balanced.keys().copied().eq([25, 80])
                })
                .await?;
            scene
                .holds("the tags of both", |now| {
                    let tags = now
                        .all("load balancer")
                        .map(|object| object["tags"].to_string())
                        .collect::<String>();
                    tags.contains("kube_service_sharing_default_web")
                        && tags.contains("kube_service_sharing_default_mail")
                })
                .await?;
            scene.did("a second Service joined a load balancer");

            scene
                .create_service("clash", &[(80, 30081)], annotated(ID, &id))
                .await;
            let told = async || {
                ensure!(
                    !scene.events("SyncLoadBalancerFailed").is_empty(),
                    "nothing was said about the clash"
                );
                Ok(())
            };
            until("a third Service is refused", SOON, told).await?;
            scene.delete_service("clash").await?;
            scene
                .balanced("web", "the listeners of both are untouched", |balanced| {
                    balanced.keys().copied().eq([25, 80])
                        && balanced[&80]
                            .members()
                            .iter()
                            .all(|(_, port)| *port == 30080)
                })
                .await?;
            scene.did("a third one was refused and went, with nothing changed");

            scene.delete_service("web").await?;
            scene
                .balanced("mail", "its own listener is left", |balanced| {
                    balanced.keys().copied().eq([25])
                })
                .await?;
            let left = tags(scene, "mail").await?;
            ensure!(
                left == ["kube_service_sharing_default_mail"],
                "the tags are {left:?}"
            );
            scene.did("the owner was deleted: the other stays");
            scene.delete_service("mail").await?;
            // The load balancer has the name of the cluster's Services, and no Service uses it.
            scene
                .holds("no load balancer is left", |now| {
                    now.all("load balancer").next().is_none()
                })
                .await?;
            scene.did("the last one was deleted, and the load balancer with it");
            Ok(())
        },
    )
    .await
}

pub(crate) async fn floating_ips_are_kept_taken_and_given_back(
    environment: &Environment,
) -> Result<()> {
    play(
        environment,
        Settings {
            label: "floating",
            ..Settings::default()
        },
        async |scene| {
            scene.join(&["worker-1"]).await?;
            scene
                .create_service("web", &[(80, 30080)], annotated(KEEP, "true"))
                .await;
            let address = scene.published("web").await?;
            scene.delete_service("web").await?;
            scene
                .holds("the floating IP stays, free", |now| {
                    now.all("load balancer").next().is_none()
                        && now.all("floating ip").any(|object| {
                            object["floating_ip_address"] == address && object["port_id"].is_null()
                        })
                })
                .await?;
            scene.did("a Service went, its floating IP was kept");

            scene
                .create_service(
                    "web",
                    &[(80, 30080)],
                    json!({"spec": {"loadBalancerIP": address}}),
                )
                .await;
            ensure!(scene.published("web").await? == address, "another address");
            scene
                .holds("there is one floating IP", |now| {
                    now.all("floating ip").count() == 1
                })
                .await?;
            scene.did("another Service asked for that address and got it");

            scene
                .change_service("web", annotated(INTERNAL, "true"))
                .await?;
            scene
                .holds("the floating IP is gone", |now| {
                    now.all("floating ip").next().is_none()
                })
                .await?;
            until("the VIP is published", SOON, async || {
                let shown = scene.published("web").await?;
                ensure!(shown.starts_with("10.6."), "{shown} is no VIP");
                Ok(())
            })
            .await?;
            scene.did("it became internal: its VIP is published");
            scene.delete_service("web").await?;
            scene.did("it was deleted");
            Ok(())
        },
    )
    .await
}
