//! What every provider passes.

use ccm_tests::openstack_cloud::{OpenStackCloud, openstack_cloud};
use ccm_tests::proofs::{Cost, Limit, inv_1, inv_3, inv_4, inv_7, inv_8, inv_9};
use ccm_tests::{chaos, crash, scene};
use openstack_fake::Options;

/// OpenStack needs thousands of requests for what other clouds do in hundreds. Odd, so that both moments of a request are met.
pub(crate) const EVERY: usize = 9;
/// Seeds of trouble, for the same reason; `CCM_SEEDS` says another number.
const TROUBLES: u64 = 30;

#[test]
fn killed_at_any_request_a_restart_converges_to_the_same_end_state() {
    crash::proof(openstack_cloud, EVERY);
}

#[test]
fn after_all_trouble_everything_converges_and_nothing_is_leaked() {
    chaos::proof(openstack_cloud, TROUBLES);
}

#[tokio::test(start_paused = true)]
async fn inv_1_a_node_is_deleted_only_when_its_server_is_gone_for_certain() {
    inv_1(&OpenStackCloud::new(Options { page_size: 20, ..Options::default() })).await;
}

#[tokio::test(start_paused = true)]
async fn inv_3_a_steady_cluster_hears_nothing_nor_does_a_restart_or_a_flapping_node() {
    inv_3(&scene::on_with_routes(&OpenStackCloud::default())).await;
}

#[tokio::test(start_paused = true)]
async fn inv_4_who_does_not_lead_changes_nothing() {
    inv_4(scene::on_with_routes(&OpenStackCloud::default())).await;
}

#[tokio::test(start_paused = true)]
async fn inv_7_what_is_not_ours_stays_as_it_is_through_a_whole_life() {
    inv_7(&OpenStackCloud::default()).await;
}

#[tokio::test(start_paused = true)]
async fn inv_9_a_service_that_the_api_server_forgot_keeps_its_load_balancer() {
    inv_9(&scene::on_with_routes(&OpenStackCloud::default())).await;
}

#[tokio::test(start_paused = true)]
async fn reads_grow_with_pages_and_writes_with_changes() {
    const NODES: usize = 1000;
    const SERVICES: usize = 20;
    /// Of servers and of ports, as long as pages may be.
    const PAGE: usize = 250;
    const PAGES: usize = NODES.div_ceil(PAGE) + 1;
    let cost = Cost {
        nodes: NODES,
        services: SERVICES,
        initialised: Limit { changes: 0, reads: 6 * PAGES },
        made: Limit { changes: 3 * SERVICES, reads: 10 * SERVICES + 4 * PAGES },
        unchanged: Limit { changes: 0, reads: 8 * SERVICES + 4 * PAGES },
        steady: Limit { changes: 0, reads: 8 * PAGES },
        // One a pool.
        joined: Limit { changes: 2 * SERVICES, reads: 10 * SERVICES + 4 * PAGES },
        // What goes along with it, such as its members, is not read.
        deleted: Limit { changes: SERVICES, reads: 6 * SERVICES },
    };
    inv_8(&OpenStackCloud::plain(Options { page_size: PAGE, ..Options::default() }), &cost).await;
}
