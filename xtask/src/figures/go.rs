//! Sizes of the vendors' Go programs, for comparison.
//!
//! Counted in their public repositories with the definition of a token in [`super`]: the folders that do the work of a
//! cloud controller manager, without tests, mocks, fakes, generated files, and clients of the cloud's API that a vendor
//! publishes as a library.

/// The cloud controller manager of a vendor, written in Go.
#[derive(Debug)]
pub(super) struct GoProgram {
    /// Folder of this project's provider.
    pub(super) provider: &'static str,
    /// Repository on GitHub, and the commit that was counted.
    pub(super) source: &'static str,
    /// Folders that were counted, with what lies below them.
    pub(super) folders: &'static str,
    /// Tokens in these folders.
    pub(super) tokens: usize,
}

const fn program(
    provider: &'static str,
    source: &'static str,
    folders: &'static str,
    tokens: usize,
) -> GoProgram {
    GoProgram {
        provider,
        source,
        folders,
        tokens,
    }
}

/// The programs that were counted in November 2026.
pub(super) const PROGRAMS: &[GoProgram] = &[
    program(
        "alibaba",
        "kubernetes/cloud-provider-alibaba-cloud@eeb0ddc68",
        "pkg/controller/{service,route,node,helper}, pkg/provider/alibaba/{slb,nlb,ecs,vpc,base}, pkg/model without alb",
        109_939,
    ),
    program(
        "aws",
        "kubernetes/cloud-provider-aws@63ec440c",
        "pkg/providers/v1, pkg/controllers/tagging, pkg/services",
        47_651,
    ),
    program(
        "azure",
        "kubernetes-sigs/cloud-provider-azure@7b31c76ce",
        "pkg/provider without servicegateway and storage",
        109_035,
    ),
    program(
        "baidu",
        "baidu/cloud-provider-baiducloud@72e7965",
        "pkg/cloud-provider, pkg/cloud",
        18_884,
    ),
    program(
        "digitalocean",
        "digitalocean/digitalocean-cloud-controller-manager@70d527e38",
        "cloud-controller-manager/do",
        17_340,
    ),
    program(
        "gcp",
        "kubernetes/cloud-provider-gcp@4e2453124",
        "providers/gce",
        49_248,
    ),
    program(
        "hetzner",
        "hetznercloud/hcloud-cloud-controller-manager@6485324f",
        "hcloud, internal",
        23_702,
    ),
    program(
        "keepalived",
        "munnerz/keepalived-cloud-provider@ccc727f",
        "keepalivedcp",
        2_020,
    ),
    program(
        "linode",
        "linode/linode-cloud-controller-manager@b9aa9012",
        "cloud without nodeipam",
        24_394,
    ),
    program(
        "oci",
        "oracle/oci-cloud-controller-manager@1100ac362",
        "pkg/cloudprovider/providers/oci, pkg/oci/client, pkg/oci/instance/metadata",
        71_044,
    ),
    program(
        "openstack",
        "kubernetes/cloud-provider-openstack@c453fb7c9",
        "pkg/openstack, pkg/util/openstack, pkg/util/metadata, pkg/client",
        30_961,
    ),
    program(
        "rancher",
        "rancher/rancher-cloud-controller-manager@bd461287",
        "rancher",
        4_980,
    ),
    program(
        "tencent",
        "TencentCloud/tencentcloud-cloud-controller-manager@feb49ff",
        "tencentcloud, route-ctl",
        7_381,
    ),
];
