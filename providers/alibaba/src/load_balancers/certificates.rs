//! Further certificates of listeners: domain extensions of a CLB, and additional certificates of an NLB.
//!
//! They are objects of their own, which are read with each HTTPS or TCPSSL listener.

use std::collections::{BTreeMap, BTreeSet};

use cloud_provider::{CompleteListing, Error, Result};
use jiff::Timestamp;
use provider_kit::inventory::SharedPriority;
use provider_kit::load_balancers::{Attributes, Port};
use serde_json::{Value, json};

use super::AlibabaLoadBalancers;
use super::apply::Work;
use super::read::{id_of, list, port, text};
use crate::annotations::CERTIFICATE;
use crate::api::{NLB, Query, SLB};

/// Fields of listeners that are changed by requests of their own.
pub(super) const DOMAINS: &str = "DomainExtensions";
pub(super) const ADDITIONAL: &str = "AdditionalCertificateIds";
/// Certificates of one request.
const AT_ONCE: usize = 15;

/// Returns null instead of what the credential may not read: only the annotation needs the permission.
fn or_unknown<T: serde::Serialize>(found: Result<T>) -> Result<Value> {
    match found {
        Err(error) if error.is_unauthorized() => Ok(Value::Null),
        found => found.map(|entry| json!(entry)),
    }
}

/// Returns the texts of a list in settings.
fn texts<'a>(settings: &'a Attributes, key: &str) -> Option<BTreeSet<&'a str>> {
    Some(
        settings
            .get(key)?
            .as_array()?
            .iter()
            .filter_map(Value::as_str)
            .collect(),
    )
}

impl AlibabaLoadBalancers {
    /// Reads the domain extensions of a CLB's listener.
    async fn domains(&self, balancer: &str, port: u16) -> Result<Vec<Value>> {
        let query = Query::new(SLB, "DescribeDomainExtensions").set("LoadBalancerId", balancer);
        let answer: Value = self.api.read(query.set("ListenerPort", port)).await?;
        let found = answer["DomainExtensions"]["DomainExtension"]
            .as_array()
            .cloned();
        found.ok_or_else(|| Error::other("DescribeDomainExtensions answered no list"))
    }

    /// Returns the domain extensions of a CLB's listener as the annotation writes them.
    pub(super) async fn domains_of(&self, listener: &Value) -> Result<Value> {
        let pair = |object: &Value| {
            format!(
                "{}:{}",
                text(object, "Domain"),
                text(object, "ServerCertificateId")
            )
        };
        let found = self
            .domains(&id_of(listener), port(&listener["ListenerPort"]))
            .await;
        or_unknown(found.map(|all| all.iter().map(pair).collect::<Vec<_>>()))
    }

    /// Reads the additional certificates of an NLB's listener.
    async fn additional(&self, listener: &str) -> Result<Vec<String>> {
        let query = Query::new(NLB, "ListListenerCertificates").set("ListenerId", listener);
        let shared = SharedPriority::default();
        let id = |object: &Value| text(object, "CertificateId").to_owned();
        let found = self
            .api
            .tokens(query, ("MaxResults", 50), "/Certificates", &shared, id)
            .await?;
        let is_additional = |object: &&Value| {
            object["IsDefault"] != true
                && text(object, "CertificateType") != "Ca"
                && text(object, "Status") != "Diassociating"
        };
        Ok(found
            .complete()
            .map(CompleteListing::into_items)?
            .iter()
            .filter(is_additional)
            .map(id)
            .collect())
    }

    /// Returns the additional certificates of an NLB's listener.
    pub(super) async fn additional_of(&self, listener: &Value) -> Result<Value> {
        or_unknown(self.additional(text(listener, "ListenerId")).await)
    }
}

impl Work<'_> {
    /// Refuses a server certificate that does not exist or has expired, which would end the service of the listener.
    pub(super) async fn check_certificate(&self, settings: &Attributes) -> Result<()> {
        let Some(id) = settings.text("ServerCertificateId") else {
            return Ok(());
        };
        let wrong = |text: &str| {
            Error::invalid(format!(
                "annotation {}: certificate {id} {text}; name a valid one",
                CERTIFICATE.key()
            ))
        };
        let query = Query::new(SLB, "DescribeServerCertificates").set("ServerCertificateId", id);
        let answer: Value = match self.cloud.api.read(query).await {
            // The API refuses an unknown certificate itself.
            Err(error) if error.is_unauthorized() => return Ok(()),
            answer => answer?,
        };
        let mut found = list(&answer["ServerCertificates"], "ServerCertificate");
        let found = found
            .find(|object| text(object, "ServerCertificateId") == id)
            .ok_or_else(|| wrong("does not exist"))?;
        match found["ExpireTimeStamp"].as_i64() {
            Some(end) if end < Timestamp::now().as_millisecond() => Err(wrong("has expired")),
            _ => Ok(()),
        }
    }

    /// Gives a listener of a CLB the domain extensions that its settings state.
    pub(super) async fn set_domains(&self, port: &Port, settings: &Attributes) -> Result<()> {
        let Some(wanted) = texts(settings, DOMAINS) else {
            return Ok(());
        };
        let wanted: BTreeMap<_, _> = wanted
            .into_iter()
            .filter_map(|text| text.split_once(':'))
            .collect();
        let existing_domains = self.cloud.domains(self.id, port.number).await?;
        for (domain, certificate) in &wanted {
            let query = match existing_domains
                .iter()
                .find(|object| text(object, "Domain") == *domain)
            {
                Some(other_object) if text(other_object, "ServerCertificateId") == *certificate => {
                    continue;
                }
                Some(current) => {
                    let query = Query::new(SLB, "SetDomainExtensionAttribute");
                    query.set("DomainExtensionId", &current["DomainExtensionId"])
                }
                None => self
                    .query("CreateDomainExtension")
                    .set("ListenerPort", port.number)
                    .set("Domain", domain),
            };
            self.send(query.set("ServerCertificateId", certificate))
                .await?;
        }
        for entry in existing_domains
            .iter()
            .filter(|object| !wanted.contains_key(text(object, "Domain")))
        {
            let query = Query::new(SLB, "DeleteDomainExtension");
            match self
                .send(query.set("DomainExtensionId", &entry["DomainExtensionId"]))
                .await
            {
                Err(error) if error.is_not_found() => {}
                outcome => drop(outcome?),
            }
        }
        Ok(())
    }

    /// Gives a listener of an NLB the additional certificates that its settings state. New ones come first.
    pub(super) async fn set_additional(&self, listener: &str, settings: &Attributes) -> Result<()> {
        let Some(wanted) = texts(settings, ADDITIONAL) else {
            return Ok(());
        };
        let existing_certificates = self.cloud.additional(listener).await?;
        let new: Vec<_> = wanted
            .iter()
            .copied()
            .filter(|id| !existing_certificates.iter().any(|text| text == id))
            .collect();
        let gone: Vec<_> = existing_certificates
            .iter()
            .map(String::as_str)
            .filter(|id| !wanted.contains(id))
            .collect();
        let changes = [
            ("AssociateAdditionalCertificatesWithListener", new),
            ("DisassociateAdditionalCertificatesWithListener", gone),
        ];
        for (action, ids) in changes {
            for ids in ids.chunks(AT_ONCE) {
                let query = Query::new(NLB, action).set("ListenerId", listener);
                self.send(query.set(ADDITIONAL, ids)).await?;
            }
        }
        Ok(())
    }
}
