//! Pages of lists, and what their queries may say.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::faults::{Effects, FaultKind};
use crate::refusal::Refusal;

/// The query of a request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn number(&self, name: &str, default: usize, most: usize) -> Result<usize, Refusal> {
        let Some(text) = self.get(name) else { return Ok(default) };
        let number = text.parse().ok().filter(|number| (1..=most).contains(number));
        number.ok_or_else(|| Refusal::field(name, &format!("must be between 1 and {most}")))
    }

    /// Whether an object with this name and these labels is asked for.
    pub(crate) fn selects(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        self.get("name").is_none_or(|wanted| wanted == name)
            && self.get("label_selector").is_none_or(|selector| matches(selector, labels))
    }
}

/// The page of `items` that is asked for. Only what is on it is rendered.
pub(crate) fn page<T>(
    key: &str,
    items: impl Iterator<Item = T>,
    render: impl Fn(T) -> Value,
    query: &Query,
    effects: &Effects,
) -> Result<Value, Refusal> {
    let mut items: Vec<T> = items.collect();
    let per_page = query.number("per_page", 25, 50)?;
    let mut page = query.number("page", 1, usize::MAX)?;
    if effects.has(&FaultKind::EmptyList) {
        items.clear();
    }
    let total = items.len();
    let mut last = total.div_ceil(per_page).max(1);
    let asked = page;
    if let Some(missing) = effects.find(|it| if let FaultKind::MissingPage(at) = it { Some(*at) } else { None }) {
        last = last.saturating_sub(1).max(1);
        page += usize::from(page >= missing);
    }
    if let Some(end) = effects.find(|it| if let FaultKind::EarlyEnd(at) = it { Some(*at) } else { None }) {
        last = last.min(end);
    }
    let items: Vec<Value> = items.into_iter().skip((page - 1) * per_page).take(per_page).map(render).collect();
    let next = if effects.has(&FaultKind::EndlessList) { Some(asked) } else { (asked < last).then_some(asked + 1) };
    let meta = json!({"pagination": {
        "page": asked, "per_page": per_page, "previous_page": (asked > 1).then(|| asked - 1),
        "next_page": next, "last_page": last, "total_entries": total,
    }});
    Ok(json!({key: items, "meta": meta}))
}

/// Whether labels match a selector: `a=b`, `a==b`, `a!=b`, `a`, `!a`, `a in (b,c)`, `a notin (b,c)`, separated by commas.
pub(crate) fn matches(selector: &str, labels: &BTreeMap<String, String>) -> bool {
    let mut depth = 0;
    let parts = selector.split(|it: char| {
        depth += i32::from(it == '(') - i32::from(it == ')');
        it == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).all(|part| {
        let value = |key: &str| labels.get(key.trim()).map(String::as_str);
        let among = |list: &str, found: Option<&str>| {
            let list = list.trim().trim_start_matches('(').trim_end_matches(')');
            found.is_some_and(|found| list.split(',').any(|it| it.trim() == found))
        };
        if let Some((key, list)) = part.split_once(" notin ") {
            !among(list, value(key))
        } else if let Some((key, list)) = part.split_once(" in ") {
            among(list, value(key))
        } else if let Some((key, wanted)) = part.split_once("!=") {
            value(key) != Some(wanted.trim())
        } else if let Some((key, wanted)) = part.split_once("==").or_else(|| part.split_once('=')) {
            value(key) == Some(wanted.trim())
        } else if let Some(key) = part.strip_prefix('!') {
            value(key).is_none()
        } else {
            value(part).is_some()
        }
    })
}
