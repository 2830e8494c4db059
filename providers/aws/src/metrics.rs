//! The series that dashboards know from the Go program.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::CloudMetrics;
use provider_kit::series::CONVENTIONAL;

provider_kit::series! {
    /// Latency of requests to AWS.
    DURATION: Histogram(CONVENTIONAL) = "cloudprovider_aws_api_request_duration_seconds", "request";
    /// Requests to AWS that failed.
    ERRORS: Counter = "cloudprovider_aws_api_request_errors", "request";
    /// Requests that AWS throttled.
    THROTTLED: Counter = "cloudprovider_aws_api_throttled_requests_total", "operation_name";
    /// Refusals of AWS, by status.
    STATUS: Counter = "cloudprovider_aws_api_response_status_total", "service", "operation", "status_code";
    /// Errors of the tagging controller.
    TAGGING_ERRORS: Counter = "cloudprovider_aws_tagging_controller_work_item_errors_total", "error_type", "instance_id";
    /// Time from the creation of a Node until its instance has the tags.
    TAGGING_DELAY: Histogram(&[1.0, 4.0, 16.0, 64.0, 256.0, 1024.0]) = "tagging_controller_inital_node_tagging_delay_seconds";
}

/// The requests that the Go program measures, and their names.
const REQUESTS: [(&str, &str); 6] = [
    ("DescribeInstances", "describe_instance"),
    ("DescribeNetworkInterfaces", "describe_network_interfaces"),
    ("DescribeSecurityGroups", "describe_security_groups"),
    ("DescribeRouteTables", "describe_route_tables"),
    ("CreateTags", "create_tags"),
    ("DeleteTags", "delete_tags"),
];

/// The services as the Go program names them.
const SERVICES: [(&str, &str); 4] = [
    ("ec2", "EC2"),
    ("elb", "Elastic Load Balancing"),
    ("elbv2", "Elastic Load Balancing v2"),
    ("sts", "STS"),
];

/// Measures requests under the names of the Go program.
pub(crate) struct Requests(pub(crate) Arc<dyn CloudMetrics>);

impl CloudMetrics for Requests {
    fn finished(&self, operation: &str, status: Option<u16>, took: Duration) {
        let (service, action) = operation.split_once(' ').unwrap_or(("", operation));
        if let Some((_, name)) = REQUESTS.iter().find(|(known, _)| *known == action) {
            match status {
                Some(..400) => self.0.record(&DURATION, &[name], took.as_secs_f64()),
                _ => self.0.record(&ERRORS, &[name], 1.0),
            }
        }
        if let Some(status @ 400..) = status {
            let service = SERVICES
                .iter()
                .find(|(known, _)| *known == service)
                .map_or(service, |(_, name)| name);
            self.0
                .record(&STATUS, &[service, action, &status.to_string()], 1.0);
        }
        if let Some(429 | 503) = status {
            self.0.record(&THROTTLED, &[action], 1.0);
        }
    }
}

/// Counts a failure of the tagging controller.
pub(crate) fn tagging_failed(metrics: &dyn CloudMetrics, id: &str, is_last: bool) {
    metrics.record(&TAGGING_ERRORS, &["total_errors", id], 1.0);
    if is_last {
        metrics.record(
            &TAGGING_ERRORS,
            &["errors_after_retries_exhausted", id],
            1.0,
        );
    }
}

/// Measures the time until a Node's instance has its tags.
pub(crate) fn tagged_after(metrics: &dyn CloudMetrics, delay: Duration) {
    metrics.record(&TAGGING_DELAY, &[], delay.as_secs_f64());
}
