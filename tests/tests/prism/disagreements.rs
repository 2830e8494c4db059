//! Differences between the document (a transcription of February 2026) and the specification of the provider. The
//! affected requests and responses are changed on their way, so that the proxy lets them pass; no others may be.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

/// A difference between document and specification.
pub(crate) struct Disagreement {
    /// Name of the difference.
    pub(crate) name: &'static str,
    /// Reason for following the specification.
    pub(crate) reason: &'static str,
}

/// The known differences, by name.
pub(crate) const DISAGREEMENTS: [Disagreement; 6] = [
    Disagreement {
        name: "servers have a datacenter",
        reason: "datacenters left the API in July 2026; zones come from the location",
    },
    Disagreement {
        name: "a health check has an interval, a time-out and retries",
        reason: "what nobody states is left to the API, which has defaults; the provider's predecessor leaves it out too",
    },
    Disagreement {
        name: "proxyprotocol is always stated",
        reason: "it is sent only where somebody decided; the API's default is off",
    },
    Disagreement {
        name: "http of a service is never null",
        reason: "the API answers null for what is not HTTP; its own client reads it so",
    },
    Disagreement {
        name: "http of a health check is never null",
        reason: "as above",
    },
    Disagreement {
        name: "a health check by HTTP has a domain and a path",
        reason: "what nobody states is left to the API, which sends no domain and asks for /",
    },
];

/// The names of those that were met. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Used(Arc<Mutex<BTreeSet<&'static str>>>);

impl Used {
    fn note(&self, at: usize) {
        self.0.lock().insert(DISAGREEMENTS[at].name);
    }

    /// Prints all of them and whether they were met.
    pub(crate) fn print(&self) {
        let used = self.0.lock();
        println!("disagreements between the document and the specification:");
        for Disagreement { name, reason } in &DISAGREEMENTS {
            let met = if used.contains(name) {
                "met"
            } else {
                "not met here"
            };
            println!("  {name} ({met}): {reason}");
        }
    }
}

fn default(object: &mut Value, key: &str, value: Value, used: &Used, disagreement: usize) {
    if let Some(map) = object
        .as_object_mut()
        .filter(|object| !object.contains_key(key))
    {
        map.insert(key.to_owned(), value);
        used.note(disagreement);
    }
}

fn without_null(object: &mut Value, key: &str, used: &Used, disagreement: usize) {
    if let Some(map) = object
        .as_object_mut()
        .filter(|object| object.get(key).is_some_and(Value::is_null))
    {
        map.remove(key);
        used.note(disagreement);
    }
}

/// Changes the services in a request, or the request that is one.
pub(crate) fn mend_request(body: &mut Value, used: &Used) {
    if let Some(services) = body.get_mut("services").and_then(Value::as_array_mut) {
        services
            .iter_mut()
            .for_each(|service| mend_service(service, used));
    } else if body.get("destination_port").is_some() && body.get("protocol").is_some() {
        mend_service(body, used);
    }
}

fn mend_service(service: &mut Value, used: &Used) {
    default(service, "proxyprotocol", json!(false), used, 2);
    let Some(check) = service.get_mut("health_check") else {
        return;
    };
    for (key, value) in [("interval", 15), ("timeout", 10), ("retries", 3)] {
        default(check, key, json!(value), used, 1);
    }
    if let Some(http) = check.get_mut("http") {
        default(http, "domain", json!(""), used, 5);
        default(http, "path", json!("/"), used, 5);
    }
}

/// Adapts a response to the document.
pub(crate) fn mend_answer(body: &mut Value, used: &Used) {
    for key in ["servers", "load_balancers"] {
        let list = body.get_mut(key).and_then(Value::as_array_mut);
        list.into_iter()
            .flatten()
            .for_each(|object| mend_object(object, used));
    }
    for key in ["server", "load_balancer"] {
        if let Some(object) = body.get_mut(key) {
            mend_object(object, used);
        }
    }
}

fn mend_object(object: &mut Value, used: &Used) {
    if object.get("server_type").is_some() {
        let types = json!({"available": [], "available_for_migration": [], "supported": []});
        let location = object["location"].clone();
        let datacenter = json!({"id": 4, "name": "fsn1-dc14", "description": "", "location": location, "server_types": types});
        default(object, "datacenter", datacenter, used, 0);
    }
    for service in object
        .get_mut("services")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        without_null(service, "http", used, 3);
        if let Some(check) = service.get_mut("health_check") {
            without_null(check, "http", used, 4);
        }
    }
}
