//! The endpoints of the process: ports and their routes (APP-7, APP-12, APP-95 to APP-107).

mod callers;
mod webhooks;

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use cloud_provider::CloudProvider;
use http::header::CONTENT_TYPE;
use http::{Method, StatusCode};
use metrics::Metrics;
use runtime::election::migration::LeaderMigration;
use serving::access::Access;
use serving::debug::{self, SetVerbosity};
use serving::health::Health;
use serving::options::ServingOptions;
use serving::server::{Budget, Listener};
use serving::webhook::{Webhook, WebhookLimits};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::controller_set::Settings;
use crate::exit::Failure;
use crate::flags::{Configuration, HealthListener, ListenAddress, configz_with_migration};
use crate::logging;
pub(crate) use callers::situation;
pub(crate) use webhooks::{own_webhooks, review_service};

/// The bound ports. Ports are bound first, so that a port conflict is found before anything else is done (P-36); only
/// configured ports are opened.
pub(crate) struct Ports {
    pub(crate) webhooks: Option<Listener>,
    pub(crate) secure: Option<Listener>,
    pub(crate) metrics: Option<Listener>,
    pub(crate) health: Option<Listener>,
}

impl Ports {
    /// Binds the ports that the flags configure, the webhook port first (APP-7).
    pub(crate) fn bind(configuration: &Configuration) -> Result<Self, Failure> {
        // Reviews may have megabytes, but the server bounds the data of an HTTP/2 connection.
        let options = ServingOptions {
            disable_http2: true,
            ..configuration.webhook_serving.clone()
        };
        let webhooks = configuration
            .serves_webhooks()
            .then(|| Listener::bind(&options))
            .transpose();
        let webhooks = webhooks.map_err(Failure::setup)?;
        let options = &configuration.serving;
        let secure = (options.port != 0)
            .then(|| Listener::bind(options))
            .transpose()
            .map_err(Failure::setup)?;
        let plain = |address: SocketAddr| {
            Listener::bind_plain(address.ip(), address.port(), "--metrics-bind-address")
        };
        let metrics = configuration
            .metrics_listener
            .map(plain)
            .transpose()
            .map_err(Failure::setup)?;
        let health = configuration
            .health_listener
            .map(health_port)
            .transpose()?
            .flatten();
        Ok(Self {
            webhooks,
            secure,
            metrics,
            health,
        })
    }

    /// Sets up authentication and authorization of the callers of the secure port, and requests client certificates
    /// there (APP-8). Returns `None` without a secure port.
    pub(crate) async fn authenticate(
        &mut self,
        configuration: &Configuration,
        settings: &Settings,
        stop: &CancellationToken,
    ) -> Result<Option<Access>, Failure> {
        let Some(listener) = self.secure.take() else {
            return Ok(None);
        };
        let access = callers::access(configuration, settings, stop).await?;
        self.secure = Some(listener.with_client_cas(access.client_cas()));
        Ok(Some(access))
    }

    /// Serves metrics at the address that is customary for this cloud, unless a flag sets an address. The address is
    /// only a default, so the process continues without it if the port is taken.
    pub(crate) fn add_metrics_of(&mut self, provider: &dyn CloudProvider) {
        let Some(text) = provider
            .metrics_address()
            .filter(|_| self.metrics.is_none())
        else {
            return;
        };
        // Unlike the flag, the provider's address may name a host: Go programs listen on `localhost:8233`.
        let named = || text.to_socket_addrs().ok()?.min_by_key(SocketAddr::is_ipv6);
        let parsed = text.parse::<ListenAddress>().map(ListenAddress::get);
        let bound = parsed
            .or_else(|error| named().map(Some).ok_or(error))
            .and_then(|address| match address {
                None => Ok(None),
                Some(address) => {
                    Listener::bind_plain(address.ip(), address.port(), "--metrics-bind-address")
                        .map(Some)
                        .map_err(|error| error.to_string())
                }
            });
        match bound {
            Ok(listener) => self.metrics = listener,
            Err(error) => tracing::warn!(
                address = text,
                error,
                "metrics are served on the secure port only; --metrics-bind-address names another address"
            ),
        }
    }
}

/// Opens the port for health probes without TLS. A port that only the name of the program presets may be taken: then the
/// process continues without it, because the vendor's probe may not exist.
fn health_port(health: HealthListener) -> Result<Option<Listener>, Failure> {
    match Listener::bind_plain(
        health.address.ip(),
        health.address.port(),
        "--health-bind-address",
    ) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if health.is_required => Err(Failure::setup(error)),
        Err(error) => {
            tracing::warn!(
                address = %health.address,
                %error,
                "health probes without TLS are not answered; --health-bind-address names another address"
            );
            Ok(None)
        }
    }
}

/// The routes of each port.
pub(crate) struct Routes {
    /// Routes for authenticated and authorized callers.
    pub(crate) secure: Router,
    /// Routes for every caller of the plain port.
    pub(crate) metrics: Router,
    /// Routes for health probes without TLS.
    pub(crate) health: Router,
    /// If set, the secure port answers health probes without TLS, too.
    pub(crate) plain_health: bool,
    /// Routes for the API server.
    pub(crate) webhooks: Router,
}

/// The running servers of all ports.
pub(crate) struct Servers {
    tasks: TaskTracker,
    end: CancellationToken,
}

impl Servers {
    /// Serves until [`end`](Self::end) is called.
    pub(crate) fn start(ports: Ports, routes: Routes, metrics: &Metrics) -> Self {
        let servers = Self {
            tasks: TaskTracker::new(),
            end: CancellationToken::new(),
        };
        let plain_health = routes.plain_health.then(|| routes.health.clone());
        let secure = ports.secure.map(|listener| match plain_health {
            Some(plain) => listener.with_plain_routes(plain),
            None => listener,
        });
        let pairs = [
            (ports.webhooks, routes.webhooks),
            (secure, routes.secure),
            (ports.metrics, routes.metrics),
            (ports.health, routes.health),
        ];
        // All ports share one budget, so that an attack on one port leaves the memory that the others need.
        let budget = Budget::default();
        for (listener, router) in pairs {
            if let Some(listener) = listener {
                let listener = listener
                    .with_budget(budget.clone())
                    .with_metrics(metrics.servers());
                servers
                    .tasks
                    .spawn(listener.serve(router, servers.end.clone()));
            }
        }
        servers.tasks.close();
        servers
    }

    /// Answers the requests in progress, and closes the ports.
    pub(crate) async fn end(self) {
        self.end.cancel();
        self.tasks.wait().await;
    }
}

impl Routes {
    /// Returns the routes of all ports.
    pub(crate) fn new(
        configuration: &Configuration,
        migration: Option<&LeaderMigration>,
        health: &Health,
        metrics: &Metrics,
        log: Option<&logging::Handle>,
        webhooks: Vec<Webhook>,
    ) -> Self {
        Self {
            secure: secure(configuration, migration, health, metrics, log),
            metrics: plain(health, metrics),
            health: health.plain_routes(&configuration.authorization.always_allow_paths),
            plain_health: configuration.plain_health,
            webhooks: serving::webhook::router(
                webhooks,
                WebhookLimits::default(),
                metrics.webhooks(),
            ),
        }
    }
}

/// Returns all routes of the secure port, for authorized callers.
fn secure(
    configuration: &Configuration,
    migration: Option<&LeaderMigration>,
    health: &Health,
    metrics: &Metrics,
    log: Option<&logging::Handle>,
) -> Router {
    let document = configz_with_migration(configuration.configz.clone(), migration).to_string();
    let configz = move || {
        let body = document.clone();
        std::future::ready(([(CONTENT_TYPE, "application/json")], body))
    };
    let router = health
        .routes()
        .merge(metrics.router(health))
        .route("/configz", get(configz));
    let router = match log.filter(|_| configuration.profiling) {
        Some(log) => router.merge(debug::routes(verbosity_of(log))),
        None => router,
    };
    router.fallback(serving::not_found)
}

/// Returns the function that changes the log's verbosity (APP-103).
fn verbosity_of(log: &logging::Handle) -> SetVerbosity {
    let log = log.clone();
    Arc::new(move |verbosity| {
        log.set_verbosity(verbosity);
        Ok(())
    })
}

/// Returns the routes of the plain port, which serves only metrics.
fn plain(health: &Health, metrics: &Metrics) -> Router {
    metrics
        .router(health)
        .fallback(serving::not_found)
        .layer(middleware::from_fn(read_only))
}

/// Refuses all methods except GET and HEAD. Callers of the plain port are not authenticated, so they must not change
/// anything, not even the statistics of health checks.
async fn read_only(request: Request, next: Next) -> Response {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        next.run(request).await
    } else {
        StatusCode::METHOD_NOT_ALLOWED.into_response()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use tower::ServiceExt as _;

    use super::*;
    use crate::test_provider::Acme;

    fn acme(address: String) -> Acme {
        Acme {
            metrics_address: Some(address),
            ..Acme::default()
        }
    }

    fn none() -> Ports {
        Ports {
            webhooks: None,
            secure: None,
            metrics: None,
            health: None,
        }
    }

    #[tokio::test]
    async fn metrics_are_served_at_the_providers_address_unless_a_flag_sets_one() {
        let mut ports = none();
        ports.add_metrics_of(&acme("127.0.0.1:0".into()));
        let taken = ports.metrics.as_ref().unwrap().local_address();

        ports.add_metrics_of(&acme(":1".into()));
        assert_eq!(
            ports.metrics.as_ref().unwrap().local_address(),
            taken,
            "the first one stays"
        );

        let mut by_name = none();
        by_name.add_metrics_of(&acme("localhost:0".into()));
        assert!(by_name.metrics.unwrap().local_address().ip().is_loopback());

        for impossible in [taken.to_string(), "metrics".into(), String::new()] {
            let mut ports = none();
            ports.add_metrics_of(&acme(impossible));
            assert!(ports.metrics.is_none());
        }
    }

    #[tokio::test]
    async fn a_taken_health_port_is_an_error_only_if_a_flag_names_it() {
        let holder =
            Listener::bind_plain([127, 0, 0, 1].into(), 0, "--health-bind-address").unwrap();
        let address = holder.local_address();
        assert!(matches!(
            health_port(HealthListener {
                address,
                is_required: false
            }),
            Ok(None)
        ));
        let Err(failure) = health_port(HealthListener {
            address,
            is_required: true,
        }) else {
            panic!("it is taken")
        };
        assert!(
            failure.to_string().contains("--health-bind-address"),
            "{failure}"
        );
        drop(holder);
        assert!(matches!(
            health_port(HealthListener {
                address,
                is_required: false
            }),
            Ok(Some(_))
        ));
    }

    #[tokio::test]
    async fn plain_port_refuses_to_reset_metrics() {
        let router = plain(&Health::new(), &Metrics::new());
        for (method, path, expected) in [
            (Method::GET, "/metrics", StatusCode::OK),
            (Method::GET, "/metrics/slis", StatusCode::OK),
            (
                Method::DELETE,
                "/metrics/slis",
                StatusCode::METHOD_NOT_ALLOWED,
            ),
            (Method::GET, "/healthz", StatusCode::NOT_FOUND),
        ] {
            let request = http::Request::builder()
                .method(method)
                .uri(path)
                .body(Body::empty())
                .unwrap();
            assert_eq!(
                router.clone().oneshot(request).await.unwrap().status(),
                expected,
                "{path}"
            );
        }
    }
}
