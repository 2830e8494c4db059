//! Arguments of published manifests, with the names by which they call the program (FLAG-70).

use std::ffi::OsString;

use crate::flags::{Flags, Parsed};

/// Command, arguments, and the resulting provider.
const MANIFESTS: [(&str, &str, &str); 20] = [
    (
        "/bin/hcloud-cloud-controller-manager",
        "--allow-untagged-cloud --cloud-provider=hcloud \
         --feature-gates=CloudControllerManagerWatchBasedRoutesReconciliation=true --route-reconciliation-period=30s \
         --webhook-secure-port=0 --leader-elect=false",
        "hcloud",
    ),
    (
        "/bin/hcloud-cloud-controller-manager",
        "--allow-untagged-cloud --cloud-provider=hcloud --route-reconciliation-period=30s --webhook-secure-port=0 \
         --allocate-node-cidrs=true --cluster-cidr=10.244.0.0/16",
        "hcloud",
    ),
    (
        "/bin/digitalocean-cloud-controller-manager",
        "--leader-elect=false",
        "digitalocean",
    ),
    (
        "/bin/digitalocean-cloud-controller-manager",
        "--leader-elect=true",
        "digitalocean",
    ),
    (
        "/bin/digitalocean-cloud-controller-manager",
        "--cloud-provider=digitalocean --leader-elect=false --allow-untagged-cloud=true",
        "digitalocean",
    ),
    (
        "/linode-cloud-controller-manager-linux-amd64",
        "--leader-elect-resource-lock=leases --v=3 --secure-port=10253 --webhook-secure-port=0",
        "linode",
    ),
    (
        "/ccm-linode",
        "--leader-elect-resource-lock=leases --v=3 --secure-port=10253 --webhook-secure-port=0 \
         --configure-cloud-routes=true --allocate-node-cidrs=true --cluster-cidr=10.192.0.0/10 \
         --route-reconciliation-period=1m --authorization-always-allow-paths=\"/metrics\" --linodego-debug=false \
         --enable-route-controller=true --enable-token-health-checker=true --vpc-names=a,b --vpc-ids=1,2 \
         --subnet-names=default --subnet-ids=3 --load-balancer-type=nodebalancer --bgp-node-selector=a=b \
         --ip-holder-suffix=x --default-nodebalancer-type=common --nodebalancer-backend-ipv4-subnet=10.0.0.0/30 \
         --nodebalancer-backend-ipv4-subnet-id=4 --nodebalancer-backend-ipv4-subnet-name=n --nodebalancer-tags=t \
         --nodebalancer-prefix=ccm --enable-ipv6-for-loadbalancers --enable-ipv6-for-nodebalancer-backends \
         --disable-nodebalancer-vpc-backends --node-cidr-mask-size-ipv4=24 --node-cidr-mask-size-ipv6=64 \
         --disable-ipv6-node-cidr-allocation --linode-tag-filter=t",
        "linode",
    ),
    (
        "/bin/openstack-cloud-controller-manager",
        "--v=1 --cluster-name=kubernetes --cloud-config=/etc/config/cloud.conf --cloud-provider=openstack \
         --use-service-account-credentials=false --bind-address=127.0.0.1 --user-agent=a --user-agent=b",
        "openstack",
    ),
    (
        "/bin/openstack-cloud-controller-manager",
        "--v=2 --cloud-config=/etc/config/cloud.conf --cluster-name=kubernetes --cloud-provider=openstack \
         --use-service-account-credentials=true --controllers=cloud-node,cloud-node-lifecycle,route,service \
         --bind-address=0.0.0.0",
        "openstack",
    ),
    (
        "/cloud-controller-manager",
        "--cloud-config=/etc/kubernetes/config/cloud-config.conf --cloud-provider=alibabacloud --cluster-cidr=10.1.0.0/16 \
         --configure-cloud-routes=true --allocate-node-cidrs=true --route-reconciliation-period=3m --leader-elect=true \
         --use-service-account-credentials=true --controllers=node,route,service,nlb --network=vpc --sg-batch-size=40 \
         --max-concurrent-actions=10 --max-throttling-retry-times=10 --node-reconcile-batch-size=100 \
         --route-reconcile-batch-size=50 --node-event-aggregation-wait-seconds=1 --metrics-bind-addr=:8080 \
         --health-probe-bind-addr=:10258 --pprof-bind-addr=0 --enable-imdsv2=true --dry-run=false \
         --skip-disable-source-dest-check=false --node-monitor-period=5s --concurrent-service-syncs=3",
        "alibabacloud",
    ),
    (
        "/bin/aws-cloud-controller-manager",
        "--v=2 --cloud-provider=aws",
        "aws",
    ),
    (
        "/bin/aws-cloud-controller-manager",
        "--v=2 --cloud-provider=aws --use-service-account-credentials=true --configure-cloud-routes=false \
         --cluster-name=c --leader-elect=true --controllers=*,tagging --tags=a=b,c=d --resources=instance \
         --tagging-controller-rate-limit=1.5 --tagging-controller-burst-limit=10 \
         --tagging-controller-concurrent-node-syncs=2 --tagging-controller-enable-batching",
        "aws",
    ),
    (
        "cloud-controller-manager",
        "--allocate-node-cidrs=true --bind-address=127.0.0.1 --cert-dir=/etc/kubernetes/certs \
         --cloud-config=/etc/kubernetes/azure.json --cloud-config-secret-name=azure-cloud-provider \
         --cloud-provider=azure --cluster-cidr=10.244.0.0/16 --cluster-name=c --configure-cloud-routes=true \
         --contention-profiling=true --controller-start-interval=0s --controllers=*,-cloud-node \
         --enable-dynamic-reloading=false --http2-max-streams-per-connection=47 --kube-api-burst=100 --kube-api-qps=50 \
         --kube-api-content-type=application/vnd.kubernetes.protobuf --kubeconfig=/etc/kubernetes/kubeconfig \
         --leader-elect=true --leader-elect-lease-duration=15s --leader-elect-renew-deadline=10s \
         --leader-elect-retry-period=2s --leader-elect-resource-lock=leases --master=https://127.0.0.1:6443 \
         --min-resync-period=12h0m0s --node-status-update-frequency=10s --route-reconciliation-period=10s \
         --profiling=true --secure-port=10268 --use-service-account-credentials=true --v=2 \
         --cloud-config-secret-namespace=kube-system --cloud-config-key=k --node-cidr-mask-size=24 \
         --service-cluster-ip-range=10.0.0.0/16",
        "azure",
    ),
    (
        "cloud-controller-manager",
        "--cloud-provider=azure --secure-port=10267 --leader-elect",
        "azure",
    ),
    (
        "/usr/local/bin/oci-cloud-controller-manager",
        "--cloud-config=/etc/oci/cloud-provider.yaml --cloud-provider=oci --leader-elect-resource-lock=leases \
         --concurrent-service-syncs=3 --v=2",
        "oci",
    ),
    (
        "/bin/vsphere-cloud-controller-manager",
        "--cloud-provider=vsphere --v=2 --cloud-config=/etc/cloud/vsphere.conf",
        "vsphere",
    ),
    (
        "/scaleway-cloud-controller-manager",
        "--cloud-provider=scaleway --leader-elect=true --allow-untagged-cloud",
        "scaleway",
    ),
    (
        "/vultr-cloud-controller-manager",
        "--cloud-provider=vultr --allow-untagged-cloud=true --authentication-skip-lookup=true --v=3",
        "vultr",
    ),
    (
        "/exoscale-cloud-controller-manager",
        "--leader-elect=true --allow-untagged-cloud",
        "exoscale",
    ),
    (
        "/usr/local/bin/cloud-controller-manager",
        "--cloud-provider=gce --leader-elect=true --use-service-account-credentials --allocate-node-cidrs=true \
         --configure-cloud-routes=true --cluster-cidr=10.244.0.0/16 --cidr-allocator-type=CloudAllocator \
         --enable-multi-project=false --enable-l4-lb-annotations --logtostderr=true --port=0",
        "gce",
    ),
];

fn parse(command: &str, arguments: &str) -> Parsed {
    Flags::parse(
        std::iter::once(command)
            .chain(arguments.split_whitespace())
            .map(OsString::from),
    )
}

#[test]
fn published_manifests_are_accepted_unchanged() {
    for (command, arguments, provider) in MANIFESTS {
        match parse(command, arguments) {
            Parsed::Flags(flags) => assert_eq!(flags.cloud.cloud_provider, provider, "{command}"),
            other => panic!("{command} {arguments}: {other:?}"),
        }
    }
}

#[test]
fn start_without_arguments_names_the_missing_flag() {
    assert!(
        matches!(parse("/cloud-controller-manager", ""), Parsed::Wrong(text) if text.starts_with("--cloud-provider cannot be empty"))
    );
    assert!(matches!(
        parse("/gcp-cloud-controller-manager", ""),
        Parsed::Flags(_)
    ));
}

#[test]
fn flags_of_another_vendors_program_are_accepted_with_a_notice() {
    let Parsed::Flags(flags) = parse(
        "ccm-linode",
        "--bgp-node-selector=a --linode-tag-filter=b --vpc-names=c --allocate-node-cidrs",
    ) else {
        panic!("they are accepted")
    };
    let texts: Vec<_> = flags
        .notices()
        .into_iter()
        .map(|notice| notice.text)
        .collect();
    assert_eq!(
        texts,
        ["--bgp-node-selector has no effect here: BGP is not supported"]
    );
    let read = flags.configuration().cloud.flags;
    assert_eq!(
        (read.get("--linode-tag-filter"), read.get("--vpc-names")),
        (Some("b"), Some("c"))
    );
    assert_eq!(
        read.get("--allocate-node-cidrs"),
        Some("true"),
        "its provider assigns Pod ranges"
    );
}

#[test]
fn googles_program_gets_its_flags_and_the_kind_of_its_node_ipam() {
    let flags = "--cloud-provider=gce --allocate-node-cidrs --cidr-allocator-type=CloudAllocator --enable-multi-project \
                 --cloud-provider-gce-lb-src-cidrs=10.0.0.0/8 --enable-gke-tenant-controller";
    let Parsed::Flags(flags) = parse("cloud-controller-manager", flags) else {
        panic!("they are accepted")
    };
    let read = flags.cloud_flags();
    let keys = [
        "--allocate-node-cidrs",
        "--cidr-allocator-type",
        "--enable-multi-project",
        "--enable-gke-tenant-controller",
    ];
    assert_eq!(
        keys.map(|key| read.get(key)),
        [Some("true"), Some("CloudAllocator"), Some("true"), None]
    );
    assert_eq!(
        read.get("--cloud-provider-gce-lb-src-cidrs"),
        Some("10.0.0.0/8")
    );
    let texts: Vec<_> = flags
        .notices()
        .into_iter()
        .map(|notice| notice.text)
        .collect();
    assert_eq!(
        texts,
        [
            "--enable-gke-tenant-controller has no effect here: controllers of GKE are not part of this program"
        ]
    );
}

#[test]
fn azure_gets_the_kind_of_its_node_ipam() {
    let flags = "--cloud-provider=azure --allocate-node-cidrs --cidr-allocator-type=CloudAllocator";
    let Parsed::Flags(flags) = parse("cloud-controller-manager", flags) else {
        panic!("they are accepted")
    };
    assert_eq!(
        flags.cloud_flags().get("--cidr-allocator-type"),
        Some("CloudAllocator")
    );
    let texts: Vec<_> = flags
        .notices()
        .into_iter()
        .map(|notice| notice.text)
        .collect();
    assert!(
        !texts
            .iter()
            .any(|text| text.contains("cidr-allocator-type")),
        "{texts:?}"
    );
}

#[test]
fn azure_gets_the_flags_of_the_manifest_of_kops() {
    let flags = "--cloud-provider=azure --cloud-config= --cloud-config-secret-name=azure-cloud-provider \
                 --cloud-config-secret-namespace=kube-system --cloud-config-key=cloud-config \
                 --enable-dynamic-reloading=true --service-cluster-ip-range=10.0.0.0/16 --node-cidr-mask-size=25";
    let Parsed::Flags(flags) = parse("cloud-controller-manager", flags) else {
        panic!("they are accepted")
    };
    let read = flags.cloud_flags();
    let keys = [
        "--cloud-config-secret-name",
        "--enable-dynamic-reloading",
        "--node-cidr-mask-size",
    ];
    assert_eq!(
        keys.map(|key| read.get(key)),
        [Some("azure-cloud-provider"), Some("true"), Some("25")]
    );
    assert!(
        !flags
            .notices()
            .iter()
            .any(|notice| notice.text.contains("has no effect")),
        "{:?}",
        flags.notices()
    );
}

#[test]
fn user_agent_flag_reaches_openstack_and_is_inert_for_others() {
    let flags = |arguments: &str| match parse("cloud-controller-manager", arguments) {
        Parsed::Flags(flags) => flags,
        other => panic!("{other:?}"),
    };
    let told = |flags: &Flags| {
        flags
            .notices()
            .iter()
            .any(|notice| format!("{notice:?}").contains("user-agent"))
    };
    let openstacks = flags("--cloud-provider=openstack --user-agent=a --user-agent=b/1");
    assert_eq!(
        (
            openstacks.configuration().cloud.user_agent,
            told(&openstacks)
        ),
        (vec!["a".to_owned(), "b/1".to_owned()], false)
    );
    assert!(told(&flags("--cloud-provider=hcloud --user-agent=a")));
    assert!(
        flags("--cloud-provider=openstack")
            .configuration()
            .cloud
            .user_agent
            .is_empty()
    );
}
