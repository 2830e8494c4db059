//! From the file's text to the configuration.

use std::time::Duration;

use cloud_provider::{Error, Result, Setup};
use ipnet::IpNet;
use provider_kit::declared::forms::items;
use provider_kit::gcfg::{Key, Settings};
use provider_kit::variables::Variables;

use super::auth::Global;
use super::{Balancers, Config, Monitor, Networking, Networks};
use crate::keys::*;

/// The providers of Octavia that this program was made for.
const PROVIDERS: [&str; 5] = ["amphora", "octavia", "ovn", "f5", "amphorav2"];

impl Config {
    /// What the file of `--cloud-config` says, with `clouds.yaml` and the environment.
    ///
    /// # Errors
    /// *Invalid*, with all mistakes: each names file, line and key.
    pub fn read(setup: &Setup) -> Result<Self> {
        let missing =
            || Error::invalid("--cloud-config is missing: the file cloud.conf with auth-url and a credential");
        let mut file = Settings::of(setup.config.as_ref().ok_or_else(missing)?);
        let mut asked = Variables::of(&setup.environment);
        let mut global = Global::of(&mut file, &setup.environment);
        let (auth, region, interface, tls) = (global.auth(), global.region(), global.interface(), global.tls());
        let mut files = global.finish();
        files.extend(tls.roots.iter().chain(tls.identity.iter().flat_map(|(cert, key)| [cert, key])).cloned());
        file.get(&METADATA_SEARCH_ORDER);
        let config = Self {
            auth,
            region,
            interface,
            tls,
            regional: asked.get(&OS_CCM_REGIONAL).as_deref() == Some("true"),
            request_timeout: file.get(&REQUEST_TIMEOUT).filter(|it| !it.is_zero()).unwrap_or(Duration::from_secs(60)),
            networking: networking(&mut file),
            balancers: balancers(&mut file, asked.get(&OCCM_WAIT_LB_ACTIVE_STEPS).unwrap_or_default()),
            router: file.get(&ROUTER_ID),
            files,
            warnings: Vec::new(),
        };
        file.unknown(SECTIONS);
        let warnings = [file.warnings(), asked.warnings()].concat();
        // Lenient all of them; what there is to say of them is in the log.
        asked.finish()?;
        file.finish().map(|()| Self { warnings, ..config })
    }
}

fn networking(file: &mut Settings) -> Networking {
    let text = file.get(&ADDRESS_SORT_ORDER).unwrap_or_default();
    let mut sort_order = Vec::new();
    for item in items(&text) {
        match item.parse::<IpNet>() {
            Ok(range) => sort_order.push(range.trunc()),
            Err(_) => {
                file.warn(&ADDRESS_SORT_ORDER, &format!("has {item:?}, which is left out: it is no address range"));
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

fn balancers(file: &mut Settings, wait_steps: u32) -> Option<Balancers> {
    file.get(&LB_VERSION);
    let (provider, method) = method(file);
    let store = file.get(&CONTAINER_STORE);
    if !matches!(store.as_deref(), Some("barbican" | "external") | None) {
        file.warn(&CONTAINER_STORE, "is neither barbican nor external: references are not checked");
    }
    let monitor = Monitor {
        create: file.flag(&CREATE_MONITOR),
        delay: file.get(&MONITOR_DELAY).unwrap_or_default(),
        timeout: file.get(&MONITOR_TIMEOUT).unwrap_or_default(),
        max_retries: file.get(&MONITOR_MAX_RETRIES).unwrap_or_default(),
        max_retries_down: file.get(&MONITOR_MAX_RETRIES_DOWN).unwrap_or_default(),
    };
    let suffix = file.get(&INGRESS_HOSTNAME_SUFFIX);
    let classes = file.subs("LoadBalancerClass").into_iter();
    let balancers = Balancers {
        provider,
        method,
        networks: networks(file, None),
        internal: file.flag(&INTERNAL_LB),
        node_selector: file.get(&NODE_SELECTOR).unwrap_or_default(),
        cascade_delete: file.flag(&CASCADE_DELETE),
        flavor: file.get(&FLAVOR_ID),
        availability_zone: file.get(&AVAILABILITY_ZONE),
        monitor,
        manage_security_groups: file.flag(&MANAGE_SECURITY_GROUPS),
        ingress_hostname_suffix: suffix.filter(|_| file.flag(&ENABLE_INGRESS_HOSTNAME)),
        tls_container: file.get(&DEFAULT_TLS_CONTAINER_REF),
        barbican: store.as_deref() == Some("barbican"),
        max_shared: file.get(&MAX_SHARED_LB).unwrap_or_default().into(),
        serial: file.flag(&PROVIDER_REQUIRES_SERIAL_API_CALLS),
        wait_steps,
        classes: classes.map(|name| (name.clone(), networks(file, Some(&name)))).collect(),
    };
    file.flag(&ENABLED).then_some(balancers)
}

/// The provider, and how it chooses a member: OVN knows one way only.
fn method(file: &mut Settings) -> (String, String) {
    let provider = file.get(&LB_PROVIDER).unwrap_or_default();
    if !PROVIDERS.contains(&&*provider) {
        file.warn(&LB_PROVIDER, &format!("is not one of {}: nobody tried it", PROVIDERS.join(", ")));
    }
    let (is_ovn, method) = (provider == "ovn", file.get(&LB_METHOD));
    if is_ovn && method.as_ref().is_some_and(|method| method != "SOURCE_IP_PORT") {
        file.warn(&LB_METHOD, "is not SOURCE_IP_PORT, the only one of ovn: Octavia will refuse load balancers");
    }
    let default = if is_ovn { "SOURCE_IP_PORT" } else { "ROUND_ROBIN" };
    (provider, method.unwrap_or_else(|| default.to_owned()))
}

/// Those of all Services, or of a class.
fn networks(file: &mut Settings, class: Option<&str>) -> Networks {
    let mut text = |key: &Key<String>, of_class: &Key<String>| match class {
        None => file.get(key),
        Some(class) => file.get_in(class, of_class),
    };
    Networks {
        network: text(&NETWORK_ID, &CLASS_NETWORK_ID),
        subnet: text(&SUBNET_ID, &CLASS_SUBNET_ID),
        member_subnet: text(&MEMBER_SUBNET_ID, &CLASS_MEMBER_SUBNET_ID),
        floating_network: text(&FLOATING_NETWORK_ID, &CLASS_FLOATING_NETWORK_ID),
        floating_subnet_id: text(&FLOATING_SUBNET_ID, &CLASS_FLOATING_SUBNET_ID),
        floating_subnet: text(&FLOATING_SUBNET, &CLASS_FLOATING_SUBNET),
        floating_subnet_tags: text(&FLOATING_SUBNET_TAGS, &CLASS_FLOATING_SUBNET_TAGS),
    }
}
