//! Catalogue of an account: the account itself, regions, VPCs and certificates.

use fake_cloud::Refused;
use serde_json::{Value, json};

use crate::model::{
    Answer, ApiRequest, CREATED, Model, Owned, named, not_found, of, ok, page, uuid,
};
use crate::{REGION, VPC};

/// Regions that take new objects.
const REGIONS: [&str; 3] = ["ams3", REGION, "nyc1"];

pub(crate) fn region(slug: &str) -> Value {
    json!({"slug": slug, "name": slug.to_uppercase(), "available": true, "sizes": ["s-2vcpu-4gb"], "features": ["ipv6"]})
}

pub(crate) fn is_region(slug: &str) -> bool {
    REGIONS.contains(&slug)
}

pub(crate) fn account(_: &mut Model, request: &ApiRequest) -> Answer {
    let account = json!({"uuid": uuid(1, 1), "email": "me@example.com", "email_verified": true, "status": "active",
        "status_message": "", "droplet_limit": 25, "floating_ip_limit": 5, "name": request.project});
    ok(json!({"account": account}))
}

pub(crate) fn regions(_: &mut Model, request: &ApiRequest) -> Answer {
    page(request, "regions", REGIONS.into_iter(), region)
}

pub(crate) fn vpc(_: &mut Model, request: &ApiRequest) -> Answer {
    if request.id() != VPC {
        return Err(not_found());
    }
    ok(
        json!({"vpc": {"id": VPC, "urn": format!("do:vpc:{VPC}"), "name": "default-fra1", "description": "", "region": REGION,
        "ip_range": "10.110.0.0/16", "default": true, "created_at": CREATED}}),
    )
}

pub(crate) fn certificates(model: &mut Model, request: &ApiRequest) -> Answer {
    let named = |object: &&Value| {
        request
            .query("name")
            .is_none_or(|name| object["name"] == name)
    };
    page(
        request,
        "certificates",
        of(&model.certificates, request).filter(named),
        Value::clone,
    )
}

pub(crate) fn certificate(model: &mut Model, request: &ApiRequest) -> Answer {
    ok(json!({"certificate": named(&model.certificates, request)?}))
}

impl Model {
    /// Adds a certificate; `kind`: `custom` or `lets_encrypt`.
    pub(crate) fn add_certificate(&mut self, account: &str, name: &str, kind: &str) -> String {
        let id = uuid(3, self.next_number());
        let object = json!({"id": id, "name": name, "type": kind, "state": "verified", "not_after": "2026-12-05T00:00:00Z",
            "sha1_fingerprint": "dfcc9f57d86bf58e321c2c6c31c7a971be244ac7", "created_at": CREATED, "dns_names": ["example.com"]});
        self.certificates.insert(
            id.clone(),
            Owned {
                account: account.to_owned(),
                object,
            },
        );
        id
    }

    pub(crate) fn check_certificate(&self, account: &str, id: &str) -> Result<(), Refused> {
        let is_there = self
            .certificates
            .get(id)
            .is_some_and(|object| object.account == account);
        if is_there {
            Ok(())
        } else {
            Err(crate::model::invalid("certificate does not exist"))
        }
    }
}
