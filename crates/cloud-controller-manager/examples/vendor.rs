//! A vendor's whole binary: its own provider, and the manager around it. `docs/embedding.md` explains it.

use std::process::ExitCode;
use std::sync::Arc;

use cloud_provider::{CloudProvider, Registry, async_trait};
use manager::Manager;
use manager::flags::{Program, VendorFlag};
use manager::webhook::{AdmissionRequest, Handler, Webhook};
use serde_json::{Value, json};

/// The name that Acme's console has for the cluster.
const CLUSTER: VendorFlag = VendorFlag {
    name: "acme-cluster",
    default: "",
    help: "The cluster in Acme's console; as --cluster-name.",
    secret: false,
};

fn main() -> ExitCode {
    let mut providers = Registry::new();
    providers.register("acme", provider_simulated::provider::factory);
    let program = Program::new("acme-ccm")
        .with_default("cloud-provider", "acme")
        .with_flag(CLUSTER)
        .adjusted(|flags| {
            let cluster = flags.value(CLUSTER.name).unwrap_or_default().to_owned();
            if !cluster.is_empty() {
                flags.cloud.cluster_name = cluster;
            }
        });
    Manager::new(&providers)
        .program(program)
        .webhook("acme-quota", quota)
        .run()
}

/// Reviews what `--webhooks=acme-quota` is asked about.
fn quota(_provider: Arc<dyn CloudProvider>) -> Webhook {
    Webhook {
        name: "acme-quota".to_owned(),
        path: "/quota".to_owned(),
        handler: Arc::new(Quota),
    }
}

struct Quota;

#[async_trait]
impl Handler for Quota {
    async fn handle(&self, _request: AdmissionRequest) -> Result<Value, String> {
        Ok(json!({"allowed": true}))
    }
}
