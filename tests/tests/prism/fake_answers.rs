//! Every route of the fake.

use anyhow::{Result, ensure};
use provider_kit::transport::Call;
use serde_json::{Value, json};

use crate::scene::Scene;

fn id(answer: &Value, key: &str) -> String {
    answer[key]["id"].to_string()
}

/// Checks that the proxy validates; otherwise the rest would prove nothing.
pub(crate) async fn the_proxy_refuses_what_the_document_does_not_allow(
    scene: &Scene,
) -> Result<()> {
    let route = json!({"destination": "10.244.1.0/24"});
    let refused = scene
        .send(Call::post("/networks/{id}/actions/add_route", &["4711"]).json(&route))
        .await;
    ensure!(
        refused.is_err() && scene.violations().len() == 1,
        "{refused:?}"
    );
    ensure!(scene.fake.requests().is_empty(), "it was forwarded");
    Ok(())
}

/// Checks the fake's responses; otherwise the proofs that use it would prove nothing.
pub(crate) async fn the_fake_speaks_as_the_document_says(scene: &Scene) -> Result<()> {
    // Actions complete at once.
    scene
        .fake
        .set_options(|options| options.action_time = std::time::Duration::ZERO);
    let network = scene.fake.add_network("kubernetes", "10.0.0.0/8");
    let server = scene.fake.add_server("worker-1");
    scene.fake.attach("worker-1", network);
    scene.fake.add_server("worker-2");
    scene.fake.change_server("worker-2", |server| {
        (server.ipv4, server.ipv6) = (None, None);
    });
    scene.fake.add_robot_server(321, "bm-1");
    let certificate = scene.fake.add_certificate("mine").id;
    let day = |day: &str| format!("2026-{day}T00:00:00Z");
    scene.fake.change_type("lb31", |balancer_type| {
        balancer_type.deprecation = Some((day("01-01"), day("12-31")));
    });
    for list in [
        "/locations",
        "/load_balancer_types",
        "/servers",
        "/networks",
        "/certificates",
    ] {
        scene
            .send(Call::get(list, &[]).query("per_page", 50).query("page", 1))
            .await?;
    }
    scene
        .send(Call::get("/servers/{id}", &[&server.id.to_string()]))
        .await?;
    scene
        .send(Call::get("/networks/{id}", &[&network.to_string()]))
        .await?;
    let route = json!({"destination": "10.244.1.0/24", "gateway": "10.0.0.2"});
    let network_id = network.to_string();
    scene
        .send(Call::post("/networks/{id}/actions/add_route", &[&network_id]).json(&route))
        .await?;
    scene
        .send(Call::post("/networks/{id}/actions/delete_route", &[&network_id]).json(&route))
        .await?;

    let check = json!({"protocol": "tcp", "port": 30080});
    let made = json!({"name": "web", "load_balancer_type": "lb11", "location": "nbg1", "public_interface": true,
        "algorithm": {"type": "round_robin"}, "labels": {"hcloud-ccm/service-uid": "u-1"}, "network": network,
        "services": [{"protocol": "tcp", "listen_port": 80, "destination_port": 30080, "health_check": check}],
        "targets": [{"type": "server", "server": {"id": server.id}, "use_private_ip": true},
            {"type": "ip", "ip": {"ip": scene.fake.change_robot_server(321, |_| ()).and_then(|server| server.server_ip)}}]});
    let made = scene
        .send(Call::post("/load_balancers", &[]).json(&made))
        .await?;
    let balancer = id(&made, "load_balancer");
    scene
        .send(
            Call::get("/actions", &[])
                .query("id", &made["action"]["id"])
                .query("id", 1)
                .query("sort", "status"),
        )
        .await?;
    scene
        .send(Call::get("/load_balancers/{id}", &[&balancer]))
        .await?;
    scene
        .send(
            Call::get("/load_balancers", &[]).query("label_selector", "hcloud-ccm/service-uid=u-1"),
        )
        .await?;
    scene
        .send(Call::get("/load_balancers", &[]).query("name", "web"))
        .await?;
    let labels = json!({"name": "renamed", "labels": {"a": "b"}});
    scene
        .send(Call::put("/load_balancers/{id}", &[&balancer]).json(&labels))
        .await?;

    let http_check = json!({"protocol": "http", "port": 30443, "interval": 5, "timeout": 4, "retries": 2,
        "http": {"domain": "example.com", "path": "/healthz", "status_codes": ["2??"], "tls": true}});
    let https = json!({"listen_port": 443, "destination_port": 30443, "protocol": "https", "proxyprotocol": true,
        "http": {"cookie_name": "C", "cookie_lifetime": 60, "certificates": [certificate], "redirect_http": false,
            "sticky_sessions": true, "timeout_idle": 60},
        "health_check": http_check});
    let second = scene.fake.add_server("worker-3").id;
    let target = json!({"type": "server", "server": {"id": second}, "use_private_ip": false});
    let gone = json!({"type": "server", "server": {"id": second}});
    let ip = made["load_balancer"]["public_net"]["ipv4"]["ip"].clone();
    macro_rules! act {
        ($($action:literal: $body:expr,)*) => {$(
            scene.send(Call::post(concat!("/load_balancers/{id}/actions/", $action), &[&balancer]).json(&$body)).await?;
        )*};
    }
    act! {
        "add_service": https,
        "update_service": json!({"listen_port": 443, "proxyprotocol": false}),
        "delete_service": json!({"listen_port": 80}),
        "add_target": target,
        "remove_target": gone,
        "change_algorithm": json!({"type": "least_connections"}),
        "change_type": json!({"load_balancer_type": "lb21"}),
        "change_dns_ptr": json!({"ip": ip, "dns_ptr": "lb.example"}),
        "detach_from_network": json!({"network": network}),
        "attach_to_network": json!({"network": network, "ip": "10.0.0.9"}),
    }
    scene
        .send(Call::post(
            "/load_balancers/{id}/actions/disable_public_interface",
            &[&balancer],
        ))
        .await?;
    scene
        .send(Call::post(
            "/load_balancers/{id}/actions/enable_public_interface",
            &[&balancer],
        ))
        .await?;
    scene.send(Call::get("/load_balancers", &[])).await?;

    let managed = json!({"name": "managed", "type": "managed", "domain_names": ["example.com"], "labels": {"a": "b"}});
    let managed = scene
        .send(Call::post("/certificates", &[]).json(&managed))
        .await?;
    scene
        .send(Call::get(
            "/certificates/{id}",
            &[&id(&managed, "certificate")],
        ))
        .await?;
    scene
        .send(Call::delete(
            "/certificates/{id}",
            &[&id(&managed, "certificate")],
        ))
        .await?;
    scene
        .send(Call::delete("/load_balancers/{id}", &[&balancer]))
        .await?;
    scene.used.print();
    scene.print_routes();
    scene.judge()
}
