//! The admission webhooks of this program: `pvlabel` (D-14).

use std::sync::Arc;

use async_trait::async_trait;
use cloud_provider::CloudProvider;
use cloud_provider::names::VOLUME_LABEL_CONTROLLER;
use controllers::volume::admission;
use serde_json::{Value, json};
use serving::webhook::{Handler, Webhook};

/// Where the API server sends reviews of volumes.
const PATH: &str = "/pvlabel";

/// Labels volumes of this cloud as they are created.
pub(crate) fn volume_labels(provider: Arc<dyn CloudProvider>) -> Webhook {
    Webhook {
        name: VOLUME_LABEL_CONTROLLER.alias.to_owned(),
        path: PATH.to_owned(),
        handler: Arc::new(VolumeLabels(provider)),
    }
}

struct VolumeLabels(Arc<dyn CloudProvider>);

#[async_trait]
impl Handler for VolumeLabels {
    async fn handle(&self, request: Value) -> Result<Value, String> {
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        let mut answer = admission::handle(&*self.0, &review).await.map_err(|error| error.to_string())?;
        Ok(answer["response"].take())
    }
}
