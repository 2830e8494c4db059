//! INV-2: kills at every request, and everything at once.

use crate::profile::{Effort, MakeProfile};
use crate::{chaos, crash};

/// INV-2: the program is killed before, at and after every request of every scenario, and converges after a restart.
///
/// # Panics
/// If it does not hold.
pub fn killed_at_any_request_a_restart_converges_to_the_same_end_state(make: MakeProfile) {
    crash::proof(make, Effort::of(&*make()).crash_every);
}

/// INV-2: users, kubelets, machines, both APIs and the program itself do as the dice fall; then everything converges.
///
/// # Panics
/// If it does not hold.
pub fn chaos_ends_in_convergence_and_leaks_nothing(make: MakeProfile) {
    chaos::proof(make, Effort::of(&*make()).chaos_seeds);
}
