//! `/configz`: the effective configuration (APP-155 to APP-157).

use runtime::election::migration::{ControllerLeader, LeaderMigration};
use serde_json::{Map, Value, json};

use super::Flags;

/// Key of the only component group.
pub(super) const GROUP: &str = "cloudcontrollermanager.config.k8s.io";

impl Flags {
    /// Returns the configuration that these flags result in, in the format of `/configz`.
    ///
    /// The keys have the mixed case of the Go program. Without a rate limit (D-10), `qps` is -1, which means "no limit"
    /// in the Go program too, and `burst` is 0. Leader migration from a file is missing:
    /// the process adds it.
    ///
    /// ```
    /// use manager::flags::{Flags, Parsed};
    ///
    /// let arguments = ["ccm", "--cloud-provider=hcloud", "--controllers=*,-cloud-node"];
    /// let Parsed::Flags(flags) = Flags::parse(arguments.map(Into::into)) else { panic!("they can be used") };
    /// let generic = &flags.configz()["cloudcontrollermanager.config.k8s.io"]["Generic"];
    /// assert_eq!(generic["Controllers"][1], "-cloud-node-controller");
    /// ```
    #[must_use]
    pub fn configz(&self) -> Value {
        let configuration = json!({
            "kind": "CloudControllerManagerConfiguration",
            "apiVersion": format!("{GROUP}/v1alpha1"),
            "Generic": self.generic(),
            "KubeCloudShared": self.cloud_shared(),
            "NodeController": {
                "ConcurrentNodeSyncs": self.node.concurrent_node_syncs,
                "ConcurrentNodeStatusUpdates": self.node.concurrent_node_status_updates,
            },
            "NodeLifecycleController": {
                "NodeMonitorPeriod": self.lifecycle.node_monitor_period.to_string(),
                "ConcurrentNodeLifecycleSyncs": self.lifecycle.concurrent_node_lifecycle_syncs,
            },
            "ServiceController": { "ConcurrentServiceSyncs": self.service.concurrent_service_syncs },
            "NodeStatusUpdateFrequency": self.misc.node_status_update_frequency.to_string(),
            "Webhook": { "Webhooks": or_null(self.webhook.items()) },
        });
        Value::Object(Map::from_iter([(GROUP.to_owned(), configuration)]))
    }

    fn generic(&self) -> Value {
        let election = &self.leader_election;
        let limited = self.api.kube_api_qps.filter(|qps| *qps > 0.0);
        json!({
            // Port of the insecure server, which no longer exists.
            "Port": 0,
            "Address": "0.0.0.0",
            "MinResyncPeriod": self.api.min_resync_period.to_string(),
            "ClientConnection": {
                "kubeconfig": self.misc.kubeconfig.to_text(),
                "acceptContentTypes": "",
                "contentType": self.api.kube_api_content_type,
                "qps": limited.map_or(json!(-1), number),
                "burst": limited.map_or(0, |_| self.api.kube_api_burst),
            },
            "ControllerStartInterval": self.controllers.controller_start_interval.to_string(),
            "LeaderElection": {
                "leaderElect": election.leader_elect,
                "leaseDuration": election.leader_elect_lease_duration.to_string(),
                "renewDeadline": election.leader_elect_renew_deadline.to_string(),
                "retryPeriod": election.leader_elect_retry_period.to_string(),
                "resourceLock": election.leader_elect_resource_lock,
                "resourceName": election.leader_elect_resource_name,
                "resourceNamespace": election.leader_elect_resource_namespace,
            },
            "Controllers": or_null(self.controllers.canonical()),
            "Debugging": {
                "enableProfiling": self.debugging.profiling,
                "enableContentionProfiling": self.debugging.contention_profiling,
            },
            "LeaderMigrationEnabled": self.leader_migration.enable_leader_migration,
            "LeaderMigration": leader_migration(None),
        })
    }

    fn cloud_shared(&self) -> Value {
        json!({
            "CloudProvider": {
                "Name": self.cloud.cloud_provider,
                "CloudConfigFile": self.cloud.cloud_config.to_text(),
            },
            "ExternalCloudVolumePlugin": self.cloud.external_cloud_volume_plugin,
            "UseServiceAccountCredentials": self.api.use_service_account_credentials,
            "AllowUntaggedCloud": self.cloud.allow_untagged_cloud,
            "RouteReconciliationPeriod": self.route.route_reconciliation_period.to_string(),
            "ClusterName": self.cloud.cluster_name,
            "ClusterCIDR": self.route.cluster_cidr,
            "AllocateNodeCIDRs": self.route.allocate_node_cidrs,
            "CIDRAllocatorType": self.route.cidr_allocator_type,
            "ConfigureCloudRoutes": self.route.configure_cloud_routes,
            "NodeSyncPeriod": self.cloud.node_sync_period.to_string(),
        })
    }
}

/// Returns the document of `/configz` with the leader migration that was read from its file.
pub(crate) fn configz_with_migration(
    mut configz: Value,
    migration: Option<&LeaderMigration>,
) -> Value {
    configz[GROUP]["Generic"]["LeaderMigration"] = leader_migration(migration);
    configz
}

fn leader_migration(migration: Option<&LeaderMigration>) -> Value {
    let leaders = migration
        .map(|migration| migration.controller_leaders.as_slice())
        .unwrap_or_default();
    let leader =
        |leader: &ControllerLeader| json!({ "name": leader.name, "component": leader.component });
    json!({
        "leaderName": migration.map_or("", |migration| &migration.leader_name),
        "resourceLock": migration.map_or("", |_| "leases"),
        "controllerLeaders": or_null(leaders.iter().map(leader).collect::<Vec<_>>()),
    })
}

/// Converts a list; Go writes an empty list as `null`.
fn or_null<T: Into<Value>>(items: Vec<T>) -> Value {
    if items.is_empty() {
        Value::Null
    } else {
        items.into_iter().map(Into::into).collect()
    }
}

/// Formats a number like Go formats a `float32`: whole numbers without a point, others with the fewest digits that are
/// unambiguous.
fn number(number: f32) -> Value {
    match number {
        whole if whole.fract() == 0.0 && whole.abs() < 1e9 => json!(whole as i64),
        other => other
            .to_string()
            .parse::<f64>()
            .map_or(Value::Null, Value::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Parsed;

    fn flags(arguments: &[&str]) -> Flags {
        let arguments = [&["ccm", "--cloud-provider=fake"], arguments].concat();
        match Flags::parse(arguments.iter().map(Into::into)) {
            Parsed::Flags(flags) => *flags,
            other => panic!("{other:?}"),
        }
    }

    /// The complete default configuration (APP-155).
    const REFERENCE: &str = r#"{"cloudcontrollermanager.config.k8s.io":{
     "kind":"CloudControllerManagerConfiguration",
     "apiVersion":"cloudcontrollermanager.config.k8s.io/v1alpha1",
     "Generic":{
      "Port":0,"Address":"0.0.0.0","MinResyncPeriod":"12h0m0s",
      "ClientConnection":{"kubeconfig":"","acceptContentTypes":"","contentType":"application/vnd.kubernetes.protobuf","qps":20,"burst":30},
      "ControllerStartInterval":"0s",
      "LeaderElection":{"leaderElect":true,"leaseDuration":"15s","renewDeadline":"10s","retryPeriod":"2s","resourceLock":"leases","resourceName":"cloud-controller-manager","resourceNamespace":"kube-system"},
      "Controllers":["*"],
      "Debugging":{"enableProfiling":true,"enableContentionProfiling":false},
      "LeaderMigrationEnabled":false,
      "LeaderMigration":{"leaderName":"","resourceLock":"","controllerLeaders":null}},
     "KubeCloudShared":{
      "CloudProvider":{"Name":"fake","CloudConfigFile":""},
      "ExternalCloudVolumePlugin":"","UseServiceAccountCredentials":false,"AllowUntaggedCloud":false,
      "RouteReconciliationPeriod":"10s","ClusterName":"kubernetes","ClusterCIDR":"",
      "AllocateNodeCIDRs":false,"CIDRAllocatorType":"RangeAllocator","ConfigureCloudRoutes":true,"NodeSyncPeriod":"0s"},
     "NodeController":{"ConcurrentNodeSyncs":1,"ConcurrentNodeStatusUpdates":0},
     "NodeLifecycleController":{"NodeMonitorPeriod":"5s","ConcurrentNodeLifecycleSyncs":1},
     "ServiceController":{"ConcurrentServiceSyncs":1},
     "NodeStatusUpdateFrequency":"5m0s",
     "Webhook":{"Webhooks":null}}}"#;

    #[test]
    fn configz_with_the_defaults_of_the_go_program_is_equal() {
        let ours = flags(&[
            "--kube-api-qps=20",
            "--concurrent-node-syncs=1",
            "--concurrent-node-lifecycle-syncs=1",
            "--concurrent-service-syncs=1",
        ]);
        assert_eq!(
            ours.configz(),
            serde_json::from_str::<Value>(REFERENCE).unwrap()
        );
    }

    #[test]
    fn configz_without_flags_differs_by_the_defaults_of_d_10() {
        let mut expected: Value = serde_json::from_str(REFERENCE).unwrap();
        let group = &mut expected[GROUP];
        group["Generic"]["ClientConnection"]["qps"] = json!(-1);
        group["Generic"]["ClientConnection"]["burst"] = json!(0);
        group["NodeController"]["ConcurrentNodeSyncs"] = json!(16);
        group["NodeLifecycleController"]["ConcurrentNodeLifecycleSyncs"] = json!(16);
        group["ServiceController"]["ConcurrentServiceSyncs"] = json!(16);
        assert_eq!(flags(&[]).configz(), expected);
    }

    #[test]
    fn configz_has_the_assignments_of_leader_migration() {
        let migration = LeaderMigration {
            leader_name: "cloud-provider-extraction-migration".into(),
            controller_leaders: vec![ControllerLeader {
                name: "route".into(),
                component: "*".into(),
            }],
        };
        let shown = flags(&["--enable-leader-migration", "--kube-api-qps=0.1"]).configz();
        let shown = configz_with_migration(shown, Some(&migration));
        let generic = &shown[GROUP]["Generic"];
        assert_eq!(generic["LeaderMigrationEnabled"], true);
        assert_eq!(
            generic["LeaderMigration"],
            json!({"leaderName": "cloud-provider-extraction-migration", "resourceLock": "leases",
                   "controllerLeaders": [{"name": "route", "component": "*"}]})
        );
        assert_eq!(generic["ClientConnection"]["qps"].to_string(), "0.1");
    }
}
