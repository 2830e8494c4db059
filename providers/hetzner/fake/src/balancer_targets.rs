//! Targets of load balancers.

use std::net::{IpAddr, Ipv4Addr};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::balancers::Balancer;
use crate::model::{Model, one};
use crate::refusal::Refusal;

/// A target of a load balancer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A target that is a cloud server.
    Server {
        /// ID of the server.
        id: u64,
        /// If set, the load balancer reaches the server by its address in the network.
        use_private_ip: bool,
    },
    /// An address: a Robot server's.
    Ip(IpAddr),
    /// Every server with labels that match a selector.
    LabelSelector {
        /// The label selector itself.
        selector: String,
        /// If set, the load balancer reaches the servers by their addresses in the network.
        use_private_ip: bool,
    },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TargetWish {
    #[serde(rename = "type")]
    kind: String,
    server: Option<ServerReference>,
    ip: Option<IpReference>,
    label_selector: Option<Selector>,
    use_private_ip: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerReference {
    id: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct IpReference {
    ip: IpAddr,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Selector {
    selector: String,
}

impl TargetWish {
    pub(crate) fn target(self) -> Result<Target, Refusal> {
        let use_private_ip = self.use_private_ip.unwrap_or_default();
        match (
            self.kind.as_str(),
            self.server,
            self.ip,
            self.label_selector,
        ) {
            ("server", Some(ServerReference { id }), None, None) => {
                Ok(Target::Server { id, use_private_ip })
            }
            ("ip", None, Some(IpReference { ip }), None) if self.use_private_ip.is_none() => {
                Ok(Target::Ip(ip))
            }
            ("label_selector", None, None, Some(Selector { selector })) => {
                Ok(Target::LabelSelector {
                    selector,
                    use_private_ip,
                })
            }
            _ => Err(Refusal::field("type", "does not fit what is stated")),
        }
    }
}

impl Target {
    /// Returns the ID of the target's server, if it is one.
    #[must_use]
    pub fn server(&self) -> Option<u64> {
        if let Self::Server { id, .. } = self {
            Some(*id)
        } else {
            None
        }
    }

    /// Returns `true` if the target is reached by its address in the network.
    #[must_use]
    pub fn is_private(&self) -> bool {
        matches!(
            self,
            Self::Server {
                use_private_ip: true,
                ..
            } | Self::LabelSelector {
                use_private_ip: true,
                ..
            }
        )
    }

    /// Returns `true` if both name the same target, by whichever address.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Server { id, .. }, Self::Server { id: other, .. }) => id == other,
            (Self::Ip(ip), Self::Ip(other)) => ip == other,
            (
                Self::LabelSelector { selector, .. },
                Self::LabelSelector {
                    selector: other, ..
                },
            ) => selector == other,
            _ => false,
        }
    }

    pub(crate) fn json(&self) -> Value {
        let health: [Value; 0] = [];
        match self {
            Self::Server { id, use_private_ip } => {
                json!({"type": "server", "server": {"id": id}, "use_private_ip": use_private_ip, "health_status": health})
            }
            Self::Ip(ip) => json!({"type": "ip", "ip": {"ip": ip}, "health_status": health}),
            Self::LabelSelector {
                selector,
                use_private_ip,
            } => json!({"type": "label_selector",
                "label_selector": {"selector": selector}, "use_private_ip": use_private_ip, "targets": []}),
        }
    }
}

impl Model {
    /// Checks that a load balancer may have this target.
    pub(crate) fn admit_target(
        &self,
        project: &str,
        balancer: &Balancer,
        target: &Target,
    ) -> Result<(), Refusal> {
        if balancer
            .targets
            .iter()
            .any(|other_target| other_target.is_same(target))
        {
            return Err(Refusal::new(
                "target_already_defined",
                "target already defined",
            ));
        }
        let kind = self
            .types
            .iter()
            .find(|balancer_type| balancer_type.name == balancer.load_balancer_type);
        if kind.is_some_and(|kind| balancer.targets.len() >= kind.max_targets) {
            return Err(Refusal::new(
                "resource_limit_exceeded",
                "the type's limit of targets is reached",
            ));
        }
        let networks: Vec<u64> = balancer
            .private_net
            .iter()
            .map(|network| network.network)
            .collect();
        if target.is_private() && networks.is_empty() {
            let message = "the load balancer is not attached to a network";
            return Err(Refusal::new(
                "load_balancer_not_attached_to_network",
                message,
            ));
        }
        match target {
            Target::Server { id, use_private_ip } => {
                let server =
                    one(&self.servers, project, *id).ok_or_else(|| Refusal::not_found("server"))?;
                if *use_private_ip
                    && !networks
                        .iter()
                        .any(|network| server.ip_in(*network).is_some())
                {
                    let message = "the server is not attached to the load balancer's network";
                    return Err(Refusal::new("server_not_attached_to_network", message));
                }
                if !use_private_ip && server.ipv4.is_none() {
                    return Err(Refusal::new(
                        "missing_ipv4",
                        "the server has no public IPv4 address",
                    ));
                }
                Ok(())
            }
            Target::Ip(ip) => self.admit_ip(*ip),
            Target::LabelSelector { .. } => Ok(()),
        }
    }

    /// Checks that an address belongs to a dedicated server, or is a private one behind a vSwitch.
    fn admit_ip(&self, ip: IpAddr) -> Result<(), Refusal> {
        let is_private = matches!(ip, IpAddr::V4(ip) if ip.is_private());
        let is_cloud = self
            .servers
            .values()
            .any(|server| server.object.ipv4.map(IpAddr::V4) == Some(ip));
        if is_cloud {
            return Err(Refusal::new(
                "cloud_resource_ip_not_allowed",
                "the address is a cloud server's",
            ));
        }
        let of = |address: &Ipv4Addr| IpAddr::V4(*address) == ip;
        if is_private
            || self
                .robot
                .values()
                .any(|server| server.server_ip.as_ref().is_some_and(of))
        {
            return Ok(());
        }
        Err(Refusal::new(
            "ip_not_owned",
            "the address is nobody's that you know",
        ))
    }
}
