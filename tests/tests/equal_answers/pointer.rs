//! JSON pointers with two wildcards: `*` is every element or member, `[name=a]` the elements whose field `name` is `a`.

use serde_json::{Map, Value};

fn segments(pointer: &str) -> Vec<String> {
    // A `/` within brackets belongs to the segment.
    let mut segments = Vec::new();
    let mut depth = 0;
    for character in pointer.chars() {
        match character {
            '/' if depth == 0 => {
                segments.push(String::new());
                continue;
            }
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        if let Some(last) = segments.last_mut() {
            last.push(character);
        }
    }
    segments
        .iter()
        .map(|segment| segment.replace("~1", "/").replace("~0", "~"))
        .collect()
}

fn selects(segment: &str, element: &Value) -> bool {
    segment
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .and_then(|rest| rest.split_once('='))
        .is_some_and(|(key, want)| {
            element.pointer(&format!("/{key}")).and_then(Value::as_str) == Some(want)
        })
}

/// Returns the part of a value that the pointers show, in its place; elements of lists that are not meant are left out.
pub(crate) fn keep(value: &Value, pointers: &[String]) -> Value {
    let paths: Vec<Vec<String>> = pointers.iter().map(|pointer| segments(pointer)).collect();
    keep_paths(value, &paths.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap_or(Value::Null)
}

fn keep_paths(value: &Value, paths: &[&[String]]) -> Option<Value> {
    if paths.is_empty() {
        return None;
    }
    if paths.iter().any(|path| path.is_empty()) {
        return Some(value.clone());
    }
    match value {
        Value::Object(members) => {
            let kept: Map<String, Value> = members
                .iter()
                .filter_map(|(key, member)| {
                    let rest = matching(paths, |segment| segment == key || segment == "*");
                    keep_paths(member, &rest).map(|member| (key.clone(), member))
                })
                .collect();
            Some(Value::Object(kept))
        }
        Value::Array(elements) => {
            let kept = elements.iter().enumerate().filter_map(|(index, element)| {
                let index = index.to_string();
                let rest = matching(paths, |segment| {
                    segment == "*" || segment == index || selects(segment, element)
                });
                keep_paths(element, &rest)
            });
            Some(Value::Array(kept.collect()))
        }
        _ => None,
    }
}

fn matching<'a>(paths: &[&'a [String]], accepts: impl Fn(&str) -> bool) -> Vec<&'a [String]> {
    paths
        .iter()
        .filter(|path| accepts(&path[0]))
        .map(|path| &path[1..])
        .collect()
}

/// Removes what the pointer shows.
pub(crate) fn remove(value: &mut Value, pointer: &str) {
    remove_path(value, &segments(pointer));
}

fn remove_path(value: &mut Value, path: &[String]) {
    let Some((segment, rest)) = path.split_first() else {
        return;
    };
    match value {
        Value::Object(members) if rest.is_empty() && segment == "*" => members.clear(),
        Value::Object(members) if rest.is_empty() => {
            members.remove(segment);
        }
        Value::Object(members) => {
            members
                .iter_mut()
                .filter(|(key, _)| segment == "*" || segment == *key)
                .for_each(|(_, member)| remove_path(member, rest));
        }
        Value::Array(elements) => {
            let mut index = 0;
            elements.retain_mut(|element| {
                let meant =
                    segment == "*" || *segment == index.to_string() || selects(segment, element);
                index += 1;
                if meant {
                    remove_path(element, rest);
                }
                !(meant && rest.is_empty())
            });
        }
        _ => {}
    }
}
