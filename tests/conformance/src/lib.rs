//! The conformance suite of cloud providers: one set of proofs over a [`CloudProfile`], which is the fake of a cloud and the
//! provider for it.
//!
//! The proofs run the whole program (all controllers, the provider) between an in-process Kubernetes API server and the fake,
//! in virtual time: a simulated day takes a second. A provider, in this workspace or in another, inherits all of them by one
//! line in a test target:
//!
//! ```ignore
//! ccm_conformance::conformance!(AcmeProfile::default());
//! ```
//!
//! Each proof becomes a test with a name of its own. `CCM_SCENARIO`, `CCM_CRASH_EVERY`, `CCM_SEED` and `CCM_SEEDS` choose among
//! crash points and seeds; `CCM_CHANGED_CLOUDS` names the clouds that are tried at all of them, and the others at a fifth.

pub mod account;
pub mod breaches;
pub mod chaos;
pub mod crash;
pub mod end_state;
pub mod fault_injector;
pub mod harness;
pub mod json;
pub mod node_object;
pub mod observed_provider;
pub mod predecessor;
mod profile;
pub mod proofs;
pub mod settled;
pub mod user;
pub mod virtual_time;

pub use account::{Account, CloudApi, PATIENCE};
pub use fake_cloud::FaultInjector;
pub use harness::{Harness, Program};
pub use profile::{
    ApiRequests, Capabilities, CloudProfile, Effort, LoadBalancerFacts, Machine, MakeProfile,
    Namesake, ProgramSettings, RouteFacts,
};
pub use proofs::{Cost, Limit};

/// Runs all proofs on a profile; each is a test. The expression is evaluated for each run.
#[macro_export]
macro_rules! conformance {
    ($profile:expr) => {
        $crate::conformance! { @tests $profile;
            nodes_are_deleted_only_when_their_machine_is_gone_for_certain
            killed_at_any_request_a_restart_converges_to_the_same_end_state
            chaos_ends_in_convergence_and_leaks_nothing
            finalizer_comes_before_the_first_cloud_write_and_goes_after_the_last
            steady_cluster_restart_and_flapping_node_change_nothing
            program_that_does_not_lead_changes_nothing
            hanging_and_failing_services_delay_no_other_service
            things_of_others_stay_as_they_are
            reads_grow_with_pages_and_writes_with_changes
            forgotten_services_and_nodes_keep_their_load_balancers
            endless_answers_are_read_up_to_a_limit_and_prove_nothing
            endless_lists_are_given_up_and_prove_nothing
            partial_lists_of_load_balancers_prove_no_absence
            late_creations_lead_to_no_second_load_balancer
            lagging_lists_lead_to_no_second_load_balancer
            lost_answers_lead_to_no_second_load_balancer
            another_accounts_credential_creates_and_deletes_no_load_balancer
            credential_that_changes_amid_a_deletion_loses_no_load_balancer
            refused_quota_is_reported_and_tried_again
            protected_load_balancers_stay_until_the_protection_ends
            services_are_deleted_after_their_machines
            twins_of_load_balancers_stay_and_are_reported
            settings_of_the_creation_that_change_are_done_or_refused
            tags_of_users_never_touch_owner_tags
            unowned_load_balancers_are_adopted_or_refused
            adopted_load_balancers_outlive_their_services
            moved_services_stay_reachable_and_leave_nothing_behind
            drift_is_repaired_at_the_next_sync
            deleted_services_leave_nothing_behind
            orphans_lists_and_deletes_what_deleted_services_left_and_nothing_else
            killed_at_any_request_orphans_deletes_the_rest_the_next_time
            throttled_program_waits_as_long_as_the_cloud_asks
            explanations_name_the_owner_and_the_nodes_and_change_nothing
        }
    };
    (@tests $profile:expr; $($proof:ident)*) => {
        $(#[test]
        fn $proof() {
            $crate::proofs::$proof(|| ::std::boxed::Box::new($profile));
        })*
    };
}
