//! The part of the admission policy that is generated: the keys.

use std::fmt::Write as _;

use crate::clouds::{CLOUDS, keys, prefixes, reaching};

const BEGINS: &str =
    "    # The keys begin: generated from the annotations that the providers declare.\n";
const ENDS: &str = "    # The keys end.\n";

/// Returns the policy with the keys of all clouds.
pub(crate) fn with_keys(policy: &str) -> String {
    let begin = policy.find(BEGINS).expect("the line before the keys") + BEGINS.len();
    let end = policy.find(ENDS).expect("the line after the keys");
    format!("{}{}{}", &policy[..begin], variables(), &policy[end..])
}

fn variables() -> String {
    let mut out = String::new();
    for (cloud, lists) in CLOUDS {
        let mut all: Vec<_> = reaching(lists).flat_map(|row| keys(&row)).collect();
        all.sort();
        all.dedup();
        variable(&mut out, cloud, &list(&all));
    }
    let all: Vec<_> = CLOUDS
        .iter()
        .map(|(cloud, _)| format!("variables.{cloud}"))
        .collect();
    variable(
        &mut out,
        "keys",
        &format!("        {}\n", all.join(" +\n        ")),
    );
    variable(&mut out, "prefixes", &list(&prefixes()));
    out
}

/// Returns a list in the Common Expression Language.
fn list(keys: &[String]) -> String {
    let quoted: Vec<_> = keys.iter().map(|key| format!("         '{key}'")).collect();
    format!("        [\n{}\n        ]\n", quoted.join(",\n"))
}

fn variable(out: &mut String, name: &str, expression: &str) {
    // Writing to a string cannot fail.
    _ = write!(
        out,
        "    - name: {name}\n      expression: >-\n{expression}"
    );
}
