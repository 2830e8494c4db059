//! Declarations of a provider's own metric series, under the names that existing dashboards use.

/// The default histogram buckets of the Go Prometheus client, in seconds.
pub const CONVENTIONAL: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// Declares metric series: a static for each. A declaration gives the [kind](cloud_provider::SeriesKind), the name in
/// Prometheus form and the names of the labels; the documentation is the help text.
///
/// ```
/// use cloud_provider::{CloudMetrics, SeriesKind};
/// use provider_kit::series::CONVENTIONAL;
///
/// provider_kit::series! {
///     /// Requests to the Acme API.
///     REQUESTS: Counter = "acme_api_requests_total", "code", "method";
///     /// Time until the Acme API had answered.
///     DURATION: Histogram(CONVENTIONAL) = "acme_api_request_duration_seconds";
/// }
///
/// assert_eq!((REQUESTS.help, REQUESTS.labels), ("Requests to the Acme API.", &["code", "method"][..]));
/// assert_eq!((DURATION.kind, DURATION.labels.len()), (SeriesKind::Histogram(CONVENTIONAL), 0));
/// # fn example(metrics: &dyn CloudMetrics) {
/// metrics.record(&REQUESTS, &["200", "GET"], 1.0);
/// # }
/// ```
#[macro_export]
macro_rules! series {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident: $kind:ident $(($buckets:expr))? = $key:literal $(, $label:literal)*;
    )*) => {
        $(
            $(#[doc = $doc])+
            static $name: ::cloud_provider::ProviderSeries = ::cloud_provider::ProviderSeries {
                name: $key,
                kind: ::cloud_provider::SeriesKind::$kind $(($buckets))?,
                labels: &[$($label),*],
                help: concat!($($doc),+).trim_ascii(),
            };
        )*
    };
}
