//! The region: its name, the domain of its realm, and the metadata of the instance that names both.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Result};
use provider_kit::transport::{Call, Connector, RetryPolicy, Transport};
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::config::{Auth, Config, profile};

/// Regions: the short name of each, and its name.
const REGIONS: &str = "\
    fra eu-frankfurt-1 iad us-ashburn-1 lhr uk-london-1 phx us-phoenix-1 aga us-saltlake-2 ahu me-abudhabi-3 \
    ams eu-amsterdam-1 arn eu-stockholm-1 auh me-abudhabi-1 avf eu-crissier-1 avz eu-dcc-zurich-1 \
    beg eu-jovanovac-1 bgy eu-dcc-milan-1 bno ap-chuncheon-2 bog sa-bogota-1 bom ap-mumbai-1 brs uk-gov-cardiff-1 \
    cdg eu-paris-1 cwl uk-cardiff-1 dac ap-dcc-gazipur-1 dln ap-suwon-1 doh me-dcc-doha-1 dtm eu-dcc-rating-2 \
    dtz ap-seoul-2 dus eu-dcc-rating-1 dxb me-dubai-1 ebb us-somerset-1 ebl us-thames-1 gru sa-saopaulo-1 \
    hnw sa-riodejaneiro-1 hsg ap-batam-1 hyd ap-hyderabad-1 ibr me-ibri-1 icn ap-seoul-1 jbp ap-kulai-2 \
    jed me-jeddah-1 jnb af-johannesburg-1 jsk eu-budapest-1 kix ap-osaka-1 lej af-casablanca-1 lfi us-langley-1 \
    lin eu-milan-1 ltn uk-gov-london-1 luf us-luke-1 mad eu-madrid-1 mct me-dcc-muscat-1 mel ap-melbourne-1 \
    mrs eu-marseille-1 mty mx-monterrey-1 mtz il-jerusalem-1 mxp eu-dcc-milan-2 nja ap-chiyoda-1 nrq eu-turin-1 \
    nrt ap-tokyo-1 onm ap-delhi-1 ord us-chicago-1 orf eu-madrid-3 ork eu-dcc-dublin-1 pgc us-newark-1 \
    pia us-gov-chicago-1 qro mx-queretaro-1 rba me-alain-1 ric us-gov-ashburn-1 rkt me-abudhabi-2 ruh me-riyadh-1 \
    scl sa-santiago-1 shj me-abudhabi-4 sin ap-singapore-1 sjc us-sanjose-1 snn eu-dcc-dublin-2 str eu-frankfurt-2 \
    syd ap-sydney-1 tus us-gov-phoenix-1 ukb ap-ibaraki-1 vap sa-valparaiso-1 vcp sa-vinhedo-1 vll eu-madrid-2 \
    wga ap-dcc-canberra-1 xsp ap-singapore-2 yny ap-chuncheon-1 yul ca-montreal-1 yxj us-ashburn-2 yyz ca-toronto-1 \
    zrh eu-zurich-1";
/// Domains of realms other than the commercial one, with their regions.
const REALMS: &[(&str, &str)] = &[
    (
        "oraclegovcloud.com",
        "us-langley-1 us-luke-1 us-gov-ashburn-1 us-gov-chicago-1 us-gov-phoenix-1",
    ),
    ("oraclegovcloud.uk", "uk-gov-london-1 uk-gov-cardiff-1"),
    ("oraclecloud8.com", "ap-chiyoda-1 ap-ibaraki-1"),
    ("oraclecloud9.com", "me-dcc-muscat-1 me-ibri-1"),
    ("oraclecloud10.com", "ap-dcc-canberra-1"),
    (
        "oraclecloud14.com",
        "eu-dcc-milan-1 eu-dcc-milan-2 eu-dcc-dublin-2 eu-dcc-rating-2 eu-dcc-rating-1 eu-dcc-dublin-1",
    ),
    ("oraclecloud15.com", "ap-dcc-gazipur-1"),
    ("oraclecloud.eu", "eu-madrid-2 eu-frankfurt-2"),
    ("oraclecloud20.com", "eu-jovanovac-1"),
    ("oraclecloud21.com", "me-dcc-doha-1"),
    ("oraclecloud23.com", "us-somerset-1 us-thames-1"),
    ("oraclecloud24.com", "eu-dcc-zurich-1 eu-crissier-1"),
    ("oraclecloud26.com", "me-abudhabi-3 me-alain-1"),
    ("oraclecloud29.com", "me-abudhabi-2 me-abudhabi-4"),
    ("oraclecloud35.com", "ap-seoul-2 ap-suwon-1 ap-chuncheon-2"),
    ("oraclecloud42.com", "us-ashburn-2 us-newark-1"),
    ("oraclecloud51.com", "eu-budapest-1"),
    ("oraclecloud52.com", "sa-riodejaneiro-1"),
];
const TIMEOUT: Duration = Duration::from_secs(5);

/// Region, compartment and realm of the cluster, from the configuration or the metadata of the instance.
pub(crate) struct Region {
    config: Arc<Config>,
    connector: Arc<dyn Connector>,
    instance: OnceCell<Value>,
}

impl Region {
    pub(crate) fn new(config: Arc<Config>, connector: Arc<dyn Connector>) -> Arc<Self> {
        Arc::new(Self {
            config,
            connector,
            instance: OnceCell::new(),
        })
    }

    /// Reads a path of the metadata service.
    pub(crate) async fn metadata(&self, path: &'static str) -> Result<String> {
        let retry_policy = RetryPolicy {
            timeout: TIMEOUT,
            total_timeout: 3 * TIMEOUT,
            ..RetryPolicy::default()
        };
        let http =
            Transport::builder(&*self.config.metadata).connector(Arc::clone(&self.connector));
        let call = Call::get(path, &[]).header("authorization", "Bearer Oracle");
        let answer = http.retry_policy(retry_policy).build()?.send(call).await;
        let answer = answer.map_err(|error| {
            error.context("the metadata service of the instance cannot be read")
        })?;
        Ok(answer.text())
    }

    async fn instance(&self) -> Result<&Value> {
        let read = || async {
            Ok(serde_json::from_str(&self.metadata("/instance/").await?).unwrap_or_default())
        };
        self.instance.get_or_try_init(read).await
    }

    async fn known(&self, configured: Option<&String>, key: &str, setting: &str) -> Result<String> {
        if let Some(value) = configured {
            return Ok(value.clone());
        }
        let of_instance = self
            .instance()
            .await
            .map_err(|error| error.context(format!("{setting} is not set")))?;
        let value = of_instance[key]
            .as_str()
            .filter(|key| !key.is_empty())
            .map(str::to_owned);
        value.ok_or_else(|| {
            Error::invalid(format!(
                "{setting} is not set, and the metadata of the instance lack {key}"
            ))
        })
    }

    /// Returns the compartment of the cluster.
    pub(crate) async fn compartment(&self) -> Result<String> {
        self.known(
            self.config.compartment.as_ref(),
            "compartmentId",
            "compartment",
        )
        .await
    }

    /// Returns the name of the region, such as `eu-frankfurt-1`.
    pub(crate) async fn name(&self) -> Result<String> {
        let of_profile = match (&self.config.region, &self.config.auth) {
            (None, Auth::Profile(path, name)) => profile(path, name)?.remove("region"),
            (region, _) => region.clone(),
        };
        let name = self
            .known(of_profile.as_ref(), "canonicalRegionName", "auth.region")
            .await?
            .to_ascii_lowercase();
        Ok(long_name(&name).map_or(name, str::to_owned))
    }

    fn domain(&self, region: &str) -> String {
        let environment = &self.config.environment;
        let described = environment
            .get("OCI_REGION_METADATA")
            .and_then(|oci_region_metadata| {
                serde_json::from_str::<Value>(oci_region_metadata).ok()
            });
        let described = described.filter(|object| object["regionIdentifier"] == region);
        let described =
            described.and_then(|object| object["realmDomainComponent"].as_str().map(str::to_owned));
        let of_instance = self
            .instance
            .get()
            .and_then(|object| object.pointer("/regionInfo/realmDomainComponent")?.as_str());
        let known = || {
            let realm = REALMS.iter().find(|(_, regions)| {
                regions
                    .split(' ')
                    .any(|other_region| other_region == region)
            });
            realm.map(|(domain, _)| (*domain).to_owned())
        };
        let default = || environment.get("OCI_DEFAULT_REALM").map(str::to_owned);
        described
            .or(of_instance.map(str::to_owned))
            .or_else(known)
            .or_else(default)
            .unwrap_or_else(|| "oraclecloud.com".to_owned())
    }

    /// Returns the base URL of a service. The names of newer services have `oci` before the domain.
    pub(crate) async fn url(&self, service: &str, is_new: bool) -> Result<String> {
        if let Some(endpoint) = &self.config.endpoint {
            return Ok(endpoint.clone());
        }
        let name = self.name().await?;
        let oci = if is_new { "oci." } else { "" };
        Ok(format!(
            "https://{service}.{name}.{oci}{}",
            self.domain(&name)
        ))
    }
}

/// Returns the name of the region in an OCID; `None` if it has none that is known.
pub(crate) fn region_of(ocid: &str) -> Option<&'static str> {
    let part = ocid.split('.').nth(3)?;
    let mut words = REGIONS.split_ascii_whitespace();
    let mut regions = std::iter::from_fn(|| Some([words.next()?, words.next()?]));
    regions
        .find(|names| names.contains(&part))
        .map(|[_, name]| name)
}

/// Returns the name of a region by its short name.
fn long_name(short: &str) -> Option<&'static str> {
    let mut words = REGIONS.split_ascii_whitespace();
    std::iter::from_fn(|| Some((words.next()?, words.next()?)))
        .find(|(text, _)| *text == short)
        .map(|(_, name)| name)
}
