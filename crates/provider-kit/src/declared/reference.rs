//! Reference pages, generated from declarations.

use std::fmt::Write as _;

use super::{Declared, DefaultValue, OnInvalid, Row};

/// Returns a table in Markdown, one row for each declaration; `what` is `annotation`, `variable` or `key`.
#[must_use]
pub fn table(what: &str, declared: &[&dyn Declared]) -> String {
    let mut out = format!("| {what} | value | default | meaning |\n|---|---|---|---|\n");
    for declaration in declared {
        let row = declaration.row();
        let key = if row.is_secret && what == "variable" {
            format!("`{0}`, `{0}_FILE`", row.key)
        } else {
            format!("`{}`", row.key)
        };
        // Writing to a string cannot fail.
        _ = writeln!(
            out,
            "| {key} | {} | {} | {} |",
            cell(&row.values),
            default(&row),
            cell(&meaning(&row))
        );
    }
    out
}

/// Returns a cell of a table, without line ends and bars.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn default(row: &Row) -> String {
    match (row.default, row.fallback) {
        (DefaultValue::Nothing, None) => "–".to_owned(),
        (DefaultValue::Nothing, Some(key)) => {
            format!("`{}`", key.rsplit("] ").next().unwrap_or(key))
        }
        (DefaultValue::Value(value), _) => format!("`{}`", cell(value)),
        (DefaultValue::Described(words), _) => cell(words),
    }
}

fn meaning(row: &Row) -> String {
    let mut out = row.doc.to_owned();
    for alias in row.aliases {
        _ = write!(out, " Formerly `{alias}`.");
    }
    if row.on_invalid == OnInvalid::Warn {
        out.push_str(" An invalid value causes a warning, and the default applies.");
    }
    out
}

/// Returns `page` with `text` between the lines `<!-- NAME begins: … -->` and `<!-- NAME ends -->`; `None` if it has no
/// such lines.
///
/// Call it in a test that compares the page with the result, so that the page stays up to date.
///
/// ```
/// use provider_kit::declared::reference::put;
///
/// let page = "# Acme\n<!-- flags begins: generated -->\nold\n<!-- flags ends -->\nMore.\n";
/// let fresh = put(page, "flags", "new\n").unwrap();
/// assert_eq!(fresh, "# Acme\n<!-- flags begins: generated -->\n\nnew\n\n<!-- flags ends -->\nMore.\n");
/// assert_eq!(put(&fresh, "flags", "new\n"), Some(fresh.clone()));
/// assert_eq!(put(page, "colours", ""), None);
/// ```
#[must_use]
pub fn put(page: &str, name: &str, text: &str) -> Option<String> {
    let begin = page.find(&format!("<!-- {name} begins"))?;
    let begin = begin + page[begin..].find('\n')? + 1;
    let end = begin + page[begin..].find(&format!("<!-- {name} ends"))?;
    Some(format!(
        "{}\n{}\n\n{}",
        &page[..begin],
        text.trim_end(),
        &page[end..]
    ))
}
