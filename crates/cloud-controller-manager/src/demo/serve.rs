//! Instructions for the user of a demo that keeps running.

use std::path::Path;

use serde_json::{Value, json};

use super::pod_ranges::CLUSTER_CIDR;

/// Introduces the commands of this program while the demo's controllers lead.
const STANDBY: &str =
    "This program explains the state, and what it would change. Without a subcommand
it becomes a standby replica, because the demo's controllers hold the Lease:";
/// Introduces the commands of this program if no controllers run.
const ALONE: &str =
    "This program explains the state, and what it would change. Without a subcommand
it becomes the manager of this cluster:";

/// The addresses and files of a demo.
#[derive(Clone, Copy)]
pub(super) struct Places<'a> {
    /// URL of the Kubernetes API.
    pub(super) api_url: &'a str,
    /// URL of the simulated cloud.
    pub(super) cloud_url: &'a str,
    /// Path of the kubeconfig for kubectl.
    pub(super) kubeconfig: &'a Path,
    /// Path of the cloud configuration for another cloud controller manager.
    pub(super) cloud_config: &'a Path,
    /// Path of this program.
    pub(super) program: &'a Path,
    /// If set, the demo's own controllers run.
    pub(super) has_controllers: bool,
}

impl Places<'_> {
    /// Returns the instructions as text.
    pub(super) fn text(&self) -> String {
        let Self {
            api_url,
            cloud_url,
            kubeconfig,
            cloud_config,
            program,
            has_controllers,
        } = self;
        let (who, manager) = match has_controllers {
            true => ("Kubelets and controllers run.", STANDBY),
            false => ("Kubelets run, and no controllers.", ALONE),
        };
        let [kubeconfig, cloud_config, program] =
            [kubeconfig, cloud_config, program].map(|path| path.display());
        format!(
            r#"
The demo runs until Ctrl-C, and shows the events of the cluster here.
{who} In another terminal:

  export KUBECONFIG={kubeconfig}
  kubectl get nodes -o wide
  kubectl get nodes -w \
    -o custom-columns='NAME:.metadata.name,ID:.spec.providerID,TAINTS:.spec.taints[*].key'
  kubectl get services -w               # leave it running, to see addresses change

In a third terminal, with the same KUBECONFIG, change machines:

  C={cloud_url} J='Content-Type: application/json'
  # Its Node becomes not ready, and then gets a taint:
  curl -X POST $C/admin/machines/worker-1/stop
  curl -X POST $C/admin/machines/worker-1/start
  # Its Node, its route and its targets are deleted:
  curl -X DELETE $C/admin/machines/worker-2
  # A Node joins:
  curl -H "$J" $C/admin/machines -d '{{"name": "new-1", "type": "large"}}'

Services, and the load balancers that the cloud has for them:

  kubectl expose service web-2 --name=shop --type=LoadBalancer --port=80
  kubectl describe service shop         # address, finalizer, events
  curl $C/admin/load-balancers          # listeners and targets
  curl $C/admin/routes
  curl $C/admin                         # everything that you can do to the cloud
  # The load balancer is deleted; the type LoadBalancer brings it back:
  kubectl patch service shop -p '{{"spec": {{"type": "ClusterIP"}}}}'
  # Returns when nothing of the Service is left in the cloud:
  kubectl delete service shop

Break the cloud. Only machines of Nodes that are not ready are read, so stop a
machine first:

  # The token is revoked, and nothing is deleted:
  curl -X DELETE $C/admin/tokens/demo-token
  kubectl get events --field-selector reason=NodeDeletionHeld
  # The token is another project's, so that lists are empty:
  curl -H "$J" -X PUT $C/admin/tokens/demo-token -d '{{"project": "other"}}'
  # The token is valid again:
  curl -H "$J" -X PUT $C/admin/tokens/demo-token -d '{{"project": "demo"}}'
  # Requests fail; other kinds are latency, hang, lost_answer …
  curl -H "$J" $C/admin/faults -d '{{"kind": "status", "status": 500}}'
  curl -X DELETE $C/admin/faults
  curl $C/admin/requests                # requests of the controllers

Break the Kubernetes API:

  curl {api_url}/_faults \
    -d '{{"match": {{"verb": "patch", "times": 3}}, "action": {{"status": {{"code": 500}}}}}}'
  curl -X DELETE {api_url}/_faults

{manager}

  M={program}
  F="--cloud-provider=simulated --cloud-config={cloud_config} \
    --kubeconfig=$KUBECONFIG --cluster-cidr={CLUSTER_CIDR}"
  $M explain node worker-1 $F
  $M doctor $F
  $M plan $F
  $M $F -v=2
"#
        )
    }

    /// Returns the addresses and files as JSON.
    pub(super) fn object(&self) -> Value {
        json!({"serve": {
            "admin": format!("{}/admin", self.cloud_url),
            "loadBalancers": format!("{}/admin/load-balancers", self.cloud_url),
            "routes": format!("{}/admin/routes", self.cloud_url),
            "clusterCIDR": CLUSTER_CIDR,
            "kubernetes": self.api_url,
            "cloud": self.cloud_url,
            "kubeconfig": self.kubeconfig,
            "cloudConfig": self.cloud_config,
        }})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_and_programs_are_told_the_same_places() {
        let places = Places {
            api_url: "http://127.0.0.1:1",
            cloud_url: "http://127.0.0.1:2",
            kubeconfig: Path::new("/tmp/d/kubeconfig"),
            cloud_config: Path::new("/tmp/d/cloud.yaml"),
            program: Path::new("/opt/cloud-controller-manager"),
            has_controllers: true,
        };
        let alone = Places {
            has_controllers: false,
            ..places
        };
        assert!(
            alone.text().contains("no controllers") && !places.text().contains("no controllers")
        );
        assert!(
            places.text().contains("standby replica") && !alone.text().contains("standby replica")
        );
        assert!(places.text().contains("M=/opt/cloud-controller-manager\n"));
        for text in [alone.text(), places.text()] {
            let wide = text.lines().find(|line| {
                line.chars().count() > 92 || !line.starts_with(' ') && line.len() > 80
            });
            assert_eq!(wide, None, "it does not fit a terminal");
        }
        assert!(
            places
                .text()
                .contains("export KUBECONFIG=/tmp/d/kubeconfig\n")
        );
        assert!(places.text().contains("C=http://127.0.0.1:2 "));
        assert!(places.text().contains("--cluster-cidr=10.128.0.0/9\"\n"));
        assert_eq!(places.object()["serve"]["cloud"], "http://127.0.0.1:2");
        assert_eq!(
            places.object()["serve"]["routes"],
            "http://127.0.0.1:2/admin/routes"
        );
    }
}
