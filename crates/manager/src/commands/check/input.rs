//! The input of `check`: files, directories and standard input.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use cloud_provider::files::read_limited;

/// Extensions of the files that are read from directories.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];
/// Largest size of a file in bytes, so that a device or a pipe without an end does not fill the memory. All Services of
/// a cluster with 10,000 of them have some 30 MiB.
const LARGEST: u64 = 64 << 20;

/// The content of a file, or the reason why the file cannot be read.
pub(super) struct Input {
    /// Name of the file in findings.
    pub(super) name: String,
    pub(super) text: Result<String, String>,
}

/// Reads files, the files of directories in alphabetical order, and standard input for `-`. Each file is read when the
/// iterator gets to it, so that only one is in memory.
pub(super) fn read(paths: &[PathBuf], recursive: bool) -> impl Iterator<Item = Input> + use<> {
    let files: Vec<_> = paths
        .iter()
        .flat_map(|path| files(path, recursive))
        .collect();
    files.into_iter().map(|file| match file {
        Ok(path) => read_one(&path),
        Err((path, error)) => unreadable(&path, &error),
    })
}

/// A directory that cannot be listed.
type Unlistable = (PathBuf, io::Error);

/// Returns the files that a path names. Symbolic links to directories in a directory are not followed, because they may
/// lead in circles.
fn files(path: &Path, recursive: bool) -> Vec<Result<PathBuf, Unlistable>> {
    if !path.is_dir() {
        return vec![Ok(path.to_owned())];
    }
    let entries = fs::read_dir(path).and_then(|entries| {
        entries
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<Vec<_>, _>>()
    });
    let mut entries = match entries {
        Ok(entries) => entries,
        Err(error) => return vec![Err((path.to_owned(), error))],
    };
    entries.retain(|entry| match entry.is_dir() {
        true => recursive && !entry.is_symlink(),
        false => entry.extension().is_some_and(|extension| {
            EXTENSIONS
                .iter()
                .any(|other_extension| extension == *other_extension)
        }),
    });
    entries.sort();
    entries
        .iter()
        .flat_map(|entry| files(entry, recursive))
        .collect()
}

fn read_one(path: &Path) -> Input {
    if path.as_os_str() == "-" {
        let text =
            text(io::stdin()).map_err(|error| format!("cannot read standard input: {error}"));
        return Input {
            name: "stdin".to_owned(),
            text,
        };
    }
    match File::open(path).and_then(text) {
        Ok(text) => Input {
            name: path.display().to_string(),
            text: Ok(text),
        },
        Err(error) => unreadable(path, &error),
    }
}

fn text(from: impl Read) -> io::Result<String> {
    String::from_utf8(read_limited(from, LARGEST)?).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "the file is not valid UTF-8 text",
        )
    })
}

fn unreadable(path: &Path, error: &io::Error) -> Input {
    let name = path.display().to_string();
    Input {
        text: Err(format!("cannot read {name}: {error}")),
        name,
    }
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
            inputs
                .map(|input| input.text.unwrap())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(names(false), "a.json b.yaml c.yml");
        assert_eq!(names(true), "a.json b.yaml c.yml deeper/d.yaml");
        let error = error(&path("missing.yaml"));
        assert!(
            error.starts_with("cannot read ") && error.contains("missing.yaml: No such file"),
            "{error}"
        );
    }

    fn error(path: &Path) -> String {
        read(&[path.to_owned()], false)
            .next()
            .unwrap()
            .text
            .unwrap_err()
    }

    #[test]
    fn file_without_an_end_is_refused() {
        assert_eq!(
            error(Path::new("/dev/zero")),
            "cannot read /dev/zero: the file is larger than 64 MiB"
        );
        let endless = text(io::repeat(b'#')).unwrap_err();
        assert_eq!(endless.to_string(), "the file is larger than 64 MiB");
        assert_eq!(
            text(io::repeat(b'#').take(5 << 20)).unwrap().len(),
            5 << 20,
            "a pipe with an end"
        );
    }

    #[test]
    fn directory_that_links_to_itself_is_read_once() {
        let directory = tempfile::TempDir::with_prefix("ccm-check-").unwrap();
        fs::write(directory.path().join("a.yaml"), "a").unwrap();
        for name in ["one", "two"] {
            std::os::unix::fs::symlink(directory.path(), directory.path().join(name)).unwrap();
        }
        assert_eq!(read(&[directory.path().to_owned()], true).count(), 1);
    }
}
