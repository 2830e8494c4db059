//! The subcommands: their names for help, completions and suggestions, and the text of `version`.

use super::KUBERNETES_VERSION;

/// Names and descriptions of the subcommands.
pub(super) const SUBCOMMANDS: &[(&str, &str)] = &[
    (
        "plan",
        "print the changes that the manager would make, without making them",
    ),
    (
        "check",
        "find mistakes in Service manifests, without a cluster or a cloud",
    ),
    (
        "doctor",
        "check this installation, and print each problem with its remedy",
    ),
    (
        "explain",
        "explain the state of a Node or Service: explain node NAME, explain service NAME",
    ),
    (
        "orphans",
        "list resources in the cloud whose Service or Node was deleted, and delete them on demand",
    ),
    #[cfg(feature = "demo")]
    ("demo", "run a whole cluster and cloud in this process"),
    (
        "version",
        "print the versions of this program and of Kubernetes",
    ),
    ("help", "print the help of a subcommand"),
    ("completion", "print completions for bash, zsh or fish"),
    ("man", "print the manual page"),
];

/// Minimum similarity of a misspelt word to the subcommand that is suggested instead.
const SIMILAR: f64 = 0.75;

/// Returns one line for each subcommand.
pub(super) fn list() -> String {
    let lines: Vec<_> = SUBCOMMANDS
        .iter()
        .map(|(name, about)| format!("  {name:<12}{about}"))
        .collect();
    lines.join("\n")
}

/// Returns a hint about an unknown subcommand.
pub(super) fn hint(word: &str) -> String {
    let similarity = |name: &str| strsim::jaro_winkler(name, word);
    if word == "demo" && !cfg!(feature = "demo") {
        return "this program is built without the demo: `cargo demo` in the checkout builds it with the demo"
            .to_owned();
    }
    let names: Vec<_> = SUBCOMMANDS.iter().map(|(name, _)| *name).collect();
    if names.contains(&word) {
        return format!("write the subcommand {word:?} before all flags");
    }
    match names
        .iter()
        .max_by(|a, b| similarity(a).total_cmp(&similarity(b)))
    {
        Some(name) if similarity(name) >= SIMILAR => format!("did you mean {name:?}?"),
        _ => format!(
            "write --name=value, or one of the subcommands {}",
            names.join(", ")
        ),
    }
}

/// Returns the output of `version`.
pub(super) fn version(program: &str) -> String {
    format!(
        "{}, run as {program}, for Kubernetes {KUBERNETES_VERSION}\n",
        product()
    )
}

/// Returns the name of the product with its version and commit.
pub(super) fn product() -> String {
    let commit = match env!("CCM_REVISION") {
        "" => "unknown",
        commit => commit,
    };
    format!("ccm-rs v{} (commit {commit})", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_subcommand_gets_a_suggestion() {
        for (word, name) in [
            ("dokter", "doctor"),
            ("pla", "plan"),
            ("complete", "completion"),
            ("versions", "version"),
        ] {
            assert_eq!(hint(word), format!("did you mean {name:?}?"), "{word}");
        }
        assert_eq!(
            hint("doctor"),
            "write the subcommand \"doctor\" before all flags"
        );
        assert!(
            hint("false").starts_with("write --name=value, or one of the subcommands plan, "),
            "{}",
            hint("false")
        );
    }
}
