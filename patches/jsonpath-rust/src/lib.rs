//! Stands in for the crate of this name, of which kube-client calls one function: a kubeconfig's `auth-provider`, a form of
//! credential that kubectl gave up in 1.26, says by a path where in a command's answer the token stands. The crate itself
//! brings a parser generator and an engine for regular expressions along: 0.5 MB, a thirtieth of the whole program. What such
//! paths have are names and positions; other paths are an error that says so.
//!
//! ```
//! use jsonpath_rust::JsonPath;
//!
//! let answer = serde_json::json!({"credential": {"access_token": "t", "scopes": ["a", "b"]}});
//! assert_eq!(answer.query("$.credential.access_token")?, ["t"]);
//! assert_eq!(answer.query("$['credential'].scopes[1]")?, ["b"]);
//! assert!(answer.query("$.credential.id_token")?.is_empty());
//! assert!(answer.query("$..access_token").is_err());
//! # Ok::<(), jsonpath_rust::JsonPathError>(())
//! ```

use serde_json::Value;

/// A path that is not understood.
#[derive(Debug, thiserror::Error)]
#[error(
    "the path {path:?} is not understood at {rest:?}: name members as .name or ['name'], items as [0]"
)]
pub struct JsonPathError {
    path: String,
    rest: String,
}

/// What a path leads to.
pub trait JsonPath {
    /// The value at `path`, or none.
    ///
    /// # Errors
    /// For a path with anything but names and positions.
    fn query(&self, path: &str) -> Result<Vec<&Value>, JsonPathError>;
}

impl JsonPath for Value {
    fn query(&self, path: &str) -> Result<Vec<&Value>, JsonPathError> {
        let mut rest = path.strip_prefix('$').unwrap_or(path);
        let mut found = Some(self);
        while !rest.is_empty() {
            let step = step(rest).ok_or_else(|| JsonPathError {
                path: path.to_owned(),
                rest: rest.to_owned(),
            })?;
            found = found.and_then(|value| match step.position {
                Some(position) => value.get(position),
                None => value.get(step.name),
            });
            rest = step.rest;
        }
        Ok(found.into_iter().collect())
    }
}

struct Step<'a> {
    name: &'a str,
    position: Option<usize>,
    rest: &'a str,
}

fn step(path: &str) -> Option<Step<'_>> {
    if let Some(path) = path.strip_prefix('.') {
        let end = path.find(['.', '[']).unwrap_or(path.len());
        let (name, rest) = path.split_at(end);
        let is_plain = !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_alphanumeric() || "_-".contains(c));
        return is_plain.then_some(Step {
            name,
            position: None,
            rest,
        });
    }
    let (inner, rest) = path.strip_prefix('[')?.split_once(']')?;
    let quoted = |quote: char| inner.strip_prefix(quote)?.strip_suffix(quote);
    match quoted('\'').or_else(|| quoted('"')) {
        Some(name) => Some(Step {
            name,
            position: None,
            rest,
        }),
        None => Some(Step {
            name: "",
            position: Some(inner.parse().ok()?),
            rest,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_no_name_and_no_position_is_refused() {
        let value = serde_json::json!({"a": {"b-c": [{"d": 1}]}});
        for path in [
            "$.a.*",
            "$.a[*]",
            "$..d",
            "$.a[?(@.d)]",
            "$.a[",
            "$.a[-1]",
            "a",
            "$.",
            "$.a[1:2]",
        ] {
            let error = value.query(path).unwrap_err().to_string();
            assert!(error.contains("is not understood"), "{path}: {error}");
        }
        assert_eq!(value.query("$.a.b-c[0].d").unwrap(), [&Value::from(1)]);
        assert_eq!(value.query("$").unwrap(), [&value]);
    }
}
