//! The services of a cloud: reached with one token, read in pages (§5).

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Result, Setup};
use provider_kit::inventory::Urgency;
use provider_kit::paging::{Page, Reading, Rules, linked_page, read_pages};
use provider_kit::shelf::Shelf;
use provider_kit::transport::{Answer, Call, Leaf, Tls, Transport, network};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::catalogue::Service;
use crate::config::Config;
use crate::features::Features;
use crate::keystone::{Authorised, Identity, Keystone};
use crate::transports::{Line, Microversion, furnished, meaning};

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
    octavia: Shelf<(u32, u32)>,
    extensions: Shelf<String>,
    balancer_provider: String,
    region: Option<String>,
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
        Self::on(config, setup, network(&tls(config), &config.auth.url)?, true)
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
        let keystone = Arc::new(Keystone::new(identity(config, setup, Arc::clone(&line) as Arc<dyn Leaf>)?));
        let service = |service: Service| {
            let session = Arc::new(Authorised { keystone: Arc::clone(&keystone), service });
            let mut leaf = Arc::clone(&line) as Arc<dyn Leaf>;
            if service == Service::Compute {
                leaf = Arc::new(Microversion::new(leaf));
            }
            let transport = furnished(Transport::of_session(session), config, setup, leaf).build();
            transport.map(|transport| transport.meaning(meaning))
        };
        let shared = Shared {
            keystone: Arc::clone(&keystone),
            versions: service(Service::BalancerRoot)?,
            octavia: Shelf::default(),
            extensions: Shelf::default(),
            balancer_provider: config.balancers.as_ref().map(|it| it.provider.clone()).unwrap_or_default(),
            region: config.region.clone(),
            setup: setup.clone(),
            line: Arc::clone(&line),
            is_network,
        };
        Ok(Self {
            compute: service(Service::Compute)?,
            network: service(Service::Network)?,
            balancer: service(Service::Balancer)?,
            keys: service(Service::Keys)?,
            shared: Arc::new(shared),
        })
    }

    /// Takes over another credential, and other TLS files, if Keystone gives a token for it (P-39).
    ///
    /// # Errors
    /// Why not; what was in use stays in use.
    pub async fn reload(&self, config: &Config) -> Result<()> {
        let Shared { keystone, setup, line, is_network, .. } = &*self.shared;
        let leaf = is_network.then(|| network(&tls(config), &config.auth.url)).transpose()?;
        let carried = leaf.clone().unwrap_or_else(|| Arc::clone(line) as Arc<dyn Leaf>);
        keystone.reload(identity(config, setup, carried)?).await?;
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
        self.pages(collection, keep, key, |marker| transport.send(marked(&call, marker))).await
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
        let call = &call;
        let page = |marker: String| {
            urgency.carry(move |priority| transport.send(marked(call, marker.clone()).priority(priority)))
        };
        self.pages(collection, keep, key, page).await
    }

    async fn pages<W: DeserializeOwned, T, K: Hash, F: Future<Output = Result<Answer>>>(
        &self,
        collection: &'static str,
        keep: impl Fn(W) -> T,
        key: fn(&T) -> K,
        send: impl Fn(String) -> F,
    ) -> Result<Reading<T>> {
        let rules = Rules { what: collection, totals: false };
        read_pages(rules, String::new(), key, async |marker: String| -> Result<Page<T, String>> {
            linked_page(&send(marker).await?, collection, &keep)
        })
        .await
    }

    /// What Octavia can do with the configured provider; asked for about once an hour.
    ///
    /// # Errors
    /// What Octavia answered.
    pub async fn octavia(&self) -> Result<Features> {
        let Shared { octavia, versions, balancer_provider, .. } = &*self.shared;
        let ask = async || {
            let answer: Versions = versions.read(Call::get("/", &[])).await?;
            let version = Features::version(answer.versions.iter().map(|version| &*version.id));
            Ok(vec![version.unwrap_or((2, 0))])
        };
        let (version, _) = octavia.list(FEATURES_AGE, ask).await?;
        Ok(Features::of(version.first().copied().unwrap_or((2, 0)), balancer_provider))
    }

    /// Whether Neutron has an extension, such as `extraroute-atomic`; asked for about once an hour.
    ///
    /// # Errors
    /// What Neutron answered.
    pub async fn has_extension(&self, alias: &str) -> Result<bool> {
        let ask = async || {
            let answer: Extensions = self.network.read(Call::get("/extensions", &[])).await?;
            Ok(answer.extensions.into_iter().map(|extension| extension.alias).collect())
        };
        let (extensions, _) = self.shared.extensions.list(FEATURES_AGE, ask).await?;
        Ok(extensions.iter().any(|its| its == alias))
    }

    /// The same for a list of this project's: an administrator is shown those of everybody.
    pub(crate) async fn in_project(&self, call: Call) -> Call {
        match self.project_id().await {
            Ok(project) => call.query("project_id", project),
            Err(_) => call,
        }
    }

    /// The project that the token is for.
    ///
    /// # Errors
    /// What Keystone answered; *invalid* if the token is for no project.
    pub async fn project_id(&self) -> Result<String> {
        let token = self.shared.keystone.token().await?;
        token.project.clone().ok_or_else(|| {
            Error::invalid("the credential is for no project: name one in [Global] by tenant-id or tenant-name")
        })
    }

    /// The names of the roles that the token gives.
    ///
    /// # Errors
    /// What Keystone answered.
    pub async fn roles(&self) -> Result<Vec<String>> {
        Ok(self.shared.keystone.token().await?.roles.clone())
    }

    /// Where a service is.
    ///
    /// # Errors
    /// What Keystone answered; *invalid* if it is not in the catalogue.
    pub(crate) async fn endpoint(&self, service: Service) -> Result<String> {
        Ok(self.shared.keystone.token().await?.access(service)?.base().to_owned())
    }

    /// The configured region.
    #[must_use]
    pub fn region(&self) -> Option<&str> {
        self.shared.region.as_deref()
    }
}

/// Whether Octavia refused because the load balancer is being changed: it is waited for, and asked again.
#[must_use]
pub fn is_immutable(error: &Error) -> bool {
    let text = error.to_string();
    error.is_conflict() && ["is immutable", "Invalid state PENDING_"].iter().any(|said| text.contains(said))
}

#[derive(Deserialize)]
struct Versions {
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Version {
    id: String,
}

#[derive(Deserialize)]
struct Extensions {
    extensions: Vec<Extension>,
}

#[derive(Deserialize)]
struct Extension {
    alias: String,
}

fn marked(call: &Call, marker: String) -> Call {
    if marker.is_empty() { call.clone() } else { call.clone().query("marker", marker) }
}

fn identity(config: &Config, setup: &Setup, leaf: Arc<dyn Leaf>) -> Result<Identity> {
    let keystone = furnished(Transport::builder(config.auth.url.clone()), config, setup, leaf);
    let http = keystone.build().map_err(|err| Error::invalid(format!("auth-url in [Global]: {err}")))?;
    Ok(Identity { auth: config.auth.clone(), interface: config.interface, region: config.region.clone(), http })
}

fn tls(config: &Config) -> Tls {
    let crate::config::Tls { roots, identity, insecure } = config.tls.clone();
    Tls { roots, identity, insecure }
}
