//! SHA-256 sums of all artefacts, in the format of sha256sum.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest as _, Sha256};

use crate::tarball::{self, Entry};
use crate::{read_text, write};

/// Name of the file with the sums.
pub(crate) const FILE: &str = "SHA256SUMS";

/// Returns the SHA-256 sum in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .fold(String::new(), |mut text, byte| {
            _ = write!(text, "{byte:02x}");
            text
        })
}

/// Writes the sums of all files in the folder, sorted by path.
pub(super) fn write_all(folder: &Path) -> Result<()> {
    let text = sums(folder)?;
    write(&folder.join(FILE), text)
}

fn sums(folder: &Path) -> Result<String> {
    let mut text = String::new();
    for (path, entry) in tarball::read_folder(folder)? {
        if let Entry::File(content, _) = entry
            && path != FILE
        {
            _ = writeln!(text, "{}  {path}", sha256(&content));
        }
    }
    Ok(text)
}

/// Reads the sums of a folder, as pairs of path and sum.
pub(crate) fn read(folder: &Path) -> Result<Vec<(String, String)>> {
    let lines = read_text(&folder.join(FILE))?;
    let pair = |line: &str| {
        let (sum, path) = line
            .split_once("  ")
            .with_context(|| format!("{FILE}: {line:?} is not a sum and a path"))?;
        Ok((path.to_owned(), sum.to_owned()))
    };
    lines.lines().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_all_files_are_listed_by_path() {
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("image/blob"), "abc").unwrap();
        write(&folder.path().join("archive"), "").unwrap();
        write_all(folder.path()).unwrap();
        // A second time, the file of the sums is there.
        write_all(folder.path()).unwrap();
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let expected = [("archive", empty), ("image/blob", abc)];
        let expected = expected.map(|(path, sum)| (path.to_owned(), sum.to_owned()));
        assert_eq!(read(folder.path()).unwrap(), expected);
    }
}
