//! The source files of each crate.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::source;
use super::{Figures, Kind};
use crate::read_text;

/// Folders with a crate in each folder below them.
const PARENTS: [&str; 2] = ["crates", "providers"];
/// Folders with one crate, or several that count as one.
const SINGLE: [&str; 4] = ["tests", "templates", "patches", "xtask"];

/// Returns the figures of each crate of a checkout, by its folder. A cloud's fake counts with the cloud.
pub(super) fn figures(root: &Path) -> Result<BTreeMap<String, Figures>> {
    let mut all = BTreeMap::new();
    for path in sources(root)? {
        let name = crate_of(&path);
        let text = read_text(&root.join(&path))?;
        let counted =
            source::count(&text, kind_of(&path)).with_context(|| path.display().to_string())?;
        let figures: &mut Figures = all.entry(name).or_default();
        for (kind, count) in counted {
            *figures.entry(kind).or_default() += count;
        }
    }
    Ok(all)
}

/// Returns the paths of all source files of a checkout.
pub(super) fn sources(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in PARENTS.iter().chain(&SINGLE) {
        add_sources(root, Path::new(folder), &mut found)?;
    }
    found.sort();
    Ok(found)
}

fn add_sources(root: &Path, folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let failed = || format!("cannot read {}", root.join(folder).display());
    for item in std::fs::read_dir(root.join(folder)).with_context(failed)? {
        let item = item.with_context(failed)?;
        let path = folder.join(item.file_name());
        if item.path().is_dir() {
            if item.file_name() != "target" {
                add_sources(root, &path, found)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// Returns the folder of the crate that a source file counts for.
pub(super) fn crate_of(path: &Path) -> String {
    let mut parts = path.iter().map(|part| part.to_string_lossy());
    let first = parts.next().unwrap_or_default();
    match parts
        .next()
        .filter(|_| PARENTS.iter().any(|parent| *parent == first))
    {
        Some(second) => format!("{first}/{second}"),
        None => first.into_owned(),
    }
}

fn kind_of(path: &Path) -> Kind {
    let is_in = |folder: &str| path.iter().any(|part| part == folder);
    let is_fake =
        is_in("fake") && path.starts_with("providers") || path.starts_with("crates/fake-cloud");
    let is_test =
        ["tests", "benches", "examples"].into_iter().any(is_in) || path.ends_with("tests.rs");
    match (is_fake, is_test) {
        (true, _) => Kind::Fake,
        (false, true) => Kind::Test,
        (false, false) => Kind::Code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_count_for_their_crate_by_the_folder_that_they_are_in() {
        for (path, name, kind) in [
            (
                "crates/manager/src/flags/mod.rs",
                "crates/manager",
                Kind::Code,
            ),
            (
                "crates/manager/src/flags/tests/table.rs",
                "crates/manager",
                Kind::Test,
            ),
            (
                "crates/serving/src/access/tests.rs",
                "crates/serving",
                Kind::Test,
            ),
            ("providers/oci/fake/src/lib.rs", "providers/oci", Kind::Fake),
            (
                "crates/fake-cloud/src/page.rs",
                "crates/fake-cloud",
                Kind::Fake,
            ),
            ("tests/tests/plan.rs", "tests", Kind::Test),
            ("xtask/src/main.rs", "xtask", Kind::Code),
        ] {
            let path = Path::new(path);
            assert_eq!((crate_of(path).as_str(), kind_of(path)), (name, kind));
        }
    }
}
