//! The text files of the repository in which ids are cited.

use std::path::Path;

pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// A file with its path from the root.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Returns `true` if the file only shows ids: generated pages, samples of the case runner, and this test.
fn shows_only(path: &str) -> bool {
    let begins = [
        "docs/rules/index.md",
        "docs/reference/",
        "tests/tests/rules",
        "tests/tests/cases/samples",
        "patches/",
    ];
    begins.iter().any(|begin| path.starts_with(begin))
}

/// Returns all files in which ids may be cited, in the order of their paths.
pub(crate) fn files() -> Vec<File> {
    let mut files = Vec::new();
    for top in [
        "crates",
        "providers",
        "templates",
        "tests",
        "docs",
        "deploy",
        ".",
    ] {
        collect(&Path::new(ROOT).join(top), top != ".", &mut files);
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

fn collect(folder: &Path, is_recursive: bool, files: &mut Vec<File>) {
    for path in std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
    {
        if path.is_dir() {
            if is_recursive && path.file_name().is_some_and(|name| name != "target") {
                collect(&path, true, files);
            }
            continue;
        }
        let is_text = path
            .extension()
            .is_some_and(|extension| extension == "rs" || extension == "md" || extension == "yaml");
        let relative = path
            .strip_prefix(ROOT)
            .unwrap()
            .to_string_lossy()
            .trim_start_matches("./")
            .to_owned();
        if is_text && !shows_only(&relative) {
            files.push(File {
                text: std::fs::read_to_string(&path).unwrap(),
                path: relative,
            });
        }
    }
}
