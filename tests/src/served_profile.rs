//! The fake of any cloud on a port of its own, for programs, with an account of the requests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::serve::ListenerExt as _;
use ccm_conformance::CloudProfile;
use ccm_conformance::fault_injector::{Passed, Side};
use parking_lot::{Mutex, MutexGuard};
use tokio::net::TcpListener;

/// The fake of a profile that is served as long as the process runs.
pub struct ServedProfile {
    /// The fake cloud's profile.
    pub cloud: Arc<dyn CloudProfile>,
    environment: Vec<(String, String)>,
    config: Option<PathBuf>,
    requests: Requests,
}

/// Requests by method and path; IDs are replaced.
#[derive(Clone, Default)]
struct Requests(Arc<Mutex<BTreeMap<String, u64>>>);

impl Requests {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.0.lock()
    }
}

/// Returns the path with `{id}` for each segment that has a digit and is no version.
fn template(path: &str) -> String {
    let is_version = |text: &str| {
        text.strip_prefix('v')
            .is_some_and(|text| text.starts_with(|character: char| character.is_ascii_digit()))
    };
    let is_id = |text: &&str| {
        text.contains(|character: char| character.is_ascii_digit()) && !is_version(text)
    };
    let segments = path
        .split('/')
        .map(|part| Some(part).filter(is_id).map_or(part, |_| "{id}"));
    segments.collect::<Vec<_>>().join("/")
}

async fn count(State(requests): State<Requests>, request: Request, next: Next) -> Response {
    let route = format!("{} {}", request.method(), template(request.uri().path()));
    *requests.lock().entry(route).or_default() += 1;
    next.run(request).await
}

impl ServedProfile {
    /// Serves the fake on a free port and writes the configuration file that leads to it, if there is one, into `directory`.
    ///
    /// # Errors
    /// No port, or no file.
    pub async fn start(cloud: Box<dyn CloudProfile>, directory: &Path) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("a port for the cloud")?;
        let settings = cloud.program(&format!("http://{}", listener.local_addr()?));
        let config = settings
            .cloud_config
            .map(|text| (directory.join("cloud-config"), text));
        if let Some((path, text)) = &config {
            std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        let requests = Requests::default();
        let router = cloud
            .router()
            .layer(from_fn_with_state(requests.clone(), count));
        // Without it a small answer may wait for an acknowledgement; it still arrives.
        let listener = listener.tap_io(|stream| _ = stream.set_nodelay(true));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let environment = settings.environment;
        Ok(Self {
            cloud: cloud.into(),
            environment,
            config: config.map(|(path, _)| path),
            requests,
        })
    }

    /// Returns the flags that lead a program to the fake.
    #[must_use]
    pub fn flags(&self) -> Vec<String> {
        let config = self
            .config
            .iter()
            .map(|path| format!("--cloud-config={}", path.display()));
        std::iter::once(format!("--cloud-provider={}", self.cloud.name()))
            .chain(config)
            .collect()
    }

    /// Returns the environment that leads a program to the fake.
    #[must_use]
    pub fn environment(&self) -> &[(String, String)] {
        &self.environment
    }

    /// Returns the requests so far, by method and path. An API with actions has one path only; its fake gives each action
    /// a path of its own.
    #[must_use]
    pub fn requests(&self) -> BTreeMap<String, u64> {
        let by_path = self.requests.lock().clone();
        match self
            .cloud
            .fault_injector()
            .filter(|_| by_path.contains_key("POST /"))
        {
            Some(fake) => fake
                .counts()
                .into_iter()
                .map(|(route, count)| (route, count as u64))
                .collect(),
            None => by_path,
        }
    }

    /// Returns the number of requests so far on a route (`POST /load_balancers`).
    #[must_use]
    pub fn count_on(&self, route: &str) -> u64 {
        let is_on = |name: &str| {
            let (method, target) = name.split_once(' ').unwrap_or_default();
            let method = method.parse().unwrap_or_default();
            Passed {
                side: Side::Cloud,
                method,
                target: target.to_owned(),
            }
            .is_on(route)
        };
        self.requests()
            .iter()
            .filter(|(name, _)| is_on(name))
            .map(|(_, count)| count)
            .sum()
    }

    /// Returns `true` if this path is about load balancers.
    #[must_use]
    pub fn is_of_load_balancers(&self, path: &str) -> bool {
        let api = self.cloud.api();
        let name = |route: &'static str| route.rsplit('/').find(|part| !part.starts_with('{'));
        [api.create, api.load_balancers]
            .into_iter()
            .filter_map(name)
            .any(|name| path.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::template;

    #[test]
    fn ids_are_replaced_and_versions_are_not() {
        assert_eq!(
            template("/v1/load-balancers/lb-000007"),
            "/v1/load-balancers/{id}"
        );
        assert_eq!(
            template("/compute/v2.1/servers/detail"),
            "/compute/v2.1/servers/detail"
        );
    }
}
