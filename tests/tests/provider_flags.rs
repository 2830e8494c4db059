//! Flags of vendors' programs: the table of the manager and the declarations of the providers, in both directions.

use std::collections::BTreeSet;

use manager::flags::{Flags, Parsed, read_by};
use provider_kit::declared::Declared;

/// Values of `--cloud-provider` with the flags that their providers declare.
const PROVIDERS: [(&str, &[&dyn Declared]); 6] = [
    ("alibabacloud", provider_alibaba::config::FLAGS),
    ("alicloud", provider_alibaba::config::FLAGS),
    ("aws", provider_aws::config::FLAGS),
    ("azure", provider_azure::ipam::FLAGS),
    ("gce", provider_gcp::config::FLAGS),
    ("linode", provider_linode::config::FLAGS),
];

/// Values of `--cloud-provider` whose providers read no flags of their own.
const WITHOUT_FLAGS: [&str; 8] = [
    "baidu",
    "cce",
    "digitalocean",
    "hcloud",
    "keepalived",
    "oci",
    "openstack",
    "tencentcloud",
];

/// Returns the flags that a provider gets if all of these are set.
fn received(provider: &str, flags: &[(&str, &str)]) -> BTreeSet<String> {
    let arguments = [
        "cloud-controller-manager".to_owned(),
        format!("--cloud-provider={provider}"),
    ];
    let flags = flags
        .iter()
        .map(|(name, value)| format!("--{name}={value}"));
    let arguments = arguments.into_iter().chain(flags).map(Into::into);
    let Parsed::Flags(parsed) = Flags::parse(arguments) else {
        panic!("{provider}: the flags are not accepted")
    };
    let read = parsed.configuration().cloud.flags;
    flags_of(provider)
        .into_iter()
        .filter(|name| read.get(name).is_some())
        .collect()
}

fn flags_of(provider: &str) -> BTreeSet<String> {
    let declared = PROVIDERS
        .iter()
        .filter(|(name, _)| *name == provider)
        .flat_map(|(_, declared)| declared.iter());
    declared.map(|flag| flag.row().key.to_owned()).collect()
}

#[test]
fn every_declared_flag_reaches_its_provider() {
    for (provider, _) in PROVIDERS {
        assert_eq!(
            received(provider, &read_by(provider)),
            flags_of(provider),
            "{provider}"
        );
    }
}

#[test]
fn every_flag_that_a_provider_gets_is_declared_by_it() {
    for (provider, _) in PROVIDERS {
        let sent: BTreeSet<_> = read_by(provider)
            .into_iter()
            .map(|(name, _)| format!("--{name}"))
            .collect();
        assert_eq!(sent, flags_of(provider), "{provider}");
    }
    for provider in WITHOUT_FLAGS {
        assert_eq!(read_by(provider), [], "{provider}");
    }
}
