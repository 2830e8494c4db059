//! The health of targets: a security group of the instance must admit the health checks of the load balancer.

use serde_json::{Value, json};

use crate::World;
use crate::world::{array, text};

/// Returns `true` if an IPv4 address is in a range such as `10.0.0.0/20`.
pub(crate) fn contains(range: &str, address: &str) -> bool {
    let bits = |text: &str| text.parse::<std::net::Ipv4Addr>().ok().map(u32::from);
    let (network, length) = range.split_once('/').unwrap_or((range, "32"));
    let shift = 32 - length.parse::<u32>().unwrap_or(32).min(32);
    let start = |bits: u32| bits.checked_shr(shift).unwrap_or(0);
    matches!((bits(network), bits(address)), (Some(network), Some(address)) if start(network) == start(address))
}

impl World {
    /// Returns the health of a target in this target group.
    pub(crate) fn health_of(&self, group: &Value, target: &Value) -> Value {
        let port = match text(&group["HealthCheckPort"]) {
            "traffic-port" | "" => number(&target["Port"]),
            port => port.parse().unwrap_or_default(),
        };
        let balancers = self.all("network").iter();
        let balancers = balancers.filter(|balancer| {
            array(&group["LoadBalancerArns"]).any(|arn| *arn == balancer["LoadBalancerArn"])
        });
        let instance = self
            .all("instance")
            .iter()
            .find(|object| object["instanceId"] == target["Id"]);
        let is_running =
            instance.is_some_and(|instance| instance["instanceState"]["name"] == "running");
        let reason = match () {
            () if group["LoadBalancerArns"]
                .as_array()
                .is_none_or(Vec::is_empty) =>
            {
                "Target.NotInUse"
            }
            () if !is_running => "Target.InvalidState",
            () if !balancers.into_iter().all(|balancer| {
                instance.is_some_and(|instance| self.admits(instance, balancer, port))
            }) =>
            {
                "Target.FailedHealthChecks"
            }
            () => "",
        };
        let state = if reason.is_empty() {
            "healthy"
        } else {
            "unhealthy"
        };
        let reason = if reason.is_empty() {
            Value::Null
        } else {
            reason.into()
        };
        json!({"Target": target, "HealthCheckPort": port.to_string(), "TargetHealth": {"State": state, "Reason": reason}})
    }

    /// Returns `true` if a security group of an instance admits the health checks of a load balancer at this port: from the
    /// load balancer's groups, or from each of its subnets.
    fn admits(&self, instance: &Value, balancer: &Value, port: i64) -> bool {
        let groups = self.all("group").iter();
        let own = groups.filter(|group| {
            array(&instance["groupSet"]).any(|group_set| group_set["groupId"] == group["groupId"])
        });
        let rules: Vec<&Value> = own.flat_map(|group| array(&group["_rules"])).collect();
        let is_open = |rule: &&&Value| {
            rule["ipProtocol"] == "-1"
                || rule["ipProtocol"] == "tcp"
                    && (number(&rule["fromPort"])..=number(&rule["toPort"])).contains(&port)
        };
        let has_group =
            |rule: &&Value| array(&balancer["SecurityGroups"]).any(|id| *id == rule["groupId"]);
        if rules.iter().filter(is_open).any(has_group) {
            return true;
        }
        let subnets = self.all("subnet").iter();
        let is_own = |subnet: &&Value| {
            array(&balancer["AvailabilityZones"])
                .any(|availability_zone| availability_zone["SubnetId"] == subnet["subnetId"])
        };
        let is_admitted = |subnet: &Value| {
            let address = text(&subnet["cidrBlock"])
                .split('/')
                .next()
                .unwrap_or_default();
            rules
                .iter()
                .filter(is_open)
                .any(|rule| contains(text(&rule["cidrIp"]), address))
        };
        subnets.filter(is_own).all(is_admitted)
    }

    /// Returns the targets that are not healthy, with the reason.
    #[must_use]
    pub fn unhealthy_targets(&self) -> Vec<String> {
        let groups = self.all("target-group").iter();
        let health = groups.flat_map(|group| {
            array(&group["_targets"]).map(|target| self.health_of(group, target))
        });
        let unhealthy = health.filter(|health| health["TargetHealth"]["State"] != "healthy");
        unhealthy
            .map(|object| {
                format!(
                    "{} {}",
                    text(&object["Target"]["Id"]),
                    text(&object["TargetHealth"]["Reason"])
                )
            })
            .collect()
    }
}

fn number(value: &Value) -> i64 {
    value
        .as_i64()
        .or_else(|| value.as_str()?.parse().ok())
        .unwrap_or_default()
}
