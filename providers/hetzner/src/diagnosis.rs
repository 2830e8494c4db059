//! Checks of `doctor`: endpoint, token, rate limit, network, load balancers, dedicated servers.

use cloud_provider::{Error, Finding, counted};
use provider_kit::checks::{endpoint_remedy, rate_limit, reached, unavailable};
use provider_kit::declared::Defaults;
use provider_kit::transport::Call;
use serde::Deserialize;

use crate::annotations::DEFAULT_TYPE;
use crate::balancers::catalogue::Catalogue;
use crate::network::PrivateNetwork;
use crate::provider::Hetzner;
use crate::variables::{LOAD_BALANCERS_LOCATION, LOAD_BALANCERS_NETWORK_ZONE, LOAD_BALANCERS_TYPE};

#[derive(Deserialize)]
struct Location {
    name: String,
    network_zone: String,
}

impl Hetzner {
    /// Checks endpoint and token first; if one of these checks fails, the checks that depend on it are left out.
    pub(crate) async fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let Some(locations) = self.locations(&mut findings).await else {
            return findings;
        };
        findings.push(self.token_may_write().await);
        findings.extend(self.network_findings().await);
        if let Some(defaults) = &self.config.load_balancers {
            findings.push(place(defaults, &locations));
            findings.extend(self.load_balancer_type(defaults).await);
        }
        findings.extend(self.robot().await);
        findings
    }

    /// Checks endpoint, token and rate limit with one request.
    async fn locations(&self, findings: &mut Vec<Finding>) -> Option<Vec<Location>> {
        const SETTING: &str = "HCLOUD_ENDPOINT";
        const CREDENTIAL: &str = "put a valid API token of the project into HCLOUD_TOKEN, or into the file of HCLOUD_TOKEN_FILE";
        let answer = self
            .api
            .http
            .send(Call::get("/locations", &[]).inside("locations"))
            .await;
        let answer = reached(&self.api.http.base(), SETTING, CREDENTIAL, answer, findings)?;
        let remedy = "see what else uses tokens of this project; the limit is refilled each second";
        findings.extend(rate_limit(&answer.headers, remedy));
        let unread = |error: Error| {
            Finding::failure(
                "endpoint",
                error.to_string(),
                endpoint_remedy(SETTING, &error),
            )
        };
        answer
            .json()
            .map_err(|error| findings.push(unread(error)))
            .ok()
    }

    /// Checks the token's permission by a change of the object with ID 0, which does not exist: the API reports a
    /// token's scope only in the response to a change.
    async fn token_may_write(&self) -> Finding {
        let call = Call::put("/load_balancers/{id}", &["0"])
            .json(&serde_json::json!({}))
            .reading();
        match self.api.http.send(call).await {
            Err(error) if error.is_unauthorized() => Finding::failure(
                "token",
                format!("it may not change anything: {error}"),
                "make an API token with read and write permission, and put it into HCLOUD_TOKEN",
            ),
            Err(error) if error.is_not_found() || error.is_invalid() => {
                Finding::ok("token", "it may read and write")
            }
            Err(error) => Finding::warning(
                "token",
                format!("it may read; whether it may write was not answered: {error}"),
                "try again",
            ),
            Ok(_) => Finding::warning(
                "token",
                "it may read; whether it may write cannot be told",
                "check its permission in the console",
            ),
        }
    }

    async fn network_findings(&self) -> Vec<Finding> {
        let Some(network) = &self.network else {
            return vec![Finding::ok(
                "network",
                "none is configured (HCLOUD_NETWORK)",
            )];
        };
        let found = match network.find().await {
            Ok(found) => found,
            Err(error) => {
                let remedy =
                    "correct HCLOUD_NETWORK: a network's name or id in the token's project";
                return vec![Finding::failure("network", error.to_string(), remedy)];
            }
        };
        let network_exists = Finding::ok(
            "network",
            format!("{:?} ({}), {}", found.name, found.id, found.ip_range),
        );
        let attached = match PrivateNetwork::is_attached(&self.metadata, found.id).await {
            Ok(true) => Finding::ok("network", "this machine is attached to it"),
            Ok(false) => Finding::failure(
                "network",
                "this machine is not attached to it, so the manager would not start here",
                "attach it, or set HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK=true",
            ),
            Err(error) => Finding::warning(
                "network",
                format!("whether this machine is attached to it is not known: {error}"),
                "outside of Hetzner Cloud there is no metadata service: run doctor where the manager runs",
            ),
        };
        vec![network_exists, attached]
    }

    async fn load_balancer_type(&self, defaults: &Defaults) -> Option<Finding> {
        const CHECK: &str = "load balancer type";
        let name = defaults
            .get(&LOAD_BALANCERS_TYPE)
            .unwrap_or_else(|| DEFAULT_TYPE.to_owned());
        let types = match Catalogue::new(self.api.clone()).types.list().await {
            Ok(types) => types,
            Err(error) => return Some(Finding::failure(CHECK, error.to_string(), "try again")),
        };
        let Some(found) = types
            .iter()
            .find(|balancer_type| balancer_type.name == name)
        else {
            let available = types.iter().map(|balancer_type| &*balancer_type.name);
            return unavailable(CHECK, LOAD_BALANCERS_TYPE.key(), &name, available);
        };
        Some(match found.unavailable_after() {
            Some(time) => Finding::warning(
                CHECK,
                format!("{name} is deprecated, and not available after {time}"),
                "choose another in HCLOUD_LOAD_BALANCERS_TYPE and in annotations",
            ),
            None => Finding::ok(CHECK, name),
        })
    }

    async fn robot(&self) -> Option<Finding> {
        Some(match self.robot.as_ref()?.servers().await {
            Ok(servers) => Finding::ok(
                "robot",
                format!(
                    "the credential shows {}",
                    counted(servers.machines().len(), "server")
                ),
            ),
            Err(error) if error.is_rate_limited() => Finding::warning(
                "robot",
                error.to_string(),
                "see what else uses this credential, and wait",
            ),
            Err(error) if error.is_unauthorized() => Finding::failure(
                "robot",
                error.to_string(),
                "correct ROBOT_USER and ROBOT_PASSWORD (a web service user of Robot) before anything else: several failures in a \
                 row block this machine's address",
            ),
            Err(error) => Finding::failure(
                "robot",
                error.to_string(),
                "check the network and the firewalls on the way",
            ),
        })
    }
}

/// Checks the default location of load balancers.
fn place(defaults: &Defaults, locations: &[Location]) -> Finding {
    const CHECK: &str = "load balancer location";
    let location = (
        LOAD_BALANCERS_LOCATION.key(),
        defaults.get(&LOAD_BALANCERS_LOCATION),
    );
    let zone = (
        LOAD_BALANCERS_NETWORK_ZONE.key(),
        defaults.get(&LOAD_BALANCERS_NETWORK_ZONE),
    );
    let names = locations.iter();
    let (setting, wanted, names): (_, _, Vec<&str>) = if let (setting, Some(wanted)) = location {
        (
            setting,
            wanted,
            names.map(|location| &*location.name).collect(),
        )
    } else if let (setting, Some(wanted)) = zone {
        (
            setting,
            wanted,
            names.map(|location| &*location.network_zone).collect(),
        )
    } else {
        return Finding::warning(
            CHECK,
            "none is configured, so each Service must name one",
            "set HCLOUD_LOAD_BALANCERS_LOCATION or HCLOUD_LOAD_BALANCERS_NETWORK_ZONE",
        );
    };
    unavailable(CHECK, setting, &wanted, names).unwrap_or_else(|| Finding::ok(CHECK, wanted))
}
