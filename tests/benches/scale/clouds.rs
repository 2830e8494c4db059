//! The clouds that this bench can serve, by the names of their providers.

use ccm_conformance::{CloudProfile, MakeProfile};
use ccm_tests::profiles::{
    AwsCloud, AzureCloud, AzurePools, DigitalOceanCloud, GcpCloud, HetznerCloud, OpenStackCloud,
    SimulatedCloud,
};

/// The profiles that lie beside the tests of their providers. This bench uses only a part of each.
#[allow(
    dead_code,
    unused_imports,
    reason = "the tests of the provider use the rest"
)]
#[path = "../../../providers"]
mod beside {
    #[path = "alibaba/tests/alibaba/profile.rs"]
    pub(super) mod alibaba;
    #[path = "baidu/tests/baidu/profile.rs"]
    pub(super) mod baidu;
    #[path = "linode/tests/linode/profile.rs"]
    pub(super) mod linode;
    #[path = "oci/tests/oci/profile.rs"]
    pub(super) mod oci;
    #[path = "rancher/tests/rancher/profile.rs"]
    pub(super) mod rancher;
    #[path = "tencent/tests/tencent/profile.rs"]
    pub(super) mod tencent;
}

const ALL: [(&str, MakeProfile); 15] = [
    ("simulated", || Box::new(SimulatedCloud::default())),
    ("hcloud", || Box::new(HetznerCloud::default())),
    ("digitalocean", || Box::new(DigitalOceanCloud::default())),
    (
        "linode",
        || Box::new(beside::linode::LinodeCloud::default()),
    ),
    ("gce", || Box::new(GcpCloud::default())),
    ("aws", || Box::new(AwsCloud::classic())),
    ("azure", || Box::new(AzureCloud::new(AzurePools::Addresses))),
    ("azure-availability-sets", || {
        Box::new(AzureCloud::new(AzurePools::AvailabilitySet))
    }),
    ("azure-scale-sets", || {
        Box::new(AzureCloud::new(AzurePools::ScaleSet))
    }),
    ("oci", || Box::new(beside::oci::OciCloud::default())),
    ("alibabacloud", || {
        Box::new(beside::alibaba::AlibabaCloud::classic())
    }),
    ("tencentcloud", || {
        Box::new(beside::tencent::TencentCloud::default())
    }),
    ("cce", || Box::new(beside::baidu::BaiduCloud::default())),
    ("openstack", || Box::new(OpenStackCloud::default())),
    ("rancher", || {
        Box::new(beside::rancher::RancherCloud::default())
    }),
];

/// Returns the profile of the provider of this name, or of a variant of its clouds.
///
/// # Errors
/// There is none; the text lists those that there are.
pub(crate) fn by_name(name: &str) -> anyhow::Result<Box<dyn CloudProfile>> {
    let found = ALL
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, make)| make());
    found.ok_or_else(|| {
        anyhow::anyhow!(
            "no profile of a cloud {name:?}; known are {:?}",
            ALL.map(|(known, _)| known)
        )
    })
}
