//! Licences of the crates in the program, from their sources.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use spdx::{Expression, ParseMode};

use super::dependencies::{Crate, Graph, Key};
use crate::{program, read};

/// Name of the file with the licences of all crates.
pub(crate) const FILE: &str = "THIRD-PARTY-LICENSES";
/// Name of the file with the licences of the standard library, which the toolchain has.
pub(crate) const RUST_FILE: &str = "THIRD-PARTY-LICENSES-rust.html";

/// Beginnings of the names of files with licences.
const NAMES: [&str; 6] = [
    "LICENSE",
    "LICENCE",
    "COPYING",
    "COPYRIGHT",
    "NOTICE",
    "UNLICENSE",
];
/// Licences in the order in which one of several alternatives is chosen, for a crate that ships no text.
const PREFERRED: [&str; 8] = [
    "Apache-2.0",
    "MIT",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "BSL-1.0",
    "Unicode-3.0",
];

const HEADER: &str = "cloud-controller-manager contains the software below. Each text follows the names of the crates that \
                      it belongs to.\nThe licences of the standard library of Rust, which is in the program, too, are in \
                      THIRD-PARTY-LICENSES-rust.html.\n";
const RULE: &str =
    "================================================================================";

/// The C library for static programs, which the Rust toolchain links.
const MUSL: &str = "musl (MIT)";
const MUSL_COPYRIGHT: &str = "Copyright © 2005-2020 Rich Felker, et al.";

/// Returns the licences of all crates that are not of this workspace, grouped by equal texts.
pub(super) fn text(graph: &Graph) -> Result<String> {
    let mut found = Vec::new();
    for (key, package) in graph.third_party() {
        found.push((title(key, package), texts(key, package)?));
    }
    let musl =
        spdx_text("MIT")?.replace("Copyright (c) <year> <copyright holders>", MUSL_COPYRIGHT);
    found.push((MUSL.to_owned(), vec![musl]));
    Ok(grouped(&found))
}

fn title((name, version): &Key, package: &Crate) -> String {
    format!("{name} {version} ({})", package.licence)
}

/// Returns the licences of the standard library, as the toolchain has them.
pub(super) fn rust() -> Result<Vec<u8>> {
    let sysroot = program::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    read(&Path::new(sysroot.trim()).join("share/doc/rust/COPYRIGHT-library.html"))
        .context("the toolchain has no licences of the standard library")
}

/// Returns the texts that a crate ships, or else the text of one of its licences.
fn texts(key: &Key, package: &Crate) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let failed = || format!("cannot read {}", package.folder.display());
    for item in std::fs::read_dir(&package.folder).with_context(failed)? {
        let item = item.with_context(failed)?;
        let name = item.file_name().to_string_lossy().into_owned();
        let is_code = name.ends_with(".rs") || name.ends_with(".toml");
        if item.path().is_file()
            && !is_code
            && NAMES
                .iter()
                .any(|other_name| name.to_uppercase().starts_with(other_name))
        {
            names.push(name);
        }
    }
    names.sort();
    let mut texts = Vec::new();
    for name in names {
        texts.push(String::from_utf8_lossy(&read(&package.folder.join(name))?).into_owned());
    }
    if texts.is_empty() {
        let licence =
            chosen(&package.licence).with_context(|| format!("crate {} {}", key.0, key.1))?;
        let authors = if package.authors.is_empty() {
            format!("The authors of {}", key.0)
        } else {
            package.authors.join(", ")
        };
        let holders = format!("Copyright (c) {authors}");
        let text =
            spdx_text(licence)?.replace("Copyright (c) <year> <copyright holders>", &holders);
        texts.push(text.replace("Copyright (c) <year> <owner>", &holders));
    }
    Ok(texts)
}

/// Returns the licence to choose from an expression.
fn chosen(expression: &str) -> Result<&'static str> {
    let parsed = Expression::parse_mode(expression, ParseMode::LAX).map_err(|error| {
        anyhow::anyhow!("cannot parse the licence {expression:?}: {}", error.reason)
    })?;
    let is_enough = |name: &str| {
        parsed.evaluate(|license_req| {
            license_req.addition.is_none()
                && license_req.license.id().is_some_and(|id| id.name == name)
        })
    };
    match PREFERRED.into_iter().find(|name| is_enough(name)) {
        Some(name) => Ok(name),
        None => bail!(
            "it ships no text of its licence {expression:?}, and none of {} is enough",
            PREFERRED.join(", ")
        ),
    }
}

/// Returns the text of a licence from the list of SPDX.
fn spdx_text(name: &str) -> Result<String> {
    Ok(spdx::license_id(name)
        .with_context(|| format!("SPDX has no licence {name:?}"))?
        .text()
        .to_owned())
}

/// Returns the document with each text once, behind the titles of its crates.
fn grouped(found: &[(String, Vec<String>)]) -> String {
    let mut groups: BTreeMap<String, (String, Vec<&str>)> = BTreeMap::new();
    for (title, texts) in found {
        for text in texts {
            // Line ends and wrapping differ between copies of one text.
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let group = groups
                .entry(words)
                .or_insert_with(|| (tidy(text), Vec::new()));
            if !group.1.contains(&title.as_str()) {
                group.1.push(title);
            }
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by(|a, b| a.1.cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
    let mut document = HEADER.to_owned();
    for (text, titles) in groups {
        _ = write!(
            document,
            "\n{RULE}\n{}\n{RULE}\n\n{text}\n",
            titles.join("\n")
        );
    }
    document
}

/// Returns the text without blanks at the ends of lines and blank lines around it.
fn tidy(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn package(folder: PathBuf, licence: &str) -> Crate {
        let authors = vec!["Ann".to_owned()];
        Crate {
            licence: licence.to_owned(),
            authors,
            repository: None,
            folder,
            checksum: Some("ab".to_owned()),
        }
    }

    #[test]
    fn equal_texts_stand_once_behind_all_their_crates() {
        let found = [
            (
                "a 1.0.0 (MIT)".to_owned(),
                vec!["Permission\r\nis granted\r\n".to_owned()],
            ),
            (
                "b 1.0.0 (MIT)".to_owned(),
                vec!["\nPermission is granted".to_owned(), "Other".to_owned()],
            ),
        ];
        let document = grouped(&found);
        assert_eq!(document.matches("Permission").count(), 1, "{document}");
        let both =
            "a 1.0.0 (MIT)\nb 1.0.0 (MIT)\n".to_owned() + RULE + "\n\nPermission\nis granted\n";
        assert!(document.contains(&both), "{document}");
        assert!(
            document.contains(&format!("\nb 1.0.0 (MIT)\n{RULE}\n\nOther\n")),
            "{document}"
        );
    }

    #[test]
    fn crate_without_a_text_gets_that_of_its_licence() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("license.rs"), "code").unwrap();
        let key = ("a".to_owned(), "1.0.0".to_owned());
        let of = |licence: &str| texts(&key, &package(folder.path().to_owned(), licence));
        assert!(of("MIT OR Apache-2.0").unwrap()[0].contains("Apache License"));
        let mit = of("MIT").unwrap().remove(0);
        assert!(
            mit.contains("Copyright (c) Ann") && !mit.contains('<'),
            "{mit}"
        );
        let error = format!("{:#}", of("GPL-3.0-only").unwrap_err());
        assert!(
            error.starts_with("crate a 1.0.0: it ships no text of its licence \"GPL-3.0-only\""),
            "{error}"
        );
        std::fs::write(folder.path().join("LICENSE-MIT"), "own text").unwrap();
        assert_eq!(of("MIT").unwrap(), ["own text"]);
    }
}
