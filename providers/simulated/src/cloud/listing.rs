//! Paged lists with filters and injected faults.

use axum::response::{IntoResponse, Response};
use http::header;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::PAGE_SIZE;
use super::faults::ListEffects;
use super::model::Stored;

/// Query parameters of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Query {
    pub(super) page: Option<usize>,
    pub(super) per_page: Option<usize>,
    pub(super) name: Option<String>,
    /// Several, separated by commas.
    pub(super) ids: Option<String>,
    /// Label filter in the form `key=value`.
    pub(super) label: Option<String>,
}

/// Fields of an object that lists filter by.
pub(super) trait Listed {
    fn project(&self) -> &str;
    fn id(&self) -> &str;
    fn name(&self) -> &str;
    fn label(&self, key: &str) -> Option<&str>;
}

impl Query {
    fn matches(&self, object: &impl Listed) -> bool {
        let label = self
            .label
            .as_deref()
            .map(|label| label.split_once('=').unwrap_or((label, "")));
        self.name
            .as_deref()
            .is_none_or(|name| object.name() == name)
            && self
                .ids
                .as_deref()
                .is_none_or(|ids| ids.split(',').any(|id| object.id() == id))
            && label.is_none_or(|(key, value)| object.label(key) == Some(value))
    }
}

/// Returns a page: `{"<what>": […], "page", "per_page", "total", "next_page"}`. `show` converts an object to its form
/// in the API.
pub(super) fn page<'a, T: Listed + 'a, V: Serialize>(
    what: &str,
    project: &str,
    objects: impl Iterator<Item = &'a Stored<T>>,
    query: &Query,
    effects: ListEffects,
    show: impl Fn(&'a T) -> V,
) -> Response {
    let now = Instant::now();
    let mut found: Vec<&T> = objects
        // Queries by name or ID are answered from the store itself, lists from an index that lags behind.
        .filter(|stored| stored.listed_from <= now || query.name.is_some() || query.ids.is_some())
        .map(|stored| &stored.object)
        .filter(|object| object.project() == project && query.matches(*object))
        .collect();
    let size = query.per_page.unwrap_or(PAGE_SIZE).clamp(1, PAGE_SIZE);
    let number = query.page.unwrap_or(1).max(1);
    if effects.is_empty {
        found.clear();
    }
    let total = found.len();
    if let Some(missing) = effects.missing_page {
        let start = (missing.saturating_sub(1) * size).min(total);
        found.drain(start..(start + size).min(total));
    }
    let start = ((number - 1) * size).min(found.len());
    let end = (start + size).min(found.len());
    let is_last = end == found.len() || effects.last_page.is_some_and(|last| number >= last);
    let shown: Vec<V> = found[start..end]
        .iter()
        .map(|object| show(object))
        .collect();
    let objects = serde_json::to_string(&shown).unwrap_or_default();
    let or_null =
        |number: Option<usize>| number.map_or_else(|| "null".to_owned(), |n| n.to_string());
    let total = or_null((!effects.hides_total).then_some(total));
    let next = or_null((!is_last).then_some(number + 1));
    let body = format!(
        "{{\"{what}\":{objects},\"page\":{number},\"per_page\":{size},\"total\":{total},\"next_page\":{next}}}"
    );
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}
