//! What this process serves: its ports, and what is behind them (APP-7, APP-12, APP §10).

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use http::header::CONTENT_TYPE;
use metrics::Metrics;
use runtime::election::migration::LeaderMigration;
use serving::debug::{self, SetVerbosity};
use serving::health::Health;
use serving::server::Listener;
use serving::webhook::{self, Webhook, WebhookLimits};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::exit::Failure;
use crate::flags::Flags;
use crate::logging;

/// Ports that are bound, so that a clash is found before anything else is done (P-36). Nothing is open that is not used.
pub(crate) struct Ports {
    pub(crate) webhooks: Option<Listener>,
    pub(crate) secure: Option<Listener>,
    pub(crate) metrics: Option<Listener>,
}

impl Ports {
    /// Binds what the flags ask for: the port of the webhooks first (APP-7).
    pub(crate) fn bind(flags: &Flags) -> Result<Self, Failure> {
        let webhooks = flags.serves_webhooks().then(|| Listener::bind(&flags.webhook_serving())).transpose();
        let webhooks = webhooks.map_err(Failure::setup)?;
        let options = flags.serving();
        let secure = (options.port != 0).then(|| Listener::bind(&options)).transpose().map_err(Failure::setup)?;
        let plain = |address: SocketAddr| Listener::bind_plain(address.ip(), address.port(), "--metrics-bind-address");
        let metrics = flags.metrics_listener().map(plain).transpose().map_err(Failure::setup)?;
        Ok(Self { webhooks, secure, metrics })
    }
}

/// What stands behind the ports.
pub(crate) struct Routes {
    /// For callers that are known and allowed.
    pub(crate) secure: Router,
    /// For everybody who reaches the plain port.
    pub(crate) metrics: Router,
    /// For the API server.
    pub(crate) webhooks: Router,
}

/// Servers that run.
pub(crate) struct Servers {
    tasks: TaskTracker,
    end: CancellationToken,
}

impl Servers {
    /// Serves until [`end`](Self::end).
    pub(crate) fn start(ports: Ports, routes: Routes) -> Self {
        let servers = Self { tasks: TaskTracker::new(), end: CancellationToken::new() };
        let pairs = [(ports.webhooks, routes.webhooks), (ports.secure, routes.secure), (ports.metrics, routes.metrics)];
        for (listener, router) in pairs {
            if let Some(listener) = listener {
                servers.tasks.spawn(listener.serve(router, servers.end.clone()));
            }
        }
        servers.tasks.close();
        servers
    }

    /// Answers what was asked already, and closes the ports.
    pub(crate) async fn end(self) {
        self.end.cancel();
        self.tasks.wait().await;
    }
}

/// Everything behind the secure port, for callers that may have it.
pub(crate) fn secure(
    flags: &Flags,
    migration: Option<&LeaderMigration>,
    health: &Health,
    metrics: &Metrics,
    log: Option<&logging::Handle>,
) -> Router {
    let configuration = flags.configz_with(migration).to_string();
    let configz = move || {
        let body = configuration.clone();
        std::future::ready(([(CONTENT_TYPE, "application/json")], body))
    };
    let router = health.routes().merge(metrics.router(health)).route("/configz", get(configz));
    let router = match log.filter(|_| flags.profiling()) {
        Some(log) => router.merge(debug::routes(verbosity_of(log))),
        None => router,
    };
    router.fallback(serving::not_found)
}

/// Changes the verbosity of the log (APP-103).
fn verbosity_of(log: &logging::Handle) -> SetVerbosity {
    let log = log.clone();
    Arc::new(move |verbosity| {
        log.set_verbosity(verbosity);
        Ok(())
    })
}

/// The plain port has the metrics only.
pub(crate) fn plain(health: &Health, metrics: &Metrics) -> Router {
    metrics.router(health).fallback(serving::not_found)
}

/// The port of the webhooks.
pub(crate) fn webhooks(all: Vec<Webhook>, metrics: &Metrics) -> Router {
    webhook::router(all, WebhookLimits::default(), metrics.webhooks())
}
