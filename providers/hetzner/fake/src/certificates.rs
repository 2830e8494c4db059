//! Certificates API of the fake cloud.

use std::collections::BTreeMap;

use fake_cloud::Reply;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::lists::{page, selects};
use crate::model::{CREATED, Kind, Model, Owned, asked_for, of};
use crate::refusal::{Answer, Refusal};
use crate::routes::{ApiRequest, ok, parse};

/// A certificate of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// ID of the certificate.
    pub id: u64,
    /// Name of the certificate, unique in its project.
    pub name: String,
    /// Labels of the certificate.
    pub labels: BTreeMap<String, String>,
    /// If set, the cloud issues and renews the certificate.
    pub is_managed: bool,
    /// Domain names of the certificate.
    pub domain_names: Vec<String>,
    /// Time at which a managed certificate is issued.
    pub issued: Instant,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    name: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    domain_names: Vec<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    certificate: Option<String>,
    private_key: Option<String>,
}

impl Model {
    pub(crate) fn add_certificate(
        &mut self,
        project: &str,
        name: &str,
        is_managed: bool,
    ) -> Certificate {
        let (id, _) = self.next_id(Kind::Certificate);
        let issued = Instant::now() + self.options.action_time;
        let labels = BTreeMap::new();
        let domain_names = vec!["example.com".to_owned()];
        let certificate = Certificate {
            id,
            name: name.to_owned(),
            labels,
            is_managed,
            domain_names,
            issued,
        };
        self.certificates.insert(
            id,
            Owned {
                project: project.to_owned(),
                object: certificate.clone(),
            },
        );
        certificate
    }

    fn users_of(&self, id: u64) -> Vec<Value> {
        let uses = |load_balancer: &&crate::Balancer| {
            load_balancer
                .services
                .iter()
                .filter_map(|service| service.http.as_ref())
                .any(|http| http.certificates.contains(&id))
        };
        let balancers = self
            .balancers
            .values()
            .map(|load_balancer| &load_balancer.object)
            .filter(uses);
        balancers
            .map(|load_balancer| json!({"id": load_balancer.id, "type": "load_balancer"}))
            .collect()
    }

    fn certificate_json(&self, object: &Certificate) -> Value {
        let is_issued = !object.is_managed || Instant::now() >= object.issued;
        let issuance = if is_issued { "completed" } else { "pending" };
        let status = object
            .is_managed
            .then(|| json!({"issuance": issuance, "renewal": "unavailable", "error": null}));
        let text = |text: &str| is_issued.then(|| text.to_owned());
        json!({
            "id": object.id, "name": object.name, "labels": object.labels, "created": CREATED,
            "type": if object.is_managed { "managed" } else { "uploaded" }, "domain_names": object.domain_names,
            "certificate": text("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----"),
            "fingerprint": text("03:c7:55"), "not_valid_before": text(CREATED), "not_valid_after": text(CREATED),
            "status": status, "used_by": self.users_of(object.id),
        })
    }
}

pub(crate) fn list(model: &mut Model, request: &ApiRequest) -> Answer {
    let all = of(&model.certificates, request)
        .filter(|certificate| selects(request, &certificate.name, &certificate.labels));
    page(request, "certificates", all, |certificate| {
        model.certificate_json(certificate)
    })
}

pub(crate) fn get(model: &mut Model, request: &ApiRequest) -> Answer {
    ok(
        json!({"certificate": model.certificate_json(asked_for(&model.certificates, request, "certificate")?)}),
    )
}

pub(crate) fn create(model: &mut Model, request: &ApiRequest) -> Answer {
    let wish: Wish = parse(request)?;
    if of(&model.certificates, request).any(|certificate| certificate.name == wish.name) {
        return Err(Refusal::new(
            "uniqueness_error",
            format!("name {:?} is already used", wish.name),
        ));
    }
    let is_managed = wish.kind.as_deref() == Some("managed");
    if is_managed && wish.domain_names.is_empty() {
        return Err(Refusal::field("domain_names", "is required"));
    }
    if !is_managed && (wish.certificate.is_none() || wish.private_key.is_none()) {
        return Err(Refusal::field(
            "certificate",
            "certificate and private_key are required",
        ));
    }
    let mut certificate = model.add_certificate(&request.project, &wish.name, is_managed);
    (certificate.labels, certificate.domain_names) = (wish.labels, wish.domain_names);
    let owned = Owned {
        project: request.project.clone(),
        object: certificate.clone(),
    };
    model.certificates.insert(certificate.id, owned);
    let mut answer = json!({"certificate": model.certificate_json(&certificate)});
    if is_managed {
        answer["action"] = model
            .act(
                request,
                "create_certificate",
                ("certificate", certificate.id),
            )?
            .json();
    }
    Ok(Reply::new(201, answer))
}

pub(crate) fn delete(model: &mut Model, request: &ApiRequest) -> Answer {
    let id = asked_for(&model.certificates, request, "certificate")?.id;
    if !model.users_of(id).is_empty() {
        return Err(Refusal::new("resource_in_use", "the certificate is used"));
    }
    model.certificates.remove(&id);
    Ok(Reply::empty(204))
}
