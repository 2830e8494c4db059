//! Tables: the columns that `kubectl get` prints, computed here as the real server does.

mod age;
mod rows;

use serde_json::{Map, Value, json};

use crate::negotiate::{Include, View};

/// A column: name, type, format (`name` marks the name), and whether it is shown only by `-o wide`.
struct Column(&'static str, &'static str, &'static str, bool);

const NAME: Column = Column("Name", "string", "name", false);
const AGE: Column = Column("Age", "string", "", false);

const fn text(name: &'static str) -> Column {
    Column(name, "string", "", false)
}

const fn wide(name: &'static str) -> Column {
    Column(name, "string", "", true)
}

fn columns(resource: &str) -> Vec<Column> {
    let mut out = vec![NAME];
    match resource {
        "nodes" => {
            out.extend([
                text("Status"),
                text("Roles"),
                AGE,
                text("Version"),
                wide("Internal-IP"),
                wide("External-IP"),
            ]);
            out.extend([
                wide("OS-Image"),
                wide("Kernel-Version"),
                wide("Container-Runtime"),
            ]);
            return out;
        }
        "services" => {
            out.extend([
                text("Type"),
                text("Cluster-IP"),
                text("External-IP"),
                text("Port(s)"),
                AGE,
                wide("Selector"),
            ]);
            return out;
        }
        "events" => {
            return vec![
                text("Last Seen"),
                text("Type"),
                text("Reason"),
                text("Object"),
                wide("Subobject"),
                wide("Source"),
                text("Message"),
                wide("First Seen"),
                wide("Count"),
                Column("Name", "string", "name", true),
            ];
        }
        "persistentvolumes" => {
            out.extend([
                text("Capacity"),
                text("Access Modes"),
                text("Reclaim Policy"),
                text("Status"),
                text("Claim"),
            ]);
            out.extend([
                text("StorageClass"),
                text("VolumeAttributesClass"),
                text("Reason"),
                AGE,
                wide("VolumeMode"),
            ]);
            return out;
        }
        "namespaces" => out.push(text("Status")),
        "leases" => out.push(text("Holder")),
        "configmaps" => out.push(text("Data")),
        "secrets" => out.extend([text("Type"), text("Data")]),
        "endpoints" => out.push(text("Endpoints")),
        "endpointslices" => out.extend([text("AddressType"), text("Ports"), text("Endpoints")]),
        _ => {}
    }
    out.push(AGE);
    out
}

/// Returns a Table; the columns are described only in the first one of a watch.
pub(crate) fn table(view: &View, metadata: Value, rows: Vec<Value>, first: bool) -> Value {
    let definitions = if first {
        let columns = columns(view.resource.plural);
        let described = columns.into_iter().map(|Column(name, kind, format, wide)| {
            json!({
                "name": name, "type": kind, "format": format, "priority": i32::from(wide),
                "description": format!("{name} of the {}", view.resource.kind),
            })
        });
        Value::Array(described.collect())
    } else {
        Value::Null
    };
    let mut table = Map::new();
    table.insert("kind".to_owned(), json!("Table"));
    table.insert("apiVersion".to_owned(), json!("meta.k8s.io/v1"));
    table.insert("metadata".to_owned(), metadata);
    table.insert("columnDefinitions".to_owned(), definitions);
    table.insert("rows".to_owned(), Value::Array(rows));
    Value::Object(table)
}

/// Returns the row of an object.
pub(crate) fn row(view: &View, object: &Value) -> Value {
    let mut row = json!({"cells": rows::cells(view.resource, object, view.now)});
    match view.include {
        Include::None => row["object"] = Value::Null,
        Include::Metadata => row["object"] = partial(&object["metadata"]),
        Include::Object => {
            let mut object = object.clone();
            object["kind"] = json!(view.resource.kind);
            object["apiVersion"] = json!(view.resource.api_version());
            row["object"] = object;
        }
    }
    row
}

/// Returns the row of a bookmark, which has only the revision.
pub(crate) fn bookmark_row(view: &View, metadata: &Value) -> Value {
    let object = json!({"metadata": metadata});
    json!({"cells": rows::cells(view.resource, &object, view.now), "object": partial(metadata)})
}

fn partial(metadata: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}
