//! Series of leader election (MET-22).

use super::Presence::Use;
use super::{Series, table};

table!(ELECTION {
    MASTER_STATUS = Series::gauge("leader_election_master_status").by(&["name"]).from(Use)
        .help("1 if this process holds the lease of this name, 0 if it is a standby.");
    SLOW_PATH = Series::counter("leader_election_slowpath_total").by(&["name"]).from(Use)
        .help("Renewals of the lease of this name that had to read the lease first.");
});
