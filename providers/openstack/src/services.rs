//! The services of a cloud: reached with one token, read in pages.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Result, Setup};
use provider_kit::cached::Cached;
use provider_kit::inventory::SharedPriority;
use provider_kit::paging::{ListResult, Paging};
use provider_kit::transport::{Call, Connector, ReplaceableConnector, Transport, network};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::catalogue::Service;
use crate::config::{Balancers, Config};
use crate::features::Features;
use crate::keystone::{Identity, Keystone, Token};
use crate::transports::{Microversion, configure, error_mapping};

/// Age at which the features of services are read again: they may be upgraded.
const FEATURES_AGE: Duration = Duration::from_secs(3600);

/// The services. Clones share the token.
#[derive(Clone)]
pub struct Services {
    /// Nova. Paths begin with `/servers`.
    pub compute: Transport,
    /// Neutron. Paths begin with `/ports`, `/networks`, ….
    pub network: Transport,
    /// Octavia. Paths begin with `/lbaas`.
    pub balancer: Transport,
    /// Barbican. Paths begin with `/containers`, `/secrets`.
    pub keys: Transport,
    shared: Arc<Shared>,
}

struct Shared {
    keystone: Arc<Keystone>,
    /// The versions of Octavia's API.
    versions: Transport,
    octavia: Cached<Vec<[String; 1]>>,
    extensions: Cached<Vec<[String; 1]>>,
    /// The configuration at the start.
    config: Config,
    setup: Setup,
    line: Arc<ReplaceableConnector>,
    /// If set, the connector sends over the network, so its TLS settings can be reloaded.
    is_network: bool,
}

impl Services {
    /// Returns the services behind `auth-url`. Nothing is sent yet.
    ///
    /// # Errors
    /// *Invalid* if `auth-url` is no URL, or a TLS file is none.
    pub fn new(config: &Config, setup: &Setup) -> Result<Self> {
        Self::on(config, setup, network(&config.tls, &config.auth.url)?, true)
    }

    /// Returns the services, with all requests sent through the connector `connector`: see
    /// [`provider_kit::transport::in_process`].
    ///
    /// # Errors
    /// *Invalid* if `auth-url` is no URL.
    pub fn over(config: &Config, setup: &Setup, connector: Arc<dyn Connector>) -> Result<Self> {
        Self::on(config, setup, connector, false)
    }

    fn on(
        config: &Config,
        setup: &Setup,
        connector: Arc<dyn Connector>,
        is_network: bool,
    ) -> Result<Self> {
        let line = Arc::new(ReplaceableConnector::new(connector));
        let keystone = Arc::new(Keystone::of(identity(
            config,
            setup,
            Arc::clone(&line) as Arc<dyn Connector>,
        )?));
        let service = |service: Service| {
            let session = keystone.session(move |token| token.access(service));
            let mut connector = Arc::clone(&line) as Arc<dyn Connector>;
            if service == Service::Compute {
                connector = Arc::new(Microversion::new(connector));
            }
            let transport =
                configure(Transport::of_session(session), config, setup, connector).build();
            transport.map(|transport| {
                transport
                    .error_mapping(error_mapping)
                    .paging(Paging::marker_link())
            })
        };
        let compute = service(Service::Compute)?;
        let network = service(Service::Network)?;
        let balancer = service(Service::Balancer)?;
        let keys = service(Service::Keys)?;
        let versions = service(Service::BalancerRoot)?;
        let octavia = Cached::default();
        let extensions = Cached::default();
        let config = config.clone();
        let setup = setup.clone();
        let shared = Shared {
            keystone,
            versions,
            octavia,
            extensions,
            config,
            setup,
            line,
            is_network,
        };
        Ok(Self {
            compute,
            network,
            balancer,
            keys,
            shared: Arc::new(shared),
        })
    }

    /// Replaces credential and TLS files, if Keystone issues a token for the new ones (P-39). All other settings stay,
    /// because with other endpoints all objects of this cluster would seem to be deleted.
    ///
    /// # Errors
    /// Keystone's answer; the credential in use stays in use.
    pub async fn reload(&self, config: &Config) -> Result<()> {
        let Shared {
            keystone,
            config: start,
            setup,
            line,
            is_network,
            ..
        } = &*self.shared;
        let connector = is_network
            .then(|| network(&config.tls, &config.auth.url))
            .transpose()?;
        let carried = connector
            .clone()
            .unwrap_or_else(|| Arc::clone(line) as Arc<dyn Connector>);
        let config = Config {
            auth: config.auth.clone(),
            ..start.clone()
        };
        keystone.reload(identity(&config, setup, carried)?).await?;
        if let Some(connector) = connector {
            line.replace(connector);
        }
        Ok(())
    }

    /// Reads a whole list, page by page; `call` has no marker, `collection` is the key of the list in the response.
    /// `keep` converts each item to the kept form.
    ///
    /// # Errors
    /// The service's answer.
    pub async fn list<W: DeserializeOwned, T, K: Hash>(
        &self,
        transport: &Transport,
        call: Call,
        collection: &'static str,
        keep: impl Fn(W) -> T,
        key: fn(&T) -> K,
    ) -> Result<ListResult<T>> {
        let shared_priority = SharedPriority::of(call.priority());
        transport
            .list(call, collection, &shared_priority, keep, key)
            .await
    }

    /// Reads a whole list.
    ///
    /// # Errors
    /// The service's answer; *other* if the list is partial.
    pub(crate) async fn all<T: DeserializeOwned, K: Hash>(
        &self,
        transport: &Transport,
        call: Call,
        collection: &'static str,
        key: fn(&T) -> K,
    ) -> Result<Vec<T>> {
        Ok(self
            .list(transport, call, collection, |entry: T| entry, key)
            .await?
            .complete()?
            .into_items())
    }

    /// Reads texts of each item of a list. The first text identifies the item.
    ///
    /// # Errors
    /// The service's answer.
    pub(crate) async fn texts<const N: usize>(
        &self,
        transport: &Transport,
        call: Call,
        collection: &'static str,
        fields: [&str; N],
    ) -> Result<Vec<[String; N]>> {
        let keep =
            |item: Value| fields.map(|field| item[field].as_str().unwrap_or_default().to_owned());
        let key = |texts: &[String; N]| texts.first().cloned();
        Ok(self
            .list(transport, call, collection, keep, key)
            .await?
            .into_items())
    }

    /// Returns the features of Octavia with the configured provider; read about once an hour.
    ///
    /// # Errors
    /// Octavia's answer.
    pub async fn octavia(&self) -> Result<Features> {
        let Shared {
            octavia,
            versions,
            config,
            ..
        } = &*self.shared;
        let read = async || {
            self.texts(versions, Call::get("/", &[]), "versions", ["id"])
                .await
        };
        let (versions, _) = octavia.get(FEATURES_AGE, read).await?;
        let version = Features::version(versions.iter().map(|[id]| &**id)).unwrap_or((2, 0));
        Ok(Features::of(
            version,
            &config
                .balancers
                .as_ref()
                .map_or_else(String::new, Balancers::provider),
        ))
    }

    /// Returns `true` if Neutron has an extension, such as `extraroute-atomic`; read about once an hour.
    ///
    /// # Errors
    /// Neutron's answer.
    pub async fn has_extension(&self, alias: &str) -> Result<bool> {
        let read = async || {
            self.texts(
                &self.network,
                Call::get("/extensions", &[]),
                "extensions",
                ["alias"],
            )
            .await
        };
        let (extensions, _) = self.shared.extensions.get(FEATURES_AGE, read).await?;
        Ok(extensions.iter().any(|[its]| its == alias))
    }

    /// Restricts a list to this project's objects: an administrator sees those of all projects.
    ///
    /// # Errors
    /// The errors of [`project_id`](Self::project_id).
    pub(crate) async fn in_project(&self, call: Call) -> Result<Call> {
        Ok(call.query("project_id", self.project_id().await?))
    }

    /// Returns the project of the token.
    ///
    /// # Errors
    /// Keystone's answer; *invalid* if the token is for no project.
    pub async fn project_id(&self) -> Result<String> {
        self.token().await?.project.clone().ok_or_else(|| {
            Error::invalid("the credential is for no project: name one in [Global] by tenant-id or tenant-name")
        })
    }

    /// Returns the token in use.
    ///
    /// # Errors
    /// Keystone's answer.
    pub(crate) async fn token(&self) -> Result<Arc<Token>> {
        self.shared.keystone.current().await
    }

    /// Returns the names of the roles that the token gives.
    ///
    /// # Errors
    /// Keystone's answer.
    pub async fn roles(&self) -> Result<Vec<String>> {
        Ok(self.token().await?.roles.clone())
    }

    /// Returns the configured region.
    #[must_use]
    pub fn region(&self) -> Option<&str> {
        self.shared.config.region.as_deref()
    }
}

/// Returns `true` if Octavia refused because the load balancer is being changed: the request is repeated after that.
#[must_use]
pub fn is_immutable(error: &Error) -> bool {
    let text = error.to_string();
    error.is_conflict()
        && ["is immutable", "Invalid state PENDING_"]
            .iter()
            .any(|said| text.contains(said))
}

/// Makes a change conditional on a revision in Neutron: *conflict* if the object was changed since.
pub(crate) fn based_on(revision: Option<impl std::fmt::Display>, call: Call) -> Call {
    match revision {
        Some(revision) => call.header("If-Match", format_args!("revision_number={revision}")),
        None => call,
    }
}

fn identity(config: &Config, setup: &Setup, connector: Arc<dyn Connector>) -> Result<Identity> {
    let keystone = configure(
        Transport::builder(config.auth.url.clone()),
        config,
        setup,
        connector,
    );
    let http = keystone
        .build()
        .map_err(|err| Error::invalid(format!("auth-url in [Global]: {err}")))?;
    Ok(Identity {
        auth: config.auth.clone(),
        interface: config.interface,
        region: config.region.clone(),
        http,
    })
}
