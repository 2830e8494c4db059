//! The admission webhook `pvlabel`: labels volumes of this cloud when they are created (D-14).

use std::sync::Arc;

use async_trait::async_trait;
use cloud_provider::{CloudProvider, PersistentVolume};
use controllers::volume::admission;
use serde_json::{Value, json};
use serving::webhook::{AdmissionRequest, Handler, Webhook};

use super::LARGEST;
use crate::flags::VOLUMES;

/// Path of reviews of volumes.
const PATH: &str = "/pvlabel";

/// Returns the webhook `pvlabel`.
pub(super) fn webhook(provider: Arc<dyn CloudProvider>) -> Webhook {
    Webhook {
        name: VOLUMES.to_owned(),
        path: PATH.to_owned(),
        handler: Arc::new(VolumeLabels(provider)),
    }
}

struct VolumeLabels(Arc<dyn CloudProvider>);

#[async_trait]
impl Handler for VolumeLabels {
    async fn handle(&self, request: AdmissionRequest) -> Result<Value, String> {
        let mut review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": request.uid, "operation": request.operation, "subResource": request.sub_resource,
                "kind": {"group": request.kind.group, "kind": request.kind.kind},
            },
        });
        // The kind is checked first, so that most requests need not be parsed.
        if !admission::is_creation(&review["request"]) {
            return Ok(json!({"allowed": true}));
        }
        let bytes = request
            .object
            .as_ref()
            .map_or(0, |object| object.get().len());
        if bytes > LARGEST {
            let warning = format!(
                "zone and region were not set: the volume has {bytes} bytes, more than {LARGEST}"
            );
            return Ok(json!({"allowed": true, "warnings": [warning]}));
        }
        // Only the fields of a volume are kept.
        if let Ok(Some(volume)) = request.object::<PersistentVolume>() {
            review["request"]["object"] = json!(volume);
        }
        drop(request);
        let mut answer = admission::handle(&*self.0, &review)
            .await
            .map_err(|error| error.to_string())?;
        Ok(answer["response"].take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_provider::Acme;

    async fn answer(kind: &str, object: &str) -> Value {
        let request = json!({"uid": "17", "operation": "CREATE", "kind": {"group": "", "version": "v1", "kind": kind}});
        let mut request: AdmissionRequest = serde_json::from_value(request).unwrap();
        request.object = serde_json::from_str(object).unwrap();
        VolumeLabels(Arc::new(Acme::default()))
            .handle(request)
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn other_kinds_and_huge_volumes_are_allowed_without_being_parsed() {
        let small_objects = format!("[{}{{}}]", "{},".repeat(LARGEST / 3));
        assert_eq!(
            answer("ConfigMap", &small_objects).await,
            json!({"allowed": true})
        );
        let huge = answer("PersistentVolume", &small_objects).await;
        let warning = huge["warnings"][0].as_str().unwrap();
        assert!(
            huge["allowed"] == true && warning.contains("more than 1572864"),
            "{huge}"
        );
        let volume = answer("PersistentVolume", r#"{"metadata": {"name": "pv"}}"#).await;
        assert_eq!(volume["allowed"], true);
        assert_eq!(
            answer("PersistentVolume", "[]").await["allowed"],
            true,
            "what is no volume is not refused"
        );
    }
}
