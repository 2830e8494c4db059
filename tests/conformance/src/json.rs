//! Values in the JSON documents of a fake, as profiles read them.

use std::collections::BTreeSet;

use serde_json::Value;

/// Returns a text; an empty one if the value is no text.
#[must_use]
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns the items of a list; none if the value is no list.
pub fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns a port, written as a number or as a text; 0 if the value is neither.
#[must_use]
pub fn number(value: &Value) -> u16 {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    number
        .and_then(|number| u16::try_from(number).ok())
        .unwrap_or_default()
}

/// Returns a value to compare with that of another run: with lists in order, and without nulls and the fields in
/// `left_out`, at any depth.
#[must_use]
pub fn comparable(entry: &Value, left_out: &[&str]) -> Value {
    match entry {
        Value::Object(fields) => {
            let kept = fields
                .iter()
                .filter(|(key, value)| !left_out.contains(&key.as_str()) && !value.is_null());
            kept.map(|(key, value)| (key.clone(), comparable(value, left_out)))
                .collect()
        }
        Value::Array(items) => {
            let mut items: Vec<_> = items
                .iter()
                .map(|object| comparable(object, left_out))
                .collect();
            items.sort_by_cached_key(ToString::to_string);
            items.into()
        }
        other => other.clone(),
    }
}

/// Returns the targets of a load balancer from those of each of its ports, with a further entry, which no proof
/// accepts, if the ports have different targets.
#[must_use]
pub fn same_targets(of_ports: BTreeSet<BTreeSet<String>>) -> BTreeSet<String> {
    let difference =
        (of_ports.len() > 1).then(|| format!("not the same behind all ports: {of_ports:?}"));
    of_ports.into_iter().flatten().chain(difference).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_other_types_are_empty() {
        let object = json!({"name": "web", "ports": [80, "443", 70_000], "none": null});
        assert_eq!(
            [
                text(&object["name"]),
                text(&object["ports"]),
                text(&object["lost"])
            ],
            ["web", "", ""]
        );
        assert_eq!(
            list(&object["ports"]).map(number).collect::<Vec<_>>(),
            [80, 443, 0]
        );
        assert_eq!(list(&object["name"]).count(), 0);
    }

    #[test]
    fn comparable_values_have_no_order_of_lists_and_no_left_out_fields() {
        let [one, two] = [
            json!([{"id": 7, "port": 80}, {"port": 443, "id": null}]),
            json!([{"port": 443}, {"port": 80}]),
        ];
        assert_eq!(comparable(&one, &["id"]), comparable(&two, &["id"]));
        assert_ne!(comparable(&one, &[]), comparable(&two, &[]));
    }

    #[test]
    fn ports_with_different_targets_are_an_entry_among_the_targets() {
        let of_ports = |all: &[&str]| {
            all.iter()
                .map(|text| BTreeSet::from([(*text).to_owned()]))
                .collect()
        };
        assert_eq!(
            same_targets(of_ports(&["a"])),
            BTreeSet::from(["a".to_owned()])
        );
        assert_eq!(same_targets(of_ports(&["a", "b"])).len(), 3);
    }
}
