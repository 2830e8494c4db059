//! The conformance suite on a fake of Oracle Cloud's APIs, and tests of what is particular to this cloud.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

mod adoption;
mod configuration;
mod contract;
mod harness;
mod load_balancers;
mod neighbours;
mod nodes;
mod orphans;
mod principals;
mod profile;
mod takeover;

/// The conformance suite with load balancers.
mod load_balancer {
    use crate::profile::OciCloud;

    ccm_conformance::conformance!(OciCloud::default());
}

/// The proofs that network security groups add something to.
mod security_groups {
    use crate::profile::OciCloud;

    ccm_conformance::conformance! { @tests OciCloud::groups();
        killed_at_any_request_a_restart_converges_to_the_same_end_state
        chaos_ends_in_convergence_and_leaks_nothing
        another_accounts_credential_creates_and_deletes_no_load_balancer
        credential_that_changes_amid_a_deletion_loses_no_load_balancer
        drift_is_repaired_at_the_next_sync
        deleted_services_leave_nothing_behind
        killed_at_any_request_orphans_deletes_the_rest_the_next_time
    }
}

/// The conformance suite with network load balancers.
mod network_load_balancer {
    use crate::profile::OciCloud;

    ccm_conformance::conformance!(OciCloud::network());
}
