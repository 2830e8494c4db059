//! The settings without which a program cannot start on a cloud, by cloud. Nothing optional is set: a key is here because
//! the program refuses to start without it, because it is the credential, or because it leads to the fakes on loopback.

use ccm_conformance::{CloudProfile, ProgramSettings};
use serde_json::json;

use crate::{clouds, mycloud};

/// A cloud, the settings for its start, and the facts that `doctor` then shows.
pub(crate) struct Row {
    /// Name of the provider, and of the profile of its fake.
    pub(crate) cloud: &'static str,
    /// Returns the settings for fakes at this URL. The second argument is what other tests set.
    pub(crate) settings: fn(&str, &ProgramSettings) -> ProgramSettings,
    /// Parts of the output of `doctor`.
    pub(crate) found: &'static [&'static str],
}

pub(crate) static ROWS: [Row; 14] = [
    Row {
        cloud: "alibabacloud",
        settings: alibaba,
        found: &[],
    },
    Row {
        cloud: "aws",
        settings: aws,
        found: &[
            "EC2 in region us-east-1",
            "ID \"testbed\", VPC vpc-0a1b2c3d",
        ],
    },
    Row {
        cloud: "azure",
        settings: azure,
        found: &[],
    },
    Row {
        cloud: "cce",
        settings: baidu,
        found: &[],
    },
    Row {
        cloud: "digitalocean",
        settings: digitalocean,
        found: &["cloud region: fra1"],
    },
    Row {
        cloud: "gce",
        settings: gcp,
        found: &["cloud zone: us-central1-a"],
    },
    Row {
        cloud: "hcloud",
        settings: hetzner,
        found: &[],
    },
    Row {
        cloud: "keepalived",
        settings: keepalived,
        found: &[],
    },
    Row {
        cloud: "linode",
        settings: linode,
        found: &[],
    },
    Row {
        cloud: "mycloud",
        settings: mycloud_settings,
        found: &[],
    },
    Row {
        cloud: "oci",
        settings: oci,
        found: &[],
    },
    Row {
        cloud: "openstack",
        settings: openstack,
        found: &[],
    },
    Row {
        cloud: "rancher",
        settings: rancher,
        found: &[],
    },
    Row {
        cloud: "tencentcloud",
        settings: tencent,
        found: &[],
    },
];

/// Returns the row of a cloud, and the profile of its fake; keepalived has none.
pub(crate) fn of(cloud: &str) -> (&'static Row, Option<Box<dyn CloudProfile>>) {
    let row = ROWS
        .iter()
        .find(|row| row.cloud == cloud)
        .expect("a row of the table");
    let profile = match cloud {
        "keepalived" => None,
        "mycloud" => Some(Box::new(mycloud::MycloudCloud::default()) as Box<dyn CloudProfile>),
        other => Some(clouds::by_name(other).expect("a profile")),
    };
    (row, profile)
}

fn variables<const N: usize>(all: [(&str, &str); N]) -> ProgramSettings {
    let environment = all
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    ProgramSettings {
        environment,
        cloud_config: None,
    }
}

fn file(text: impl Into<String>) -> ProgramSettings {
    ProgramSettings {
        environment: Vec::new(),
        cloud_config: Some(text.into()),
    }
}

fn alibaba(url: &str, _: &ProgramSettings) -> ProgramSettings {
    variables([
        ("ECS_ENDPOINT", url),
        ("VPC_ENDPOINT", url),
        ("SLB_ENDPOINT", url),
        ("NLB_ENDPOINT", url),
        ("METADATA_ENDPOINT", url),
        ("ALICLOUD_CLIENT_SCHEME", "HTTP"),
    ])
}

fn aws(url: &str, _: &ProgramSettings) -> ProgramSettings {
    variables([
        ("AWS_ENDPOINT_URL", url),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", url),
    ])
}

fn azure(url: &str, other: &ProgramSettings) -> ProgramSettings {
    let config = json!({
        "cloud": "AzureStackCloud", "tenantId": azure_fake::TENANT, "subscriptionId": azure_fake::SUBSCRIPTION,
        "resourceGroup": azure_fake::GROUP, "location": azure_fake::LOCATION, "useManagedIdentityExtension": true,
    });
    // The file with the endpoints of the custom cloud.
    let mut environment = other.environment.clone();
    environment.push((
        "AZURE_POD_IDENTITY_AUTHORITY_HOST".to_owned(),
        url.to_owned(),
    ));
    ProgramSettings {
        environment,
        ..file(config.to_string())
    }
}

fn baidu(url: &str, _: &ProgramSettings) -> ProgramSettings {
    let config = json!({
        "ClusterId": "c-1", "Region": "bj", "AccessKeyID": baidu_fake::KEY, "SecretAccessKey": baidu_fake::SECRET,
    });
    ProgramSettings {
        cloud_config: Some(config.to_string()),
        ..variables([("BCE_ENDPOINT", url)])
    }
}

fn digitalocean(url: &str, _: &ProgramSettings) -> ProgramSettings {
    variables([
        ("DO_ACCESS_TOKEN", digitalocean_fake::TOKEN),
        ("DO_OVERRIDE_URL", url),
        ("DO_METADATA_URL", url),
    ])
}

fn gcp(url: &str, _: &ProgramSettings) -> ProgramSettings {
    let host = url.trim_start_matches("http://");
    let config = format!("[global]\napi-endpoint = {url}/compute/v1/\n");
    ProgramSettings {
        cloud_config: Some(config),
        ..variables([("GCE_METADATA_HOST", host)])
    }
}

fn hetzner(url: &str, _: &ProgramSettings) -> ProgramSettings {
    variables([
        ("HCLOUD_TOKEN", hetzner_fake::TOKEN),
        ("HCLOUD_ENDPOINT", &format!("{url}/v1")),
    ])
}

fn keepalived(_: &str, _: &ProgramSettings) -> ProgramSettings {
    variables([
        ("KEEPALIVED_NAMESPACE", "kube-system"),
        ("KEEPALIVED_CONFIG_MAP", "vip-configmap"),
        ("KEEPALIVED_SERVICE_CIDR", "192.0.2.64/26"),
    ])
}

fn linode(url: &str, _: &ProgramSettings) -> ProgramSettings {
    variables([
        ("LINODE_API_TOKEN", linode_fake::TOKEN),
        ("LINODE_REGION", "us-east"),
        ("LINODE_URL", url),
    ])
}

fn mycloud_settings(url: &str, _: &ProgramSettings) -> ProgramSettings {
    use crate::fake::{REGION, TOKEN};
    file(format!(
        "[Global]\nendpoint = {url}\nregion = {REGION}\ncluster-id = prod\ntoken = {TOKEN}\n\
         [LoadBalancer]\nsubnet-id = sn-1\n"
    ))
}

fn oci(url: &str, _: &ProgramSettings) -> ProgramSettings {
    use oci_fake::{FINGERPRINT, KEY, LB_SUBNET, TENANCY, USER};
    let key = KEY.replace('\n', "\n    ");
    let config = format!(
        "auth:\n  tenancy: {TENANCY}\n  user: {USER}\n  fingerprint: {FINGERPRINT}\n  key: |\n    {key}\n\
         loadBalancer:\n  subnet1: {LB_SUBNET}\nendpoint: {url}\n"
    );
    let metadata = format!("{url}/opc/v2");
    ProgramSettings {
        cloud_config: Some(config),
        ..variables([("OCI_METADATA_BASE_URL", &metadata)])
    }
}

fn openstack(url: &str, _: &ProgramSettings) -> ProgramSettings {
    use openstack_fake::{DOMAIN, PASSWORD, PROJECT, USER};
    file(format!(
        "[Global]\nauth-url = {url}/identity/v3\nusername = {USER}\npassword = {PASSWORD}\ntenant-name = {PROJECT}\n\
         domain-name = {DOMAIN}\n"
    ))
}

fn rancher(url: &str, _: &ProgramSettings) -> ProgramSettings {
    use rancher_fake::{ACCESS_KEY, SECRET_KEY};
    variables([
        ("CATTLE_URL", url),
        ("CATTLE_ACCESS_KEY", ACCESS_KEY),
        ("CATTLE_SECRET_KEY", SECRET_KEY),
    ])
}

fn tencent(url: &str, _: &ProgramSettings) -> ProgramSettings {
    file(json!({"endpoint_domain": url, "metadata_endpoint": url}).to_string())
}
