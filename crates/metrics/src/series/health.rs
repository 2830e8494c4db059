//! Series about health (MET-30), at a path of its own (MET-2).

use super::Presence::{Start, Use};
use super::Stability::{Convention, Stable};
use super::{Series, table};

table!(HEALTH {
    HEALTH_CHECK = Series::gauge("kubernetes_healthcheck").by(&["name", "type"]).is(Stable).from(Use)
        .help("Last result of a health check: 1 healthy, 0 unhealthy.");
    HEALTH_CHECKS = Series::counter("kubernetes_healthchecks_total").by(&["name", "type", "status"]).is(Stable).from(Use)
        .help("Results of a health check, by status.");
    PROCESS_START_TIME_OF_SLIS = Series::gauge("process_start_time_seconds").is(Convention).from(Start)
        .help("Start time of the process, in seconds since the Unix epoch.");
});
