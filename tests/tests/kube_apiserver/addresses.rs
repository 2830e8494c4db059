//! Changes of machines' addresses.

use anyhow::{Context, Result};
use ccm_tests::wait::until;
use cloud_provider::{AddressType, NodeAddress};
use provider_simulated::cloud::MachineChange;

use crate::cluster::{check_addresses, check_initialised};
use crate::environment::Environment;
use crate::routes::ROUTES;
use crate::scene::{SOON, play};

pub(crate) async fn addresses_that_change_in_the_cloud_change_on_the_node_and_in_its_route(
    environment: &Environment,
) -> Result<()> {
    play(environment, "addresses", &ROUTES, async |scene| {
        let names = scene.members(3).await?;
        scene.routed(&names, &[]).await?;
        let addresses = vec![
            NodeAddress::new(AddressType::InternalIP, "10.77.0.1"),
            NodeAddress::new(AddressType::ExternalIP, "198.18.77.1"),
            NodeAddress::new(AddressType::ExternalIP, "2001:db8::77"),
        ];
        let change = MachineChange {
            addresses: Some(addresses),
            ..MachineChange::default()
        };
        scene
            .cloud()
            .change_machine(&names[1], change)
            .context("no such machine")?;
        // A cached list of machines may be a minute old; a newer machine requires a new one.
        let late = scene.names(4).split_off(3);
        scene.create_machines(&late);
        scene.kubelets.register(&late, true).await?;
        until("the status has the new addresses", SOON, async || {
            let machine = scene
                .cloud()
                .machine(&names[1])
                .context("no such machine")?;
            check_addresses(&scene.nodes().get(&names[1]).await?, &machine)
        })
        .await?;
        let names = [names, late].concat();
        scene.initialised(&names, SOON).await?;
        for name in &names {
            let machine = scene.cloud().machine(name).context("no such machine")?;
            check_initialised(&scene.nodes().get(name).await?, &machine)?;
        }
        // The next hop of the route is the new address.
        scene.routed(&names, &[]).await
    })
    .await
}
