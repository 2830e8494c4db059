//! The profiles of the clouds of this workspace, that several test targets and benches share.

mod aws;
mod azure;
mod digitalocean;
mod gcp;
mod hetzner;
mod openstack;
mod simulated;

pub use aws::AwsCloud;
pub use azure::{AzureCloud, Form as AzurePools};
pub use digitalocean::DigitalOceanCloud;
pub use gcp::GcpCloud;
pub use hetzner::HetznerCloud;
pub use openstack::OpenStackCloud;
pub use simulated::SimulatedCloud;
