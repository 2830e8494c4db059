//! Flags of authorization of callers.

use clap::Args;
use runtime::go_duration::GoDuration;
use serving::options::AuthorizationOptions;

use super::values::{List, PathFlag, duration, list, path};

/// Flags of authorization of callers.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Authorization")]
pub struct AuthorizationFlags {
    /// Kubeconfig for authorizing callers; the Pod's service account if empty. --kubeconfig is not used for this.
    #[arg(long, default_value = "", value_parser = path())]
    pub authorization_kubeconfig: PathFlag,
    /// Paths that are allowed without authorization; a * at the end matches any suffix. A value replaces the default,
    /// so include /healthz if probes need it.
    #[arg(long, default_values_t = [List(AuthorizationOptions::default().always_allow_paths)], value_parser = list)]
    pub authorization_always_allow_paths: Vec<List>,
    /// Time for which the answer that a caller is allowed is cached.
    #[arg(long, default_value_t = AuthorizationOptions::default().allowed_ttl.into(), value_parser = duration)]
    pub authorization_webhook_cache_authorized_ttl: GoDuration,
    /// Time for which the answer that a caller is denied is cached.
    #[arg(long, default_value_t = AuthorizationOptions::default().denied_ttl.into(), value_parser = duration)]
    pub authorization_webhook_cache_unauthorized_ttl: GoDuration,
}

impl AuthorizationFlags {
    pub(super) fn options(&self) -> AuthorizationOptions {
        let AuthorizationFlags {
            authorization_kubeconfig,
            authorization_always_allow_paths,
            authorization_webhook_cache_authorized_ttl,
            authorization_webhook_cache_unauthorized_ttl,
        } = self;
        AuthorizationOptions {
            kubeconfig: authorization_kubeconfig.to_path_buf(),
            always_allow_paths: List::owned(authorization_always_allow_paths),
            allowed_ttl: authorization_webhook_cache_authorized_ttl.to_std_or_zero(),
            denied_ttl: authorization_webhook_cache_unauthorized_ttl.to_std_or_zero(),
        }
    }

    fn paths(&self) -> Vec<String> {
        List::owned(&self.authorization_always_allow_paths)
    }

    pub(super) fn validate(&self) -> Vec<String> {
        let misplaced = |path: &str| path.find('*').is_some_and(|star| star + 1 != path.len());
        let text = |path: &str| {
            format!(
                "only trailing * allowed in {path:?}; write --authorization-always-allow-paths as in /healthz/*"
            )
        };
        self.paths()
            .iter()
            .map(|path| path.strip_prefix('/').unwrap_or(path))
            .filter(|path| misplaced(path))
            .map(text)
            .collect()
    }

    /// Returns a warning if anonymous liveness probes of `/healthz` are refused.
    pub(super) fn warnings(&self) -> Option<String> {
        let allows = |pattern: &String| {
            let pattern = pattern.trim_start_matches('/');
            pattern
                .strip_suffix('*')
                .map_or(pattern == "healthz", |start| "healthz".starts_with(start))
        };
        let paths = self.paths();
        (!paths.iter().any(allows)).then(|| {
            format!(
                "--authorization-always-allow-paths={} is without /healthz: liveness probes will get 403; add /healthz, \
                 /readyz and /livez to the list",
                paths.join(",")
            )
        })
    }
}
