//! Tar files that depend on contents alone: sorted, owned by root, with the time of the commit.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::Path;

use anyhow::{Context, Result};
use flate2::read::MultiGzDecoder;
use flate2::{Compression, GzBuilder};
use tar::{Archive, Builder, EntryType, Header};

/// Entry of a tar file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A folder without its entries.
    Folder,
    /// A file with its content, and `true` if it is a program.
    File(Vec<u8>, bool),
    /// A symbolic link with its destination.
    Link(String),
}

/// Entries by their paths, without a leading slash.
pub(crate) type Tree = BTreeMap<String, Entry>;

/// Reads a folder. Of permissions, only those of execution count.
pub(crate) fn read_folder(folder: &Path) -> Result<Tree> {
    let mut tree = Tree::new();
    add_folder(folder, "", &mut tree)?;
    Ok(tree)
}

fn add_folder(folder: &Path, prefix: &str, tree: &mut Tree) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let failed = || format!("cannot read {}", folder.display());
    for item in std::fs::read_dir(folder).with_context(failed)? {
        let item = item.with_context(failed)?;
        let name = item
            .file_name()
            .into_string()
            .ok()
            .with_context(|| format!("{}: a name is not UTF-8", folder.display()))?;
        let path = format!("{prefix}{name}");
        let kind = item.file_type().with_context(failed)?;
        if kind.is_symlink() {
            let destination = std::fs::read_link(item.path()).with_context(failed)?;
            tree.insert(
                path,
                Entry::Link(destination.to_string_lossy().into_owned()),
            );
        } else if kind.is_dir() {
            add_folder(&item.path(), &format!("{path}/"), tree)?;
            tree.insert(path, Entry::Folder);
        } else {
            let is_program =
                item.metadata().with_context(failed)?.permissions().mode() & 0o111 != 0;
            tree.insert(path, Entry::File(crate::read(&item.path())?, is_program));
        }
    }
    Ok(())
}

/// Returns the tar file of these entries, all of them with this time in seconds.
pub(crate) fn tar(tree: &Tree, time: u64) -> Result<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    for (path, entry) in tree {
        let mut header = Header::new_gnu();
        header.set_mtime(time);
        header.set_uid(0);
        header.set_gid(0);
        let (kind, mode) = match entry {
            Entry::Folder => (EntryType::Directory, 0o755),
            Entry::File(_, true) => (EntryType::Regular, 0o755),
            Entry::File(_, false) => (EntryType::Regular, 0o644),
            Entry::Link(_) => (EntryType::Symlink, 0o777),
        };
        header.set_entry_type(kind);
        header.set_mode(mode);
        let added = match entry {
            Entry::Folder => {
                header.set_size(0);
                builder.append_data(&mut header, format!("{path}/"), std::io::empty())
            }
            Entry::File(content, _) => {
                header.set_size(content.len() as u64);
                builder.append_data(&mut header, path, content.as_slice())
            }
            Entry::Link(destination) => {
                header.set_size(0);
                builder.append_link(&mut header, path, destination)
            }
        };
        added.with_context(|| format!("cannot add {path} to a tar file"))?;
    }
    builder.into_inner().context("cannot end a tar file")
}

/// Compresses bytes without a time and a name.
pub(crate) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    // The system that compressed is "unknown", which is the same on all.
    let mut encoder = GzBuilder::new()
        .mtime(0)
        .operating_system(255)
        .write(Vec::new(), Compression::best());
    encoder.write_all(bytes).context("cannot compress")?;
    encoder.finish().context("cannot compress")
}

/// Returns the bytes that were compressed.
pub(crate) fn gunzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut plain = Vec::new();
    MultiGzDecoder::new(bytes)
        .read_to_end(&mut plain)
        .context("cannot decompress")?;
    Ok(plain)
}

/// Reads the entries of a tar file.
pub(crate) fn read_tar(bytes: &[u8]) -> Result<Tree> {
    let mut tree = Tree::new();
    for item in Archive::new(bytes)
        .entries()
        .context("cannot read a tar file")?
    {
        let mut item = item.context("cannot read a tar file")?;
        let path = item
            .path()
            .context("cannot read a path in a tar file")?
            .to_string_lossy()
            .into_owned();
        let path = path
            .trim_start_matches("./")
            .trim_end_matches('/')
            .to_owned();
        let entry = match item.header().entry_type() {
            EntryType::Directory => Entry::Folder,
            EntryType::Symlink => {
                let link = item
                    .link_name()
                    .context("cannot read a link in a tar file")?
                    .unwrap_or_default();
                Entry::Link(link.to_string_lossy().into_owned())
            }
            _ => {
                let is_program = item.header().mode().unwrap_or_default() & 0o111 != 0;
                let mut content = Vec::new();
                item.read_to_end(&mut content)
                    .with_context(|| format!("cannot read {path} in a tar file"))?;
                Entry::File(content, is_program)
            }
        };
        if !path.is_empty() {
            tree.insert(path, entry);
        }
    }
    Ok(tree)
}

/// Writes entries into a folder.
pub(crate) fn unpack(tree: &Tree, folder: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    for (path, entry) in tree {
        let to = folder.join(path);
        match entry {
            Entry::Folder => std::fs::create_dir_all(&to)
                .with_context(|| format!("cannot create {}", to.display()))?,
            Entry::File(content, is_program) => {
                crate::write(&to, content)?;
                let mode = if *is_program { 0o755 } else { 0o644 };
                std::fs::set_permissions(&to, std::fs::Permissions::from_mode(mode))
                    .with_context(|| format!("cannot change the mode of {}", to.display()))?;
            }
            Entry::Link(destination) => {
                std::os::unix::fs::symlink(destination, &to)
                    .with_context(|| format!("cannot link {}", to.display()))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        Tree::from([
            ("bin".to_owned(), Entry::Folder),
            (
                "bin/program".to_owned(),
                Entry::File(b"code".to_vec(), true),
            ),
            ("bin/name".to_owned(), Entry::Link("program".to_owned())),
            ("text".to_owned(), Entry::File(b"words".to_vec(), false)),
        ])
    }

    #[test]
    fn folders_with_equal_contents_make_equal_tar_files() {
        use std::os::unix::fs::PermissionsExt as _;
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        for folder in &folders {
            unpack(&tree(), folder.path()).unwrap();
        }
        // Owner's permissions and times of a checkout differ.
        let text = folders[1].path().join("text");
        std::fs::set_permissions(&text, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::File::options()
            .append(true)
            .open(&text)
            .unwrap()
            .set_modified(std::time::UNIX_EPOCH)
            .unwrap();
        let packed = folders
            .map(|folder| gzip(&tar(&read_folder(folder.path()).unwrap(), 7).unwrap()).unwrap());
        assert_eq!(packed[0], packed[1]);
    }

    #[test]
    fn tar_file_has_the_entries_and_the_time_it_was_made_from() {
        let packed = tar(&tree(), 1_764_374_400).unwrap();
        assert_eq!(read_tar(&packed).unwrap(), tree());
        let mut archive = Archive::new(packed.as_slice());
        for item in archive.entries().unwrap() {
            let item = item.unwrap();
            let header = item.header();
            assert_eq!(
                (
                    header.mtime().unwrap(),
                    header.uid().unwrap(),
                    header.gid().unwrap()
                ),
                (1_764_374_400, 0, 0)
            );
        }
        assert_ne!(packed, tar(&tree(), 0).unwrap(), "the time counts");
    }

    #[test]
    fn compressed_bytes_name_no_time_and_no_system() {
        let packed = gzip(b"words").unwrap();
        assert_eq!((&packed[4..8], packed[9]), (&[0; 4][..], 255));
        assert_eq!(gunzip(&packed).unwrap(), b"words");
    }
}
