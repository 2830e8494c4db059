//! The annotations of all clouds.

use provider_kit::declared::{Declared, Row};

/// Annotations that a provider declares: one list for each prefix.
type Lists = &'static [&'static [&'static dyn Declared]];

/// Clouds: the name in the markers of the page, the name of the variable in the policy, and the annotations.
pub(crate) const CLOUDS: [(&str, Lists); 14] = [
    ("aws", &[provider_aws::annotations::ALL]),
    ("gcp", &[provider_gcp::annotations::ALL]),
    ("azure", &[provider_azure::annotations::ALL]),
    (
        "digitalocean",
        &[
            provider_digitalocean::annotations::OTHERS,
            provider_digitalocean::annotations::ALL,
        ],
    ),
    ("hetzner", &[provider_hetzner::annotations::ALL]),
    ("linode", &[provider_linode::annotations::ALL]),
    (
        "openstack",
        &[
            provider_openstack::annotations::INTERNAL_ONES,
            provider_openstack::annotations::ALL,
        ],
    ),
    (
        "oci",
        &[
            provider_oci::annotations::LOAD_BALANCER,
            provider_oci::annotations::NETWORK,
            provider_oci::annotations::GENERAL,
        ],
    ),
    (
        "alibaba",
        &[
            provider_alibaba::annotations::ALL,
            provider_alibaba::annotations::OTHERS,
        ],
    ),
    ("tencent", &[provider_tencent::annotations::ALL]),
    ("baidu", &[provider_baidu::annotations::ALL]),
    ("rancher", &[provider_rancher::annotations::ALL]),
    ("keepalived", &[provider_keepalived::config::ANNOTATIONS]),
    (
        "mycloud",
        &[
            provider_mycloud::annotations::OWN,
            provider_mycloud::annotations::LOAD_BALANCER,
        ],
    ),
];

/// Returns the rows of annotations by which authors of Services reach what is not their own, or cost money.
pub(crate) fn marked(lists: Lists) -> impl Iterator<Item = Row> {
    let rows = lists
        .iter()
        .flat_map(|list| list.iter())
        .map(|annotation| annotation.row());
    rows.filter(|row| row.reaches.is_some() || row.costs.is_some())
}

/// Returns the rows of annotations by which authors of Services reach what is not their own.
pub(crate) fn reaching(lists: Lists) -> impl Iterator<Item = Row> {
    marked(lists).filter(|row| row.reaches.is_some())
}

/// Returns all keys of an annotation: the declared one, deprecated ones, and those that are read with another prefix.
pub(crate) fn keys(row: &Row) -> Vec<String> {
    let declared = std::iter::once(&row.key)
        .chain(row.aliases)
        .map(|key| (*key).to_owned());
    declared
        .flat_map(|key| [old_form(&key), Some(key)])
        .flatten()
        .collect()
}

/// Returns the key in the form of old manifests.
fn old_form(key: &str) -> Option<String> {
    let rest = key.strip_prefix(provider_alibaba::annotations::PREFIX)?;
    Some(format!(
        "{}{rest}",
        provider_alibaba::annotations::OLD_PREFIX
    ))
}

/// Returns prefixes of annotations that reach beyond the Service and end in the name or number of a port.
pub(crate) fn prefixes() -> Vec<String> {
    let certificate = provider_mycloud::annotations::LISTENER_CERTIFICATES.key();
    vec![OWN_PREFIX.to_owned(), format!("{certificate}.")]
}

/// The prefix of annotations that the manager writes for itself.
const OWN_PREFIX: &str = "ccm-rs/";
