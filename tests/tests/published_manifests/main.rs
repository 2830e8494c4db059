//! Published manifests of other cloud controller managers, with only the image changed: each container's command,
//! arguments and variables start the binary in the file system of the image (FLAG-70).
//!
//! Rules: D-12, D-370, D-371, D-372.
//!
//! `manifests.yaml` has the facts. `--nocapture` prints the result of each manifest.

mod files;
mod image;
mod manifest;
mod run;

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::StreamExt as _;

use crate::image::Image;
use crate::manifest::{Manifest, manifests};
use crate::run::Harness;

/// Programs that run at a time.
const PARALLEL: usize = 4;

#[test]
fn links_of_the_image_lead_to_the_binary() {
    let image = Image::new();
    for directory in ["/", "/bin/", "/usr/local/bin/"] {
        for name in image.programs() {
            let path = format!("{directory}{name}");
            assert_eq!(
                image.resolve(&path).as_deref(),
                Some(image.binary()),
                "{path}"
            );
        }
    }
    assert!(image.resolve("/bin/another-controller-manager").is_none());
}

#[test]
fn image_keeps_certificates_where_no_mount_hides_them() {
    let image = Image::new();
    for bundle in [
        "/etc/ssl/certs/ca-certificates.crt",
        "/usr/share/ccm-rs/ca-certificates.crt",
    ] {
        assert!(image.host_path(bundle).is_file(), "{bundle}");
    }
}

/// The port and the scheme are those of the manifest's own arguments; the processes below listen on free ports.
#[test]
fn published_manifests_set_provider_and_probed_port() {
    for manifest in manifests()
        .iter()
        .filter(|manifest| manifest.exception.is_none())
    {
        let configuration = manifest.configuration();
        assert_eq!(
            configuration.cloud.provider, manifest.provider,
            "{manifest}"
        );
        let Some(probe) = &manifest.probe else {
            continue;
        };
        let health = configuration
            .health_listener
            .map(|health| health.address.port());
        let is_answered = match &*probe.scheme {
            "HTTPS" => configuration.serving.port == probe.port,
            _ => {
                health == Some(probe.port)
                    || (configuration.plain_health && configuration.serving.port == probe.port)
            }
        };
        assert!(
            is_answered,
            "{manifest}: nothing answers the probe {probe:?}"
        );
    }
}

/// The table has each cloud of this project for which a vendor publishes a program.
#[test]
fn published_manifests_of_every_cloud_are_known() {
    let known: BTreeSet<_> = manifests()
        .iter()
        .map(|manifest| manifest.provider.clone())
        .collect();
    let expected = [
        "alibabacloud",
        "alicloud",
        "aws",
        "azure",
        "cce",
        "digitalocean",
        "gce",
        "hcloud",
        "keepalived",
        "linode",
        "oci",
        "openstack",
        "rancher",
        "tencentcloud",
    ];
    assert_eq!(known, expected.map(String::from).into());
}

#[tokio::test(flavor = "multi_thread")]
async fn published_manifests_start_with_only_the_image_changed() {
    ccm_tests::install_crypto();
    let image = Arc::new(Image::new());
    let results = futures::stream::iter(manifests().into_iter().map(|manifest| {
        let image = Arc::clone(&image);
        async move {
            let result = start(&image, &manifest).await;
            (manifest, result)
        }
    }));
    let mut failed = Vec::new();
    let mut results = results.buffered(PARALLEL);
    while let Some((manifest, result)) = results.next().await {
        match &result {
            Ok(state) => println!("{} | {manifest} | {state}", manifest.provider),
            Err(error) => failed.push(format!("{manifest}: {error:#}")),
        }
    }
    assert!(
        failed.is_empty(),
        "{} manifests do not start:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

/// Starts the container of a manifest and waits until its health is served. Returns the state for the table.
async fn start(image: &Image, manifest: &Manifest) -> anyhow::Result<String> {
    if let Some(exception) = &manifest.exception {
        return Ok(format!("exception: {exception}"));
    }
    let harness = Harness::new(image, manifest).await?;
    harness.until_healthy().await?;
    let image = if manifest.image_provider.is_empty() {
        String::new()
    } else {
        format!(
            ", image built with CLOUD_PROVIDER={}",
            manifest.image_provider
        )
    };
    let remark = manifest
        .remark
        .iter()
        .map(|remark| format!("; {remark}"))
        .collect::<String>();
    Ok(format!("starts{image}{remark}"))
}

/// A variable that names certificates is not replaced by other certificates: nobody else shall be trusted.
#[tokio::test]
async fn start_without_certificates_says_what_to_do() {
    ccm_tests::install_crypto();
    let image = Image::new();
    let all = manifests();
    let mut manifest = all
        .into_iter()
        .find(|manifest| manifest.provider == "hcloud")
        .expect("a manifest of hcloud");
    manifest
        .env
        .insert("SSL_CERT_FILE".to_owned(), "/no/such/bundle.crt".to_owned());
    let error = Harness::new(&image, &manifest)
        .await
        .expect("a process")
        .until_healthy()
        .await
        .expect_err("no certificate");
    let text = format!("{error:#}");
    assert!(
        text.contains("no certificate could be loaded from SSL_CERT_FILE=\"/no/such/bundle.crt\""),
        "{text}"
    );
}
