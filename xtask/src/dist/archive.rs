//! Archives for one architecture: the binary, licences, completions and the manual page.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::Architecture;
use crate::project::{PROGRAM, Project};
use crate::tarball::{Entry, Tree};
use crate::{program, read, read_text};

/// Name of the plugin of kubectl, which is a link to the program.
const PLUGIN: &str = "kubectl-ccm";
/// Completions by shell, with the names under which the shells look for them.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "completions/cloud-controller-manager.bash"),
    ("zsh", "completions/_cloud-controller-manager"),
    ("fish", "completions/cloud-controller-manager.fish"),
];

/// Returns the name of the folder in an archive, which is the archive's name without its ending.
pub(crate) fn folder(version: &str, architecture: Architecture) -> String {
    format!("{PROGRAM}-{version}-linux-{architecture}")
}

/// Returns the name of an archive.
pub(crate) fn name(version: &str, architecture: Architecture) -> String {
    format!("{}.tar.gz", folder(version, architecture))
}

/// Returns the documents that the program prints, by their path in the archive.
pub(super) fn documents(binary: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let printed = |arguments: &[&str]| program::output(Command::new(binary).args(arguments));
    let mut documents = vec![(
        format!("man/man8/{PROGRAM}.8"),
        printed(&["man"])?.into_bytes(),
    )];
    for (shell, path) in COMPLETIONS {
        documents.push((
            path.to_owned(),
            printed(&["completion", shell])?.into_bytes(),
        ));
    }
    Ok(documents)
}

/// Returns the entries of an archive.
pub(super) fn tree(
    project: &Project,
    architecture: Architecture,
    binary: &Path,
    documents: &[(String, Vec<u8>)],
    licences: &[(&str, Vec<u8>)],
) -> Result<Tree> {
    let folder = folder(&project.version, architecture);
    let install = install_text(
        &read_text(&project.root.join("deploy/archive/INSTALL.md"))?,
        project,
    );
    let mut tree = Tree::from([
        (folder.clone(), Entry::Folder),
        (
            format!("{folder}/{PROGRAM}"),
            Entry::File(read(binary)?, true),
        ),
        (
            format!("{folder}/{PLUGIN}"),
            Entry::Link(PROGRAM.to_owned()),
        ),
        (
            format!("{folder}/INSTALL.md"),
            Entry::File(install.into_bytes(), false),
        ),
        (
            format!("{folder}/LICENSE"),
            Entry::File(read(&project.root.join("LICENSE"))?, false),
        ),
    ]);
    let texts = licences
        .iter()
        .map(|(path, text)| ((*path).to_owned(), text.clone()));
    for (path, text) in texts.chain(documents.iter().cloned()) {
        let parts: Vec<&str> = path.split('/').collect();
        for depth in 1..parts.len() {
            tree.insert(
                format!("{folder}/{}", parts[..depth].join("/")),
                Entry::Folder,
            );
        }
        tree.insert(format!("{folder}/{path}"), Entry::File(text, false));
    }
    Ok(tree)
}

/// Fills in the version and the commit.
fn install_text(template: &str, project: &Project) -> String {
    template
        .replace("@VERSION@", &project.version)
        .replace("@REVISION@", project.shown_revision())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_has_the_program_its_licences_and_its_documents() {
        let project = Project {
            version: "1.2.3".to_owned(),
            revision: "abc".to_owned(),
            ..Project::of_this_crate()
        };
        let binary = project.root.join("LICENSE");
        let documents = [("man/man8/x.8".to_owned(), b"manual".to_vec())];
        let tree = tree(
            &project,
            Architecture::Arm64,
            &binary,
            &documents,
            &[("T", b"texts".to_vec())],
        )
        .unwrap();
        let folder = "cloud-controller-manager-1.2.3-linux-arm64";
        let paths: Vec<_> = tree
            .keys()
            .map(|path| path.strip_prefix(folder).unwrap().trim_start_matches('/'))
            .collect();
        let expected = [
            "",
            "INSTALL.md",
            "LICENSE",
            "T",
            PROGRAM,
            PLUGIN,
            "man",
            "man/man8",
            "man/man8/x.8",
        ];
        assert_eq!(paths, expected);
        let Entry::File(text, false) = &tree[&format!("{folder}/INSTALL.md")] else {
            panic!("no file")
        };
        let text = String::from_utf8_lossy(text);
        assert!(
            text.contains("1.2.3") && text.contains("abc") && !text.contains('@'),
            "{text}"
        );
    }
}
