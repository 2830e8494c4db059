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
  kubectl get nodes -w                              # and meanwhile:

  C={cloud_url}
  curl -X POST   $C/admin/machines/worker-1/stop    # not ready, then the shutdown taint: kubectl describe node worker-1
  curl -X POST   $C/admin/machines/worker-1/start
  curl -X DELETE $C/admin/machines/worker-2         # its Node is deleted
  curl $C/admin/machines --json '{{"name": "new-1", "type": "large"}}'            # a Node joins

Break the cloud; a Node is asked for when it is not ready, so stop a machine first:

  curl -X DELETE $C/admin/tokens/demo-token                                     # the token is revoked …
  kubectl get events --field-selector reason=NodeDeletionHeld                   # … and nothing is deleted
  curl -X PUT    $C/admin/tokens/demo-token --json '{{"project": "other"}}'       # it is another project's: an empty list
  curl -X PUT    $C/admin/tokens/demo-token --json '{{"project": "demo"}}'        # well again
  curl $C/admin/faults --json '{{"kind": "status", "status": 500}}'               # also latency, hang, empty_list, early_end …
  curl -X DELETE $C/admin/faults                                                # well again
  curl $C/admin/requests                                                        # what the controllers asked

Break the Kubernetes API ({api_url}):

  curl {api_url}/_faults -d '{{"match": {{"verb": "patch", "resource": "nodes", "times": 3}}, "action": {{"status": {{"code": 500}}}}}}'
  curl -X DELETE {api_url}/_faults

The controllers run as: cloud-controller-manager --cloud-provider=simulated --cloud-config={cloud_config} --kubeconfig={kubeconfig}
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
        assert!(places.text().contains("C=http://127.0.0.1:2\n"));
        assert_eq!(places.object()["serve"]["cloud"], "http://127.0.0.1:2");
    }
}
