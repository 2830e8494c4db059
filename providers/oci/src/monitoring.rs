//! Durations of changes, pushed to Oracle's Monitoring service if the configuration asks for it.

use std::collections::BTreeMap;
use std::time::Duration;

use provider_kit::transport::{Call, Transport};
use serde::Deserialize;
use serde_json::{Value, json};

/// The place of pushed metrics.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Place {
    /// OCID of the compartment.
    #[serde(rename = "compartmentID")]
    pub compartment: String,
    /// Namespace of the metrics.
    pub namespace: String,
    /// Resource group of the metrics.
    #[serde(rename = "resourceGroup")]
    pub group: String,
    /// Beginning of the names of metrics.
    pub prefix: String,
}

impl Place {
    /// Returns the settings that must not be empty, by key.
    pub(crate) fn required(&self) -> [(&'static str, &str); 3] {
        [
            ("compartmentID", &self.compartment),
            ("namespace", &self.namespace),
            ("resourceGroup", &self.group),
        ]
    }
}

/// The client of the Monitoring service, and the place of metrics.
#[derive(Clone)]
pub(crate) struct Monitoring {
    pub(crate) http: Transport,
    pub(crate) place: Option<Place>,
}

impl Monitoring {
    /// Pushes the duration of a change of a resource in the background. A failure is only logged.
    pub(crate) fn push(&self, metric: &str, took: Duration, resource: &str, is_success: bool) {
        let Some(place) = &self.place else { return };
        let kind = metric.split('_').next().unwrap_or_default();
        let result = if is_success { "SUCCESS" } else { "ERROR" };
        let dimensions: BTreeMap<_, _> = [
            ("component", format!("{kind}_{result}")),
            ("resourceOCID", resource.to_owned()),
        ]
        .into();
        let point =
            json!({"timestamp": jiff::Timestamp::now().to_string(), "value": took.as_secs_f64()});
        let data = json!({
            "namespace": place.namespace, "resourceGroup": place.group, "compartmentId": place.compartment,
            "name": format!("{}{metric}", place.prefix), "dimensions": dimensions, "datapoints": [point],
        });
        let call = Call::post("/20180401/metrics", &[])
            .json(&json!({"metricData": [data]}))
            .reading();
        let http = self.http.clone();
        tokio::spawn(async move {
            if let Err(error) = http.read::<Value>(call).await {
                tracing::warn!(%error, "metrics are not pushed");
            }
        });
    }
}
