//! From the file's text to the configuration.

use std::time::Duration;

use cloud_provider::{Error, Result, Setup};
use ipnet::IpNet;
use provider_kit::declared::forms::items;
use provider_kit::gcfg::Settings;
use provider_kit::variables::Variables;

use super::auth::Global;
use super::{Balancers, Config, Monitor, Networking, Networks};
use crate::keys::*;

/// The providers of Octavia that this program was made for.
const PROVIDERS: [&str; 5] = ["amphora", "octavia", "ovn", "f5", "amphorav2"];
/// The only one that has one method only.
const OVN: (&str, &str) = ("ovn", "SOURCE_IP_PORT");

impl Config {
    /// What the file of `--cloud-config` says, with `clouds.yaml` and the environment.
    ///
    /// # Errors
    /// *Invalid*, with all mistakes: each names file, line and key.
    pub fn read(setup: &Setup) -> Result<Self> {
        let file = setup.config.as_ref();
        let file = file.ok_or_else(|| {
            Error::invalid("--cloud-config is missing: the file cloud.conf with auth-url and a credential")
        })?;
        let mut file = Settings::of(file);
        let mut asked = Variables::of(&setup.environment);
        let mut global = Global::of(&mut file, &setup.environment);
        let (auth, region, interface, tls) = (global.auth(), global.region(), global.interface(), global.tls());
        let mut files = global.finish();
        files.extend(tls.roots.clone());
        files.extend(tls.identity.iter().flat_map(|(cert, key)| [cert.clone(), key.clone()]));
        file.get(&METADATA_SEARCH_ORDER);
        let config = Self {
            auth,
            region,
            interface,
            tls,
            regional: asked.get(&OS_CCM_REGIONAL).as_deref() == Some("true"),
            request_timeout: file.get(&REQUEST_TIMEOUT).filter(|it| !it.is_zero()).unwrap_or(Duration::from_secs(60)),
            networking: Networking::read(&mut file),
            balancers: Balancers::read(&mut file, asked.get(&OCCM_WAIT_LB_ACTIVE_STEPS).unwrap_or_default()),
            router: file.get(&ROUTER_ID),
            files,
        };
        file.unknown(SECTIONS);
        if let Err(mistakes) = asked.finish() {
            file.mistake(mistakes.to_string());
        }
        file.finish().map(|()| config)
    }
}

impl Networking {
    fn read(file: &mut Settings) -> Self {
        let sort_order = file.get(&ADDRESS_SORT_ORDER).unwrap_or_default();
        let mut ranges = Vec::new();
        for item in items(&sort_order) {
            match item.parse::<IpNet>() {
                Ok(range) => ranges.push(range.trunc()),
                Err(_) => {
                    let place = file.named(&ADDRESS_SORT_ORDER);
                    file.warning(format!(
                        "{place}: {item:?} is left out: it is not an address range such as 10.0.0.0/24"
                    ));
                }
            }
        }
        Self {
            ipv6_disabled: file.flag(&IPV6_SUPPORT_DISABLED),
            public: file.all(&PUBLIC_NETWORK_NAME),
            internal: file.all(&INTERNAL_NETWORK_NAME),
            sort_order: ranges,
        }
    }
}

impl Balancers {
    fn read(file: &mut Settings, wait_steps: u32) -> Option<Self> {
        file.get(&LB_VERSION);
        let provider = file.get(&LB_PROVIDER).unwrap_or_default();
        if !PROVIDERS.contains(&provider.as_str()) {
            let place = file.named(&LB_PROVIDER);
            file.warning(format!("{place}: {provider:?} is not one of {}: nobody tried it", PROVIDERS.join(", ")));
        }
        let store = file.get(&CONTAINER_STORE).unwrap_or_default();
        if !matches!(&*store, "barbican" | "external") {
            let place = file.named(&CONTAINER_STORE);
            file.warning(format!("{place}: {store:?} is neither barbican nor external: references are not checked"));
        }
        let suffix = file.get(&INGRESS_HOSTNAME_SUFFIX);
        let balancers = Self {
            method: method(file, &provider),
            networks: Networks::read(file),
            internal: file.flag(&INTERNAL_LB),
            node_selector: file.get(&NODE_SELECTOR).unwrap_or_default(),
            cascade_delete: file.flag(&CASCADE_DELETE),
            flavor: file.get(&FLAVOR_ID),
            availability_zone: file.get(&AVAILABILITY_ZONE),
            monitor: Monitor::read(file),
            manage_security_groups: file.flag(&MANAGE_SECURITY_GROUPS),
            ingress_hostname_suffix: suffix.filter(|_| file.flag(&ENABLE_INGRESS_HOSTNAME)),
            tls_container: file.get(&DEFAULT_TLS_CONTAINER_REF),
            barbican: store == "barbican",
            max_shared: file.get(&MAX_SHARED_LB).unwrap_or_default().into(),
            serial: file.flag(&PROVIDER_REQUIRES_SERIAL_API_CALLS),
            wait_steps,
            classes: file
                .subs("LoadBalancerClass")
                .into_iter()
                .map(|name| {
                    let networks = Networks::of_class(file, &name);
                    (name, networks)
                })
                .collect(),
            provider,
        };
        file.flag(&ENABLED).then_some(balancers)
    }
}

fn method(file: &mut Settings, provider: &str) -> String {
    let method = file.get(&LB_METHOD);
    match method {
        None if provider == OVN.0 => OVN.1.to_owned(),
        None => "ROUND_ROBIN".to_owned(),
        Some(method) => {
            if provider == OVN.0 && method != OVN.1 {
                let place = file.named(&LB_METHOD);
                file.warning(format!(
                    "{place}: {} has no method but {}; Octavia will refuse load balancers",
                    OVN.0, OVN.1
                ));
            }
            method
        }
    }
}

impl Monitor {
    fn read(file: &mut Settings) -> Self {
        Self {
            create: file.flag(&CREATE_MONITOR),
            delay: file.get(&MONITOR_DELAY).unwrap_or_default(),
            timeout: file.get(&MONITOR_TIMEOUT).unwrap_or_default(),
            max_retries: file.get(&MONITOR_MAX_RETRIES).unwrap_or_default(),
            max_retries_down: file.get(&MONITOR_MAX_RETRIES_DOWN).unwrap_or_default(),
        }
    }
}

impl Networks {
    fn read(file: &mut Settings) -> Self {
        Self {
            network: file.get(&NETWORK_ID),
            subnet: file.get(&SUBNET_ID),
            member_subnet: file.get(&MEMBER_SUBNET_ID),
            floating_network: file.get(&FLOATING_NETWORK_ID),
            floating_subnet_id: file.get(&FLOATING_SUBNET_ID),
            floating_subnet: file.get(&FLOATING_SUBNET),
            floating_subnet_tags: file.get(&FLOATING_SUBNET_TAGS),
        }
    }

    fn of_class(file: &mut Settings, name: &str) -> Self {
        Self {
            network: file.get_in(name, &CLASS_NETWORK_ID),
            subnet: file.get_in(name, &CLASS_SUBNET_ID),
            member_subnet: file.get_in(name, &CLASS_MEMBER_SUBNET_ID),
            floating_network: file.get_in(name, &CLASS_FLOATING_NETWORK_ID),
            floating_subnet_id: file.get_in(name, &CLASS_FLOATING_SUBNET_ID),
            floating_subnet: file.get_in(name, &CLASS_FLOATING_SUBNET),
            floating_subnet_tags: file.get_in(name, &CLASS_FLOATING_SUBNET_TAGS),
        }
    }
}
