//! The proofs. Each is a function of a [`MakeProfile`] that panics if the proof fails; [`conformance!`](crate::conformance) makes a
//! test of each.

mod cost;
mod creation;
mod credentials;
mod deletion;
mod endless;
mod explanations;
mod fence;
mod forgotten;
mod isolation;
mod lists;
mod nodes;
mod orphans;
mod ownership;
mod refusals;
mod silence;
mod take_over;
mod trouble;

pub use cost::{Cost, Limit, reads_grow_with_pages_and_writes_with_changes};
pub use creation::{
    lagging_lists_lead_to_no_second_load_balancer, late_creations,
    late_creations_lead_to_no_second_load_balancer, lost_answers_lead_to_no_second_load_balancer,
};
pub use credentials::{
    another_accounts_credential_creates_and_deletes_no_load_balancer,
    credential_that_changes_amid_a_deletion_loses_no_load_balancer,
};
pub use deletion::{
    deleted_services_leave_nothing_behind,
    finalizer_comes_before_the_first_cloud_write_and_goes_after_the_last,
    protected_load_balancers_stay_until_the_protection_ends,
    services_are_deleted_after_their_machines,
};
pub use endless::{
    endless_answers_are_read_up_to_a_limit_and_prove_nothing,
    endless_lists_are_given_up_and_prove_nothing,
};
pub use explanations::explanations_name_the_owner_and_the_nodes_and_change_nothing;
pub use fence::program_that_does_not_lead_changes_nothing;
pub use forgotten::forgotten_services_and_nodes_keep_their_load_balancers;
pub use isolation::hanging_and_failing_services_delay_no_other_service;
pub use lists::{partial_lists, partial_lists_of_load_balancers_prove_no_absence};
pub use nodes::nodes_are_deleted_only_when_their_machine_is_gone_for_certain;
pub use orphans::{
    killed_at_any_request_orphans_deletes_the_rest_the_next_time,
    orphans_lists_and_deletes_what_deleted_services_left_and_nothing_else,
};
pub use ownership::{
    adopted_load_balancers_outlive_their_services, drift_is_repaired_at_the_next_sync,
    moved_services_stay_reachable_and_leave_nothing_behind,
    settings_of_the_creation_that_change_are_done_or_refused, tags_of_users_never_touch_owner_tags,
    things_of_others_stay_as_they_are, twins_of_load_balancers_stay_and_are_reported,
    unowned_load_balancers_are_adopted_or_refused,
};
pub use refusals::{
    refused_quota_is_reported_and_tried_again, throttled_program_waits_as_long_as_the_cloud_asks,
};
pub use silence::steady_cluster_restart_and_flapping_node_change_nothing;
pub use take_over::objections;
pub use trouble::{
    chaos_ends_in_convergence_and_leaks_nothing,
    killed_at_any_request_a_restart_converges_to_the_same_end_state,
};

use std::time::Duration;

use crate::profile::MakeProfile;
use crate::virtual_time::VirtualTime;
use crate::{Harness, Program};

/// Runs a proof in virtual time on a fresh cluster with routes, if the cloud has them.
fn prove(make: MakeProfile, proof: impl AsyncFnOnce(Harness)) {
    let harness = Harness::boxed(make()).routes().build();
    VirtualTime::default().live(async || proof(harness).await);
}

async fn minutes(count: u64) {
    tokio::time::sleep(Duration::from_secs(60 * count)).await;
}

/// Starts the program and waits until everything is settled.
async fn settled(harness: &Harness) -> Program {
    let program = harness.start().await.expect("a start");
    harness.settle().await;
    program
}
