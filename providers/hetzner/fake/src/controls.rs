//! Controls of tests: changes of the cloud's objects, and queries of its state.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::model::{Model, Owned};
use crate::{
    Balancer, BalancerType, Certificate, Fake, Network, Options, PROJECT, RobotServer, Route,
    Server, ServerNet,
};

fn objects<T: Clone>(all: &BTreeMap<u64, Owned<T>>) -> Vec<T> {
    all.values().map(|object| object.object.clone()).collect()
}

fn changed<T: Clone>(
    all: &mut BTreeMap<u64, Owned<T>>,
    is_wanted: impl Fn(&T) -> bool,
    change: impl FnOnce(&mut T),
) -> Option<T> {
    let object = all
        .values_mut()
        .map(|object| &mut object.object)
        .find(|object| is_wanted(object))?;
    change(object);
    Some(object.clone())
}

/// Controls of cloud servers.
impl Fake {
    /// Adds a running server with addresses of both families.
    pub fn add_server(&self, name: &str) -> Server {
        self.model().add_server(PROJECT, name)
    }

    /// Adds a server to another project.
    pub fn add_server_to(&self, project: &str, name: &str) -> Server {
        self.model().add_server(project, name)
    }

    /// Changes a server, by name, and returns the changed server.
    pub fn change_server(&self, name: &str, change: impl FnOnce(&mut Server)) -> Option<Server> {
        changed(
            &mut self.model().servers,
            |server| server.name == name,
            change,
        )
    }

    /// Attaches a server, by name, to a network, and returns its address in the network.
    ///
    /// # Panics
    /// If the server or network does not exist, or no address is left.
    pub fn attach(&self, name: &str, network: u64) -> Ipv4Addr {
        let ip = self
            .model()
            .address_in(PROJECT, network, None, None)
            .expect("a network with a free address");
        let net = ServerNet {
            network,
            ip,
            alias_ips: Vec::new(),
        };
        self.change_server(name, |server| server.private_net.push(net))
            .expect("a server of that name");
        ip
    }

    /// Shuts a server down, by name; returns `false` if it does not exist.
    pub fn stop(&self, name: &str) -> bool {
        self.change_server(name, |server| "off".clone_into(&mut server.status))
            .is_some()
    }

    /// Starts a server, by name; returns `false` if it does not exist.
    pub fn start(&self, name: &str) -> bool {
        self.change_server(name, |server| "running".clone_into(&mut server.status))
            .is_some()
    }

    /// Deletes a server, by name.
    pub fn terminate(&self, name: &str) -> Option<Server> {
        let mut model = self.model();
        let id = model
            .servers
            .values()
            .find(|server| server.object.name == name)?
            .object
            .id;
        model.remove_server(id)
    }

    /// Returns the cloud servers.
    #[must_use]
    pub fn servers(&self) -> Vec<Server> {
        objects(&self.model().servers)
    }

    /// Returns a server, by name.
    #[must_use]
    pub fn server(&self, name: &str) -> Option<Server> {
        self.servers()
            .into_iter()
            .find(|server| server.name == name)
    }
}

/// Controls of private networks.
impl Fake {
    /// Adds a network with one subnet, a /16 at its beginning, and returns its ID.
    ///
    /// # Panics
    /// If `range` is no range.
    pub fn add_network(&self, name: &str, range: &str) -> u64 {
        self.model()
            .add_network(PROJECT, name, range.parse().expect("an IPv4 range"))
    }

    /// Changes a network: routes, subnets.
    pub fn change_network(&self, id: u64, change: impl FnOnce(&mut Network)) -> Option<Network> {
        changed(
            &mut self.model().networks,
            |network| network.id == id,
            change,
        )
    }

    /// Returns the private networks.
    #[must_use]
    pub fn networks(&self) -> Vec<Network> {
        objects(&self.model().networks)
    }

    /// Returns the routes of a network.
    #[must_use]
    pub fn routes(&self, network: u64) -> Vec<Route> {
        self.networks()
            .into_iter()
            .find(|other_network| other_network.id == network)
            .map(|network| network.routes)
            .unwrap_or_default()
    }

    /// Attaches the machine that the program runs on to this network.
    pub fn run_attached_to(&self, network: u64) {
        self.model().attached_to.insert(network);
    }
}

/// Load balancers and certificates.
impl Fake {
    /// Adds a load balancer of type `lb11` in `fsn1`, as another program does.
    pub fn add_load_balancer(&self, name: &str) -> Balancer {
        self.model().add_balancer(PROJECT, name)
    }

    /// Changes a load balancer, by name, as an operator does in the console: at once, and unchecked.
    pub fn change_load_balancer(
        &self,
        name: &str,
        change: impl FnOnce(&mut Balancer),
    ) -> Option<Balancer> {
        changed(
            &mut self.model().balancers,
            |load_balancer| load_balancer.name == name,
            change,
        )
    }

    /// Removes a load balancer, by name.
    pub fn remove_load_balancer(&self, name: &str) -> bool {
        let mut model = self.model();
        let before = model.balancers.len();
        model
            .balancers
            .retain(|_, load_balancer| load_balancer.object.name != name);
        model.balancers.len() < before
    }

    /// Returns the load balancers.
    #[must_use]
    pub fn load_balancers(&self) -> Vec<Balancer> {
        objects(&self.model().balancers)
    }

    /// Returns a load balancer, by name.
    #[must_use]
    pub fn load_balancer(&self, name: &str) -> Option<Balancer> {
        self.load_balancers()
            .into_iter()
            .find(|load_balancer| load_balancer.name == name)
    }

    /// Changes a type of load balancers, by name: limits, deprecation.
    pub fn change_type(&self, name: &str, change: impl FnOnce(&mut BalancerType)) {
        if let Some(kind) = self
            .model()
            .types
            .iter_mut()
            .find(|balancer_type| balancer_type.name == name)
        {
            change(kind);
        }
    }

    /// Adds an uploaded certificate.
    pub fn add_certificate(&self, name: &str) -> Certificate {
        self.model().add_certificate(PROJECT, name, false)
    }

    /// Changes a certificate, by name.
    pub fn change_certificate(
        &self,
        name: &str,
        change: impl FnOnce(&mut Certificate),
    ) -> Option<Certificate> {
        changed(
            &mut self.model().certificates,
            |certificate| certificate.name == name,
            change,
        )
    }

    /// Returns the uploaded and managed certificates.
    #[must_use]
    pub fn certificates(&self) -> Vec<Certificate> {
        objects(&self.model().certificates)
    }
}

/// Controls of the Robot API.
impl Fake {
    /// Adds a running dedicated server.
    pub fn add_robot_server(&self, number: u64, name: &str) -> RobotServer {
        let [high, low] = u16::try_from(number % 65_536)
            .unwrap_or_default()
            .to_be_bytes();
        let server = RobotServer {
            server_number: number,
            server_name: name.to_owned(),
            server_ip: Some(Ipv4Addr::new(198, 51, high, low)),
            server_ipv6_net: Some(Ipv6Addr::new(
                0x2a01,
                0xdb8,
                u16::from_be_bytes([high, low]),
                0,
                0,
                0,
                0,
                0,
            )),
            product: "AX41".to_owned(),
            dc: "FSN1-DC14".to_owned(),
            operating_status: "running".to_owned(),
        };
        self.model().robot.insert(number, server.clone());
        server
    }

    /// Changes a dedicated server.
    pub fn change_robot_server(
        &self,
        number: u64,
        change: impl FnOnce(&mut RobotServer),
    ) -> Option<RobotServer> {
        let mut model = self.model();
        let server = model.robot.get_mut(&number)?;
        change(server);
        Some(server.clone())
    }

    /// Removes a dedicated server.
    pub fn remove_robot_server(&self, number: u64) -> bool {
        self.model().robot.remove(&number).is_some()
    }

    /// Sets the number of requests of each kind that Robot answers from now on; `None`: no limit. Counting starts
    /// again.
    pub fn limit_robot(&self, limit: Option<u32>) {
        let mut model = self.model();
        model.robot_limit = limit;
        model.robot_used.clear();
    }
}

/// Controls of tokens, limits and behaviour.
impl Fake {
    /// Makes `token` valid for `project`. Each project has its own objects; a new project is empty.
    pub fn set_token(&self, token: &str, project: &str) {
        self.model()
            .tokens
            .insert(token.to_owned(), project.to_owned());
    }

    /// Makes `token` invalid for all requests.
    pub fn revoke_token(&self, token: &str) {
        self.model().tokens.remove(token);
    }

    /// Makes `token` read-only, or restores its write permission.
    pub fn set_read_only(&self, token: &str, is_read_only: bool) {
        let mut model = self.model();
        match is_read_only {
            true => _ = model.read_only.insert(token.to_owned()),
            false => _ = model.read_only.remove(token),
        }
    }

    /// Sets the number of requests that are left until the limit.
    pub fn set_remaining(&self, remaining: u32) {
        self.model().set_level(PROJECT, remaining);
    }

    /// Changes the behaviour of the APIs. The remaining requests of the limit stay the same.
    pub fn set_options(&self, change: impl FnOnce(&mut Options)) {
        change(&mut self.model().options);
    }

    /// Returns all load balancers, routes and certificates as the API shows them.
    #[must_use]
    pub fn objects(&self) -> Vec<serde_json::Value> {
        let model = self.model();
        let model: &Model = &model;
        let balancers = model
            .balancers
            .values()
            .map(|load_balancer| load_balancer.object.json(&model.types));
        let routes = model
            .networks
            .values()
            .flat_map(|network| &network.object.routes)
            .map(|route| serde_json::json!({"route": route}));
        let certificates = model
            .certificates
            .values()
            .map(|certificate| &certificate.object);
        let certificates =
            certificates.map(|certificate| serde_json::json!({"certificate": certificate.name, "labels": certificate.labels}));
        balancers.chain(routes).chain(certificates).collect()
    }
}
