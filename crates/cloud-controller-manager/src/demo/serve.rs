//! Instructions for the user of a demo that keeps running.

use std::path::Path;

use serde_json::{Value, json};

use super::pod_ranges::CLUSTER_CIDR;

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
    /// If set, the demo's own controllers run.
    pub(super) has_controllers: bool,
}

impl Places<'_> {
    /// Returns the instructions as text.
    pub(super) fn text(&self) -> String {
        let Self { api_url, cloud_url, kubeconfig, cloud_config, has_controllers } = self;
        let (who, manager) = match has_controllers {
            true => {
                ("kubelets and controllers keep", "What another controller manager would do here, without doing it")
            }
            false => (
                "kubelets keep",
                "No controllers run. Start a manager of yours; with \"plan\" it tells what it would do",
            ),
        };
        let (kubeconfig, cloud_config) = (kubeconfig.display(), cloud_config.display());
        // The demo's own controllers hold no lease, so that explain would find no leader.
        let election = if *has_controllers { " --leader-elect=false" } else { "" };
        format!(
            r#"
Everything stays up until Ctrl-C; {who} following the cloud, and events are shown here. In another terminal:

  export KUBECONFIG={kubeconfig}
  kubectl get nodes -o wide
  kubectl get nodes -w -o custom-columns='NAME:.metadata.name,ID:.spec.providerID,TAINTS:.spec.taints[*].key'
  kubectl get services -w                           # leave it running: addresses come and go

and in a third one, with the same KUBECONFIG:

  C={cloud_url} J='Content-Type: application/json'
  curl -X POST   $C/admin/machines/worker-1/stop    # not ready, then tainted: kubectl describe node worker-1
  curl -X POST   $C/admin/machines/worker-1/start
  curl -X DELETE $C/admin/machines/worker-2         # its Node is deleted, its route and targets go
  curl -H "$J" $C/admin/machines -d '{{"name": "new-1", "type": "large"}}'    # a Node joins

Services and the load balancers that the cloud has for them:

  kubectl expose service web-2 --name=shop --type=LoadBalancer --port=80
  kubectl describe service shop                     # address, finalizer, events
  curl $C/admin                                     # everything that can be done to the cloud
  curl $C/admin/load-balancers                      # listeners and targets; routes: curl $C/admin/routes
  kubectl patch service shop -p '{{"spec": {{"type": "ClusterIP"}}}}'         # and back: "LoadBalancer"
  kubectl delete service shop                       # returns when nothing is left of it in the cloud

Break the cloud; only Nodes that are not ready are asked for, so stop a machine first:

  curl -X DELETE $C/admin/tokens/demo-token         # the token is revoked, and nothing is deleted:
  kubectl get events --field-selector reason=NodeDeletionHeld
  curl -H "$J" -X PUT $C/admin/tokens/demo-token -d '{{"project": "other"}}'  # an empty list
  curl -H "$J" -X PUT $C/admin/tokens/demo-token -d '{{"project": "demo"}}'   # well again
  curl -H "$J" $C/admin/faults -d '{{"kind": "status", "status": 500}}'       # or latency, hang, lost_answer …
  curl -X DELETE $C/admin/faults                    # well again
  curl $C/admin/requests                            # what the controllers asked

Break the Kubernetes API:

  curl {api_url}/_faults -d '{{"match": {{"verb": "patch", "times": 3}}, "action": {{"status": {{"code": 500}}}}}}'
  curl -X DELETE {api_url}/_faults

{manager}:

  F="--cloud-provider=simulated --cloud-config={cloud_config} --kubeconfig=$KUBECONFIG --cluster-cidr={CLUSTER_CIDR}{election}"
  cloud-controller-manager plan $F                  # and without "plan" it joins in
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
            has_controllers: true,
        };
        let alone = Places { has_controllers: false, ..places };
        assert!(alone.text().contains("No controllers run") && !places.text().contains("No controllers run"));
        assert!(places.text().contains("export KUBECONFIG=/tmp/d/kubeconfig\n"));
        assert!(places.text().contains("C=http://127.0.0.1:2 "));
        // Beside the demo's controllers, which hold no lease, explain must not miss a leader.
        assert!(places.text().contains("--cluster-cidr=10.128.0.0/9 --leader-elect=false\"\n"));
        assert!(alone.text().contains("--cluster-cidr=10.128.0.0/9\"\n"));
        assert_eq!(places.object()["serve"]["cloud"], "http://127.0.0.1:2");
        assert_eq!(places.object()["serve"]["routes"], "http://127.0.0.1:2/admin/routes");
    }
}
