//! The environment of the process and the API server's address, for explanations of connection errors.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;
use runtime::client::{ClientOptions, read_kubeconfig, shown_url};

/// File with the addresses of the DNS servers.
const RESOLVER_CONFIGURATION: &str = "/etc/resolv.conf";

/// The source of the API server's address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// The environment variables of the Pod, `KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT`.
    #[default]
    Pod,
    /// A candidate of `--api-server-candidates`.
    Candidate,
    /// The kubeconfig at this path.
    Kubeconfig(PathBuf),
    /// The flag `--master` or the environment variable `KUBERNETES_MASTER`.
    Master,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod => f.write_str("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT"),
            Self::Candidate => f.write_str("--api-server-candidates"),
            Self::Kubeconfig(path) => write!(f, "the kubeconfig {}", path.display()),
            Self::Master => f.write_str("--master"),
        }
    }
}

/// The environment of the process and the API server's address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Situation {
    /// URL of the API server, without user and password; empty if unknown.
    pub server: String,
    /// Source of the URL.
    pub origin: Origin,
    /// DNS servers of this machine or Pod.
    pub resolvers: Vec<String>,
    /// Time for which the request was retried; zero if it was sent once.
    pub tried_for: Duration,
}

impl Situation {
    /// Returns the environment for these options, read from files and environment variables. Unreadable values are left
    /// out, because an incomplete explanation is better than none.
    #[must_use]
    pub fn find(options: &ClientOptions) -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let pod = || {
            let host = variable("KUBERNETES_SERVICE_HOST")?;
            let port = variable("KUBERNETES_SERVICE_PORT")?;
            let host = if host.contains(':') {
                format!("[{host}]")
            } else {
                host
            };
            Some(format!("https://{host}:{port}"))
        };
        let (server, origin) = match (&options.master, &options.kubeconfig) {
            (Some(master), _) => (Some(master.clone()), Origin::Master),
            (None, Some(path)) => (
                server_in(path, options.context.as_deref()),
                Origin::Kubeconfig(path.clone()),
            ),
            (None, None) => match (pod(), variable("KUBERNETES_MASTER")) {
                (Some(url), _) => match options.api_servers.in_use() {
                    Some(used) if !is_same(&used, &url) => (Some(used), Origin::Candidate),
                    _ => (Some(url), Origin::Pod),
                },
                (None, Some(url)) => (Some(url), Origin::Master),
                (None, None) => (None, Origin::Pod),
            },
        };
        let configuration = std::fs::read_to_string(RESOLVER_CONFIGURATION).unwrap_or_default();
        Self {
            server: server.map(|url| shown_url(&url)).unwrap_or_default(),
            origin,
            resolvers: resolvers(&configuration),
            tried_for: Duration::ZERO,
        }
    }

    /// Returns the same environment with the time for which the request was retried.
    #[must_use]
    pub fn tried_for(self, tried_for: Duration) -> Self {
        Self { tried_for, ..self }
    }

    /// Returns the server's host without brackets; empty if unknown.
    #[must_use]
    pub fn host(&self) -> String {
        let uri = self.server.parse::<Uri>().ok();
        let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
        host.trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned()
    }
}

/// Returns `true` if both are the same server; the port of HTTPS may be left out.
fn is_same(one: &str, other: &str) -> bool {
    one.trim_end_matches(":443") == other.trim_end_matches(":443")
}

fn server_in(path: &Path, context: Option<&str>) -> Option<String> {
    let file = read_kubeconfig(path).ok()?;
    let context = context.or(file.current_context.as_deref())?;
    let context = file
        .contexts
        .iter()
        .find(|entry| entry.name == context)?
        .context
        .as_ref()?;
    let cluster = file
        .clusters
        .iter()
        .find(|cluster| cluster.name == context.cluster)?;
    cluster.cluster.as_ref()?.server.clone()
}

/// Returns the addresses in the `nameserver` lines.
fn resolvers(configuration: &str) -> Vec<String> {
    let servers = configuration.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == "nameserver")
            .then(|| words.next())
            .flatten()
    });
    servers.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolvers_are_the_nameserver_lines() {
        let text = "# nameserver 1.1.1.1\nsearch a b\nnameserver 10.96.0.10\n nameserver fd00::a  # v6\nnameserver\noptions ndots:5\n";
        assert_eq!(resolvers(text), ["10.96.0.10", "fd00::a"]);
    }

    #[test]
    fn the_master_goes_before_the_kubeconfig_and_the_host_has_no_brackets() {
        let options = ClientOptions {
            master: Some("https://[fd00::1]:6443".into()),
            kubeconfig: Some("/nowhere".into()),
            ..ClientOptions::default()
        };
        let situation = Situation::find(&options);
        assert_eq!(
            (situation.origin.clone(), situation.host().as_str()),
            (Origin::Master, "fd00::1")
        );
        let secret = ClientOptions {
            master: Some("https://admin:s3cr3t@10.0.0.1:6443".into()),
            ..options.clone()
        };
        assert_eq!(Situation::find(&secret).server, "https://10.0.0.1:6443");
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "clusters: [{name: c, cluster: {server: 'https://admin:s3cr3t@10.0.0.1:6443'}}]\n\
                    contexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n";
        std::fs::write(file.path(), text).unwrap();
        let secret = ClientOptions {
            master: None,
            kubeconfig: Some(file.path().into()),
            ..options.clone()
        };
        assert_eq!(Situation::find(&secret).server, "https://10.0.0.1:6443");
        let unread = Situation::find(&ClientOptions {
            master: None,
            ..options
        });
        assert_eq!((unread.server.as_str(), unread.host().as_str()), ("", ""));
    }
}
