//! A vendor's whole binary: its own provider, and the manager around it.
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut providers = cloud_provider::Registry::new();
    providers.register("acme", provider_simulated::provider::factory);
    manager::run(&providers)
}
