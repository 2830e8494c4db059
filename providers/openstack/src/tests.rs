//! Services over the fake, for the tests of this crate's modules.

use cloud_provider::{ConfigFile, Setup};
use openstack_fake::Fake;
use provider_kit::transport::in_process;

use crate::config::Config;
use crate::services::Services;

/// Returns the fake's services, with `more` lines of the configuration.
pub(crate) fn services(fake: &Fake, more: &str) -> (Services, Config) {
    use openstack_fake::{DOMAIN, ENDPOINT, PASSWORD, PROJECT, REGION, USER};
    let text = format!(
        "[Global]\nauth-url={ENDPOINT}/identity/v3\nusername={USER}\npassword={PASSWORD}\ntenant-name={PROJECT}\n\
         domain-name={DOMAIN}\nregion={REGION}\n{more}"
    );
    let setup = Setup::of(ConfigFile {
        path: "cloud.conf".into(),
        text,
    });
    let config = Config::read(&setup).unwrap();
    (
        Services::over(&config, &setup, in_process(fake.router())).unwrap(),
        config,
    )
}
