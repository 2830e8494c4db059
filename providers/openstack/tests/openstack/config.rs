//! Configuration from `cloud.conf`, `clouds.yaml` and the environment; errors are reported together.

mod clouds;
mod credentials;
mod sections;

use cloud_provider::{ConfigFile, Environment, Setup};
use provider_openstack::config::Config;

/// A credential that is enough.
const ENOUGH: &str =
    "[Global]\nauth-url = http://keystone\nuser-id = u\npassword = s3cret\ntenant-id = p\n";

fn setup(text: &str, environment: &[(&str, &str)]) -> Setup {
    let config = Some(ConfigFile {
        path: "cloud.conf".into(),
        text: text.into(),
    });
    Setup {
        config,
        environment: Environment::of(environment.iter().copied()),
        ..Setup::default()
    }
}

/// Parses this text as the whole file.
fn read(text: &str) -> Result<Config, String> {
    Config::read(&setup(text, &[])).map_err(|err| {
        assert!(err.is_invalid());
        err.to_string()
    })
}

/// Parses a sufficient credential followed by this text.
fn with(text: &str) -> Config {
    read(&format!("{ENOUGH}{text}")).unwrap()
}

/// Reads an invalid configuration and returns all errors.
#[track_caller]
fn wrong(text: &str) -> String {
    let told = read(text).unwrap_err();
    assert!(!told.contains("s3cret"), "{told}");
    told
}
