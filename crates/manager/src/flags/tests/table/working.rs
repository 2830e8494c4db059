//! What runs and how it works: §2 to §6.

use super::*;

/// §2: generic.
pub(super) const GENERIC: [Row; 14] = [
    row(
        "Generic",
        ("controllers", "strings", "*", Must),
        &["--controllers=*,-service"],
        Configz("/Generic/Controllers", || json!(["*", "-service-lb-controller"])),
    ),
    row(
        "Generic",
        ("controller-start-interval", "duration", "0s", Should),
        &["--controller-start-interval=1s"],
        Configz("/Generic/ControllerStartInterval", || json!("1s")),
    ),
    row(
        "Generic",
        ("min-resync-period", "duration", "12h0m0s", Must),
        &["--min-resync-period=90m"],
        Configz("/Generic/MinResyncPeriod", || json!("1h30m0s")),
    ),
    row(
        "Generic",
        ("kube-api-qps", "float32", "20", Must),
        &["--kube-api-qps=7.5"],
        Configz("/Generic/ClientConnection/qps", || json!(7.5)),
    )
    .ours(""),
    row(
        "Generic",
        ("kube-api-burst", "int32", "30", Must),
        &["--kube-api-qps=1", "--kube-api-burst=0x10"],
        Configz("/Generic/ClientConnection/burst", || json!(16)),
    )
    .ours(""),
    row(
        "Generic",
        ("kube-api-content-type", "string", "application/vnd.kubernetes.protobuf", Must),
        &["--kube-api-content-type=application/json"],
        Configz("/Generic/ClientConnection/contentType", || json!("application/json")),
    ),
    row(
        "Generic",
        ("feature-gates", "map", "", Must),
        &["--feature-gates=CloudControllerManagerWebhook=true", "--webhooks=*"],
        Opt(Flags::serves_webhooks),
    ),
    row(
        "Generic",
        ("leader-elect", "bool", "true", Must),
        &["--leader-elect=false"],
        Configz("/Generic/LeaderElection/leaderElect", || json!(false)),
    ),
    row(
        "Generic",
        ("leader-elect-lease-duration", "duration", "15s", Must),
        &["--leader-elect-lease-duration=1m"],
        Configz("/Generic/LeaderElection/leaseDuration", || json!("1m0s")),
    ),
    row(
        "Generic",
        ("leader-elect-renew-deadline", "duration", "10s", Must),
        &["--leader-elect-renew-deadline=9s"],
        Configz("/Generic/LeaderElection/renewDeadline", || json!("9s")),
    ),
    row(
        "Generic",
        ("leader-elect-retry-period", "duration", "2s", Must),
        &["--leader-elect-retry-period=3s"],
        Configz("/Generic/LeaderElection/retryPeriod", || json!("3s")),
    ),
    // One value is legal, so a changed one has its effect in the error.
    row(
        "Generic",
        ("leader-elect-resource-lock", "string", "leases", Must),
        &["--leader-elect=false", "--leader-elect-resource-lock=endpoints"],
        Configz("/Generic/LeaderElection/resourceLock", || json!("endpoints")),
    ),
    row(
        "Generic",
        ("leader-elect-resource-name", "string", "cloud-controller-manager", Must),
        &["--leader-elect-resource-name=second"],
        Configz("/Generic/LeaderElection/resourceName", || json!("second")),
    ),
    row(
        "Generic",
        ("leader-elect-resource-namespace", "string", "kube-system", Must),
        &["--leader-elect-resource-namespace=clouds"],
        Configz("/Generic/LeaderElection/resourceNamespace", || json!("clouds")),
    ),
];

/// §3 and §4: debugging, leader migration.
pub(super) const DEBUGGING: [Row; 4] = [
    row(
        "Debugging",
        ("profiling", "bool", "true", Must),
        &["--profiling=false"],
        Configz("/Generic/Debugging/enableProfiling", || json!(false)),
    ),
    row(
        "Debugging",
        ("contention-profiling", "bool", "false", Should),
        &["--contention-profiling"],
        Configz("/Generic/Debugging/enableContentionProfiling", || json!(true)),
    ),
    row(
        "Leader-migration",
        ("enable-leader-migration", "bool", "false", Should),
        &["--enable-leader-migration"],
        Configz("/Generic/LeaderMigrationEnabled", || json!(true)),
    ),
    row(
        "Leader-migration",
        ("leader-migration-config", "path", "", Should),
        &["--enable-leader-migration", "--leader-migration-config=/a"],
        Opt(|flags| flags.election().unwrap().migration.unwrap().file.unwrap().as_os_str() == "/a"),
    ),
];

/// §5: the cloud.
pub(super) const CLOUD: [Row; 13] = [
    row(
        "Generic",
        ("cloud-provider", "string", "", Must),
        &["--cloud-provider=openstack"],
        Configz("/KubeCloudShared/CloudProvider/Name", || json!("openstack")),
    ),
    row(
        "Generic",
        ("cloud-config", "path", "", Must),
        &["--cloud-config=/a"],
        Configz("/KubeCloudShared/CloudProvider/CloudConfigFile", || json!("/a")),
    ),
    row(
        "Generic",
        ("cluster-name", "string", "kubernetes", Must),
        &["--cluster-name="],
        Configz("/KubeCloudShared/ClusterName", || json!("")),
    ),
    row(
        "Generic",
        ("cluster-cidr", "string", "", Must),
        &["--cluster-cidr=10.0.0.0/8"],
        Configz("/KubeCloudShared/ClusterCIDR", || json!("10.0.0.0/8")),
    ),
    row("Generic", ("allocate-node-cidrs", "bool", "false", Must), &["--allocate-node-cidrs"], Warns),
    row(
        "Generic",
        ("cidr-allocator-type", "string", "RangeAllocator", NoopAccept),
        &["--cidr-allocator-type=CloudAllocator"],
        Warns,
    ),
    row(
        "Generic",
        ("configure-cloud-routes", "bool", "true", Must),
        &["--configure-cloud-routes=F"],
        Configz("/KubeCloudShared/ConfigureCloudRoutes", || json!(false)),
    ),
    row(
        "Generic",
        ("route-reconciliation-period", "duration", "10s", Must),
        &["--route-reconciliation-period=30s"],
        Configz("/KubeCloudShared/RouteReconciliationPeriod", || json!("30s")),
    ),
    row(
        "Generic",
        ("node-monitor-period", "duration", "5s", Must),
        &["--node-monitor-period=1s"],
        Configz("/KubeCloudShared/NodeMonitorPeriod", || json!("1s")),
    ),
    row(
        "Generic",
        ("use-service-account-credentials", "bool", "false", Must),
        &["--use-service-account-credentials"],
        Configz("/KubeCloudShared/UseServiceAccountCredentials", || json!(true)),
    ),
    row(
        "Generic",
        ("allow-untagged-cloud", "bool", "false", Must),
        &["--allow-untagged-cloud"],
        Configz("/KubeCloudShared/AllowUntaggedCloud", || json!(true)),
    ),
    row("Generic", ("node-sync-period", "duration", "0s", NoopAccept), &["--node-sync-period=1m"], Warns),
    row(
        "Generic",
        ("external-cloud-volume-plugin", "string", "", NoopAccept),
        &["--external-cloud-volume-plugin=openstack"],
        Warns,
    ),
];

/// §6: controllers.
pub(super) const CONTROLLERS: [Row; 3] = [
    row(
        "Cloud-node-controller",
        ("concurrent-node-syncs", "int32", "1", Must),
        &["--concurrent-node-syncs=1"],
        Configz("/NodeController/ConcurrentNodeSyncs", || json!(1)),
    )
    .ours("16"),
    row(
        "Cloud-node-controller",
        ("concurrent-node-status-updates", "int32", "0", Should),
        &["--concurrent-node-status-updates=5"],
        Configz("/NodeController/ConcurrentNodeStatusUpdates", || json!(5)),
    ),
    row(
        "Service-lb-controller",
        ("concurrent-service-syncs", "int32", "1", Must),
        &["--concurrent-service-syncs=3"],
        Configz("/ServiceController/ConcurrentServiceSyncs", || json!(3)),
    )
    .ours("16"),
];
