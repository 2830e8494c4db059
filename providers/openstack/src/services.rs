//! The services of a cloud: reached with one token, read in pages (§5).

use std::collections::BTreeSet;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Result, Setup};
use provider_kit::cached::Cached;
use provider_kit::inventory::Urgency;
use provider_kit::paging::{Paging, Reading};
use provider_kit::transport::{Call, Leaf, Line, Transport, network};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::catalogue::Service;
use crate::config::Config;
use crate::features::Features;
use crate::keystone::{Identity, Keystone};
use crate::transports::{Microversion, furnished, meaning};

/// What the services can do is asked for again after so long: they may be upgraded.
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
    /// Of Octavia's API.
    versions: Transport,
    octavia: Cached<Vec<String>>,
    extensions: Cached<Vec<String>>,
    /// As it was at the start.
    config: Config,
    setup: Setup,
    line: Arc<Line>,
    /// Whether the line is the network, whose TLS may be another.
    is_network: bool,
}

impl Services {
    /// The services behind `auth-url`. Nothing is sent yet.
    ///
    /// # Errors
    /// *Invalid* if `auth-url` is no URL, or a TLS file is none.
    pub fn new(config: &Config, setup: &Setup) -> Result<Self> {
        Self::on(config, setup, network(&config.tls, &config.auth.url)?, true)
    }

    /// The same, carried by `leaf` whatever their addresses: see [`provider_kit::transport::in_process`].
    ///
    /// # Errors
    /// *Invalid* if `auth-url` is no URL.
    pub fn over(config: &Config, setup: &Setup, leaf: Arc<dyn Leaf>) -> Result<Self> {
        Self::on(config, setup, leaf, false)
    }

    fn on(config: &Config, setup: &Setup, leaf: Arc<dyn Leaf>, is_network: bool) -> Result<Self> {
        let line = Arc::new(Line::new(leaf));
        let keystone = Arc::new(Keystone::of(identity(config, setup, Arc::clone(&line) as Arc<dyn Leaf>)?));
        let service = |service: Service| {
            let session = keystone.session(move |token| token.access(service));
            let mut leaf = Arc::clone(&line) as Arc<dyn Leaf>;
            if service == Service::Compute {
                leaf = Arc::new(Microversion::new(leaf));
            }
            let transport = furnished(Transport::of_session(session), config, setup, leaf).build();
            transport.map(|transport| transport.meaning(meaning).paging(Paging::marker_link()))
        };
        let (compute, network, balancer) =
            (service(Service::Compute)?, service(Service::Network)?, service(Service::Balancer)?);
        let (keys, versions) = (service(Service::Keys)?, service(Service::BalancerRoot)?);
        let (octavia, extensions, config, setup) =
            (Cached::default(), Cached::default(), config.clone(), setup.clone());
        let shared = Shared { keystone, versions, octavia, extensions, config, setup, line, is_network };
        Ok(Self { compute, network, balancer, keys, shared: Arc::new(shared) })
    }

    /// Takes over another credential, and other TLS files, if Keystone gives a token for it (P-39). All else stays: with other
    /// endpoints everything of this cluster would seem to be gone.
    ///
    /// # Errors
    /// Why not; what was in use stays in use.
    pub async fn reload(&self, config: &Config) -> Result<()> {
        let Shared { keystone, config: start, setup, line, is_network, .. } = &*self.shared;
        let leaf = is_network.then(|| network(&config.tls, &config.auth.url)).transpose()?;
        let carried = leaf.clone().unwrap_or_else(|| Arc::clone(line) as Arc<dyn Leaf>);
        let config = Config { auth: config.auth.clone(), ..start.clone() };
        keystone.reload(identity(&config, setup, carried)?).await?;
        if let Some(leaf) = leaf {
            line.replace(leaf);
        }
        Ok(())
    }

    /// Reads a list to its end, page by page; `call` is without marker, `collection` is what the answer calls the list. What
    /// is read becomes what is kept, one item after the other.
    ///
    /// # Errors
    /// What the service answered.
    pub async fn list<W: DeserializeOwned, T, K: Hash>(
        &self,
        transport: &Transport,
        call: Call,
        collection: &'static str,
        keep: impl Fn(W) -> T,
        key: fn(&T) -> K,
    ) -> Result<Reading<T>> {
        let urgency = Urgency::of(call.urgency());
        self.list_for_all(transport, call, collection, &urgency, keep, key).await
    }

    /// The same, for a list that several wait for.
    ///
    /// # Errors
    /// What the service answered.
    pub async fn list_for_all<W: DeserializeOwned, T, K: Hash>(
        &self,
        transport: &Transport,
        call: Call,
        collection: &'static str,
        urgency: &Urgency,
        keep: impl Fn(W) -> T,
        key: fn(&T) -> K,
    ) -> Result<Reading<T>> {
        transport.list(call, collection, urgency, keep, key).await
    }

    /// Reads all of a list; half of one is none.
    ///
    /// # Errors
    /// What the service answered; if the list is not whole.
    pub(crate) async fn all<T: DeserializeOwned, K: Hash>(
        &self,
        transport: &Transport,
        call: Call,
        collection: &'static str,
        key: fn(&T) -> K,
    ) -> Result<Vec<T>> {
        Ok(self.list(transport, call, collection, |it: T| it, key).await?.complete()?.into_items())
    }

    /// Two texts of each item of a list. By the first one it is told from the others.
    ///
    /// # Errors
    /// What the service answered.
    pub(crate) async fn texts(
        &self,
        transport: &Transport,
        call: Call,
        collection: &'static str,
        fields: [&str; 2],
    ) -> Result<Vec<[String; 2]>> {
        let keep = |item: Value| fields.map(|field| item[field].as_str().unwrap_or_default().to_owned());
        let key = |texts: &[String; 2]| texts[0].clone();
        Ok(self.list(transport, call, collection, keep, key).await?.into_items())
    }

    /// What Octavia can do with the configured provider; asked for about once an hour.
    ///
    /// # Errors
    /// What Octavia answered.
    pub async fn octavia(&self) -> Result<Features> {
        let Shared { octavia, versions, config, .. } = &*self.shared;
        let ask = async || Ok(firsts(self.texts(versions, Call::get("/", &[]), "versions", ["id", "status"]).await?));
        let (versions, _) = octavia.get(FEATURES_AGE, ask).await?;
        let version = Features::version(versions.iter().map(String::as_str)).unwrap_or((2, 0));
        Ok(Features::of(version, config.balancers.as_ref().map_or("", |it| &it.provider)))
    }

    /// Whether Neutron has an extension, such as `extraroute-atomic`; asked for about once an hour.
    ///
    /// # Errors
    /// What Neutron answered.
    pub async fn has_extension(&self, alias: &str) -> Result<bool> {
        let (network, call) = (&self.network, || Call::get("/extensions", &[]));
        let ask = async || Ok(firsts(self.texts(network, call(), "extensions", ["alias", "name"]).await?));
        let (extensions, _) = self.shared.extensions.get(FEATURES_AGE, ask).await?;
        Ok(extensions.iter().any(|its| its == alias))
    }

    /// The same for a list of this project's: an administrator is shown those of everybody.
    ///
    /// # Errors
    /// Those of [`project_id`](Self::project_id).
    pub(crate) async fn in_project(&self, call: Call) -> Result<Call> {
        Ok(call.query("project_id", self.project_id().await?))
    }

    /// The project that the token is for.
    ///
    /// # Errors
    /// What Keystone answered; *invalid* if the token is for no project.
    pub async fn project_id(&self) -> Result<String> {
        let token = self.shared.keystone.current().await?;
        token.project.clone().ok_or_else(|| {
            Error::invalid("the credential is for no project: name one in [Global] by tenant-id or tenant-name")
        })
    }

    /// The names of the roles that the token gives.
    ///
    /// # Errors
    /// What Keystone answered.
    pub async fn roles(&self) -> Result<Vec<String>> {
        Ok(self.shared.keystone.current().await?.roles.clone())
    }

    /// The regions that there are.
    ///
    /// # Errors
    /// What Keystone answered.
    pub(crate) async fn regions(&self) -> Result<BTreeSet<String>> {
        Ok(self.shared.keystone.current().await?.regions.clone())
    }

    /// Where a service is.
    ///
    /// # Errors
    /// What Keystone answered; *invalid* if it is not in the catalogue.
    pub(crate) async fn endpoint(&self, service: Service) -> Result<String> {
        Ok(self.shared.keystone.current().await?.access(service)?.base().to_owned())
    }

    /// The configured region.
    #[must_use]
    pub fn region(&self) -> Option<&str> {
        self.shared.config.region.as_deref()
    }
}

/// Whether Octavia refused because the load balancer is being changed: it is waited for, and asked again.
#[must_use]
pub fn is_immutable(error: &Error) -> bool {
    let text = error.to_string();
    error.is_conflict() && ["is immutable", "Invalid state PENDING_"].iter().any(|said| text.contains(said))
}

/// A change of what has this revision in Neutron: *conflict* if somebody else has changed it since.
pub(crate) fn based_on(revision: Option<impl std::fmt::Display>, call: Call) -> Call {
    match revision {
        Some(revision) => call.header("If-Match", format_args!("revision_number={revision}")),
        None => call,
    }
}

fn firsts(texts: Vec<[String; 2]>) -> Vec<String> {
    texts.into_iter().map(|[first, _]| first).collect()
}

fn identity(config: &Config, setup: &Setup, leaf: Arc<dyn Leaf>) -> Result<Identity> {
    let keystone = furnished(Transport::builder(config.auth.url.clone()), config, setup, leaf);
    let http = keystone.build().map_err(|err| Error::invalid(format!("auth-url in [Global]: {err}")))?;
    Ok(Identity { auth: config.auth.clone(), interface: config.interface, region: config.region.clone(), http })
}
