//! The first start of a user: the binary on each cloud with nothing but what the cloud makes mandatory, which is a
//! credential and, for these tests, the addresses of fakes on loopback. Region, zone, VPC, cluster ID, project and
//! compartment are found in the metadata service or have defaults. One Node is initialised, and `doctor` and `plan` find
//! the same facts (PROV-7, PROV-10).

#![allow(clippy::unwrap_used, reason = "a test that fails here says where")]

#[allow(dead_code, reason = "the scale bench uses the rest")]
#[path = "../../benches/scale/clouds.rs"]
mod clouds;
#[allow(dead_code, reason = "the tests of the provider use the rest")]
#[path = "../../../providers/mycloud/tests/mycloud/fake/mod.rs"]
mod fake;
mod mandatory;
#[allow(
    dead_code,
    unused_imports,
    reason = "the tests of the provider use the rest"
)]
#[path = "../../../providers/mycloud/tests/mycloud/profile.rs"]
mod mycloud;
mod world;

use crate::world::{start, untagged_instance, waits_for_metadata_service};

const IPV4: &str = "127.0.0.1:0";
const IPV6: &str = "[::1]:0";

/// Declares a test for each cloud, so that the clouds start in parallel and a failure names its cloud.
macro_rules! clouds_that_start {
    ($($test:ident: $cloud:literal),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                if let Err(error) = start($cloud, IPV4).await {
                    panic!("{}: {error:#}", $cloud);
                }
            }
        )*

        #[test]
        fn every_cloud_has_a_row_and_a_test() {
            let rows: Vec<_> = crate::mandatory::ROWS.iter().map(|row| row.cloud).collect();
            assert_eq!(rows, [$($cloud),*]);
        }
    };
}

clouds_that_start! {
    alibaba_starts_with_the_role_region_and_vpc_of_its_machine: "alibabacloud",
    aws_starts_with_the_role_region_vpc_and_cluster_id_of_its_instance: "aws",
    azure_starts_with_the_managed_identity_of_its_machine: "azure",
    baidu_starts_with_key_region_and_cluster: "cce",
    digitalocean_starts_with_a_token_and_the_region_of_its_droplet: "digitalocean",
    google_cloud_starts_with_the_account_project_zone_and_network_of_its_instance: "gce",
    hetzner_starts_with_a_token: "hcloud",
    keepalived_starts_with_a_range: "keepalived",
    linode_starts_with_token_and_region: "linode",
    mycloud_starts_with_what_its_file_requires: "mycloud",
    oracle_cloud_starts_with_a_key_and_the_region_and_compartment_of_its_instance: "oci",
    openstack_starts_with_a_password: "openstack",
    rancher_starts_with_url_and_key: "rancher",
    tencent_starts_with_the_role_region_and_vpc_of_its_machine: "tencentcloud",
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aws_starts_on_an_instance_with_ipv6_alone() {
    start("aws", IPV6).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn google_cloud_starts_on_an_instance_with_ipv6_alone() {
    start("gce", IPV6).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn program_without_a_metadata_service_waits_for_it_and_names_the_hop_limit() {
    waits_for_metadata_service(&[
        "the metadata service does not answer",
        "HttpPutResponseHopLimit",
    ])
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instance_without_the_tag_of_a_cluster_needs_the_flag_of_the_go_program() {
    untagged_instance().await.unwrap();
}
