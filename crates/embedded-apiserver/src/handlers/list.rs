//! Listing: consistent pages, resourceVersion rules, continue tokens.

use std::sync::Arc;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Call;
use crate::negotiate::respond;
use crate::request::Verb;
use crate::selectors::Selector;
use crate::status::{ApiError, StatusCause};
use crate::store::{Snapshot, Stored};

/// Continue token: the position at which a page ended.
#[derive(Debug, Serialize, Deserialize)]
struct Token {
    v: String,
    /// Revision of the first page; -1 continues with the current objects.
    rv: i64,
    start: String,
}

const TOKEN_VERSION: &str = "meta.k8s.io/v1";

const EXPIRED_CONTINUE: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

pub(super) fn list(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    let page = page(call)?;
    Ok(respond(
        call.form,
        200,
        call.view().list(&page.metadata, &page.objects),
    ))
}

struct Page {
    objects: Vec<Arc<Stored>>,
    metadata: Value,
}

/// Returns the selector of a list, watch or deletecollection.
pub(super) fn selector(call: &Call<'_>) -> Result<Selector, ApiError> {
    let options = &call.request.options;
    let name = call
        .target
        .name
        .as_deref()
        .map(|name| format!("metadata.name={name}"));
    let fields = match (name, options.get("fieldSelector")) {
        (Some(name), Some(fields)) => Some(format!("{name},{fields}")),
        (name, fields) => name.or_else(|| fields.map(str::to_owned)),
    };
    Selector::new(
        call.resource(),
        call.target.namespace.as_deref(),
        options.get("labelSelector"),
        fields.as_deref(),
    )
}

/// Checks that a list is not of a future revision.
pub(super) fn check_not_in_the_future(call: &Call<'_>) -> Result<(), ApiError> {
    let wanted = revision(call)?.unwrap_or(0);
    let current = call.inner.store.revision();
    if wanted <= current {
        return Ok(());
    }
    let mut error = ApiError::new(
        504,
        "Timeout",
        format!("Timeout: Too large resource version: {wanted}, current: {current}"),
    );
    error.details = Some(json!({
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}], "retryAfterSeconds": 1,
    }));
    Err(error)
}

/// Parses the `resourceVersion` option.
pub(super) fn revision(call: &Call<'_>) -> Result<Option<u64>, ApiError> {
    let Some(text) = call.request.options.get("resourceVersion") else {
        return Ok(None);
    };
    text.parse().map(Some).map_err(|_| {
        let problem =
            format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax");
        match call.request.verb {
            Verb::List => ApiError::bad_request(format!("invalid resource version: {problem}")),
            _ => ApiError::internal(problem),
        }
    })
}

/// Refuses combinations of options that have no meaning.
pub(super) fn check_options(call: &Call<'_>, is_watch: bool) -> Result<(), ApiError> {
    let causes = if is_watch {
        watch_causes(call)
    } else {
        list_causes(call)
    };
    if causes.is_empty() {
        Ok(())
    } else {
        Err(ApiError::invalid_kind(
            "meta.k8s.io",
            "ListOptions",
            "",
            &causes,
        ))
    }
}

const MATCH: &str = "resourceVersionMatch";

fn watch_causes(call: &Call<'_>) -> Vec<StatusCause> {
    let options = &call.request.options;
    let matching = options.get(MATCH);
    let mut causes = Vec::new();
    if options.get("sendInitialEvents").is_some() {
        if matching != Some("NotOlderThan") {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            causes.push(StatusCause::forbidden(MATCH, detail));
        }
        if let Some(other) = matching.filter(|matching| *matching != "NotOlderThan") {
            causes.push(StatusCause::unsupported(
                MATCH,
                &json!(other),
                &["NotOlderThan"],
            ));
        }
    } else if matching.is_some() {
        let detail =
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        causes.push(StatusCause::forbidden(MATCH, detail));
    }
    causes
}

fn list_causes(call: &Call<'_>) -> Vec<StatusCause> {
    let options = &call.request.options;
    let version = options.get("resourceVersion");
    let mut causes = Vec::new();
    if let Some(matching) = options.get(MATCH) {
        if options.get("continue").is_some() {
            causes.push(StatusCause::forbidden(
                MATCH,
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
        if version.is_none() {
            causes.push(StatusCause::forbidden(
                MATCH,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        if !matches!(matching, "Exact" | "NotOlderThan") {
            causes.push(StatusCause::unsupported(
                MATCH,
                &json!(matching),
                &["Exact", "NotOlderThan", ""],
            ));
        }
        if matching == "Exact" && version == Some("0") {
            let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            causes.push(StatusCause::forbidden(MATCH, detail));
        }
    }
    if options.get("sendInitialEvents").is_some() {
        causes.push(StatusCause::forbidden(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for list",
        ));
    }
    causes
}

fn page(call: &Call<'_>) -> Result<Page, ApiError> {
    let selector = selector(call)?;
    let options = &call.request.options;
    let limit = options.number("limit")?.unwrap_or(0);
    options.number("timeoutSeconds")?;
    check_options(call, false)?;
    let (snapshot, start) = snapshot(call)?;
    // A list from the cache (revision 0) is always whole.
    let limit = if options.get("resourceVersion") == Some("0") && options.get("continue").is_none()
    {
        0
    } else {
        limit
    };
    let limit = usize::try_from(limit).ok().filter(|limit| *limit > 0);

    let first = start.as_deref().map_or(0, |start| {
        snapshot
            .objects
            .partition_point(|stored| *stored.key < *start)
    });
    let mut objects = Vec::new();
    let mut metadata = Map::from_iter([(
        "resourceVersion".to_owned(),
        json!(snapshot.revision.to_string()),
    )]);
    for stored in snapshot
        .objects
        .iter()
        .skip(first)
        .filter(|stored| selector.matches(stored))
    {
        if limit.is_some_and(|limit| objects.len() == limit) {
            let last: &Arc<Stored> = &objects[objects.len() - 1];
            metadata.insert(
                "continue".to_owned(),
                json!(token(call, snapshot.revision, &last.key)),
            );
            if !selector.is_selective() {
                let rest = snapshot
                    .objects
                    .iter()
                    .filter(|other| other.key > last.key && selector.matches(other))
                    .count();
                metadata.insert("remainingItemCount".to_owned(), json!(rest));
            }
            break;
        }
        objects.push(stored.clone());
    }
    Ok(Page {
        objects,
        metadata: Value::Object(metadata),
    })
}

/// Returns the token to continue after `last`; its key is relative to the namespace of the list.
fn token(call: &Call<'_>, revision: u64, last: &str) -> String {
    let prefix = call
        .target
        .namespace
        .as_ref()
        .map(|namespace| format!("{namespace}/"))
        .unwrap_or_default();
    let last = last.strip_prefix(&prefix).unwrap_or(last);
    let rv = i64::try_from(revision).unwrap_or(-1);
    let token = Token {
        v: TOKEN_VERSION.to_owned(),
        rv,
        start: format!("/{last}\u{0}"),
    };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default())
}

/// Returns the objects at the wanted revision, and the key to start from.
fn snapshot(call: &Call<'_>) -> Result<(Snapshot, Option<String>), ApiError> {
    let options = &call.request.options;
    let store = &call.inner.store;
    if let Some(text) = options.get("continue") {
        if revision(call)?.is_some_and(|revision| revision != 0) {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let token = read_token(text)?;
        let start = token.start.trim_start_matches('/');
        let start = match &call.target.namespace {
            Some(namespace) => format!("{namespace}/{start}"),
            None => start.to_owned(),
        };
        let Ok(revision) = u64::try_from(token.rv) else {
            return Ok((store.snapshot(call.storage()), Some(start)));
        };
        return match store.snapshot_at(call.storage(), revision) {
            Ok(snapshot) => Ok((snapshot, Some(start))),
            Err(_) => Err(expired(token)),
        };
    }
    check_not_in_the_future(call)?;
    let exact = options.get("resourceVersionMatch") == Some("Exact")
        || (options.get("resourceVersionMatch").is_none()
            && options.get("limit").is_some_and(|limit| limit != "0"));
    match revision(call)? {
        Some(revision) if revision > 0 && exact => store
            .snapshot_at(call.storage(), revision)
            .map(|snapshot| (snapshot, None))
            .map_err(|_| {
                ApiError::expired("The resourceVersion for the provided list is too old.")
            }),
        _ => Ok((store.snapshot(call.storage()), None)),
    }
}

fn read_token(text: &str) -> Result<Token, ApiError> {
    let invalid = |problem: &str| {
        ApiError::bad_request(format!(
            "invalid continue token: continue key is not valid: {problem}"
        ))
    };
    let bytes = URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_| invalid("illegal base64 data at input byte 0"))?;
    let token: Token = serde_json::from_slice(&bytes).map_err(|_| {
        let first = bytes.first().map_or(' ', |byte| char::from(*byte));
        let first = if first.is_control() {
            format!("\\u{:04x}", u32::from(first))
        } else {
            first.to_string()
        };
        invalid(&format!(
            "invalid character '{first}' looking for beginning of value"
        ))
    })?;
    if token.v != TOKEN_VERSION {
        return Err(invalid(&format!(
            "server does not recognize this encoded version {:?}",
            token.v
        )));
    }
    if token.rv == 0 {
        return Err(invalid(
            "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
        ));
    }
    Ok(token)
}

/// Returns error 410, with a token that continues without consistency.
fn expired(token: Token) -> ApiError {
    let mut error = ApiError::expired(EXPIRED_CONTINUE);
    let again = Token { rv: -1, ..token };
    let text = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&again).unwrap_or_default());
    error.metadata = json!({"continue": text});
    error
}
