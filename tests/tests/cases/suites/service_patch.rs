//! Suite: the patch for a change of a Service.

use anyhow::Result;
use cloud_provider::Service;
use controllers::service::patch::{SUBRESOURCE, difference};
use runtime::writes::{is_empty_patch, strategic_patch};
use serde::Deserialize;
use serde_json::Value;

use crate::cases::api::Api;
use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::{Change, read, service};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    patch: Expected<Value>,
    #[serde(default)]
    patch_type: Expected<String>,
    #[serde(default)]
    subresource: Expected<String>,
}

pub(super) async fn run(given: Value, expect: Value) -> Result<Comparison> {
    let given: Change = read("given", &given)?;
    let expect: Expect = read("expect", &expect)?;
    let old = service("given.old", &given.old)?;
    let new = service("given.new", &given.new)?;
    let patch = difference(&old, &new);
    let mut comparison = Comparison::default();
    comparison.key("patch", &expect.patch, &patch);

    // On the wire as every write of a Service; an empty patch is not sent at all (D-8).
    let api = Api::default();
    api.seed_service(given.old);
    let name = old.metadata.name.unwrap_or_default();
    let namespace = old.metadata.namespace.unwrap_or_default();
    let services: kube::Api<Service> = kube::Api::namespaced(api.client(), &namespace);
    strategic_patch(&services, &name, Some(SUBRESOURCE), &patch).await?;
    let requests = api.requests();
    let unsent = is_empty_patch(&patch);
    comparison.forbid(
        (requests.len() != usize::from(!unsent))
            .then(|| format!("{} requests were sent", requests.len())),
    );
    for request in requests {
        comparison.key("patch_type", &expect.patch_type, &request.content_type);
        let subresource = request
            .what
            .rsplit_once('/')
            .map(|(_, subresource)| subresource.to_owned());
        comparison.key(
            "subresource",
            &expect.subresource,
            &subresource.unwrap_or_default(),
        );
    }
    Ok(comparison)
}
