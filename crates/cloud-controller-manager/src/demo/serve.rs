//! What a person can do with a demo that stays up.

use std::path::Path;

use serde_json::{Value, json};

/// Where everything is.
pub(super) struct Places<'a> {
    /// The Kubernetes API.
    pub(super) api_url: &'a str,
    /// The simulated cloud.
    pub(super) cloud_url: &'a str,
    /// For kubectl.
    pub(super) kubeconfig: &'a Path,
    /// For another cloud controller manager.
    pub(super) cloud_config: &'a Path,
}

impl Places<'_> {
    /// For people.
    pub(super) fn text(&self) -> String {
        let Self { api_url, cloud_url, kubeconfig, cloud_config } = self;
        let (kubeconfig, cloud_config) = (kubeconfig.display(), cloud_config.display());
        format!(
            r#"
Everything stays up until Ctrl-C; kubelets and controllers keep following the cloud. In another terminal:

  export KUBECONFIG={kubeconfig}
  kubectl get nodes -o wide
  kubectl get nodes -w -o custom-columns='NAME:.metadata.name,ID:.spec.providerID,TAINTS:.spec.taints[*].key'

and in a third one:

  C={cloud_url} J='Content-Type: application/json'
  curl -X POST   $C/admin/machines/worker-1/stop    # not ready, then tainted: kubectl describe node worker-1
  curl -X POST   $C/admin/machines/worker-1/start
  curl -X DELETE $C/admin/machines/worker-2         # its Node is deleted
  curl -H "$J" $C/admin/machines -d '{{"name": "new-1", "type": "large"}}'    # a Node joins

Break the cloud; only Nodes that are not ready are asked for, so stop a machine first:

  curl -X DELETE $C/admin/tokens/demo-token         # the token is revoked, and nothing is deleted:
  kubectl get events --field-selector reason=NodeDeletionHeld
  curl -H "$J" -X PUT $C/admin/tokens/demo-token -d '{{"project": "other"}}'  # an empty list
  curl -H "$J" -X PUT $C/admin/tokens/demo-token -d '{{"project": "demo"}}'   # well again
  curl -H "$J" $C/admin/faults -d '{{"kind": "status", "status": 500}}'       # or latency, hang, empty_list …
  curl -X DELETE $C/admin/faults                    # well again
  curl $C/admin/requests                            # what the controllers asked

Break the Kubernetes API:

  curl {api_url}/_faults -d '{{"match": {{"verb": "patch", "times": 3}}, "action": {{"status": {{"code": 500}}}}}}'
  curl -X DELETE {api_url}/_faults

Another controller manager of your own joins with:

  cloud-controller-manager --cloud-provider=simulated --cloud-config={cloud_config} --kubeconfig=$KUBECONFIG --configure-cloud-routes=false

What it would do, without doing it, is told by `cloud-controller-manager plan` with the same flags.
"#
        )
    }

    /// For programs.
    pub(super) fn object(&self) -> Value {
        json!({"serve": {
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
        };
        assert!(places.text().contains("export KUBECONFIG=/tmp/d/kubeconfig\n"));
        assert!(places.text().contains("C=http://127.0.0.1:2 "));
        assert_eq!(places.object()["serve"]["cloud"], "http://127.0.0.1:2");
    }
}
