//! Series about requests to the cloud, with the names of the Go programs (MET-40).

use super::Presence::Use;
use super::{CONVENTIONAL, Series, table};

table!(CLOUDS {
    CLOUD_REQUEST_DURATION = Series::histogram("cloudprovider_<provider>_api_request_duration_seconds", CONVENTIONAL)
        .by(&["request"]).from(Use)
        .help("Latency of requests to the cloud, in seconds.");
    CLOUD_REQUEST_ERRORS = Series::counter("cloudprovider_<provider>_api_request_errors").by(&["request"]).from(Use)
        .help("Requests that the cloud refused or did not answer; HTTP 404 does not count.");
    CLOUD_THROTTLED = Series::counter("cloudprovider_<provider>_api_throttled_requests_total").by(&["operation_name"])
        .from(Use)
        .help("Requests that the cloud throttled.");
});
