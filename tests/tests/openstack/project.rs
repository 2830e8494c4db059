//! Projects of the scenarios' own, with a network, a router and three servers each: what one scenario does is not seen by the
//! next, and several run at a time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ccm_tests::wait::until_every;
use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::cloud::{Api, Cloud, Login, text};
use crate::environment::Environment;
use crate::scene::SOON;

/// Prefix of the names of the tests' projects; the ID of the creating process follows.
const PREFIX: &str = "ccm-e2e-";
const PASSWORD: &str = "e2e-secret-e2e";
const PAUSE: Duration = Duration::from_secs(1);
/// Servers that each project has.
pub(crate) const SERVERS: usize = 3;

/// A server of the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) id: String,
    /// In the project's network.
    pub(crate) address: String,
    pub(crate) zone: String,
}

/// A project and what is always in it.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    pub(crate) name: String,
    pub(crate) id: String,
    /// The user, whose name is the project's.
    pub(crate) user: String,
    pub(crate) network: String,
    pub(crate) subnet: String,
    pub(crate) router: String,
    pub(crate) public_network: String,
    pub(crate) servers: Vec<Server>,
    flavor: String,
    image: String,
    address: String,
}

/// Projects that no scenario uses at the moment.
#[derive(Default)]
pub(crate) struct Pool {
    free: Mutex<Vec<Project>>,
    made: AtomicUsize,
}

impl Pool {
    fn free(&self) -> parking_lot::MutexGuard<'_, Vec<Project>> {
        self.free.lock()
    }

    /// Returns a project for exclusive use.
    pub(crate) async fn take(&self, environment: &Environment) -> Result<Project> {
        let free = self.free().pop();
        match free {
            Some(project) => Ok(project),
            None => {
                let number = self.made.fetch_add(1, Ordering::Relaxed) + 1;
                Project::make(
                    environment,
                    &format!("{PREFIX}{}-{number}", std::process::id()),
                )
                .await
            }
        }
    }

    /// Returns an unchanged project to the pool.
    pub(crate) fn give_back(&self, project: Project) {
        self.free().push(project);
    }
}

/// Removes the projects of this process and of those that have ended.
pub(crate) async fn clean_up(environment: &Environment) -> Result<()> {
    let admin = environment.admin().await?;
    let projects = admin.list(Api::Identity, "/projects").await?;
    let is_ours = |object: &&Value| {
        let process = text(object, "name")
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next());
        process.is_some_and(|other_process| {
            other_process == std::process::id().to_string()
                || !std::path::Path::new("/proc").join(other_process).exists()
        })
    };
    let names: Vec<(String, String)> = projects
        .iter()
        .filter(is_ours)
        .map(|project| {
            (
                text(project, "id").to_owned(),
                text(project, "name").to_owned(),
            )
        })
        .collect();
    let removals = names
        .iter()
        .map(|(id, name)| remove(environment, &admin, id, name));
    futures::future::join_all(removals)
        .await
        .into_iter()
        .collect()
}

async fn remove(environment: &Environment, admin: &Cloud, id: &str, name: &str) -> Result<()> {
    let mut users = admin
        .list(Api::Identity, &format!("/users?name={name}"))
        .await?;
    users.extend(
        admin
            .list(Api::Identity, &format!("/users?name={}", trustee(name)))
            .await?,
    );
    // Whatever a scenario did to the password.
    for user in &users {
        let path = format!("/users/{}", text(user, "id"));
        admin
            .call(
                Api::Identity,
                Method::PATCH,
                &path,
                Some(&json!({"user": {"password": PASSWORD}})),
            )
            .await?;
    }
    if let Ok(cloud) = Cloud::login(login(&environment.keystone()?, name, name)).await {
        empty(&cloud)
            .await
            .with_context(|| format!("emptying project {name}"))?;
    }
    for group in admin
        .list(Api::Network, &format!("/security-groups?project_id={id}"))
        .await?
    {
        admin
            .delete(
                Api::Network,
                &format!("/security-groups/{}", text(&group, "id")),
            )
            .await?;
    }
    for user in &users {
        admin
            .delete(Api::Identity, &format!("/users/{}", text(user, "id")))
            .await?;
    }
    admin
        .delete(Api::Identity, &format!("/projects/{id}"))
        .await
}

/// Removes everything in a project.
async fn empty(cloud: &Cloud) -> Result<()> {
    until_every(PAUSE, "no load balancer is left", SOON, async || {
        let balancers = cloud.list(Api::Balancer, "/loadbalancers").await?;
        for balancer in &balancers {
            _ = cloud
                .delete(
                    Api::Balancer,
                    &format!("/loadbalancers/{}?cascade=true", text(balancer, "id")),
                )
                .await;
        }
        ensure!(balancers.is_empty(), "{} load balancers", balancers.len());
        Ok(())
    })
    .await?;
    for address in cloud.list(Api::Network, "/floatingips").await? {
        cloud
            .delete(
                Api::Network,
                &format!("/floatingips/{}", text(&address, "id")),
            )
            .await?;
    }
    until_every(PAUSE, "no server is left", SOON, async || {
        let servers = cloud.list(Api::Compute, "/servers").await?;
        for server in &servers {
            _ = cloud
                .delete(Api::Compute, &format!("/servers/{}", text(server, "id")))
                .await;
        }
        ensure!(servers.is_empty(), "{} servers", servers.len());
        Ok(())
    })
    .await?;
    for router in cloud.list(Api::Network, "/routers").await? {
        let path = format!("/routers/{}", text(&router, "id"));
        cloud
            .put(Api::Network, &path, json!({"router": {"routes": []}}))
            .await?;
        for port in cloud
            .list(
                Api::Network,
                &format!("/ports?device_id={}", text(&router, "id")),
            )
            .await?
        {
            let interface = json!({"port_id": port["id"]});
            _ = cloud
                .put(
                    Api::Network,
                    &format!("{path}/remove_router_interface"),
                    interface,
                )
                .await;
        }
        cloud.delete(Api::Network, &path).await?;
    }
    // Without trunks, Neutron does not have the path.
    for trunk in cloud
        .list(Api::Network, "/trunks")
        .await
        .unwrap_or_default()
    {
        cloud
            .delete(Api::Network, &format!("/trunks/{}", text(&trunk, "id")))
            .await?;
    }
    let mine = format!("project_id={}", cloud.project());
    for port in cloud.list(Api::Network, &format!("/ports?{mine}")).await? {
        cloud
            .delete(Api::Network, &format!("/ports/{}", text(&port, "id")))
            .await?;
    }
    for network in cloud
        .list(Api::Network, &format!("/networks?{mine}"))
        .await?
    {
        cloud
            .delete(Api::Network, &format!("/networks/{}", text(&network, "id")))
            .await?;
    }
    for group in cloud
        .list(Api::Network, &format!("/security-groups?{mine}"))
        .await?
    {
        // The last group, `default`, can be deleted once the project no longer exists.
        _ = cloud
            .delete(
                Api::Network,
                &format!("/security-groups/{}", text(&group, "id")),
            )
            .await;
    }
    Ok(())
}

/// Returns the name of a user to whom a project's own user may give a trust.
pub(crate) fn trustee(project: &str) -> String {
    format!("{project}-trustee")
}

fn login(address: &str, user: &str, project: &str) -> Login {
    Login {
        address: address.to_owned(),
        user: user.to_owned(),
        password: PASSWORD.to_owned(),
        project: project.to_owned(),
    }
}

impl Project {
    async fn make(environment: &Environment, name: &str) -> Result<Self> {
        let admin = environment.admin().await?;
        let ids = environment.ids()?;
        let address = environment.keystone()?;
        let id = |value: &Value| text(value, "id").to_owned();
        let project = json!({"project": {"name": name, "domain_id": "default"}});
        let project = id(&admin.post(Api::Identity, "/projects", project).await?);
        let user = json!({"user": {"name": name, "password": PASSWORD, "domain_id": "default"}});
        let user = id(&admin.post(Api::Identity, "/users", user).await?);
        for role in admin.list(Api::Identity, "/roles").await? {
            if ["member", "load-balancer_member"].contains(&text(&role, "name")) {
                let path = format!(
                    "/projects/{project}/users/{user}/roles/{}",
                    text(&role, "id")
                );
                admin.call(Api::Identity, Method::PUT, &path, None).await?;
            }
        }
        let cloud = Cloud::login(login(&address, name, name)).await?;
        let network = json!({"network": {"name": format!("{name}-net")}});
        let network = id(&cloud.post(Api::Network, "/networks", network).await?);
        let subnet = json!({"subnet": {"name": format!("{name}-subnet"), "network_id": network, "ip_version": 4,
            "cidr": "10.6.0.0/16"}});
        let subnet = id(&cloud.post(Api::Network, "/subnets", subnet).await?);
        let public_network = text(&ids, "public_network_id").to_owned();
        let router = json!({"router": {"name": format!("{name}-router"),
            "external_gateway_info": {"network_id": public_network}}});
        let router = id(&cloud.post(Api::Network, "/routers", router).await?);
        let interface = json!({"subnet_id": subnet});
        cloud
            .put(
                Api::Network,
                &format!("/routers/{router}/add_router_interface"),
                interface,
            )
            .await?;
        let mut this = Self {
            name: name.to_owned(),
            id: project,
            user,
            network,
            subnet,
            router,
            public_network,
            servers: Vec::new(),
            flavor: text(&ids, "flavor_id").to_owned(),
            image: text(&ids, "image_id").to_owned(),
            address,
        };
        let names: Vec<String> = (1..=SERVERS)
            .map(|number| format!("worker-{number}"))
            .collect();
        this.servers = this.add_servers(&cloud, &names).await?;
        Ok(this)
    }

    /// Returns a client of the project, as its user.
    pub(crate) async fn cloud(&self) -> Result<Cloud> {
        Cloud::login(login(&self.address, &self.name, &self.name)).await
    }

    pub(crate) fn password(&self) -> &'static str {
        PASSWORD
    }

    /// Makes servers of these names and waits until they run.
    pub(crate) async fn add_servers(&self, cloud: &Cloud, names: &[String]) -> Result<Vec<Server>> {
        let mut ids = Vec::new();
        for (number, name) in names.iter().enumerate() {
            let zone = if number % 2 == 0 { "az1" } else { "az2" };
            ids.push(
                self.post_server(cloud, name, zone, json!({"uuid": self.network}))
                    .await?,
            );
        }
        self.run(cloud, &ids).await
    }

    /// Makes a server at a port that is there, and waits until it runs; its id.
    pub(crate) async fn add_server_at(
        &self,
        cloud: &Cloud,
        name: &str,
        port: &str,
    ) -> Result<String> {
        let id = self
            .post_server(cloud, name, "az1", json!({"port": port}))
            .await?;
        self.run(cloud, std::slice::from_ref(&id)).await?;
        Ok(id)
    }

    async fn post_server(
        &self,
        cloud: &Cloud,
        name: &str,
        zone: &str,
        network: Value,
    ) -> Result<String> {
        let server = json!({"server": {"name": name, "flavorRef": self.flavor, "imageRef": self.image,
            "networks": [network], "availability_zone": zone}});
        Ok(text(&cloud.post(Api::Compute, "/servers", server).await?, "id").to_owned())
    }

    async fn run(&self, cloud: &Cloud, ids: &[String]) -> Result<Vec<Server>> {
        until_every(PAUSE, "all servers run", SOON, async || {
            let servers = cloud.list(Api::Compute, "/servers/detail").await?;
            ids.iter()
                .map(|id| server(&servers, id))
                .collect::<Result<Vec<_>>>()
        })
        .await
    }

    /// Deletes a server and waits until it no longer exists.
    pub(crate) async fn delete_server(&self, cloud: &Cloud, id: &str) -> Result<()> {
        let path = format!("/servers/{id}");
        cloud.delete(Api::Compute, &path).await?;
        until_every(PAUSE, "the server is gone", SOON, async || {
            let (status, _) = cloud.send(Api::Compute, Method::GET, &path, None).await?;
            ensure!(status == http::StatusCode::NOT_FOUND, "it is there");
            Ok(())
        })
        .await
    }

    /// Starts or stops a server and waits for it.
    pub(crate) async fn switch_server(&self, cloud: &Cloud, id: &str, is_on: bool) -> Result<()> {
        let (action, status) = if is_on {
            ("os-start", "ACTIVE")
        } else {
            ("os-stop", "SHUTOFF")
        };
        let path = format!("/servers/{id}");
        cloud
            .call(
                Api::Compute,
                Method::POST,
                &format!("{path}/action"),
                Some(&json!({action: null})),
            )
            .await?;
        until_every(
            PAUSE,
            &format!("the server is {status}"),
            SOON,
            async || {
                let server = cloud.get(Api::Compute, &path).await?;
                ensure!(
                    server["server"]["status"] == status,
                    "it is {}",
                    server["server"]["status"]
                );
                Ok(())
            },
        )
        .await
    }
}

/// Returns a server that runs, out of a list.
fn server(servers: &[Value], id: &str) -> Result<Server> {
    let found = servers
        .iter()
        .find(|server| server["id"] == id)
        .context("a server is not there yet")?;
    ensure!(
        found["status"] == "ACTIVE",
        "{} is {}",
        found["name"],
        found["status"]
    );
    let addresses = found["addresses"]
        .as_object()
        .and_then(|addresses| addresses.values().next());
    let address = addresses
        .and_then(|addresses| addresses[0]["addr"].as_str())
        .context("a server without an address")?;
    Ok(Server {
        name: text(found, "name").to_owned(),
        id: id.to_owned(),
        address: address.to_owned(),
        zone: text(found, "OS-EXT-AZ:availability_zone").to_owned(),
    })
}
