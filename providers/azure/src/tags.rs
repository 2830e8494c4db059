//! Tags of resources: those that the provider writes, and those that the configuration lets it remove.

use std::collections::{BTreeMap, BTreeSet};

use provider_kit::json_path::place;
use provider_kit::load_balancers::Attributes;
use serde_json::{Value, json};

use crate::config::Config;

/// Beginnings of the names of tags of this program and of the Go program, which always stay.
const OWN: &[&str] = &[
    "ccm-rs-",
    "k8s-azure-",
    "kubernetes-cluster-name",
    "kubernetes-dns-label-service",
];
/// The setting with the names of tags that are to be removed.
const SURPLUS: &str = "surplus tags";

/// Reads tags from `a=b,c=d` and from a map, whose tags take precedence. Names and values lose blanks around them, but
/// not the value `null`, which Azure reserves.
pub(crate) fn parsed(text: &str, map: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let pairs = text
        .split(',')
        .filter_map(|pair| pair.split_once('='))
        .filter(|(_, value)| !value.contains('='));
    let map = map.iter().map(|(key, value)| (&**key, &**value));
    let mut tags = BTreeMap::new();
    for (key, value) in pairs.chain(map).filter(|(key, _)| !key.trim().is_empty()) {
        let kept = if value.trim().eq_ignore_ascii_case("null") {
            value
        } else {
            value.trim()
        };
        tags.retain(|tag: &String, _| !tag.eq_ignore_ascii_case(key.trim()));
        tags.insert(key.trim().to_owned(), kept.to_owned());
    }
    tags
}

fn starts_with(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len())
        .is_some_and(|text| text.eq_ignore_ascii_case(prefix))
}

/// Returns the names of the tags that are to be removed: with `systemTags`, all that are neither wanted nor begin with
/// one of its prefixes.
fn surplus<'a>(
    config: &Config,
    resource: &'a Value,
    wanted: &BTreeMap<String, String>,
) -> BTreeSet<&'a str> {
    let prefixes: Vec<&str> = config
        .file
        .system_tags
        .split(',')
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .collect();
    if prefixes.is_empty() || wanted.is_empty() {
        return BTreeSet::new();
    }
    let stays = |name: &str| {
        let mut prefixes = prefixes.iter().chain(OWN);
        let is_named = wanted
            .keys()
            .map(String::as_str)
            .chain(["service"])
            .any(|text| text.eq_ignore_ascii_case(name));
        is_named || prefixes.any(|prefix| starts_with(name, prefix))
    };
    let names = resource["tags"]
        .as_object()
        .into_iter()
        .flat_map(|tag| tag.keys());
    names
        .map(String::as_str)
        .filter(|name| !stays(name))
        .collect()
}

/// Returns the setting of a tag: names and values are compared in any case of letters, as in the Go program.
fn with_tag(attributes: Attributes, (name, value): (&str, &str)) -> Attributes {
    attributes.set(
        format!("tag {}", name.to_ascii_lowercase()),
        value.to_ascii_lowercase(),
    )
}

/// Adds the tags of a resource to the settings that changes compare.
pub(crate) fn observed(
    attributes: Attributes,
    config: &Config,
    resource: &Value,
    wanted: &BTreeMap<String, String>,
) -> Attributes {
    let tags = resource["tags"].as_object().into_iter().flatten();
    let tags = tags.filter_map(|(name, value)| Some((&**name, value.as_str()?)));
    let attributes = tags.fold(attributes, with_tag);
    let surplus = surplus(config, resource, wanted);
    if surplus.is_empty() {
        attributes
    } else {
        attributes.set(SURPLUS, surplus)
    }
}

/// Adds the tags that a resource must have to the settings that changes compare.
pub(crate) fn desired<'a>(
    attributes: Attributes,
    config: &Config,
    wanted: impl Iterator<Item = (&'a String, &'a String)>,
) -> Attributes {
    let attributes = wanted
        .map(|(name, value)| (&**name, &**value))
        .fold(attributes, with_tag);
    if config.file.system_tags.is_empty() {
        attributes
    } else {
        attributes.set(SURPLUS, ())
    }
}

/// Writes tags to a resource, and removes those that `systemTags` does not protect.
pub(crate) fn write(config: &Config, resource: &mut Value, wanted: &BTreeMap<String, String>) {
    let removed: Vec<String> = surplus(config, resource, wanted)
        .into_iter()
        .map(str::to_owned)
        .collect();
    if !resource["tags"].is_object() && !wanted.is_empty() {
        *place(resource, &["tags"]) = json!({});
    }
    let Some(tags) = resource.get_mut("tags").and_then(Value::as_object_mut) else {
        return;
    };
    tags.retain(|name, _| !removed.contains(name));
    for (name, value) in wanted {
        let known = tags
            .iter_mut()
            .find(|(tag, _)| tag.eq_ignore_ascii_case(name));
        match known {
            Some((_, there))
                if there
                    .as_str()
                    .is_some_and(|text| text.eq_ignore_ascii_case(value)) => {}
            Some((_, there)) => *there = value.clone().into(),
            None => drop(tags.insert(name.clone(), value.clone().into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_the_map_take_precedence_and_malformed_ones_do_not_count() {
        let map = BTreeMap::from([("Team".to_owned(), "web ".to_owned())]);
        let tags = parsed("team=db, cost = 7 ,x=y=z,=v,none= Null ,word", &map);
        let expected = [("Team", "web"), ("cost", "7"), ("none", " Null ")];
        assert!(
            tags.iter()
                .map(|(key, value)| (&**key, &**value))
                .eq(expected),
            "{tags:?}"
        );
    }
}
