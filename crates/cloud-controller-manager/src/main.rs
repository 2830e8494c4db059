//! The cloud controller manager: the list of providers, and a demo.

mod demo;

use std::process::ExitCode;

use cloud_provider::Registry;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(first) if first == "demo" => return demo::main(arguments),
        Some(first) if first == "help" && arguments.next().is_some_and(|next| next == "demo") => {
            return demo::main(["--help".into()]);
        }
        _ => {}
    }
    manager::run(&providers())
}

/// Every cloud that this binary knows.
fn providers() -> Registry {
    let mut providers = Registry::new();
    providers.register(provider_simulated::provider::NAME, provider_simulated::provider::factory);
    #[cfg(feature = "mycloud")]
    providers.register(provider_mycloud::NAME, provider_mycloud::factory);
    #[cfg(feature = "gce")]
    providers.register(provider_gcp::NAME, provider_gcp::factory);
    #[cfg(feature = "linode")]
    providers.register(provider_linode::NAME, provider_linode::factory);
    #[cfg(feature = "digitalocean")]
    providers.register(provider_digitalocean::NAME, provider_digitalocean::factory);
    #[cfg(feature = "hcloud")]
    providers.register(provider_hetzner::NAME, provider_hetzner::factory);
    #[cfg(feature = "openstack")]
    providers.register(provider_openstack::NAME, provider_openstack::factory);
    providers
}
