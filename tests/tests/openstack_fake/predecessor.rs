//! Table of the objects that `openstack-cloud-controller-manager` leaves in the cloud and in the cluster.

use ccm_conformance::Harness;
use ccm_conformance::predecessor::{PORTS, UID, merge, served, service};
use ccm_tests::profiles::OpenStackCloud;
use serde_json::{Map, Value, json};

/// The name of the Service's load balancer, which is its tag, too.
pub(crate) const NAME: &str = "kube_service_kubernetes_default_web";
/// Port at which Nodes report whether they have endpoints.
const HEALTH_PORT: u16 = 32_100;
const PREFIX: &str = "loadbalancer.openstack.org/";

/// A Service, and what is left for it.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// Without their prefix, unless it is another one.
    annotations: &'static [(&'static str, &'static str)],
    /// Fields added to the Service's `spec`.
    spec: Value,
    /// The protocol of its ports.
    protocol: &'static str,
    /// Fields that differ in each listener; null removes one.
    listener: Value,
    /// Fields that differ in each pool.
    pool: Value,
    /// The monitor of each pool; null: none.
    monitor: Value,
    /// Fields that differ in each member.
    member: Value,
    has_floating_ip: bool,
    /// If set, the load balancer has the name that the Go cloud-controller-manager gives it.
    is_legacy: bool,
    /// The status, unless it is the address.
    status: Option<Value>,
    ip_mode: &'static str,
}

fn monitor(kind: &str) -> Value {
    json!({"type": kind, "delay": 5, "timeout": 3, "max_retries": 1, "max_retries_down": 3})
}

impl Case {
    fn new(name: &'static str, annotations: &'static [(&'static str, &'static str)]) -> Self {
        Self {
            name,
            annotations,
            spec: json!({}),
            protocol: "TCP",
            listener: json!({}),
            pool: json!({}),
            monitor: monitor("TCP"),
            member: json!({}),
            has_floating_ip: true,
            is_legacy: false,
            status: None,
            ip_mode: "VIP",
        }
    }
    fn spec(self, spec: Value) -> Self {
        Self { spec, ..self }
    }
    fn listener(self, listener: Value) -> Self {
        Self { listener, ..self }
    }
    fn pool(self, pool: Value) -> Self {
        Self { pool, ..self }
    }
    fn monitor(self, monitor: Value) -> Self {
        Self { monitor, ..self }
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let local = json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": HEALTH_PORT});
    let mut by_http = monitor("HTTP");
    merge(
        &mut by_http,
        &json!({"url_path": "/healthz", "http_method": "GET", "expected_codes": "200"}),
    );
    vec![
        Case::new("as it comes", &[]),
        Case { is_legacy: true, ..Case::new("with the name that upstream gives", &[]) },
        Case {
            has_floating_ip: false,
            ..Case::new("internal", &[("service.beta.kubernetes.io/openstack-internal-load-balancer", "true")])
        },
        Case { protocol: "UDP", ..Case::new("UDP", &[]) }.monitor(monitor("UDP-CONNECT")),
        Case::new("without monitors", &[("enable-health-monitor", "false")]).monitor(Value::Null),
        Case::new(
            "monitors as asked for",
            &[
                ("health-monitor-delay", "9"),
                ("health-monitor-timeout", "7"),
                ("health-monitor-max-retries", "4"),
                ("health-monitor-max-retries-down", "5"),
            ],
        )
        .monitor(json!({"type": "TCP", "delay": 9, "timeout": 7, "max_retries": 4, "max_retries_down": 5})),
        Case { member: json!({"monitor_port": HEALTH_PORT}), ..Case::new("traffic stays local", &[]) }
            .spec(local)
            .monitor(by_http),
        Case::new("sticky", &[])
            .spec(json!({"sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}}))
            .pool(json!({"session_persistence": {"type": "SOURCE_IP"}})),
        Case::new("source ranges", &[])
            .spec(json!({"loadBalancerSourceRanges": ["192.0.2.0/24", "10.0.0.0/8"]}))
            .listener(json!({"allowed_cidrs": ["192.0.2.0/24", "10.0.0.0/8"]})),
        Case::new(
            "source ranges by annotation",
            &[("service.beta.kubernetes.io/load-balancer-source-ranges", "192.0.2.0/24")],
        )
        .listener(json!({"allowed_cidrs": ["192.0.2.0/24"]})),
        Case::new("time-outs", &[("timeout-client-data", "60000"), ("timeout-member-connect", "6000")])
            .listener(json!({"timeout_client_data": 60_000, "timeout_member_connect": 6000})),
        Case::new(
            "a limit of connections, another method",
            &[("connection-limit", "100"), ("lb-method", "LEAST_CONNECTIONS")],
        )
        .listener(json!({"connection_limit": 100}))
        .pool(json!({"lb_algorithm": "LEAST_CONNECTIONS"})),
        Case { ip_mode: "Proxy", ..Case::new("PROXY protocol", &[("proxy-protocol", "v2")]) }
            .pool(json!({"protocol": "PROXYV2"})),
        Case::new("X-Forwarded-For", &[("x-forwarded-for", "true")])
            .listener(json!({"protocol": "HTTP", "insert_headers": {"X-Forwarded-For": "true"}}))
            .pool(json!({"protocol": "HTTP"})),
        Case {
            status: Some(json!([{"hostname": "web.example.com"}])),
            ..Case::new("a name of one's own", &[("hostname", "web.example.com")])
        },
    ]
}

impl Case {
    fn balancer(&self, cloud: &OpenStackCloud) -> Value {
        let subnet = &cloud.network.subnet;
        let listener = |(index, (port, node_port)): (usize, (u16, u16))| {
            let members: Vec<Value> = cloud.fake.servers().iter().map(|server| {
                let mut member = json!({"name": server.name, "address": server.ip, "protocol_port": node_port, "subnet_id": subnet});
                merge(&mut member, &self.member);
                member
            }).collect();
            let mut pool = json!({"name": format!("pool_{index}_{NAME}"), "protocol": self.protocol, "lb_algorithm": "ROUND_ROBIN",
                "members": members});
            merge(&mut pool, &self.pool);
            if !self.monitor.is_null() {
                pool["healthmonitor"] = self.monitor.clone();
                pool["healthmonitor"]["name"] = json!(format!("monitor_{index}_{NAME}"));
            }
            let mut listener = json!({"name": format!("listener_{index}_{NAME}"), "protocol": self.protocol, "protocol_port": port,
                "connection_limit": -1, "tags": [NAME], "allowed_cidrs": ["0.0.0.0/0"], "timeout_client_data": 50_000,
                "timeout_member_connect": 5000, "timeout_member_data": 50_000, "timeout_tcp_inspect": 0, "default_pool": pool});
            merge(&mut listener, &self.listener);
            listener
        };
        let legacy: String = std::iter::once('a')
            .chain(UID.chars().filter(|character| *character != '-'))
            .take(32)
            .collect();
        let name = if self.is_legacy { &legacy } else { NAME };
        json!({"name": name, "description": "Kubernetes external service default/web from cluster kubernetes",
            "provider": "amphora", "tags": [NAME], "vip_subnet_id": subnet,
            "listeners": PORTS.into_iter().enumerate().map(listener).collect::<Vec<_>>()})
    }

    fn service(&self, id: &str, address: &str) -> Value {
        let key = |key: &str| {
            if key.contains('/') {
                key.to_owned()
            } else {
                format!("{PREFIX}{key}")
            }
        };
        let mut annotations: Map<String, Value> = self
            .annotations
            .iter()
            .map(|(name, value)| (key(name), json!(value)))
            .collect();
        annotations.insert(key("load-balancer-id"), id.into());
        annotations.insert(key("load-balancer-address"), address.into());
        let mut service = service(&annotations, self.protocol);
        merge(&mut service["spec"], &self.spec);
        let status = self
            .status
            .clone()
            .unwrap_or_else(|| json!([{"ip": address, "ipMode": self.ip_mode}]));
        served(service, &status)
    }
}

/// Creates two servers with their routes and address pairs.
pub(crate) fn furnish(cloud: &OpenStackCloud) {
    let mut routes = Vec::new();
    for (number, name) in ["worker-1", "worker-2"].into_iter().enumerate() {
        let server = cloud.fake.add_server(name, &cloud.network);
        let cidr = format!("10.244.{}.0/24", number + 1);
        cloud.fake.change_port(&server.port, |port| {
            let pair = json!({"ip_address": cidr, "mac_address": port["mac_address"]});
            port.insert("allowed_address_pairs".to_owned(), json!([pair]));
        });
        routes.push(json!({"destination": cidr, "nexthop": server.ip}));
    }
    cloud.fake.change_router(&cloud.router, |router| {
        router.insert("routes".to_owned(), json!(routes))
    });
}

/// Creates the security group of the Service, on the ports of both servers.
fn leave_group(cloud: &OpenStackCloud, case: &Case) {
    let mut ports: Vec<(&str, u16)> = PORTS
        .iter()
        .map(|(_, node_port)| {
            (
                if case.protocol == "UDP" { "udp" } else { "tcp" },
                *node_port,
            )
        })
        .collect();
    if case.spec["externalTrafficPolicy"] == "Local" {
        ports.push(("tcp", HEALTH_PORT));
    }
    let rules: Vec<Value> = ports
        .into_iter()
        .map(|(protocol, port)| {
            json!({"direction": "ingress", "ethertype": "IPv4", "protocol": protocol, "port_range_min": port,
                "port_range_max": port, "remote_ip_prefix": "10.6.0.0/16"})
        })
        .collect();
    let group = cloud
        .fake
        .add_security_group_of(&format!("lb-sg-{UID}-default-web"), &rules);
    for server in cloud.fake.servers() {
        cloud.fake.change_port(&server.port, |port| {
            port.insert("security_groups".to_owned(), json!([group]))
        });
    }
}

/// Creates the load balancer of the Service, its floating IP and security group, and the Service.
pub(crate) fn leave(harness: &Harness, cloud: &OpenStackCloud, case: &Case) {
    let id = cloud.fake.add_load_balancer(&case.balancer(cloud));
    let balancer = cloud.fake.load_balancer(&id).unwrap();
    let mut address = balancer["vip_address"].as_str().unwrap().to_owned();
    if case.has_floating_ip {
        let description =
            "Floating IP for Kubernetes external service default/web from cluster kubernetes";
        let floating = cloud.fake.add_floating_ip(
            &cloud.public,
            description,
            balancer["vip_port_id"].as_str(),
        );
        let found = cloud
            .fake
            .floating_ips()
            .into_iter()
            .find(|floating_ip| floating_ip["id"] == floating.as_str())
            .unwrap();
        address = found["floating_ip_address"].as_str().unwrap().to_owned();
    }
    leave_group(cloud, case);
    harness.api.seed(case.service(&id, &address)).unwrap();
}
