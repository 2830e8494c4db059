//! The cloud controller manager with all providers of this project, and a demo.

#[cfg(feature = "demo")]
mod demo;

use std::process::ExitCode;

use cloud_provider::Registry;
use manager::Manager;

fn main() -> ExitCode {
    #[cfg(feature = "demo")]
    if let Some(code) = demo::requested(std::env::args_os().skip(1)) {
        return code;
    }
    let providers = providers();
    let manager = Manager::new(&providers);
    #[cfg(feature = "demo")]
    let manager = manager.subcommand(demo::command());
    manager.run()
}

/// Returns the providers of this binary.
fn providers() -> Registry {
    let mut providers = Registry::new();
    #[cfg(feature = "demo")]
    providers.register(
        provider_simulated::provider::NAME,
        provider_simulated::provider::factory,
    );
    #[cfg(feature = "rancher")]
    providers.register(provider_rancher::NAME, provider_rancher::factory);
    #[cfg(feature = "alibabacloud")]
    {
        providers.register(provider_alibaba::NAME, provider_alibaba::factory);
        providers.register(provider_alibaba::ALIAS, provider_alibaba::alicloud);
    }
    #[cfg(feature = "aws")]
    providers.register(provider_aws::NAME, provider_aws::factory);
    #[cfg(feature = "azure")]
    providers.register(provider_azure::NAME, provider_azure::factory);
    #[cfg(feature = "cce")]
    for name in [provider_baidu::NAME, provider_baidu::ALIAS] {
        providers.register(name, provider_baidu::factory);
    }
    #[cfg(feature = "mycloud")]
    providers.register(provider_mycloud::NAME, provider_mycloud::factory);
    #[cfg(feature = "gce")]
    providers.register(provider_gcp::NAME, provider_gcp::factory);
    #[cfg(feature = "keepalived")]
    providers.register(provider_keepalived::NAME, provider_keepalived::factory);
    #[cfg(feature = "linode")]
    providers.register(provider_linode::NAME, provider_linode::factory);
    #[cfg(feature = "digitalocean")]
    providers.register(provider_digitalocean::NAME, provider_digitalocean::factory);
    #[cfg(feature = "hcloud")]
    providers.register(provider_hetzner::NAME, provider_hetzner::factory);
    #[cfg(feature = "oci")]
    providers.register(provider_oci::NAME, provider_oci::factory);
    #[cfg(feature = "openstack")]
    providers.register(provider_openstack::NAME, provider_openstack::factory);
    #[cfg(feature = "tencentcloud")]
    providers.register(provider_tencent::NAME, provider_tencent::factory);
    #[cfg(not(feature = "clouds"))]
    providers
        .left_out("`cargo build --release -p cloud-controller-manager` builds it with all clouds");
    providers
}
