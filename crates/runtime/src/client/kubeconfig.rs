//! Reads a kubeconfig.
//!
//! kube's own function instantiates the YAML parser for each type in the file, which adds 0.4 MB to the program. Here
//! the file is converted to JSON first.

use std::path::{Path, PathBuf};

use kube::config::Kubeconfig;

/// Errors of a kubeconfig. They repeat no content of the file, which may be secret (INV-5).
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigProblem {
    /// The file cannot be read.
    #[error("failed to read it: {0}")]
    Unreadable(std::io::Error),
    /// The file is not YAML.
    #[error("it is no valid kubeconfig{0}")]
    NoYaml(String),
    /// The file is YAML, but not a kubeconfig.
    #[error("it is no valid kubeconfig: {0}")]
    OtherForm(String),
}

/// Reads a kubeconfig. Relative paths in it are resolved against its directory, as in kubectl.
///
/// # Errors
/// [`KubeconfigProblem`].
pub fn read_kubeconfig(path: &Path) -> Result<Kubeconfig, KubeconfigProblem> {
    let text =
        cloud_provider::files::read_to_string(path).map_err(KubeconfigProblem::Unreadable)?;
    if cloud_provider::files::is_writable_by_all(path) {
        tracing::warn!(path = %path.display(), "every user of this machine may write the kubeconfig; use chmod o-w");
    }
    let mut file = parse(&text)?;
    let Some(directory) = path.parent() else {
        return Ok(file);
    };
    let resolve = |named: &mut Option<String>| {
        if let Some(path) = named
            && !path.is_empty()
            && Path::new(path).is_relative()
        {
            *path = directory
                .join(PathBuf::from(&path))
                .to_string_lossy()
                .into_owned();
        }
    };
    for cluster in file
        .clusters
        .iter_mut()
        .filter_map(|named| named.cluster.as_mut())
    {
        resolve(&mut cluster.certificate_authority);
    }
    for user in file
        .auth_infos
        .iter_mut()
        .filter_map(|named| named.auth_info.as_mut())
    {
        for named in [
            &mut user.client_certificate,
            &mut user.client_key,
            &mut user.token_file,
        ] {
            resolve(named);
        }
        // A bare name is searched in the PATH.
        if let Some(exec) = user.exec.as_mut().filter(|exec| {
            exec.command
                .as_ref()
                .is_some_and(|command| command.contains('/'))
        }) {
            resolve(&mut exec.command);
        }
    }
    Ok(file)
}

/// Returns the files on which a context (`None`: the current one) depends: its cluster's authority, and, if
/// `with_user`, its user's certificate, key and token.
pub(super) fn named_files(
    file: &Kubeconfig,
    context: Option<&str>,
    with_user: bool,
) -> impl Iterator<Item = PathBuf> {
    let wanted = context.or(file.current_context.as_deref());
    let context = file
        .contexts
        .iter()
        .find(|entry| Some(&*entry.name) == wanted)
        .and_then(|entry| entry.context.as_ref());
    let cluster = context.map(|entry| entry.cluster.as_str());
    let cluster = file
        .clusters
        .iter()
        .find(|other_cluster| Some(&*other_cluster.name) == cluster)
        .and_then(|cluster| cluster.cluster.as_ref());
    let user = context
        .and_then(|entry| entry.user.as_deref())
        .filter(|_| with_user);
    let user = file
        .auth_infos
        .iter()
        .find(|auth_info| Some(&*auth_info.name) == user)
        .and_then(|user| user.auth_info.as_ref());
    let authority = cluster.and_then(|cluster| cluster.certificate_authority.clone());
    let of_user = user.map(|auth_info| {
        [
            auth_info.client_certificate.clone(),
            auth_info.client_key.clone(),
            auth_info.token_file.clone(),
        ]
    });
    of_user
        .into_iter()
        .flatten()
        .chain([authority])
        .flatten()
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}

fn parse(text: &str) -> Result<Kubeconfig, KubeconfigProblem> {
    if text.trim().is_empty() {
        return Ok(Kubeconfig::default());
    }
    let value: serde_json::Value = serde_saphyr::from_str(text).map_err(|error| {
        let location = error
            .location()
            .map(|at| format!(" in line {}, column {}", at.line(), at.column()));
        KubeconfigProblem::NoYaml(location.unwrap_or_default())
    })?;
    serde_json::from_value(value)
        .map_err(|error| KubeconfigProblem::OtherForm(without_values(&error.to_string())))
}

/// Removes values from serde's messages, such as "invalid type: string "s3cret", expected struct ExecConfig".
fn without_values(problem: &str) -> String {
    match problem.rsplit_once(", expected ") {
        Some((_, expected)) => format!("a value in it is not what belongs there, {expected}"),
        None if problem.starts_with("missing field") => problem.to_owned(),
        None => "a value in it is not what belongs there".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_user(user: &str) -> String {
        format!(
            "kind: Config\nusers:\n- name: u\n  user:\n    password: s3cr3t\n{user}\n    client-key-data: s3cr3t\n"
        )
    }

    #[test]
    fn the_lines_around_a_mistake_are_not_shown() {
        for (mistake, expected_text) in [
            ("    bad: [", " in line "),
            ("\t- x", " in line "),
            ("    exec: 5", "ExecConfig"),
            ("    token: [s3cr3t]", "a string"),
        ] {
            let problem = parse(&with_user(mistake)).unwrap_err().to_string();
            assert!(
                problem.contains(expected_text)
                    && !problem.contains("s3cr3t")
                    && !problem.contains('\n'),
                "{problem}"
            );
        }
        let problem = parse("users:\n- user: {}\n").unwrap_err().to_string();
        assert_eq!(problem, "it is no valid kubeconfig: missing field `name`");
    }

    #[test]
    fn files_are_beside_it_and_plugins_in_the_path() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        let text = "clusters: [{name: c, cluster: {server: https://a, certificate-authority: ca.pem}}]\nusers:\n- name: u\n  user: {client-certificate: /abs.pem, client-key: pki/key.pem, tokenFile: token, exec: {command: ./plugin}}\n- {name: v, user: {exec: {command: aws}}}\n";
        std::fs::write(&path, text).unwrap();
        let file = read_kubeconfig(&path).unwrap();
        let at = |name: &str| Some(directory.path().join(name).to_string_lossy().into_owned());
        assert_eq!(
            file.clusters[0]
                .cluster
                .as_ref()
                .unwrap()
                .certificate_authority,
            at("ca.pem")
        );
        let user = file.auth_infos[0].auth_info.as_ref().unwrap();
        assert_eq!(user.client_certificate.as_deref(), Some("/abs.pem"));
        assert_eq!(
            (&user.client_key, &user.token_file),
            (&at("pki/key.pem"), &at("token"))
        );
        assert_eq!(user.exec.as_ref().unwrap().command, at("./plugin"));
        let other = file.auth_infos[1]
            .auth_info
            .as_ref()
            .unwrap()
            .exec
            .as_ref()
            .unwrap();
        assert_eq!(other.command.as_deref(), Some("aws"));
        assert!(matches!(
            read_kubeconfig(&directory.path().join("none")),
            Err(KubeconfigProblem::Unreadable(_))
        ));
        assert_eq!(parse(" \n").unwrap().clusters.len(), 0);
    }
}
