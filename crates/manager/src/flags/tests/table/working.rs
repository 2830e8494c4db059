//! Flags of the process, the cloud and the controllers.

use super::*;

/// Section "Generic" of `--help`.
pub(super) const GENERIC: [Row; 14] = [
    row(
        "controllers",
        "*",
        &["--controllers=*,-service"],
        Configz("/Generic/Controllers", || json!(["*", "-service-lb-controller"])),
    ),
    row(
        "controller-start-interval",
        "0s",
        &["--controller-start-interval=1s"],
        Configz("/Generic/ControllerStartInterval", || json!("1s")),
    ),
    row(
        "min-resync-period",
        "12h0m0s",
        &["--min-resync-period=90m"],
        Configz("/Generic/MinResyncPeriod", || json!("1h30m0s")),
    ),
    row("kube-api-qps", "20", &["--kube-api-qps=7.5"], Configz("/Generic/ClientConnection/qps", || json!(7.5))),
    row(
        "kube-api-burst",
        "30",
        &["--kube-api-qps=1", "--kube-api-burst=0x10"],
        Configz("/Generic/ClientConnection/burst", || json!(16)),
    ),
    row(
        "kube-api-content-type",
        "application/vnd.kubernetes.protobuf",
        &["--kube-api-content-type=application/json"],
        Configz("/Generic/ClientConnection/contentType", || json!("application/json")),
    ),
    row(
        "feature-gates",
        "",
        &["--feature-gates=CloudControllerManagerWebhook=true", "--webhooks=*"],
        Opt(Configuration::serves_webhooks),
    ),
    row(
        "leader-elect",
        "true",
        &["--leader-elect=false"],
        Configz("/Generic/LeaderElection/leaderElect", || json!(false)),
    ),
    row(
        "leader-elect-lease-duration",
        "15s",
        &["--leader-elect-lease-duration=1m"],
        Configz("/Generic/LeaderElection/leaseDuration", || json!("1m0s")),
    ),
    row(
        "leader-elect-renew-deadline",
        "10s",
        &["--leader-elect-renew-deadline=9s"],
        Configz("/Generic/LeaderElection/renewDeadline", || json!("9s")),
    ),
    row(
        "leader-elect-retry-period",
        "2s",
        &["--leader-elect-retry-period=3s"],
        Configz("/Generic/LeaderElection/retryPeriod", || json!("3s")),
    ),
    // Only one value is valid, so a changed one shows in the error.
    row(
        "leader-elect-resource-lock",
        "leases",
        &["--leader-elect=false", "--leader-elect-resource-lock=endpoints"],
        Configz("/Generic/LeaderElection/resourceLock", || json!("endpoints")),
    ),
    row(
        "leader-elect-resource-name",
        "cloud-controller-manager",
        &["--leader-elect-resource-name=second"],
        Configz("/Generic/LeaderElection/resourceName", || json!("second")),
    ),
    row(
        "leader-elect-resource-namespace",
        "kube-system",
        &["--leader-elect-resource-namespace=clouds"],
        Configz("/Generic/LeaderElection/resourceNamespace", || json!("clouds")),
    ),
];

/// Sections "Debugging" and "Leader-migration" of `--help`.
pub(super) const DEBUGGING: [Row; 4] = [
    row("profiling", "true", &["--profiling=false"], Configz("/Generic/Debugging/enableProfiling", || json!(false))),
    row(
        "contention-profiling",
        "false",
        &["--contention-profiling"],
        Configz("/Generic/Debugging/enableContentionProfiling", || json!(true)),
    ),
    row(
        "enable-leader-migration",
        "false",
        &["--enable-leader-migration"],
        Configz("/Generic/LeaderMigrationEnabled", || json!(true)),
    ),
    row(
        "leader-migration-config",
        "",
        &["--enable-leader-migration", "--leader-migration-config=/a"],
        Opt(|config| config.election.clone().unwrap().migration.unwrap().file.unwrap().as_os_str() == "/a"),
    ),
];

/// Flags about the cloud, in section "Generic" of `--help`.
pub(super) const CLOUD: [Row; 13] = [
    row(
        "cloud-provider",
        "",
        &["--cloud-provider=openstack"],
        Configz("/KubeCloudShared/CloudProvider/Name", || json!("openstack")),
    ),
    row(
        "cloud-config",
        "",
        &["--cloud-config=/a"],
        Configz("/KubeCloudShared/CloudProvider/CloudConfigFile", || json!("/a")),
    ),
    row("cluster-name", "kubernetes", &["--cluster-name="], Configz("/KubeCloudShared/ClusterName", || json!(""))),
    row(
        "cluster-cidr",
        "",
        &["--cluster-cidr=10.0.0.0/8"],
        Configz("/KubeCloudShared/ClusterCIDR", || json!("10.0.0.0/8")),
    ),
    row("allocate-node-cidrs", "false", &["--allocate-node-cidrs"], Warns),
    row("cidr-allocator-type", "RangeAllocator", &["--cidr-allocator-type=CloudAllocator"], Warns),
    row(
        "configure-cloud-routes",
        "true",
        &["--configure-cloud-routes=F"],
        Configz("/KubeCloudShared/ConfigureCloudRoutes", || json!(false)),
    ),
    row(
        "route-reconciliation-period",
        "10s",
        &["--route-reconciliation-period=30s"],
        Configz("/KubeCloudShared/RouteReconciliationPeriod", || json!("30s")),
    ),
    row(
        "node-monitor-period",
        "5s",
        &["--node-monitor-period=1s"],
        Configz("/KubeCloudShared/NodeMonitorPeriod", || json!("1s")),
    ),
    row(
        "use-service-account-credentials",
        "false",
        &["--use-service-account-credentials"],
        Configz("/KubeCloudShared/UseServiceAccountCredentials", || json!(true)),
    ),
    row(
        "allow-untagged-cloud",
        "false",
        &["--allow-untagged-cloud"],
        Configz("/KubeCloudShared/AllowUntaggedCloud", || json!(true)),
    ),
    row("node-sync-period", "0s", &["--node-sync-period=1m"], Warns),
    row("external-cloud-volume-plugin", "", &["--external-cloud-volume-plugin=openstack"], Warns),
];

/// Sections of the controllers in `--help`.
pub(super) const CONTROLLERS: [Row; 3] = [
    row(
        "concurrent-node-syncs",
        "1",
        &["--concurrent-node-syncs=1"],
        Configz("/NodeController/ConcurrentNodeSyncs", || json!(1)),
    ),
    row(
        "concurrent-node-status-updates",
        "0",
        &["--concurrent-node-status-updates=5"],
        Configz("/NodeController/ConcurrentNodeStatusUpdates", || json!(5)),
    ),
    row(
        "concurrent-service-syncs",
        "1",
        &["--concurrent-service-syncs=3"],
        Configz("/ServiceController/ConcurrentServiceSyncs", || json!(3)),
    ),
];
