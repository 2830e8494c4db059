//! Reads the configuration from the file's text.

use std::time::Duration;

use cloud_provider::{ConfigFile, Error, Result, Setup};
use ipnet::IpNet;
use provider_kit::declared::Declared;
use provider_kit::declared::forms::items;
use provider_kit::gcfg::GitConfigSettings;
use provider_kit::variables::Variables;

use super::auth::Global;
use super::{Balancers, Config, Networking};
use crate::keys::*;

/// The providers of Octavia that are supported.
const PROVIDERS: [&str; 5] = ["amphora", "octavia", "ovn", "f5", "amphorav2"];

impl Config {
    /// Reads the file of `--cloud-config`, with `clouds.yaml` and the environment.
    ///
    /// # Errors
    /// *Invalid*, with all mistakes: each names file, line and key.
    pub fn read(setup: &Setup) -> Result<Self> {
        let missing = || {
            Error::invalid(
                "--cloud-config is missing: the file cloud.conf with auth-url and a credential",
            )
        };
        let none = ConfigFile {
            path: "no configuration file".to_owned(),
            text: String::new(),
        };
        let given = setup.config.as_ref();
        let mut file = GitConfigSettings::of(
            given
                .or(setup.environment.is_offline().then_some(&none))
                .ok_or_else(missing)?,
        );
        let mut variables = Variables::of(&setup.environment);
        let mut global = Global::of(&mut file, &setup.environment);
        let auth = global.auth();
        let region = global.region();
        let interface = global.interface();
        let tls = global.tls();
        let mut files = global.finish();
        files.extend(
            tls.roots
                .iter()
                .chain(tls.identity.iter().flat_map(|(cert, key)| [cert, key]))
                .cloned(),
        );
        file.get(&METADATA_SEARCH_ORDER);
        let config = Self {
            auth,
            region,
            interface,
            tls,
            regional: variables.get(&OS_CCM_REGIONAL).as_deref() == Some("true"),
            request_timeout: file
                .get(&REQUEST_TIMEOUT)
                .filter(|duration| !duration.is_zero())
                .unwrap_or(Duration::from_secs(60)),
            networking: networking(&mut file),
            balancers: balancers(
                &mut file,
                variables
                    .get(&OCCM_WAIT_LB_ACTIVE_STEPS)
                    .unwrap_or_default(),
            )
            .map(|balancers| Balancers {
                has_file: given.is_some(),
                ..balancers
            }),
            router: file.get(&ROUTER_ID),
            files,
            warnings: Vec::new(),
        };
        file.unknown(&[SECTIONS, &[INERT]].concat());
        let warnings = [file.warnings(), variables.warnings()].concat();
        // All of them are lenient; their warnings are in the log.
        variables.finish()?;
        file.finish().map(|()| Self { warnings, ..config })
    }
}

fn networking(file: &mut GitConfigSettings) -> Networking {
    let text = file.get(&ADDRESS_SORT_ORDER).unwrap_or_default();
    let mut sort_order = Vec::new();
    for item in items(&text) {
        match item.parse::<IpNet>() {
            Ok(range) => sort_order.push(range.trunc()),
            Err(_) => {
                file.warn(
                    &ADDRESS_SORT_ORDER,
                    &format!("has {item:?}, which is left out: it is no address range"),
                );
            }
        }
    }
    Networking {
        ipv6_disabled: file.flag(&IPV6_SUPPORT_DISABLED),
        public: file.all(&PUBLIC_NETWORK_NAME),
        internal: file.all(&INTERNAL_NETWORK_NAME),
        sort_order,
    }
}

fn balancers(file: &mut GitConfigSettings, wait_steps: u32) -> Option<Balancers> {
    let is_text =
        |setting: &&&dyn Declared| FLAGS.iter().all(|flag| flag.key() != setting.row().key);
    let texts: Vec<_> = LOAD_BALANCER.iter().filter(is_text).copied().collect();
    let settings = file.defaults("", &texts);
    // A flag without a value is set.
    let settings = FLAGS.iter().fold(settings, |all, key| {
        all.set(key.key(), file.flag(key).to_string())
    });
    let classes = file.subs("LoadBalancerClass").into_iter();
    let classes = classes
        .map(|name| (name.clone(), file.defaults(&name, LOAD_BALANCER_CLASS)))
        .collect();
    let balancers = Balancers {
        settings,
        classes,
        has_file: true,
        wait_steps,
    };
    let provider = balancers.provider();
    let method = balancers.get(&LB_METHOD);
    if !PROVIDERS.contains(&&*provider) {
        file.warn(
            &LB_PROVIDER,
            &format!("is not one of {}: it is untested", PROVIDERS.join(", ")),
        );
    }
    if provider == "ovn" && method.is_some_and(|method| method != "SOURCE_IP_PORT") {
        file.warn(
            &LB_METHOD,
            "is not SOURCE_IP_PORT, the only one of ovn: Octavia will refuse load balancers",
        );
    }
    if !matches!(
        balancers.get(&CONTAINER_STORE).as_deref(),
        Some("barbican" | "external")
    ) {
        file.warn(
            &CONTAINER_STORE,
            "is neither barbican nor external: references are not checked",
        );
    }
    balancers.flag(&ENABLED).then_some(balancers)
}
