//! Files with credentials or configuration that every user of the machine may write.

use std::collections::BTreeSet;
use std::path::PathBuf;

use cloud_provider::{CloudProvider, Environment, Finding, files};

/// Ends of the names of variables that name a file with a credential.
const FILE_VARIABLES: [&str; 2] = ["_FILE", "_CREDENTIALS"];

/// Returns the files that the manager reads, as far as flags, provider and variables name them.
pub(super) fn of(
    given: impl IntoIterator<Item = PathBuf>,
    provider: Option<&dyn CloudProvider>,
    environment: &Environment,
) -> BTreeSet<PathBuf> {
    let names = environment
        .names()
        .filter(|name| FILE_VARIABLES.iter().any(|end| name.ends_with(end)));
    let variables = names
        .filter_map(|name| environment.get(name))
        .map(PathBuf::from);
    let of_provider = provider
        .map(CloudProvider::config_files)
        .unwrap_or_default();
    given
        .into_iter()
        .chain(of_provider)
        .chain(variables)
        .collect()
}

/// Returns a finding for each file that every user of the machine may write.
pub(super) fn check(all: &BTreeSet<PathBuf>) -> Vec<Finding> {
    let open = all.iter().filter(|path| files::is_writable_by_all(path));
    open.map(|path| {
        let text = format!(
            "every user of this machine may write {}, and choose the credential in it",
            path.display()
        );
        Finding::warning("files", text, format!("chmod o-w {}", path.display()))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn file_that_everybody_may_write_is_named() {
        let [config, token] = [(); 2].map(|()| tempfile::NamedTempFile::new().unwrap());
        let environment = Environment::of([
            ("ACME_TOKEN_FILE", token.path().to_str().unwrap()),
            ("HOME", "/"),
        ]);
        let named = |mode: u32| {
            for file in [&config, &token] {
                set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
            }
            let all = of([config.path().to_owned()], None, &environment);
            check(&all)
                .into_iter()
                .map(|finding| finding.text)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(named(0o600), "");
        let text = named(0o666);
        assert!(
            [&config, &token]
                .iter()
                .all(|file| text.contains(file.path().to_str().unwrap())),
            "{text}"
        );
    }
}
