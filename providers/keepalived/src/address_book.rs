//! The ConfigMap as a document: the addresses of Services, and the entries that users made by hand.
//!
//! The annotation `k8s.co/cloud-provider-config` holds the truth; `data` is what kube-keepalived-vip reads, and follows from it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use cloud_provider::{Error, Result};
use provider_kit::json_path::place;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::config::ForwardMethod;

/// The key of the annotation with all entries.
pub(crate) const ENTRIES: &str = "k8s.co/cloud-provider-config";

/// The bytes that the API server accepts in all annotations of an object together.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// An address of a Service, in the form of the Go program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// UID of the Service.
    pub(crate) uid: String,
    /// Virtual IP address of the Service.
    pub(crate) ip: IpAddr,
    /// Namespace of the Service; empty in entries of old versions of the Go program.
    #[serde(rename = "serviceNamespace", default)]
    pub(crate) namespace: String,
    /// Name of the Service; empty in entries of old versions.
    #[serde(rename = "serviceName", default)]
    pub(crate) name: String,
    /// Forward method, if one was requested. A word that kube-keepalived-vip does not know is kept until the next change.
    #[serde(
        rename = "forwardMethod",
        default,
        skip_serializing_if = "String::is_empty"
    )]
    pub(crate) method: String,
    /// Fields that this program does not know.
    #[serde(flatten)]
    pub(crate) others: Map<String, Value>,
}

impl Entry {
    /// Returns the value for kube-keepalived-vip; `None` if the Service's name is not known.
    fn value(&self) -> Option<String> {
        if self.name.is_empty() {
            return None;
        }
        let separator = if self.method.is_empty() { "" } else { ":" };
        Some(format!(
            "{}/{}{separator}{}",
            self.namespace, self.name, self.method
        ))
    }

    /// Returns the Service for texts: `Service shop/web`.
    pub(crate) fn service(&self) -> String {
        if self.name.is_empty() {
            return format!("the Service with UID {}", self.uid);
        }
        format!("Service {}/{}", self.namespace, self.name)
    }
}

#[derive(Default, Serialize, Deserialize)]
struct Entries {
    #[serde(default)]
    services: Option<Vec<Entry>>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// The addresses of all Services.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AddressBook {
    /// Addresses of Services, in the order of the annotation. Two for a Service of two families.
    pub(crate) entries: Vec<Entry>,
    /// Entries of `data` that are nobody's in the annotation: made by hand, and kept.
    manual: BTreeMap<String, String>,
    /// Fields of the annotation beside the entries.
    others: Map<String, Value>,
    /// The ConfigMap as it was read.
    object: Value,
}

impl AddressBook {
    /// Reads the ConfigMap; `null` for one that does not exist yet.
    ///
    /// # Errors
    /// *Other*, if the annotation is no valid JSON of entries: then nothing is ever written.
    pub(crate) fn read(object: Value) -> Result<Self> {
        let text = object["metadata"]["annotations"][ENTRIES]
            .as_str()
            .unwrap_or("{}");
        let entries: Entries = serde_json::from_str(text).map_err(|error| {
            Error::other(format!(
                "annotation {ENTRIES} cannot be read: {error}. It is not overwritten: correct it, or delete it with the \
                 entries of `data` that belong to Services, and addresses are given out again"
            ))
        })?;
        let data: BTreeMap<String, String> =
            serde_json::from_value(object["data"].clone()).unwrap_or_default();
        let Entries { services, others } = entries;
        let entries = services.unwrap_or_default();
        let is_manual = |key: &String| !entries.iter().any(|entry| entry.ip.to_string() == *key);
        let manual = data.into_iter().filter(|(key, _)| is_manual(key)).collect();
        Ok(Self {
            entries,
            manual,
            others,
            object,
        })
    }

    /// Returns the ConfigMap to write, for the ConfigMap of this namespace and name.
    ///
    /// # Errors
    /// *Quota*, if the annotations are larger than the API server accepts.
    pub(crate) fn render(&self, namespace: &str, name: &str) -> Result<Value> {
        let mut object = self.object.clone();
        if object.is_null() {
            object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name}});
        }
        let mut data = self.manual.clone();
        // The API server refuses a key with `:`: an entry of IPv6, which only a user can have written, must not keep all other
        // addresses from being written.
        let before = |entry: &Entry| {
            self.object["data"][entry.ip.to_string()]
                .as_str()
                .map(str::to_owned)
        };
        let values = self
            .entries
            .iter()
            .filter(|entry| entry.ip.is_ipv4())
            .filter_map(|entry| {
                Some((
                    entry.ip.to_string(),
                    entry.value().or_else(|| before(entry))?,
                ))
            });
        data.extend(values);
        let entries = Entries {
            services: Some(self.entries.clone()),
            others: self.others.clone(),
        };
        let text =
            serde_json::to_string(&entries).map_err(|error| Error::other(error.to_string()))?;
        *place(&mut object, &["metadata", "annotations", ENTRIES]) = text.into();
        *place(&mut object, &["data"]) = json!(data);
        let annotations = object["metadata"]["annotations"]
            .as_object()
            .into_iter()
            .flatten();
        let size: usize = annotations
            .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
            .sum();
        if size > ANNOTATIONS_LIMIT {
            return Err(Error::quota(format!(
                "the annotations of ConfigMap {namespace}/{name} would have {size} bytes, and the API server accepts \
                 {ANNOTATIONS_LIMIT}: {} addresses are too many for one ConfigMap",
                self.entries.len()
            )));
        }
        Ok(object)
    }

    /// Returns the entries of the Service with this UID.
    pub(crate) fn of<'a>(&'a self, uid: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().filter(move |entry| entry.uid == uid)
    }

    /// Returns `true` if there is an entry of the Service with this UID.
    pub(crate) fn has(&self, uid: &str) -> bool {
        self.of(uid).next().is_some()
    }

    /// Returns the entry of another Service than the one with this UID that has the address.
    pub(crate) fn entry_beside(&self, address: IpAddr, uid: &str) -> Option<&Entry> {
        self.entries
            .iter()
            .find(|entry| entry.ip == address && entry.uid != uid)
    }

    /// Returns the value of the entry that was made by hand for an address.
    pub(crate) fn manual(&self, address: IpAddr) -> Option<&str> {
        self.manual.get(&address.to_string()).map(String::as_str)
    }

    /// Returns all addresses that the Service with this UID does not have.
    pub(crate) fn addresses_beside<'a>(
        &'a self,
        uid: &'a str,
    ) -> impl Iterator<Item = IpAddr> + 'a {
        let others = self
            .entries
            .iter()
            .filter(move |entry| entry.uid != uid)
            .map(|entry| entry.ip);
        others.chain(self.manual.keys().filter_map(|key| key.parse().ok()))
    }

    /// Forgets what another Service or a user has written for an address, which a Service takes.
    pub(crate) fn take(&mut self, address: IpAddr, uid: &str) {
        self.entries
            .retain(|entry| entry.ip != address || entry.uid == uid);
        self.manual.remove(&address.to_string());
    }

    /// Deletes the entries of the Service with this UID.
    pub(crate) fn release(&mut self, uid: &str) {
        self.entries.retain(|entry| entry.uid != uid);
    }

    /// Returns the number of addresses in use, entries made by hand included.
    #[must_use]
    pub(crate) fn used(&self) -> usize {
        self.entries.len() + self.manual.len()
    }
}

/// Returns the word for a forward method; empty if there is none.
pub(crate) fn word(method: Option<ForwardMethod>) -> String {
    method.map_or_else(String::new, |method| method.name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ConfigMap as the Go program writes it, with one entry made by hand.
    fn of_go() -> Value {
        let entries = r#"{"services":[{"uid":"u1","ip":"10.210.38.66","serviceNamespace":"default","serviceName":"web","forwardMethod":"DR"},{"uid":"u2","ip":"10.210.38.67","serviceNamespace":"default","serviceName":"api"}]}"#;
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "vip", "namespace": "kube-system", "annotations": {ENTRIES: entries, "mine": "yes"}},
            "data": {"10.210.38.66": "default/web:DR", "10.210.38.67": "default/api", "10.210.38.90": "default/dns"}})
    }

    #[test]
    fn config_map_of_the_go_program_is_written_back_byte_for_byte() {
        let object = of_go();
        let book = AddressBook::read(object.clone()).expect("valid");
        assert_eq!(book.render("kube-system", "vip").expect("it fits"), object);
    }

    #[test]
    fn released_address_leaves_annotation_and_data_and_hand_made_entries_stay() {
        let mut book = AddressBook::read(of_go()).expect("valid");
        book.release("u1");
        let object = book.render("kube-system", "vip").expect("it fits");
        assert_eq!(
            object["data"],
            json!({"10.210.38.67": "default/api", "10.210.38.90": "default/dns"})
        );
        assert_eq!(
            object["metadata"]["annotations"][ENTRIES],
            r#"{"services":[{"uid":"u2","ip":"10.210.38.67","serviceNamespace":"default","serviceName":"api"}]}"#
        );
        assert_eq!(object["metadata"]["annotations"]["mine"], "yes");
    }

    #[test]
    fn entry_of_an_old_version_without_a_name_keeps_its_value() {
        let object = json!({"metadata": {"annotations": {ENTRIES: r#"{"services":[{"uid":"u1","ip":"10.0.0.1"}]}"#}},
            "data": {"10.0.0.1": "default/web"}});
        let book = AddressBook::read(object).expect("valid");
        assert_eq!(
            book.render("a", "b").expect("it fits")["data"],
            json!({"10.0.0.1": "default/web"})
        );
    }

    #[test]
    fn annotation_that_is_no_json_is_never_overwritten() {
        for text in [
            "{",
            "[]",
            r#"{"services":[{"uid":"u1"}]}"#,
            r#"{"services":[{"uid":"u1","ip":"x"}]}"#,
        ] {
            let error = AddressBook::read(json!({"metadata": {"annotations": {ENTRIES: text}}}))
                .unwrap_err();
            assert!(
                error.to_string().contains("It is not overwritten"),
                "{error}"
            );
        }
    }

    #[test]
    fn config_map_that_is_full_is_refused_before_the_api_server_does() {
        let mut book = AddressBook::read(Value::Null).expect("an empty one");
        let entry = |number: u32| Entry {
            uid: format!("{number:0>36}"),
            ip: std::net::Ipv4Addr::from_bits(number).into(),
            namespace: "default".into(),
            name: format!("service-{number}"),
            method: String::new(),
            others: Map::new(),
        };
        book.entries = (0..1_500).map(entry).collect();
        assert!(book.render("a", "b").is_ok());
        book.entries = (0..2_500).map(entry).collect();
        assert!(book.render("a", "b").unwrap_err().is_quota());
    }
}
