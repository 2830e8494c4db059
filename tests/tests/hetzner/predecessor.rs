//! Requests of `hcloud-cloud-controller-manager` for a Service, and its objects in the cluster: a table from the
//! documentation, replayed against the fake.

use axum::body::Body;
use ccm_conformance::Harness;
use ccm_conformance::predecessor::{PORTS, UID, merge, served};
use ccm_tests::profiles::HetznerCloud;
use hetzner_fake::{Balancer, TOKEN};
use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

/// The name of the Service's load balancer, unless it has another one.
const NAME: &str = "a6e1f000000004000800000000000abc";

/// A Service, and what is sent for it.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Annotations without their prefix.
    pub(crate) annotations: &'static [(&'static str, &'static str)],
    /// Fields added to the request that creates the load balancer.
    create: Value,
    /// Actions between that and the services.
    before: Vec<(&'static str, Value)>,
    /// Fields added to each service.
    service: Value,
    /// Health check, apart from its port.
    check: Value,
    use_private_ip: bool,
    /// Status of the Service; `None`: all addresses.
    status: Option<Value>,
    ip_mode: &'static str,
}

impl Case {
    fn new(name: &'static str, annotations: &'static [(&'static str, &'static str)]) -> Self {
        Self {
            name,
            annotations,
            create: json!({}),
            before: Vec::new(),
            service: json!({"protocol": "tcp"}),
            check: json!({"protocol": "tcp"}),
            use_private_ip: false,
            status: None,
            ip_mode: "VIP",
        }
    }

    fn service(self, service: Value) -> Self {
        Self { service, ..self }
    }

    fn check(self, check: Value) -> Self {
        Self { check, ..self }
    }

    fn before(mut self, action: &'static str, body: Value) -> Self {
        self.before.push((action, body));
        self
    }
}

/// Returns the cases; IDs and addresses are those that the fake assigns to the first object of each kind.
pub(crate) fn cases() -> Vec<Case> {
    let ipv4 = "198.19.0.1";
    vec![
        Case::new("nothing is stated", &[]),
        Case { create: json!({"name": "mine"}), ..Case::new("a name", &[("name", "mine")]) },
        Case {
            create: json!({"load_balancer_type": "lb21", "location": "hel1", "algorithm": {"type": "least_connections"}}),
            ..Case::new("type, location and algorithm", &[("type", "lb21"), ("location", "hel1"), ("algorithm-type", "least_connections")])
        },
        Case { use_private_ip: true, ..Case::new("targets by their private addresses", &[("use-private-ip", "true")]) },
        Case {
            create: json!({"public_interface": false}),
            use_private_ip: true,
            ..Case::new("private alone", &[("use-private-ip", "true"), ("disable-public-network", "true")])
        },
        Case::new("an address in the network", &[("private-ipv4", "10.0.0.99")]),
        Case::new("reverse DNS", &[("ipv4-rdns", "lb.example.com")])
            .before("change_dns_ptr", json!({"ip": ipv4, "dns_ptr": "lb.example.com"})),
        Case {
            ip_mode: "Proxy",
            ..Case::new("the PROXY protocol", &[("uses-proxyprotocol", "true")])
                .service(json!({"protocol": "tcp", "proxyprotocol": true}))
        },
        Case {
            status: Some(json!([{"hostname": "lb.example.com"}])),
            ..Case::new("a host name", &[("hostname", "lb.example.com")])
        },
        Case::new("HTTP with cookies", &[("protocol", "http"), ("http-sticky-sessions", "true"), ("http-cookie-name", "C"), ("http-cookie-lifetime", "1h")])
            .service(json!({"protocol": "http", "http": {"sticky_sessions": true, "cookie_name": "C", "cookie_lifetime": 3600}})),
        Case::new("HTTPS", &[("protocol", "https"), ("http-certificates", "3000001"), ("http-timeout-idle", "30s")])
            .service(json!({"protocol": "https", "http": {"certificates": [3_000_001], "timeout_idle": 30}})),
        Case::new("HTTPS, the certificate by name", &[("protocol", "https"), ("http-certificates", "mine")])
            .service(json!({"protocol": "https", "http": {"certificates": [3_000_001]}})),
        Case::new("a check by TCP", &[("health-check-interval", "5s"), ("health-check-timeout", "4s"), ("health-check-retries", "2")])
            .check(json!({"protocol": "tcp", "interval": 5, "timeout": 4, "retries": 2})),
        Case::new(
            "a check by HTTP",
            &[("health-check-protocol", "http"), ("health-check-http-path", "/healthz"), ("health-check-http-domain", "example.com"),
                ("http-status-codes", "200,3??"), ("health-check-http-validate-certificate", "false")],
        )
        .check(json!({"protocol": "http", "http": {"path": "/healthz", "domain": "example.com", "status_codes": ["200", "3??"], "tls": false}})),
        Case::new("a check by HTTP because the Service is", &[("protocol", "http"), ("health-check-retries", "4")])
            .service(json!({"protocol": "http"}))
            .check(json!({"protocol": "http", "retries": 4, "http": {}})),
    ]
}

/// Creates the initial cluster and cloud: two servers, a certificate.
pub(crate) fn furnish(cloud: &HetznerCloud) {
    cloud.fake.add_certificate("mine");
    for name in ["worker-1", "worker-2"] {
        cloud.fake.add_server(name);
        cloud.fake.attach(name, cloud.network);
    }
}

/// Returns the Service as its user writes it.
pub(crate) fn service(case: &Case) -> Value {
    let annotations: serde_json::Map<String, Value> = case
        .annotations
        .iter()
        .map(|(key, value)| (format!("load-balancer.hetzner.cloud/{key}"), json!(value)))
        .collect();
    ccm_conformance::predecessor::service(&annotations, "TCP")
}

async fn send(cloud: &HetznerCloud, method: &str, path: &str, body: &Value) -> Value {
    let request = Request::builder().method(method).uri(format!("/v1{path}"));
    let request = request
        .header("authorization", format!("Bearer {TOKEN}"))
        .body(Body::from(body.to_string()))
        .unwrap();
    let answer = cloud.fake.router().oneshot(request).await.unwrap();
    let status = answer.status();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    let answer = serde_json::from_slice(&bytes).unwrap_or_default();
    assert!(status.is_success(), "{method} {path} {body}: {answer}");
    // The Go cloud-controller-manager waits for each action.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    answer
}

/// Sends what is sent for a new Service.
pub(crate) async fn make(cloud: &HetznerCloud, case: &Case) -> Balancer {
    let mut wish = json!({"name": NAME, "load_balancer_type": "lb11", "location": "fsn1", "labels": {"hcloud-ccm/service-uid": UID}});
    merge(&mut wish, &case.create);
    let made = send(cloud, "POST", "/load_balancers", &wish).await;
    let actions = format!("/load_balancers/{}/actions", made["load_balancer"]["id"]);
    for (action, body) in &case.before {
        send(cloud, "POST", &format!("{actions}/{action}"), body).await;
    }
    let address = case
        .annotations
        .iter()
        .find(|(key, _)| *key == "private-ipv4")
        .map(|(_, ip)| *ip);
    let mut attachment = json!({"network": cloud.network});
    if let Some(address) = address {
        attachment["ip"] = json!(address);
    }
    send(
        cloud,
        "POST",
        &format!("{actions}/attach_to_network"),
        &attachment,
    )
    .await;
    for (port, node_port) in PORTS {
        let mut check = case.check.clone();
        check["port"] = json!(node_port);
        let mut service =
            json!({"listen_port": port, "destination_port": node_port, "health_check": check});
        merge(&mut service, &case.service);
        send(cloud, "POST", &format!("{actions}/add_service"), &service).await;
    }
    for server in cloud.fake.servers() {
        let target = json!({"type": "server", "server": {"id": server.id}, "use_private_ip": case.use_private_ip});
        send(cloud, "POST", &format!("{actions}/add_target"), &target).await;
    }
    cloud.fake.load_balancers().remove(0)
}

/// Returns the status that it writes.
pub(crate) fn status(case: &Case, balancer: &Balancer) -> Value {
    if let Some(status) = &case.status {
        return status.clone();
    }
    let public = balancer
        .public_interface
        .then_some([balancer.ipv4.ip, balancer.ipv6.ip])
        .into_iter()
        .flatten();
    let private = balancer.private_net.iter().map(|network| network.ip.into());
    public
        .chain(private)
        .map(|ip: std::net::IpAddr| json!({"ip": ip, "ipMode": case.ip_mode}))
        .collect()
}

/// Returns the labels that the Go cloud-controller-manager sets on a Node.
pub(crate) fn labels() -> Value {
    json!({"node.kubernetes.io/instance-type": "cx22", "beta.kubernetes.io/instance-type": "cx22",
        "topology.kubernetes.io/region": "fsn1", "failure-domain.beta.kubernetes.io/region": "fsn1",
        "topology.kubernetes.io/zone": "fsn1-dc14", "failure-domain.beta.kubernetes.io/zone": "fsn1-dc14",
        "instance.hetzner.cloud/provided-by": "cloud"})
}

/// Returns the addresses that the Go cloud-controller-manager sets on a Node.
pub(crate) fn addresses(cloud: &HetznerCloud, name: &str) -> Value {
    let server = cloud.fake.server(name).unwrap();
    json!([{"type": "Hostname", "address": name}, {"type": "ExternalIP", "address": server.ipv4},
        {"type": "InternalIP", "address": server.ip_in(cloud.network)}])
}

/// Creates the Nodes of the two servers as the Go cloud-controller-manager leaves them, their routes, and the Service
/// with its load balancer.
pub(crate) async fn leave(harness: &Harness, cloud: &HetznerCloud, case: &Case) {
    furnish(cloud);
    for (number, server) in cloud.fake.servers().into_iter().enumerate() {
        let cidr = format!("10.244.{}.0/24", number + 1);
        let mut node = ccm_conformance::node_object::registration(&server.name, 0, true);
        merge(&mut node["metadata"]["labels"], &labels());
        node["spec"] = json!({"providerID": format!("hcloud://{}", server.id), "podCIDR": cidr, "podCIDRs": [cidr]});
        node["status"]["addresses"] = addresses(cloud, &server.name);
        let condition = json!({"type": "NetworkUnavailable", "status": "False", "reason": "RouteCreated",
            "message": "RouteController created a route", "lastHeartbeatTime": "2026-08-01T00:00:00Z",
            "lastTransitionTime": "2026-08-01T00:00:00Z"});
        node["status"]["conditions"]
            .as_array_mut()
            .unwrap()
            .push(condition);
        harness.api.seed(node).unwrap();
        let route = json!({"destination": cidr, "gateway": server.ip_in(cloud.network)});
        send(
            cloud,
            "POST",
            &format!("/networks/{}/actions/add_route", cloud.network),
            &route,
        )
        .await;
    }
    let balancer = make(cloud, case).await;
    harness
        .api
        .seed(served(service(case), &status(case, &balancer)))
        .unwrap();
}
