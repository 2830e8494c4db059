//! Endpoints of the AWS APIs.

use std::sync::Arc;

use cloud_provider::Result;
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
#[derive(Clone, Copy, Debug)]
pub(crate) struct Service {
    /// The name in metrics and messages.
    pub(crate) label: &'static str,
    /// The name in the SDKs, in lower case.
    id: &'static str,
    /// The first label of the host, and the name that requests are signed for.
    pub(crate) host: &'static str,
    pub(crate) version: &'static str,
}

pub(crate) const EC2: Service = Service {
    label: "ec2",
    id: "ec2",
    host: "ec2",
    version: "2016-11-15",
};
pub(crate) const ELB: Service = Service {
    label: "elb",
    id: "elastic load balancing",
    host: "elasticloadbalancing",
    version: "2012-06-01",
};
pub(crate) const ELBV2: Service = Service {
    label: "elbv2",
    id: "elastic load balancing v2",
    version: "2015-12-01",
    ..ELB
};
pub(crate) const STS: Service = Service {
    label: "sts",
    id: "sts",
    host: "sts",
    version: "2011-06-15",
};

/// Prefix of region names, DNS suffix, and DNS suffix of dual-stack endpoints.
const PARTITIONS: [(&str, &str, &str); 7] = [
    ("cn-", "amazonaws.com.cn", "api.amazonwebservices.com.cn"),
    ("us-isob-", "sc2s.sgov.gov", "api.aws.scloud"),
    ("us-isof-", "csp.hci.ic.gov", "api.aws.hci.ic.gov"),
    ("us-iso-", "c2s.ic.gov", "api.aws.ic.gov"),
    ("eu-isoe-", "cloud.adc-e.uk", "api.cloud-aws.adc-e.uk"),
    ("eusc-", "amazonaws.eu", "api.amazonwebservices.eu"),
    (GOVERNMENT, "amazonaws.com", "api.aws"),
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
    pub(crate) variables: Profile,
    pub(crate) profile: Profile,
}

impl Endpoints {
    pub(crate) fn endpoint(&self, service: &Service, region: &str) -> Result<Endpoint> {
        // A section with an earlier name is preferred.
        let joined = service.id.replace(' ', "");
        let override_of_service = self.own(
            &[service.id, service.label, &*joined, service.host],
            Some(region),
        );
        let url = override_of_service
            .map(|service_override| service_override.url.clone())
            .or_else(|| self.configured(service));
        let url = url.unwrap_or_else(|| self.default(service, region));
        let access = Access::signed(&url)
            .map_err(|err| err.context(format!("endpoint of {}", service.label)))?;
        let name = override_of_service
            .map(|service_override| &*service_override.signing_name)
            .filter(|name| !name.is_empty())
            .unwrap_or(service.host);
        let region = override_of_service
            .map_or(region, |service_override| &*service_override.signing_region)
            .to_owned();
        Ok(Endpoint {
            access: Arc::new(access),
            region,
            name: name.to_owned(),
        })
    }

    /// Returns the URL of the metadata service; `None` if it is disabled.
    pub(crate) fn metadata(&self) -> Option<String> {
        let is = |key, value| {
            self.variables
                .get(key)
                .is_some_and(|key| key.eq_ignore_ascii_case(value))
        };
        let is_ipv6 = is("ec2_metadata_service_endpoint_mode", "ipv6");
        let default = if is_ipv6 {
            "http://[fd00:ec2::254]"
        } else {
            "http://169.254.169.254"
        };
        let override_url = self
            .own(&["ec2metadata", "ec2imds"], None)
            .map(|service_override| &*service_override.url);
        let url = override_url
            .or(self.variables.get("ec2_metadata_service_endpoint"))
            .unwrap_or(default);
        (!is("ec2_metadata_disabled", "true")).then(|| url.trim_end_matches('/').to_owned())
    }

    fn own(&self, names: &[&str], region: Option<&str>) -> Option<&ServiceOverride> {
        let is_here = |service_override: &&ServiceOverride| {
            region.is_none_or(|region| service_override.region.trim() == region)
        };
        let of_name = |name: &&str| {
            self.overrides
                .iter()
                .filter(is_here)
                .find(|service_override| service_override.service.trim().eq_ignore_ascii_case(name))
        };
        names.iter().find_map(of_name)
    }

    fn configured(&self, service: &Service) -> Option<String> {
        let key = format!("endpoint_url_{}", service.id.replace(' ', "_"));
        let of_variables = self
            .variables
            .get(&key)
            .or(self.variables.get("endpoint_url"));
        let url = of_variables
            .or(self.profile.get("endpoint_url"))
            .map(str::to_owned);
        url.filter(|_| !self.flag("ignore_configured_endpoint_urls"))
    }

    fn default(&self, service: &Service, region: &str) -> String {
        let is_fips = self.flag("use_fips_endpoint");
        let is_dual = self.flag("use_dualstack_endpoint");
        let partition = PARTITIONS
            .into_iter()
            .find(|(prefix, ..)| region.starts_with(prefix));
        let (prefix, single, dual) = partition.unwrap_or(("", "amazonaws.com", "api.aws"));
        let fips = if is_fips && (is_dual || prefix != GOVERNMENT) {
            "-fips"
        } else {
            ""
        };
        format!(
            "https://{}{fips}.{region}.{}",
            service.host,
            if is_dual { dual } else { single }
        )
    }

    fn flag(&self, key: &str) -> bool {
        self.variables
            .get(key)
            .or(self.profile.get(key))
            .is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }
}
