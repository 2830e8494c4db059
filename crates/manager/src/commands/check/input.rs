//! The input of `check`: files, directories and standard input.

use std::fs;
use std::path::{Path, PathBuf};

/// Extensions of the files that are read from directories.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// The content of a file, or the reason why the file cannot be read.
pub(super) struct Input {
    /// Name of the file in findings.
    pub(super) name: String,
    pub(super) text: Result<String, String>,
}

/// Reads files, the files of directories in alphabetical order, and standard input for `-`.
pub(super) fn read(paths: &[PathBuf], recursive: bool) -> Vec<Input> {
    paths.iter().flat_map(|path| read_one(path, recursive)).collect()
}

fn read_one(path: &Path, recursive: bool) -> Vec<Input> {
    let name = path.display().to_string();
    if name == "-" {
        let text = std::io::read_to_string(std::io::stdin());
        return vec![Input {
            name: "stdin".to_owned(),
            text: text.map_err(|err| format!("cannot read standard input: {err}")),
        }];
    }
    if !path.is_dir() {
        let text = fs::read_to_string(path).map_err(|err| format!("cannot read {name}: {err}"));
        return vec![Input { name, text }];
    }
    let entries =
        fs::read_dir(path).and_then(|entries| entries.map(|it| Ok(it?.path())).collect::<Result<Vec<_>, _>>());
    let mut entries = match entries {
        Ok(entries) => entries,
        Err(err) => return vec![Input { text: Err(format!("cannot read {name}: {err}")), name }],
    };
    entries.retain(|entry| match entry.is_dir() {
        true => recursive,
        false => entry.extension().is_some_and(|extension| EXTENSIONS.iter().any(|it| extension == *it)),
    });
    entries.sort();
    read(&entries, recursive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_read_in_order_and_deeper_ones_only_if_asked() {
        let directory = tempfile::TempDir::with_prefix("ccm-check-").unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir(path("deeper")).unwrap();
        for name in ["b.yaml", "a.json", "c.yml", "notes.txt", "deeper/d.yaml"] {
            fs::write(path(name), name).unwrap();
        }
        let names = |recursive| {
            let inputs = read(&[directory.path().to_owned()], recursive);
            inputs.into_iter().map(|input| input.text.unwrap()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(false), "a.json b.yaml c.yml");
        assert_eq!(names(true), "a.json b.yaml c.yml deeper/d.yaml");
        let error = read(&[path("missing.yaml")], false).remove(0).text.unwrap_err();
        assert!(error.starts_with("cannot read ") && error.contains("missing.yaml: No such file"), "{error}");
    }
}
