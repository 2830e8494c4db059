//! Endpoints of the AWS APIs.

use std::sync::Arc;

use cloud_provider::{Environment, Result};
use provider_kit::transport::Access;

use crate::profile::Profile;

/// A section `[ServiceOverride "…"]` of the cloud configuration: another endpoint for one service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceOverride {
    /// The service: `EC2`, `Elastic Load Balancing`, `Elastic Load Balancing v2`, `STS`, or a short ID such as `ec2`,
    /// `elasticloadbalancing` (for both kinds of load balancers), `sts`, `ec2metadata`; in any case.
    pub service: String,
    /// The region that the section is for; the metadata service ignores it.
    pub region: String,
    /// The URL of the endpoint.
    pub url: String,
    /// The region that requests are signed for.
    pub signing_region: String,
    /// The name that requests are signed for; if empty, that of the service.
    pub signing_name: String,
}

/// An API of AWS.
#[derive(Debug)]
pub(crate) struct Service {
    /// The name in metrics and messages.
    pub(crate) label: &'static str,
    /// The first label of the host, and the name that requests are signed for.
    pub(crate) host: &'static str,
    pub(crate) version: &'static str,
    /// The end of the variable `AWS_ENDPOINT_URL_…`.
    variable: &'static str,
    /// Names in a [`ServiceOverride`], in lower case; a section with an earlier one is preferred.
    names: &'static [&'static str],
}

pub(crate) static EC2: Service =
    Service { label: "ec2", host: "ec2", version: "2016-11-15", variable: "EC2", names: &["ec2"] };
pub(crate) static ELB: Service = Service {
    label: "elb",
    host: "elasticloadbalancing",
    version: "2012-06-01",
    variable: "ELASTIC_LOAD_BALANCING",
    names: &["elastic load balancing", "elb", "elasticloadbalancing"],
};
pub(crate) static ELBV2: Service = Service {
    label: "elbv2",
    version: "2015-12-01",
    variable: "ELASTIC_LOAD_BALANCING_V2",
    names: &["elastic load balancing v2", "elbv2", "elasticloadbalancingv2", "elasticloadbalancing"],
    ..ELB
};
pub(crate) static STS: Service =
    Service { label: "sts", host: "sts", version: "2011-06-15", variable: "STS", names: &["sts"] };

/// Prefix of region names, DNS suffix, and DNS suffix of dual-stack endpoints.
const PARTITIONS: [(&str, &str, &str); 8] = [
    ("cn-", "amazonaws.com.cn", "api.amazonwebservices.com.cn"),
    ("us-isob-", "sc2s.sgov.gov", "api.aws.scloud"),
    ("us-isof-", "csp.hci.ic.gov", "api.aws.hci.ic.gov"),
    ("us-iso-", "c2s.ic.gov", "api.aws.ic.gov"),
    ("eu-isoe-", "cloud.adc-e.uk", "api.cloud-aws.adc-e.uk"),
    ("eusc-", "amazonaws.eu", "api.amazonwebservices.eu"),
    (GOVERNMENT, "amazonaws.com", "api.aws"),
    ("", "amazonaws.com", "api.aws"),
];
/// Ordinary endpoints of these regions are FIPS endpoints.
const GOVERNMENT: &str = "us-gov-";

/// The place that requests are sent to, and the scope that they are signed for.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) access: Arc<Access>,
    pub(crate) region: String,
    pub(crate) name: String,
}

/// Settings that decide about endpoints, beside the region.
#[derive(Clone, Debug)]
pub(crate) struct Endpoints {
    pub(crate) overrides: Vec<ServiceOverride>,
    pub(crate) environment: Environment,
    pub(crate) profile: Profile,
}

impl Endpoints {
    pub(crate) fn endpoint(&self, service: &Service, region: &str) -> Result<Endpoint> {
        let own = self.own(service.names, Some(region));
        let url = match own {
            Some(own) => own.url.clone(),
            None => self.configured(service).unwrap_or_else(|| self.default(service, region)),
        };
        let (mut name, mut signed_for) = (service.host, region);
        if let Some(own) = own {
            signed_for = &own.signing_region;
            name = if own.signing_name.is_empty() { name } else { &own.signing_name };
        }
        let access =
            Arc::new(Access::signed(&url).map_err(|error| error.context(format!("endpoint of {}", service.label)))?);
        Ok(Endpoint { access, region: signed_for.to_owned(), name: name.to_owned() })
    }

    /// Returns the URL of the metadata service; `None` if it is disabled.
    pub(crate) fn metadata(&self) -> Option<String> {
        let set = |name| self.environment.get(name).filter(|value| !value.is_empty());
        if set("AWS_EC2_METADATA_DISABLED").is_some_and(|it| it.eq_ignore_ascii_case("true")) {
            return None;
        }
        let own = self.own(&["ec2metadata", "ec2imds"], None).map(|own| &*own.url);
        let is_ipv6 = set("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE").is_some_and(|it| it.eq_ignore_ascii_case("ipv6"));
        let default = if is_ipv6 { "http://[fd00:ec2::254]" } else { "http://169.254.169.254" };
        let url = own.or(set("AWS_EC2_METADATA_SERVICE_ENDPOINT")).unwrap_or(default);
        Some(url.trim_end_matches('/').to_owned())
    }

    fn own(&self, names: &[&str], region: Option<&str>) -> Option<&ServiceOverride> {
        let is_of = |own: &&ServiceOverride, name: &str| {
            own.service.trim().eq_ignore_ascii_case(name) && region.is_none_or(|region| own.region.trim() == region)
        };
        names.iter().find_map(|name| self.overrides.iter().find(|own| is_of(own, name)))
    }

    fn configured(&self, service: &Service) -> Option<String> {
        if self.flag("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "ignore_configured_endpoint_urls") {
            return None;
        }
        let variable = format!("AWS_ENDPOINT_URL_{}", service.variable);
        let urls = [self.environment.get(&variable), self.environment.get("AWS_ENDPOINT_URL")];
        let mut urls = urls.into_iter().chain([self.profile.get("endpoint_url")]).flatten();
        urls.find(|url| !url.is_empty()).map(str::to_owned)
    }

    fn default(&self, service: &Service, region: &str) -> String {
        let is_fips = self.flag("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint");
        let is_dual = self.flag("AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint");
        let partition = PARTITIONS.iter().find(|(prefix, ..)| region.starts_with(prefix));
        let (prefix, single, dual) = partition.copied().unwrap_or(("", "amazonaws.com", "api.aws"));
        let fips = if is_fips && (is_dual || prefix != GOVERNMENT) { "-fips" } else { "" };
        format!("https://{}{fips}.{region}.{}", service.host, if is_dual { dual } else { single })
    }

    fn flag(&self, variable: &str, key: &str) -> bool {
        let value = self.environment.get(variable).filter(|it| !it.is_empty()).or(self.profile.get(key));
        value.is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }
}
