//! Checks of `doctor`: endpoint, token, project, permissions.

use cloud_provider::Finding;
use provider_kit::checks::{permissions, reached};
use provider_kit::transport::Call;
use serde_json::Value;

use super::Simulated;

/// Objects that the controllers read, in words, and their paths.
const READS: [(&str, &str); 3] = [
    ("machines", "/v1/machines"),
    ("load balancers", "/v1/load-balancers"),
    ("routes", "/v1/routes"),
];

impl Simulated {
    /// Checks endpoint, token and project in this order, with reads only. After a failed check, the checks that depend
    /// on it are left out.
    pub(super) async fn diagnose(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let credential = "put a valid one into `token`, or into the file of `tokenFile`";
        let answer = self.http.read::<Value>(Call::get("/v1/token", &[])).await;
        let Some(token) = reached(
            &self.http.base(),
            "`endpoint`",
            credential,
            answer,
            &mut findings,
        ) else {
            return findings;
        };
        let project = token["project"].as_str().unwrap_or_default();
        findings.push(Finding::ok(
            "token",
            format!("valid for project {project:?}"),
        ));
        match self.expected_project.as_deref() {
            Some(expected) if expected != project => findings.push(Finding::failure(
                "project",
                format!("the token is for project {project:?}, `project` says {expected:?}"),
                "take a token of that project, or correct `project`",
            )),
            Some(_) => findings.push(Finding::ok("project", "as the configuration says")),
            None => {}
        }
        let first = |(what, path)| {
            (
                what,
                Call::get(path, &[]).query("page", 1).query("per_page", 1),
            )
        };
        findings.extend(permissions(&self.http, READS.map(first)).await);
        findings
    }
}
