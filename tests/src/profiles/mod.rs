//! The profiles of the clouds of this workspace, for the conformance suite, the race and the scale bench.

mod alibaba;
mod aws;
mod azure;
mod digitalocean;
mod gcp;
mod hetzner;
mod openstack;
mod simulated;

pub use alibaba::AlibabaCloud;
pub use aws::AwsCloud;
pub use azure::{AzureCloud, Form as AzurePools};
use ccm_conformance::{CloudProfile, MakeProfile};
pub use digitalocean::DigitalOceanCloud;
pub use gcp::GcpCloud;
pub use hetzner::HetznerCloud;
pub use openstack::OpenStackCloud;
pub use simulated::SimulatedCloud;

/// The profiles by the name of the provider.
pub const ALL: [(&str, MakeProfile); 8] = [
    ("simulated", || Box::new(SimulatedCloud::default())),
    ("hcloud", || Box::new(HetznerCloud::default())),
    ("digitalocean", || Box::new(DigitalOceanCloud::default())),
    ("gce", || Box::new(GcpCloud::default())),
    ("alibabacloud", || Box::new(AlibabaCloud::classic())),
    ("aws", || Box::new(AwsCloud::classic())),
    ("azure", || Box::new(AzureCloud::new(AzurePools::Addresses))),
    ("openstack", || Box::new(OpenStackCloud::default())),
];

/// Returns the profile of the provider of this name.
///
/// # Errors
/// There is none; the text lists those that there are.
pub fn by_name(name: &str) -> anyhow::Result<Box<dyn CloudProfile>> {
    let found = ALL.iter().find(|(known, _)| *known == name).map(|(_, make)| make());
    found.ok_or_else(|| anyhow::anyhow!("no profile of a cloud {name:?}; known are {:?}", ALL.map(|(known, _)| known)))
}
