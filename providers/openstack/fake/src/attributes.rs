//! The names of attributes by which lists may be filtered, and which requests may name.

/// Neutron's, of every kind.
macro_rules! neutron {
    ($($name:literal),*) => {
        &["id", "name", "project_id", "tenant_id", "description", "created_at", "updated_at", "revision_number", $($name),*]
    };
}

pub(crate) const NETWORK: &[&str] = neutron!(
    "admin_state_up",
    "status",
    "shared",
    "router:external",
    "mtu",
    "is_default",
    "port_security_enabled"
);
pub(crate) const SUBNET: &[&str] = neutron!(
    "network_id",
    "ip_version",
    "cidr",
    "gateway_ip",
    "enable_dhcp",
    "router:external",
    "subnetpool_id"
);
pub(crate) const PORT: &[&str] = neutron!(
    "network_id",
    "mac_address",
    "admin_state_up",
    "status",
    "device_id",
    "device_owner",
    "fixed_ips",
    "security_groups",
    "binding:vnic_type",
    "port_security_enabled",
    "binding:host_id"
);
pub(crate) const FLOATING_IP: &[&str] = neutron!(
    "floating_ip_address",
    "floating_network_id",
    "router_id",
    "port_id",
    "fixed_ip_address",
    "status"
);
pub(crate) const SECURITY_GROUP: &[&str] = neutron!("stateful", "shared");
pub(crate) const RULE: &[&str] = neutron!(
    "security_group_id",
    "ethertype",
    "direction",
    "protocol",
    "port_range_min",
    "port_range_max",
    "remote_ip_prefix",
    "remote_group_id",
    "remote_address_group_id"
);
pub(crate) const ROUTER: &[&str] = neutron!("admin_state_up", "status", "flavor_id");

/// Attributes of a port that may be changed.
pub(crate) const PORT_CHANGES: &[&str] = &[
    "name",
    "description",
    "admin_state_up",
    "device_id",
    "device_owner",
    "fixed_ips",
    "security_groups",
    "allowed_address_pairs",
    "port_security_enabled",
    "binding:vnic_type",
];
pub(crate) const FLOATING_IP_CHANGES: &[&str] = &["port_id", "fixed_ip_address", "description"];
pub(crate) const ROUTER_CHANGES: &[&str] = &["name", "description", "admin_state_up", "routes"];

/// Attributes of Octavia's objects: name, the minor version since which there is one, whether it may be changed.
pub(crate) type Attribute = (&'static str, u32, bool);

pub(crate) const BALANCER: &[Attribute] = &[
    ("name", 0, true),
    ("description", 0, true),
    ("admin_state_up", 0, true),
    ("project_id", 0, false),
    ("vip_address", 0, false),
    ("vip_port_id", 0, false),
    ("vip_subnet_id", 0, false),
    ("vip_network_id", 0, false),
    ("vip_qos_policy_id", 0, true),
    ("provider", 0, false),
    ("tags", 5, true),
    ("flavor_id", 6, false),
    ("availability_zone", 14, false),
    ("additional_vips", 26, false),
    ("listeners", 0, false),
    ("pools", 0, false),
];

pub(crate) const LISTENER: &[Attribute] = &[
    ("name", 0, true),
    ("description", 0, true),
    ("admin_state_up", 0, true),
    ("project_id", 0, false),
    ("protocol", 0, false),
    ("protocol_port", 0, false),
    ("connection_limit", 0, true),
    ("default_tls_container_ref", 0, true),
    ("sni_container_refs", 0, true),
    ("insert_headers", 0, true),
    ("default_pool_id", 0, true),
    ("default_pool", 0, false),
    ("loadbalancer_id", 0, false),
    ("timeout_client_data", 1, true),
    ("timeout_member_connect", 1, true),
    ("timeout_member_data", 1, true),
    ("timeout_tcp_inspect", 1, true),
    ("tags", 5, true),
    ("allowed_cidrs", 12, true),
];

pub(crate) const POOL: &[Attribute] = &[
    ("name", 0, true),
    ("description", 0, true),
    ("admin_state_up", 0, true),
    ("project_id", 0, false),
    ("protocol", 0, false),
    ("lb_algorithm", 0, true),
    ("session_persistence", 0, true),
    ("listener_id", 0, false),
    ("loadbalancer_id", 0, false),
    ("members", 0, false),
    ("healthmonitor", 0, false),
    ("tags", 5, true),
];

pub(crate) const MEMBER: &[Attribute] = &[
    ("name", 0, true),
    ("admin_state_up", 0, true),
    ("project_id", 0, false),
    ("address", 0, false),
    ("protocol_port", 0, false),
    ("subnet_id", 0, false),
    ("weight", 0, true),
    ("backup", 1, true),
    ("monitor_address", 0, true),
    ("monitor_port", 0, true),
    ("tags", 5, true),
];

pub(crate) const MONITOR: &[Attribute] = &[
    ("name", 0, true),
    ("admin_state_up", 0, true),
    ("project_id", 0, false),
    ("pool_id", 0, false),
    ("type", 0, false),
    ("delay", 0, true),
    ("timeout", 0, true),
    ("max_retries", 0, true),
    ("max_retries_down", 0, true),
    ("http_method", 0, true),
    ("url_path", 0, true),
    ("expected_codes", 0, true),
    ("tags", 5, true),
    ("http_version", 10, true),
    ("domain_name", 10, true),
];
