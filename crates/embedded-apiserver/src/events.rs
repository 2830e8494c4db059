//! The two faces of an Event: core/v1, which is stored, and events.k8s.io/v1.

use serde_json::{Map, Value, json};

/// core name, events.k8s.io name
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Returns a stored Event as events.k8s.io/v1 shows it.
pub(crate) fn from_core(event: &Value) -> Value {
    let mut out = rename(event, |name| {
        RENAMED
            .iter()
            .find(|(core, _)| *core == name)
            .map(|(_, new)| *new)
    });
    // core/v1 writes these two even if they are empty, events.k8s.io/v1 only if they are set.
    for name in ["reportingController", "reportingInstance"] {
        if out[name] == "" {
            out.remove_field(name);
        }
    }
    if let Some(series) = out.get_mut("series").and_then(Value::as_object_mut) {
        series.entry("count").or_insert(json!(0));
    }
    out
}

/// Returns an events.k8s.io/v1 Event as it is stored.
pub(crate) fn to_core(event: &Value) -> Value {
    let mut out = rename(event, |name| {
        RENAMED
            .iter()
            .find(|(_, new)| *new == name)
            .map(|(core, _)| *core)
    });
    for name in ["reportingComponent", "reportingInstance"] {
        if out[name].is_null() {
            out[name] = json!("");
        }
    }
    out
}

fn rename(event: &Value, new_name: impl Fn(&str) -> Option<&'static str>) -> Value {
    let fields = event.as_object().into_iter().flatten();
    let renamed =
        fields.map(|(name, value)| (new_name(name).unwrap_or(name).to_owned(), value.clone()));
    Value::Object(renamed.collect::<Map<_, _>>())
}

trait RemoveField {
    fn remove_field(&mut self, name: &str);
}

impl RemoveField for Value {
    fn remove_field(&mut self, name: &str) {
        if let Some(map) = self.as_object_mut() {
            map.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_survives_the_way_there_and_back() {
        let core = json!({
            "metadata": {"name": "e"}, "involvedObject": {"kind": "Node"}, "message": "m", "reason": "r", "count": 2,
            "source": {"component": "c"}, "firstTimestamp": null, "lastTimestamp": null, "eventTime": null,
            "reportingComponent": "", "reportingInstance": "",
        });
        let other = from_core(&core);
        assert_eq!(
            (&other["note"], &other["regarding"]["kind"]),
            (&json!("m"), &json!("Node"))
        );
        assert_eq!(to_core(&other), core);
    }
}
