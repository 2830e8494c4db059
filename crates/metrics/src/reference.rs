//! Generates `docs/reference/metrics.md` from the declarations.

use std::fmt::Write as _;

use crate::series::{PROVIDER, SLIS, Series, TABLES, Table};

const HEAD: &str = "\
# Metrics

<!-- Generated from crates/metrics/src/series; `CCM_WRITE_REFERENCE=1 cargo test -p metrics` rewrites it. -->

`/metrics` serves all series except those about health, to callers that may `get` that path: in the text format 0.0.4,
or in the protobuf format to scrapers that prefer it, with native histograms. `/metrics/slis` serves the series about
health. Series of the Go cloud controller managers keep their names, labels and
buckets; the names of further series begin with `ccm_`. A provider may have series of its own, with the names of the Go
program for its cloud. Its page lists them.

A look-up of a Node counts in `cloud_node_lifecycle_controller_cloud_provider_calls_total` once for each operation, also
if one request answers for many Nodes. In an outage of the cloud a pass lasts as long as the retries of its requests, so
that errors are fewer than with a Go program, which begins the next pass after each failure. A machine that does not
exist is looked up again before its Node is deleted.

**From**: *start*: from the start, including on standbys; *leader*: from the creation of the controller; *use*: from the
first use. **Stability**: the level in the help text; conventions of all processes have none.
";

/// Returns the text of the page.
#[must_use]
pub fn page() -> String {
    let mut out = HEAD.to_owned();
    for table in TABLES {
        write_table(&mut out, table);
    }
    write_buckets(&mut out);
    out
}

// Writing to a string cannot fail.
fn write_table(out: &mut String, table: &Table) {
    _ = write!(out, "\n## {}\n\n", table.title);
    if table.path == SLIS {
        _ = write!(out, "Served at `{SLIS}`; `DELETE` resets these series.\n\n");
    }
    if table
        .series
        .iter()
        .any(|series| series.name.contains(PROVIDER))
    {
        _ = write!(
            out,
            "`{PROVIDER}` is the provider's name; characters except letters and digits become `_`.\n\n"
        );
    }
    out.push_str(
        "| series | type | labels | stability | from | meaning |\n|---|---|---|---|---|---|\n",
    );
    for series in table.series {
        let Series {
            name,
            kind,
            labels,
            stability,
            presence,
            help,
            ..
        } = series;
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let help = help.replace('<', "&lt;").replace('|', "\\|");
        let kind = kind.as_str();
        let labels = labels.join(", ");
        _ = writeln!(
            out,
            "| `{name}` | {kind} | {labels} | {stability} | {presence} | {help} |"
        );
    }
}

fn write_buckets(out: &mut String) {
    out.push_str("\n## Buckets\n\n| series | upper bounds |\n|---|---|\n");
    for series in TABLES
        .iter()
        .flat_map(|table| table.series)
        .filter(|series| !series.buckets.is_empty())
    {
        let bounds: Vec<String> = series.buckets.iter().map(|&bound| shown(bound)).collect();
        _ = writeln!(out, "| `{}` | {} |", series.name, bounds.join(", "));
    }
}

fn shown(bound: f64) -> String {
    let mut text = String::new();
    crate::number::write_number(&mut text, bound);
    text
}
