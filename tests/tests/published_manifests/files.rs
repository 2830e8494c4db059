//! Contents of the files that published manifests mount: valid, with invented identities.

use oci_fake::{COMPARTMENT, FINGERPRINT, KEY, LB_SUBNET, TENANCY, USER, VCN};
use serde::Deserialize;
use serde_json::json;

/// The kind of a file's content.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Content {
    Alibaba,
    Aws,
    AwsCredentials,
    Azure,
    Baidu,
    Certificate,
    Gce,
    GcpCredentials,
    Key,
    Kubeconfig,
    Oci,
    Openstack,
    Token,
}

/// The parts that are different in each run.
pub(crate) struct Generated {
    /// URL of the API server.
    pub(crate) api_server: String,
    /// A certificate and its key in the form of PEM.
    pub(crate) certificate: (String, String),
}

impl Content {
    /// Returns the text of a file.
    pub(crate) fn text(self, generated: &Generated) -> String {
        match self {
            Self::Alibaba => json!({"Global": {
                "accessKeyID": "MDAwMA==", "accessKeySecret": "MDAwMA==", "clusterID": "c-1", "region": "cn-hangzhou",
                "vpcid": "vpc-1", "vswitchid": "cn-hangzhou-a:vsw-1",
            }})
            .to_string(),
            Self::Aws => "[Global]\nZone = eu-west-1a\nVPC = vpc-00000000\nKubernetesClusterID = minimal.example.com\n".to_owned(),
            Self::AwsCredentials => "[default]\naws_access_key_id = AKIA0000\naws_secret_access_key = 0000\n".to_owned(),
            Self::Azure => json!({
                "cloud": "AzurePublicCloud", "tenantId": "00000000-0000-0000-0000-000000000001",
                "subscriptionId": "00000000-0000-0000-0000-000000000002", "aadClientId": "00000000-0000-0000-0000-000000000003",
                "aadClientSecret": "0000", "resourceGroup": "nodes", "location": "westeurope", "vmType": "vmss",
                "subnetName": "default", "securityGroupName": "nodes", "vnetName": "net", "routeTableName": "routes",
                "loadBalancerSku": "standard", "maximumLoadBalancerRuleCount": 250, "useInstanceMetadata": true,
            })
            .to_string(),
            Self::Baidu => json!({
                "ClusterId": "c-1", "Region": "bj", "AccessKeyID": "0000", "SecretAccessKey": "0000", "VpcId": "vpc-1",
                "MasterId": "i-1", "Endpoint": "http://cce.bj.baidubce.com",
            })
            .to_string(),
            Self::Certificate => generated.certificate.0.clone(),
            Self::Gce => "[global]\nproject-id = demo\nnetwork-name = default\nlocal-zone = us-central1-a\nnode-tags = nodes\n".to_owned(),
            Self::GcpCredentials => json!({
                "type": "service_account", "project_id": "demo", "private_key_id": "0", "private_key": KEY,
                "client_email": "ccm@demo.iam.gserviceaccount.com", "token_uri": "https://oauth2.googleapis.com/token",
            })
            .to_string(),
            Self::Key => generated.certificate.1.clone(),
            Self::Kubeconfig => embedded_apiserver::kubeconfig(&generated.api_server, None, None),
            Self::Oci => format!(
                "auth:\n  region: us-phoenix-1\n  tenancy: {TENANCY}\n  user: {USER}\n  fingerprint: {FINGERPRINT}\n  key: |\n    {}\n\
                 compartment: {COMPARTMENT}\nvcn: {VCN}\nloadBalancer:\n  subnet1: {LB_SUBNET}\n",
                KEY.replace('\n', "\n    ")
            ),
            Self::Openstack => "[Global]\nauth-url = https://keystone.invalid:5000/v3\napplication-credential-id = 0000\n\
                 application-credential-secret = 0000\nregion = RegionOne\n"
                .to_owned(),
            Self::Token => "0000\n".to_owned(),
        }
    }
}
