//! Paging and filters of lists.

use std::collections::BTreeMap;

use fake_cloud::{Next, Page};
use serde_json::{Value, json};

use crate::refusal::{Answer, Refusal};
use crate::routes::{ApiRequest, ok};

fn number(request: &ApiRequest, name: &str, default: usize, most: usize) -> Result<usize, Refusal> {
    let Some(text) = request.query(name) else {
        return Ok(default);
    };
    let number = text
        .parse()
        .ok()
        .filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| Refusal::field(name, &format!("must be between 1 and {most}")))
}

/// Returns `true` if the request selects an object with this name and these labels.
pub(crate) fn selects(request: &ApiRequest, name: &str, labels: &BTreeMap<String, String>) -> bool {
    request.query("name").is_none_or(|wanted| wanted == name)
        && request
            .query("label_selector")
            .is_none_or(|selector| matches(selector, labels))
}

/// Returns `true` if the request selects an object with this name.
pub(crate) fn names(request: &ApiRequest, name: &str) -> bool {
    selects(request, name, &BTreeMap::new())
}

/// Returns the requested page of `items`. Only its items are rendered.
pub(crate) fn page<T>(
    request: &ApiRequest,
    key: &str,
    items: impl Iterator<Item = T>,
    render: impl Fn(T) -> Value,
) -> Answer {
    let size = number(request, "per_page", 25, 50)?;
    let page = Page::numbered(
        items,
        number(request, "page", 1, usize::MAX)?,
        size,
        &request.effects,
    );
    let number = page.number;
    let next = match page.next {
        Next::Nothing => None,
        Next::Following => Some(number + 1),
        Next::Itself => Some(number),
    };
    let meta = json!({"pagination": {
        "page": number, "per_page": size, "previous_page": (number > 1).then(|| number - 1),
        "next_page": next, "last_page": page.last, "total_entries": page.total,
    }});
    let items: Vec<Value> = page.items.into_iter().map(render).collect();
    ok(json!({key: items, "meta": meta}))
}

/// Returns `true` if labels match a selector: `a=b`, `a==b`, `a!=b`, `a`, `!a`, `a in (b,c)`, `a notin (b,c)`,
/// separated by commas.
pub(crate) fn matches(selector: &str, labels: &BTreeMap<String, String>) -> bool {
    let mut depth = 0;
    let parts = selector.split(|character: char| {
        depth += i32::from(character == '(') - i32::from(character == ')');
        character == ',' && depth == 0
    });
    parts
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .all(|part| {
            let value = |key: &str| labels.get(key.trim()).map(String::as_str);
            let among = |list: &str, found: Option<&str>| {
                let list = list.trim().trim_start_matches('(').trim_end_matches(')');
                found.is_some_and(|found| list.split(',').any(|part| part.trim() == found))
            };
            if let Some((key, list)) = part.split_once(" notin ") {
                !among(list, value(key))
            } else if let Some((key, list)) = part.split_once(" in ") {
                among(list, value(key))
            } else if let Some((key, wanted)) = part.split_once("!=") {
                value(key) != Some(wanted.trim())
            } else if let Some((key, wanted)) =
                part.split_once("==").or_else(|| part.split_once('='))
            {
                value(key) == Some(wanted.trim())
            } else if let Some(key) = part.strip_prefix('!') {
                value(key).is_none()
            } else {
                value(part).is_some()
            }
        })
}
