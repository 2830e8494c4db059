//! Checks that the API server's name can be resolved.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use async_trait::async_trait;
use cloud_provider::Finding;

use crate::diagnosis::Situation;

/// A resolver of host names.
#[async_trait]
pub trait Names: Send + Sync {
    /// Returns the addresses of a host name.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The system's resolver, as the rest of the program uses it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemNames;

#[async_trait]
impl Names for SystemNames {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((name, 0))
            .await?
            .map(|address| address.ip())
            .collect())
    }
}

pub(super) async fn check(situation: &Situation, names: &dyn Names, timeout: Duration) -> Finding {
    let host = situation.host();
    if host.is_empty() {
        return Finding::ok("dns", "not checked: the API server's address is not known");
    }
    if host.parse::<IpAddr>().is_ok() {
        return Finding::ok(
            "dns",
            format!("not needed: the API server's address {host} is an IP address"),
        );
    }
    let answer = tokio::time::timeout(timeout, names.resolve(&host)).await;
    match answer.unwrap_or_else(|_| Err(io::Error::other(format!("no answer within {timeout:?}"))))
    {
        Ok(addresses) if !addresses.is_empty() => {
            let shown: Vec<_> = addresses.iter().take(3).map(ToString::to_string).collect();
            Finding::ok("dns", format!("{host} is {}", shown.join(", ")))
        }
        result => {
            let why = result
                .err()
                .map_or_else(|| "it has no address".to_owned(), |error| error.to_string());
            let asked = match situation.resolvers.as_slice() {
                [] => "/etc/resolv.conf names no server".to_owned(),
                servers => format!("asked {}, from /etc/resolv.conf", servers.join(" and ")),
            };
            Finding::failure(
                "dns",
                format!("the API server's name {host:?} cannot be resolved ({asked}): {why}"),
                "correct the name, or set `dnsPolicy: Default` (with `hostNetwork: true`) in the Pod, so that the \
                 node's DNS servers are used instead of the cluster's",
            )
        }
    }
}
