//! Controls of tests: changes of machines and networks, and queries of the cloud's state. [`balancing`] has those of
//! load balancers.

mod account;
mod balancing;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::Fake;
use crate::model::{Kind, Model, Object, list as items, set, text};
use crate::ports::NewPort;

/// A network with one subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// ID of the network.
    pub id: String,
    /// Name of the network.
    pub name: String,
    /// The id of its (first) subnet.
    pub subnet: String,
}

/// A server of the fake Nova.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// ID of the server.
    pub id: String,
    /// Name of the server.
    pub name: String,
    /// Status of the server: `ACTIVE`, `SHUTOFF` …
    pub status: String,
    /// The id of its first port.
    pub port: String,
    /// The first fixed address of this port.
    pub ip: String,
}

/// Device owner of the servers' ports.
const OWNER: &str = "compute:az1";
/// The flavor of servers that have no other.
const FLAVOR: &str = "b6df1300-b905-4ad4-8af6-874c81f94c03";

impl Model {
    fn add_flavor(&mut self, id: &str, name: &str) {
        let flavor = json!({
            "id": id, "name": name, "ram": 4096, "disk": 10, "vcpus": 2, "swap": "", "OS-FLV-EXT-DATA:ephemeral": 0,
            "OS-FLV-DISABLED:disabled": false, "os-flavor-access:is_public": true, "rxtx_factor": 1.0, "links": [],
        });
        self.insert(
            Kind::Flavor,
            flavor.as_object().cloned().unwrap_or_default(),
        );
    }

    fn add_network(&mut self, name: &str, range: &str, is_external: bool) -> Network {
        let id = self.new_id();
        let now = self.clock.utc();
        let project = if is_external {
            "9c18757fb171483bb42e6353bf9659fe"
        } else {
            Self::home()
        };
        let network = json!({
            "id": id, "name": name, "tenant_id": project, "project_id": project, "admin_state_up": true, "mtu": 1450,
            "status": "ACTIVE", "shared": false, "router:external": is_external, "description": "",
            "port_security_enabled": true, "tags": [], "created_at": now, "updated_at": now, "revision_number": 2,
        });
        self.insert(
            Kind::Network,
            network.as_object().cloned().unwrap_or_default(),
        );
        let subnet = self.add_subnet(&id, &format!("{name}-subnet"), range);
        Network {
            id,
            name: name.to_owned(),
            subnet,
        }
    }

    fn add_subnet(&mut self, network: &str, name: &str, range: &str) -> String {
        let id = self.new_id();
        let now = self.clock.utc();
        let owner = self
            .get(Kind::Network, network)
            .cloned()
            .unwrap_or_default();
        let version = if range.contains(':') { 6 } else { 4 };
        let subnet = json!({
            "id": id, "name": name, "project_id": owner["project_id"], "tenant_id": owner["project_id"],
            "network_id": network, "ip_version": version, "subnetpool_id": null, "enable_dhcp": true, "gateway_ip": null,
            "cidr": range, "allocation_pools": [], "host_routes": [], "dns_nameservers": [], "description": "",
            "router:external": owner["router:external"], "service_types": [], "tags": [], "created_at": now,
            "updated_at": now, "revision_number": 0,
        });
        self.insert(
            Kind::Subnet,
            subnet.as_object().cloned().unwrap_or_default(),
        );
        id
    }

    fn server(&self, object: &Object) -> Server {
        Server::of(
            object,
            self.all(Kind::Port)
                .find(|entry| entry.get("device_id") == object.get("id")),
        )
    }
}

impl Server {
    /// Returns the server with its first port.
    fn of(object: &Object, port: Option<&Object>) -> Self {
        let own = |key: &str| text(object, key).to_owned();
        let first = port
            .and_then(|port| items(port, "fixed_ips").first())
            .and_then(|object| object["ip_address"].as_str());
        Self {
            id: own("id"),
            name: own("name"),
            status: own("status"),
            port: port.map_or("", |port| text(port, "id")).to_owned(),
            ip: first.unwrap_or_default().to_owned(),
        }
    }
}

/// Controls of networks, subnets and routers.
impl Fake {
    /// Adds a network of the project, with one subnet.
    pub fn add_network(&self, name: &str, range: &str) -> Network {
        self.model().add_network(name, range, false)
    }

    /// Adds an external network, from which floating IPs are given.
    pub fn add_external_network(&self, name: &str, range: &str) -> Network {
        self.model().add_network(name, range, true)
    }

    /// Adds a further subnet to a network, and returns its ID.
    pub fn add_subnet(&self, network: &str, name: &str, range: &str) -> String {
        self.model().add_subnet(network, name, range)
    }

    /// Adds a router with an interface in this subnet, and returns its ID.
    pub fn add_router(&self, name: &str, subnet: &str) -> String {
        let mut model = self.model();
        let id = model.new_id();
        let now = model.clock.utc();
        let project = Model::home();
        let router = json!({
            "id": id, "name": name, "project_id": project, "tenant_id": project, "admin_state_up": true, "status": "ACTIVE",
            "external_gateway_info": null, "description": "", "availability_zones": [], "availability_zone_hints": [],
            "routes": [], "flavor_id": null, "tags": [], "created_at": now, "updated_at": now, "revision_number": 3,
        });
        model.insert(
            Kind::Router,
            router.as_object().cloned().unwrap_or_default(),
        );
        let owner = "network:router_interface";
        _ = model.add_port(&NewPort {
            device: &id,
            owner,
            ..NewPort::of(project, subnet)
        });
        id
    }

    /// Returns the extra routes of a router, each with `destination` and `nexthop`.
    #[must_use]
    pub fn routes(&self, router: &str) -> Vec<Value> {
        self.model()
            .get(Kind::Router, router)
            .map(|router| items(router, "routes").to_vec())
            .unwrap_or_default()
    }

    /// Changes a router, by ID, as an operator does in the console: at once and unchecked. Returns `false` if it does
    /// not exist.
    pub fn change_router<T>(
        &self,
        id: &str,
        change: impl FnOnce(&mut serde_json::Map<String, Value>) -> T,
    ) -> bool {
        let mut model = self.model();
        let clock = model.clock;
        let Some(router) = model.get_mut(Kind::Router, id) else {
            return false;
        };
        change(router);
        Model::touched(&clock, router);
        true
    }

    /// Hides an object of any kind from the project.
    pub fn hide(&self, id: &str) {
        self.model().hidden.insert(id.to_owned());
    }
}

/// Controls of servers and their ports.
impl Fake {
    /// Adds a running server with a port in the network's first subnet, flavor `m1.k8s`, zone `az1`.
    ///
    /// # Panics
    /// If the subnet has no address left.
    pub fn add_server(&self, name: &str, network: &Network) -> Server {
        self.add_server_to(Model::home(), name, network)
    }

    /// Adds a server to another project, by its id.
    ///
    /// # Panics
    /// If the subnet has no address left.
    pub fn add_server_to(&self, project: &str, name: &str, network: &Network) -> Server {
        let mut model = self.model();
        let id = model.new_id();
        let now = model.clock.utc();
        if model.get(Kind::Flavor, FLAVOR).is_none() {
            model.add_flavor(FLAVOR, "m1.k8s");
        }
        let server = json!({
            "accessIPv4": "", "accessIPv6": "", "created": now, "flavor": FLAVOR, "hostId": "954192b32c158d6961df2d",
            "id": id, "image": {"id": "f139b51e-422f-40d1-a31e-28653d262dd2", "links": []}, "links": [], "metadata": {},
            "name": name, "status": "ACTIVE", "project_id": project, "user_id": crate::USER_ID, "updated": now,
            "OS-DCF:diskConfig": "MANUAL", "progress": 0, "OS-EXT-AZ:availability_zone": "az1", "config_drive": "",
            "key_name": null, "security_groups": [{"name": "k8s-nodes"}], "OS-EXT-STS:task_state": null,
            "OS-EXT-STS:vm_state": "active", "OS-EXT-STS:power_state": 1, "os-extended-volumes:volumes_attached": [],
            "OS-SRV-USG:launched_at": now, "OS-SRV-USG:terminated_at": null,
        });
        let server = server.as_object().cloned().unwrap_or_default();
        model.insert(Kind::Server, server.clone());
        let port = NewPort {
            device: &id,
            owner: OWNER,
            ..NewPort::of(project, &network.subnet)
        };
        model.add_port(&port).expect("a subnet with a free address");
        model.server(&server)
    }

    /// Adds a further port to a server, by name, and returns the port's ID.
    ///
    /// # Panics
    /// If the server does not exist, or no address is left.
    pub fn attach(&self, name: &str, subnet: &str) -> String {
        let device = self.server(name).expect("a server of that name").id;
        let port = NewPort {
            device: &device,
            owner: OWNER,
            ..NewPort::of(Model::home(), subnet)
        };
        let port = self
            .model()
            .add_port(&port)
            .expect("a subnet with a free address");
        text(&port, "id").to_owned()
    }

    /// Changes a server as Nova shows it, by name: `status`, `accessIPv4`, `metadata`, `OS-EXT-AZ:availability_zone`;
    /// the entries under `addresses` are added to those of its ports and floating IPs. Returns `false` if it does not
    /// exist.
    pub fn change_server(
        &self,
        name: &str,
        change: impl FnOnce(&mut serde_json::Map<String, Value>),
    ) -> bool {
        let mut model = self.model();
        let found = model
            .all_mut(Kind::Server)
            .find(|object| text(object, "name") == name);
        found.map(change).is_some()
    }

    /// Gives a server, by name, a flavor of its own with this name, and returns the flavor's ID. Returns `None` if the
    /// server does not exist.
    pub fn set_flavor(&self, name: &str, flavor: &str) -> Option<String> {
        let mut model = self.model();
        let id = model.new_id();
        model.add_flavor(&id, flavor);
        let server = model
            .all_mut(Kind::Server)
            .find(|object| text(object, "name") == name)?;
        set(server, "flavor", id.clone());
        Some(id)
    }

    /// Sets the status of a server, by name.
    pub fn set_status(&self, name: &str, status: &str) -> bool {
        self.change_server(name, |server| set(server, "status", status))
    }

    /// Shuts a server down, by name; returns `false` if it does not exist.
    pub fn stop(&self, name: &str) -> bool {
        self.set_status(name, "SHUTOFF")
    }

    /// Starts a server, by name; returns `false` if it does not exist.
    pub fn start(&self, name: &str) -> bool {
        self.set_status(name, "ACTIVE")
    }

    /// Deletes a server, by name, with its ports.
    pub fn terminate(&self, name: &str) -> Option<Server> {
        let server = self.server(name)?;
        let mut model = self.model();
        let ports = model
            .all(Kind::Port)
            .filter(|object| text(object, "device_id") == server.id);
        let ports: Vec<String> = ports.map(|ports| text(ports, "id").to_owned()).collect();
        ports.iter().for_each(|port| model.remove_port(port));
        model.remove(Kind::Server, &server.id);
        Some(server)
    }

    /// Returns the servers of all projects.
    #[must_use]
    pub fn servers(&self) -> Vec<Server> {
        let model = self.model();
        let mut ports = BTreeMap::new();
        for port in model.all(Kind::Port) {
            ports.entry(text(port, "device_id")).or_insert(port);
        }
        model
            .all(Kind::Server)
            .map(|object| Server::of(object, ports.get(text(object, "id")).copied()))
            .collect()
    }

    /// Returns a server, by name.
    #[must_use]
    pub fn server(&self, name: &str) -> Option<Server> {
        let model = self.model();
        let found = model
            .all(Kind::Server)
            .find(|object| text(object, "name") == name)?;
        Some(model.server(found))
    }

    /// Changes a port, by ID, as an operator does in the console: at once and unchecked; its revision increases.
    /// Returns the changed port.
    pub fn change_port<T>(
        &self,
        id: &str,
        change: impl FnOnce(&mut serde_json::Map<String, Value>) -> T,
    ) -> Option<Value> {
        let mut model = self.model();
        let clock = model.clock;
        let port = model.get_mut(Kind::Port, id)?;
        change(port);
        Model::touched(&clock, port);
        Some(port.clone().into())
    }

    /// Adds a port without an owner, for a VIP or a sub-port of a trunk, and returns its ID.
    ///
    /// # Panics
    /// If the subnet has no address left.
    pub fn add_port(&self, name: &str, subnet: &str) -> String {
        let port = NewPort {
            name,
            ..NewPort::of(Model::home(), subnet)
        };
        let port = self
            .model()
            .add_port(&port)
            .expect("a subnet with a free address");
        text(&port, "id").to_owned()
    }

    /// Returns a port, by id.
    #[must_use]
    pub fn port(&self, id: &str) -> Option<Value> {
        self.model().get(Kind::Port, id).cloned().map(Value::Object)
    }

    /// Returns all ports as the API shows them.
    #[must_use]
    pub fn ports(&self) -> Vec<Value> {
        self.model()
            .all(Kind::Port)
            .cloned()
            .map(Value::Object)
            .collect()
    }
}
