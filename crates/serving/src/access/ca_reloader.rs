//! Keeping the authorities up to date: files and the ConfigMap (APP-114, APP-122).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::AccessError;
use super::ca_bundle::CaBundle;
use super::client_cas::{ClientCas, Proxies};
use super::lookup::{self, Found, LookupError};
use crate::options::AuthenticationOptions;

/// Interval at which the files are read.
const PERIOD: Duration = Duration::from_secs(10);

/// Sources of the certificate authorities (files and ConfigMap) and their last content.
pub(super) struct CaReloader {
    options: AuthenticationOptions,
    client: Option<Client>,
    client_cas: ClientCas,
    sources: Mutex<Sources>,
}

struct Sources {
    client_file: Option<File>,
    proxy_file: Option<File>,
    /// Content of the ConfigMap when it was last read, to detect changes.
    found: Found,
    found_clients: Option<Arc<CaBundle>>,
    found_proxies: Option<Proxies>,
}

struct File {
    path: PathBuf,
    pem: Vec<u8>,
    bundle: Arc<CaBundle>,
    refused: bool,
}

impl File {
    fn open(path: &Path) -> Result<Self, String> {
        let pem = cloud_provider::files::read(path).map_err(|error| error.to_string())?;
        let bundle = Arc::new(CaBundle::parse(&pem)?);
        Ok(Self {
            path: path.to_owned(),
            pem,
            bundle,
            refused: false,
        })
    }

    /// Reads the file again and returns `true` if its content changed. An invalid file is logged once, and the old
    /// content stays in use.
    fn refresh(&mut self) -> bool {
        if cloud_provider::files::read(&self.path).is_ok_and(|pem| pem == self.pem) {
            self.refused = false;
            return false;
        }
        match Self::open(&self.path) {
            Ok(file) => {
                tracing::info!(path = %self.path.display(), "client CA bundle reloaded");
                *self = file;
                true
            }
            Err(problem) => {
                if !self.refused {
                    tracing::warn!(path = %self.path.display(), problem, "the new CA bundle cannot be used, keeping the old one");
                }
                self.refused = true;
                false
            }
        }
    }
}

impl CaReloader {
    pub(super) fn new(
        options: AuthenticationOptions,
        client: Option<Client>,
        client_cas: ClientCas,
    ) -> Result<Self, AccessError> {
        let open = |path: &Option<PathBuf>, what, flag| match path {
            None => Ok(None),
            Some(path) => File::open(path)
                .map(Some)
                .map_err(|problem| AccessError::Authority {
                    what,
                    path: path.clone(),
                    problem,
                    flag,
                }),
        };
        let sources = Sources {
            client_file: open(&options.client_ca_file, "client CA", "--client-ca-file")?,
            proxy_file: open(
                &options.request_header.client_ca_file,
                "request-header client CA",
                "--requestheader-client-ca-file",
            )?,
            found: Found::default(),
            found_clients: None,
            found_proxies: None,
        };
        let ca_reloader = Self {
            options,
            client,
            client_cas,
            sources: Mutex::new(sources),
        };
        ca_reloader.publish(&ca_reloader.sources());
        Ok(ca_reloader)
    }

    pub(super) fn client_cas(&self) -> ClientCas {
        self.client_cas.clone()
    }

    /// Returns the client for the ConfigMap, unless the lookup is disabled or both of its parts are given as files.
    fn looks_up(&self) -> Option<&Client> {
        let complete = self.options.client_ca_file.is_some()
            && self.options.request_header.client_ca_file.is_some();
        self.client
            .as_ref()
            .filter(|_| !self.options.skip_lookup && !complete)
    }

    pub(super) async fn look_up(&self, shutdown: &CancellationToken) -> Result<(), LookupError> {
        let Some(client) = self.looks_up() else {
            return Ok(());
        };
        if self.options.tolerate_lookup_failure {
            // A single attempt, so that the configuration is present from the start if possible; the watch continues
            // to try (D-15).
            let api = Api::<ConfigMap>::namespaced(client.clone(), lookup::NAMESPACE);
            let answer = tokio::select! {
                () = shutdown.cancelled() => return Err(LookupError::Stopped),
                answer = api.get_opt(lookup::NAME) => answer,
            };
            match answer {
                Ok(found) => self.take(found.as_ref()),
                Err(error) => tracing::warn!(
                    problem = %runtime::api_error::api_error(&error),
                    "ConfigMap {}/{} cannot be read: until it can, client certificates of its authorities are not accepted; bind Role extension-apiserver-authentication-reader if this is forbidden",
                    lookup::NAMESPACE, lookup::NAME
                ),
            }
            return Ok(());
        }
        let found = lookup::read(client, shutdown).await?;
        if found.is_none() {
            tracing::warn!(
                "there is no ConfigMap {}/{}: client certificates and front proxies are accepted for the CA files given by flags only",
                lookup::NAMESPACE,
                lookup::NAME
            );
        }
        self.take(found.as_ref());
        Ok(())
    }

    pub(super) async fn run(&self, shutdown: CancellationToken) {
        let files = async {
            let mut ticks = tokio::time::interval(PERIOD);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks.tick().await;
            loop {
                ticks.tick().await;
                self.refresh_files();
            }
        };
        let config_map = async {
            match self.looks_up() {
                Some(client) => self.watch(client).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = files => {}
            () = config_map => {}
        }
    }

    async fn watch(&self, client: &Client) {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), lookup::NAMESPACE);
        let only = watcher::Config::default().fields(&format!("metadata.name={}", lookup::NAME));
        let mut events = std::pin::pin!(watcher(api, only).default_backoff());
        let mut listed = None;
        let mut failing = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Init) => listed = None,
                Ok(watcher::Event::InitApply(found)) => listed = Some(found),
                Ok(watcher::Event::InitDone) => {
                    if std::mem::take(&mut failing) {
                        tracing::info!(
                            "ConfigMap {}/{} can be read again",
                            lookup::NAMESPACE,
                            lookup::NAME
                        );
                    }
                    self.take(listed.take().as_ref());
                }
                Ok(watcher::Event::Apply(found)) => self.take(Some(&found)),
                Ok(watcher::Event::Delete(_)) => self.take(None),
                Err(error) => {
                    if !failing {
                        tracing::warn!(%error, "ConfigMap {}/{} cannot be watched, retrying", lookup::NAMESPACE, lookup::NAME);
                    }
                    failing = true;
                }
            }
        }
    }

    fn sources(&self) -> MutexGuard<'_, Sources> {
        self.sources.lock()
    }

    fn refresh_files(&self) {
        let mut sources = self.sources();
        let mut changed = false;
        let Sources {
            client_file,
            proxy_file,
            ..
        } = &mut *sources;
        for file in [client_file, proxy_file].into_iter().flatten() {
            changed |= file.refresh();
        }
        if changed {
            self.publish(&sources);
        }
    }

    /// Applies the ConfigMap's content. A deletion of the ConfigMap is ignored, because it is usually an accident; a
    /// compromised CA is revoked by a new bundle.
    fn take(&self, config_map: Option<&ConfigMap>) {
        let Some(config_map) = config_map else { return };
        let data = config_map.data.clone().unwrap_or_default();
        let refused = |problem: &str| {
            tracing::warn!(
                problem,
                "ConfigMap {}/{} cannot be used, keeping its previous content",
                lookup::NAMESPACE,
                lookup::NAME
            );
        };
        let found = match Found::parse(&data) {
            Ok(found) => found,
            Err(problem) => return refused(&problem),
        };
        let mut sources = self.sources();
        if found == sources.found {
            return;
        }
        let clients = found
            .client_ca
            .as_ref()
            .map(|pem| CaBundle::parse(pem.as_bytes()).map(Arc::new))
            .transpose();
        let proxies = found.proxy.as_ref().map(|(pem, headers)| {
            let bundle = Arc::new(CaBundle::parse(pem.as_bytes())?);
            Ok::<_, String>(Proxies {
                bundle,
                headers: headers.clone(),
            })
        });
        match (clients, proxies.transpose()) {
            (Ok(clients), Ok(proxies)) => {
                (sources.found, sources.found_clients, sources.found_proxies) =
                    (found, clients, proxies);
                self.publish(&sources);
            }
            (Err(problem), _) => refused(&format!("key client-ca-file: {problem}")),
            (_, Err(problem)) => refused(&format!("key requestheader-client-ca-file: {problem}")),
        }
    }

    /// Publishes the CAs. Files take precedence over the ConfigMap, and the --requestheader flags apply only with
    /// --requestheader-client-ca-file (FLAG-40).
    fn publish(&self, sources: &Sources) {
        let file = |file: &Option<File>| file.as_ref().map(|file| Arc::clone(&file.bundle));
        let clients = file(&sources.client_file).or_else(|| sources.found_clients.clone());
        let proxies = match file(&sources.proxy_file) {
            Some(bundle) => Some(Proxies {
                bundle,
                headers: self.options.request_header.clone(),
            }),
            None => sources.found_proxies.clone(),
        };
        self.client_cas.set(clients, proxies);
    }
}
