//! Endpoints of the AWS APIs.

/// A section `[ServiceOverride "…"]` of the cloud configuration: another endpoint for one service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceOverride {
    /// The service: `EC2`, `Elastic Load Balancing`, `Elastic Load Balancing v2`, `STS`, or a short ID such as `ec2`,
    /// `elasticloadbalancing`, `sts`, `ec2metadata`; in any case.
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
