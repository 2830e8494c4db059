//! A cloud under test that is a fake: tests can break it, and ask what it was asked.

use fake_cloud::{Fault, Gate};
use serde_json::Value;

use crate::cloud_under_test::CloudUnderTest;

/// What [`proofs`](crate::proofs) need of a fake, beside what every cloud under test has. Clones share the cloud.
pub trait FakedCloud: CloudUnderTest + Clone + 'static {
    /// The route of the list of machines: `GET /servers`.
    const MACHINES: &'static str;
    /// Routes that are asked as time passes, and not as there is work: whether something is ready, for a token.
    const LOOKS: &'static [&'static str];

    /// Its faults, and the account of requests.
    fn gate(&self) -> &Gate;

    /// Ways to be wrong about machines that other clouds have not, beside [`Fault::of_list`].
    fn own_faults(&self) -> Vec<Fault> {
        Vec::new()
    }

    /// Makes what others may have beside the cluster, wherever it shares something with them: load balancers in its project,
    /// routes in its network, something on the ports of its machines. `worker-1`, `worker-2` and `worker-3` are there.
    fn leave_things_of_others(&self);

    /// What of it is there now.
    fn things_of_others(&self) -> Vec<Value>;
}
