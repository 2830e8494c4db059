//! The provider's parts over the fake, for their tests.

use cloud_provider::{ConfigFile, Setup};
use openstack_fake::Fake;
use provider_kit::transport::in_process;

use crate::config::Config;
use crate::services::Services;

/// The fake's services, with more of a configuration than it takes to reach them.
pub(crate) fn services(fake: &Fake, more: &str) -> (Services, Config) {
    use openstack_fake::{DOMAIN, ENDPOINT, PASSWORD, PROJECT, REGION, USER};
    let text = format!(
        "[Global]\nauth-url={ENDPOINT}/identity/v3\nusername={USER}\npassword={PASSWORD}\ntenant-name={PROJECT}\n\
         domain-name={DOMAIN}\nregion={REGION}\n{more}"
    );
    let setup = Setup::of(ConfigFile { path: "cloud.conf".into(), text });
    let config = Config::read(&setup).unwrap();
    (Services::over(&config, &setup, in_process(fake.router())).unwrap(), config)
}
