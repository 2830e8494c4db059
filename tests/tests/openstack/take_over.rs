//! D-11: what the Go program wrote is accepted as it is.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use ccm_conformance::fault_injector::Passed;
use ccm_tests::wait::until;
use serde_json::{Value, json};

use crate::cloud::{Api, text};
use crate::environment::Environment;
use crate::routes::{is_reachable, without_nodes};
use crate::scene::{ID, SOON, Scene, Settings, play, pod_cidr};
use crate::services::{EVERYTHING, carriers};

const CLUSTER: &str = "take-over";
const NAME: &str = "kube_service_take-over_default_web";
const PORTS: [(u16, u16); 2] = [(80, 30080), (443, 30443)];
const UID: &str = "5f0d1c5e-8a5f-4d0c-9d5b-0a3b8f6a7c11";
/// Creates a load balancer as the Go cloud-controller-manager does, for a Service with two ports, monitors, source
/// ranges, a floating IP and a managed security group; returns its ID, and the floating IP.
async fn leave_balancer(scene: &Scene) -> Result<(String, String)> {
    let project = &scene.project;
    let members = |node_port: u16| -> Vec<Value> {
        let member = |server: &crate::project::Server| json!({"name": server.name, "address": server.address, "protocol_port": node_port, "subnet_id": project.subnet});
        project.servers.iter().map(member).collect()
    };
    let listener = |(index, (port, node_port)): (usize, &(u16, u16))| {
        json!({
            "name": format!("listener_{index}_{NAME}"), "protocol": "TCP", "protocol_port": port, "tags": [NAME],
            "connection_limit": -1, "allowed_cidrs": ["192.0.2.0/24"], "timeout_client_data": 50000,
            "timeout_member_connect": 5000, "timeout_member_data": 50000, "timeout_tcp_inspect": 0,
            "default_pool": {
                "name": format!("pool_{index}_{NAME}"), "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN",
                "members": members(*node_port),
                "healthmonitor": {"name": format!("monitor_{index}_{NAME}"), "type": "TCP", "delay": 5, "timeout": 3,
                    "max_retries": 1, "max_retries_down": 3},
            },
        })
    };
    let balancer = json!({"loadbalancer": {
        "name": NAME, "description": format!("Kubernetes external service default/web from cluster {CLUSTER}"),
        "provider": "amphora", "tags": [NAME], "vip_subnet_id": project.subnet, "vip_network_id": project.network,
        "listeners": PORTS.iter().enumerate().map(listener).collect::<Vec<_>>(),
    }});
    let id = text(
        &scene
            .cloud
            .post(Api::Balancer, "/loadbalancers", balancer)
            .await?,
        "id",
    )
    .to_owned();
    let balancer = scene.cloud.balancer_is_active(&id).await?;
    let floating = json!({"floatingip": {
        "floating_network_id": project.public_network, "port_id": balancer["vip_port_id"],
        "description": format!("Floating IP for Kubernetes external service default/web from cluster {CLUSTER}"),
    }});
    let floating = scene
        .cloud
        .post(Api::Network, "/floatingips", floating)
        .await?;
    Ok((id, text(&floating, "floating_ip_address").to_owned()))
}

/// Creates the security group as the Go cloud-controller-manager does, on the ports of all servers.
async fn leave_group(scene: &Scene) -> Result<()> {
    let group = json!({"security_group": {
        "name": format!("lb-sg-{UID}-default-web"),
        "description": format!("Security Group for default/web Service LoadBalancer in cluster {CLUSTER}"),
    }});
    let group = scene
        .cloud
        .post(Api::Network, "/security-groups", group)
        .await?;
    // The group has two default rules, which that program removes.
    for rule in group["security_group_rules"]
        .as_array()
        .into_iter()
        .flatten()
    {
        scene
            .cloud
            .delete(
                Api::Network,
                &format!("/security-group-rules/{}", text(rule, "id")),
            )
            .await?;
    }
    let rule = |(_, port): &(u16, u16)| {
        json!({"direction": "ingress", "ethertype": "IPv4", "protocol": "tcp", "port_range_min": port,
            "port_range_max": port, "remote_ip_prefix": "10.6.0.0/16", "security_group_id": group["id"]})
    };
    let rules = json!({"security_group_rules": PORTS.iter().map(rule).collect::<Vec<_>>()});
    scene
        .cloud
        .post(Api::Network, "/security-group-rules", rules)
        .await?;
    for server in &scene.project.servers {
        for port in scene
            .cloud
            .list(Api::Network, &format!("/ports?device_id={}", server.id))
            .await?
        {
            let mut groups = port["security_groups"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            groups.push(group["id"].clone());
            let change = json!({"port": {"security_groups": groups}});
            scene
                .cloud
                .put(
                    Api::Network,
                    &format!("/ports/{}", text(&port, "id")),
                    change,
                )
                .await?;
        }
    }
    Ok(())
}

/// Creates the routes as the Go cloud-controller-manager does.
async fn leave_routes(scene: &Scene) -> Result<()> {
    for server in &scene.project.servers {
        let cidr = pod_cidr(&server.name);
        let route =
            json!({"router": {"routes": [{"destination": cidr, "nexthop": server.address}]}});
        let path = format!("/routers/{}/add_extraroutes", scene.project.router);
        scene.cloud.put(Api::Network, &path, route).await?;
        for port in scene
            .cloud
            .list(Api::Network, &format!("/ports?device_id={}", server.id))
            .await?
        {
            let change = json!({"port": {"allowed_address_pairs": [{"ip_address": cidr}]}});
            scene
                .cloud
                .put(
                    Api::Network,
                    &format!("/ports/{}", text(&port, "id")),
                    change,
                )
                .await?;
        }
    }
    Ok(())
}

/// Creates the Service as the Go cloud-controller-manager leaves it.
fn leave_service(scene: &Scene, id: &str, address: &str) -> Result<()> {
    let ports: Vec<Value> = PORTS
        .iter()
        .map(|(port, node_port)| {
            json!({"name": format!("p{port}"), "protocol": "TCP", "port": port, "targetPort": 8080, "nodePort": node_port})
        })
        .collect();
    scene.api.seed(json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "web", "namespace": "default", "uid": UID,
            "finalizers": ["service.kubernetes.io/load-balancer-cleanup"],
            "annotations": {ID: id, "loadbalancer.openstack.org/load-balancer-address": address},
        },
        "spec": {
            "type": "LoadBalancer", "selector": {"app": "web"}, "ports": ports, "clusterIP": "10.96.0.77",
            "clusterIPs": ["10.96.0.77"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            "externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Cluster", "sessionAffinity": "None",
            "allocateLoadBalancerNodePorts": true, "loadBalancerSourceRanges": ["192.0.2.0/24"],
        },
        "status": {"loadBalancer": {"ingress": [{"ip": address, "ipMode": "VIP"}]}},
    }))?;
    Ok(())
}

pub(crate) async fn what_the_go_program_wrote_is_accepted_with_no_change(
    environment: &Environment,
) -> Result<()> {
    let settings = Settings {
        label: CLUSTER,
        balancers: EVERYTHING,
        routes: true,
        starts_later: true,
        ..Settings::default()
    };
    play(environment, settings, async |scene| {
        leave_routes(scene).await?;
        scene.start()?;
        scene.join(&["worker-1", "worker-2", "worker-3"]).await?;
        // The program reports each Node's route once it has found it.
        for server in scene.project.servers.clone() {
            scene
                .becomes(&server.name, "reachable", is_reachable)
                .await?;
        }
        scene.is_silent().await;
        ensure!(
            scene.changes().is_empty(),
            "the routes were not accepted: {:#?}",
            scene.changes()
        );
        scene.end().await?;
        scene.did("routes and address pairs were left, and Nodes");

        let (id, address) = leave_balancer(scene).await?;
        leave_group(scene).await?;
        leave_service(scene, &id, &address)?;
        let left = scene.snapshot().await?;
        ensure!(
            carriers(&left) == 3,
            "the security group is on {} ports",
            carriers(&left)
        );
        scene.did("a load balancer, a floating IP and a security group were left");

        let asked = scene.injector.passed().len();
        let before = scene.service("web")?;
        scene.start()?;
        until("it looks at the members", SOON, async || {
            let asked = scene.injector.passed().split_off(asked);
            ensure!(
                asked
                    .iter()
                    .any(|request| request.target.contains("/members")),
                "it never looked at {id}: {asked:#?}"
            );
            Ok(())
        })
        .await?;
        scene.is_silent().await;
        let asked = scene.injector.passed().split_off(asked);
        let is_change =
            |request: &&Passed| request.is_mutation() && !request.target.starts_with("/identity");
        let changes: Vec<_> = asked.iter().filter(is_change).collect();
        ensure!(changes.is_empty(), "mutations: {changes:#?}");
        let differences = left.differences(&scene.snapshot().await?);
        ensure!(differences.is_empty(), "{differences:#?}");
        ensure!(
            scene.service("web")? == before,
            "the Service was changed: {}",
            scene.service("web")?
        );
        let warnings = scene.events("SyncLoadBalancerFailed");
        ensure!(warnings.is_empty(), "{warnings:?}");
        scene.did(&format!(
            "all of it was accepted: {} requests, 0 mutations",
            asked.len()
        ));

        scene.delete_service("web").await?;
        scene
            .holds("nothing of it is left", |now| {
                now.all("load balancer").next().is_none()
                    && now.all("floating ip").next().is_none()
                    && carriers(now) == 0
            })
            .await?;
        without_nodes(scene, &BTreeSet::new()).await?;
        scene.did("Service and Nodes were deleted, and all that was left for them");
        Ok(())
    })
    .await
}
