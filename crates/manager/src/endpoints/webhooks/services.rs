//! The admission webhook `lb-service`: reports mistakes in Services to their authors.
//!
//! The provider reviews the Service without calling the cloud. Mistakes are returned as warnings, or as a denial if the
//! operator chose so; a Service is never denied for mistakes that it had before.

use std::sync::Arc;

use async_trait::async_trait;
use cloud_provider::{CloudProvider, Service, ServiceReview};
use controllers::options::ServiceOptions;
use serde_json::{Value, json};
use serving::webhook::{AdmissionRequest, Handler, Webhook};

use super::LARGEST;
use super::review_service;
use crate::flags::{SERVICES, ValidationAction};

/// Path of reviews of Services, the same as in the Go DigitalOcean CCM.
const PATH: &str = "/lb-service";
/// Length in characters above which the API server truncates a warning if all warnings together exceed 4096 characters.
const LONGEST: usize = 256;
/// Number of warnings of the greatest length that the API server does not truncate.
const MOST: usize = 4096 / LONGEST;

/// Returns the webhook `lb-service`.
pub(super) fn webhook(
    provider: Arc<dyn CloudProvider>,
    options: ServiceOptions,
    action: ValidationAction,
) -> Webhook {
    let handler = Arc::new(ServiceReviews {
        provider,
        options,
        action,
    });
    Webhook {
        name: SERVICES.to_owned(),
        path: PATH.to_owned(),
        handler,
    }
}

struct ServiceReviews {
    provider: Arc<dyn CloudProvider>,
    options: ServiceOptions,
    action: ValidationAction,
}

#[async_trait]
impl Handler for ServiceReviews {
    async fn handle(&self, request: AdmissionRequest) -> Result<Value, String> {
        // Kind and size are checked first, so that most requests need not be parsed.
        if !is_write(&request) || request.object_bytes() > 2 * LARGEST {
            return Ok(allowed(&[]));
        }
        let (Ok(Some(service)), Ok(before)) =
            (request.object::<Service>(), request.old_object::<Service>())
        else {
            return Ok(allowed(&[]));
        };
        let review = |service| review_service(&*self.provider, service, &self.options);
        let is_unchanged = before
            .as_ref()
            .is_some_and(|before| is_same(before, &service));
        let Some(found) = review(&service).filter(|found| !found.is_clean() && !is_unchanged)
        else {
            return Ok(allowed(&[]));
        };
        let known = before.as_ref().and_then(review).unwrap_or_default();
        let name = format!("{}/{}", request.namespace, request.name);
        Ok(answer(&name, before.is_some(), found, &known, self.action))
    }
}

fn is_write(request: &AdmissionRequest) -> bool {
    request.kind.group.is_empty()
        && request.kind.kind == "Service"
        && request.sub_resource.is_empty()
        && ["CREATE", "UPDATE"].contains(&&*request.operation)
}

/// Returns `true` if no field changes that a review reads.
fn is_same(before: &Service, service: &Service) -> bool {
    before.spec == service.spec && before.metadata.annotations == service.metadata.annotations
}

/// Returns the AdmissionResponse. `known` holds the mistakes of the Service before the change.
fn answer(
    name: &str,
    is_update: bool,
    found: ServiceReview,
    known: &ServiceReview,
    action: ValidationAction,
) -> Value {
    let ServiceReview { errors, warnings } = found;
    let new: Vec<_> = errors
        .iter()
        .filter(|error| !known.errors.contains(error))
        .cloned()
        .collect();
    if action == ValidationAction::Deny && !new.is_empty() {
        let status = json!({"code": 422, "reason": "Invalid", "message": limited(new).join("; ")});
        return json!({"allowed": false, "status": status, "warnings": limited(warnings)});
    }
    // kubectl shows warnings without the object, and merges equal warnings of several objects.
    let heading = match is_update {
        true => {
            format!("the load balancer of Service {name} stays as it is until this is corrected:")
        }
        false => format!("Service {name} gets no load balancer until this is corrected:"),
    };
    let heading = (!errors.is_empty()).then_some(heading);
    allowed(&limited(
        heading.into_iter().chain(errors).chain(warnings).collect(),
    ))
}

fn allowed(warnings: &[String]) -> Value {
    match warnings {
        [] => json!({"allowed": true}),
        warnings => json!({"allowed": true, "warnings": warnings}),
    }
}

/// Returns the warnings, limited in number and length to what the API server passes on.
fn limited(mut warnings: Vec<String>) -> Vec<String> {
    let all = warnings.len();
    if all > MOST {
        warnings.truncate(MOST - 1);
        warnings.push(format!(
            "{} more; `cloud-controller-manager check` shows all",
            all - warnings.len()
        ));
    }
    warnings.into_iter().map(shortened).collect()
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(LONGEST) {
        None => text,
        // Room for the ellipsis.
        Some(_) => text.chars().take(LONGEST - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_provider::Acme;

    fn service(words: &str) -> Value {
        json!({
            "metadata": {"name": "web", "namespace": "default", "annotations": {"acme/words": words}},
            "spec": {"type": "LoadBalancer"},
        })
    }

    async fn answer_to(action: ValidationAction, request: Value) -> Value {
        let options = crate::flags::Flags::parse(["ccm", "--cloud-provider=acme"].map(Into::into));
        let crate::flags::Parsed::Flags(flags) = options else {
            panic!("they can be used")
        };
        let webhook = webhook(
            Arc::new(Acme::default()),
            flags.configuration().options.service,
            action,
        );
        webhook
            .handler
            .handle(serde_json::from_str(&request.to_string()).unwrap())
            .await
            .unwrap()
    }

    fn request(old: Option<Value>, object: Value) -> Value {
        let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
        let mut request = json!({
            "uid": "17", "operation": operation, "kind": {"group": "", "version": "v1", "kind": "Service"},
            "name": "web", "namespace": "default",
        });
        (request["object"], request["oldObject"]) = (object, old.into());
        request
    }

    #[tokio::test]
    async fn mistakes_are_warnings_with_the_errors_first() {
        let warn = |old, object| answer_to(ValidationAction::Warn, request(old, object));
        let created = "Service default/web gets no load balancer until this is corrected:";
        let updated =
            "the load balancer of Service default/web stays as it is until this is corrected:";
        assert_eq!(warn(None, service("")).await, json!({"allowed": true}));
        assert_eq!(
            warn(None, service("odd bad bad")).await,
            json!({"allowed": true, "warnings": [created, "bad", "odd"]})
        );
        assert_eq!(
            warn(None, service("odd")).await,
            json!({"allowed": true, "warnings": ["odd"]})
        );
        assert_eq!(
            warn(Some(service("odd")), service("bad")).await,
            json!({"allowed": true, "warnings": [updated, "bad"]})
        );
    }

    #[tokio::test]
    async fn update_of_labels_alone_is_not_reviewed() {
        let mut labelled = service("bad odd");
        labelled["metadata"]["labels"] = json!({"a": "b"});
        for action in [ValidationAction::Warn, ValidationAction::Deny] {
            let answer =
                answer_to(action, request(Some(service("bad odd")), labelled.clone())).await;
            assert_eq!(answer, json!({"allowed": true}));
        }
    }

    #[tokio::test]
    async fn denial_is_for_errors_that_are_new() {
        let deny = |old, object| answer_to(ValidationAction::Deny, request(old, object));
        let denied = deny(None, service("bad odd worse")).await;
        let status = json!({"code": 422, "reason": "Invalid", "message": "bad; worse"});
        assert_eq!(
            denied,
            json!({"allowed": false, "status": status, "warnings": ["odd"]})
        );
        assert_eq!(
            deny(None, service("odd")).await,
            json!({"allowed": true, "warnings": ["odd"]})
        );
        assert_eq!(
            deny(Some(service("bad")), service("bad worse")).await["status"]["message"],
            "worse"
        );
        assert_eq!(
            deny(Some(service("bad odd")), service("bad")).await["allowed"],
            true,
            "the error is not new"
        );
        let mut plain = service("bad");
        plain["spec"]["type"] = json!("ClusterIP");
        let now = deny(Some(plain), service("bad")).await;
        assert_eq!(
            now["allowed"], false,
            "the type is new, and so the error counts"
        );
    }

    #[tokio::test]
    async fn other_objects_are_allowed_without_a_word() {
        let with = |pointer: &str, value: Value| {
            let mut request = request(None, service("bad"));
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            request.pointer_mut(parent).unwrap()[field] = value;
            request
        };
        let huge = format!("bad{}", " ".repeat(2 * LARGEST));
        let table = [
            with("/kind/kind", json!("ConfigMap")),
            with("/kind/group", json!("serving.knative.dev")),
            with("/operation", json!("DELETE")),
            with("/subResource", json!("status")),
            with("/object", json!("no Service")),
            with("/object/spec/type", json!("NodePort")),
            with(
                "/object/spec/loadBalancerClass",
                json!("acme.example/internal"),
            ),
            with(
                "/object/metadata/deletionTimestamp",
                json!("2026-01-01T00:00:00Z"),
            ),
            with("/object/metadata/annotations", json!({"acme/words": huge})),
        ];
        for request in table {
            let answer = answer_to(ValidationAction::Deny, request.clone()).await;
            assert_eq!(
                answer,
                json!({"allowed": true}),
                "{}",
                &request.to_string()[..300.min(request.to_string().len())]
            );
        }
    }

    #[test]
    fn warnings_fit_what_the_api_server_passes_on() {
        let warnings = limited(
            (0..40)
                .map(|number| format!("{number} {}", "ä".repeat(300)))
                .collect(),
        );
        assert_eq!(warnings.len(), MOST);
        assert!(
            warnings
                .iter()
                .map(|warning| warning.chars().count())
                .sum::<usize>()
                <= 4096
        );
        assert!(
            warnings[0].starts_with("0 ä")
                && warnings[0].ends_with("ä…")
                && warnings[0].chars().count() == 256
        );
        assert_eq!(
            warnings.last().unwrap(),
            "25 more; `cloud-controller-manager check` shows all"
        );
        assert_eq!(limited(vec!["short".to_owned(); MOST]).len(), MOST);
    }
}
