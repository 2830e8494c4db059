//! Checks of `doctor`: endpoint, token, rate limit, region, VPC, firewall.

use cloud_provider::Finding;
use provider_kit::checks::{rate_limit, reached, unavailable};
use provider_kit::transport::{Call, Transport};
use serde_json::{Value, json};

use crate::api::{Api, region_of_machine};
use crate::config::Config;

const CREDENTIAL: &str =
    "put a valid API token into DO_ACCESS_TOKEN, or into the file of DO_ACCESS_TOKEN_FILE";

/// Checks endpoint and token first; if one of these checks fails, the checks that depend on it are left out.
pub(crate) async fn findings(api: &Api, config: &Config, metadata: &Transport) -> Vec<Finding> {
    let mut findings = Vec::new();
    let answer = api.http.send(Call::get("/v2/account", &[])).await;
    let Some(answer) = reached(
        &api.http.base(),
        "DO_OVERRIDE_URL",
        CREDENTIAL,
        answer,
        &mut findings,
    ) else {
        return findings;
    };
    findings.extend(rate_limit(
        &answer.headers,
        "see what else uses tokens of this account",
    ));
    findings.push(may_write(api).await);
    findings.push(region(api, config, metadata).await);
    if let Some(vpc) = &config.vpc {
        findings.push(
            match api
                .http
                .find::<Value>(Call::get("/v2/vpcs/{id}", &[vpc]))
                .await
            {
                Ok(Some(_)) => Finding::ok("VPC", vpc.clone()),
                Ok(None) => Finding::failure(
                    "VPC",
                    format!("{vpc:?} does not exist"),
                    "correct DO_CLUSTER_VPC_ID",
                ),
                Err(error) => Finding::warning(
                    "VPC",
                    error.to_string(),
                    "check the token's permission to read VPCs",
                ),
            },
        );
    }
    findings
}

/// Checks the token's permission by a change of a load balancer ID that does not exist: the API reports a token's scope
/// only in the response to a change.
async fn may_write(api: &Api) -> Finding {
    let call = Call::put(
        "/v2/load_balancers/{id}",
        &["00000000-0000-0000-0000-000000000000"],
    )
    .json(&json!({}))
    .reading();
    match api.http.send(call).await {
        Err(error) if error.is_unauthorized() => Finding::failure(
            "token",
            format!("it may not change anything: {error}"),
            "create an API token with read and write scope, and put it into DO_ACCESS_TOKEN",
        ),
        Err(error) if error.is_not_found() || error.is_invalid() => {
            Finding::ok("token", "it may read and write")
        }
        _ => Finding::warning(
            "token",
            "it may read; whether it may write is not known",
            "check its scope in the console",
        ),
    }
}

async fn region(api: &Api, config: &Config, metadata: &Transport) -> Finding {
    let Some(region) = &config.region else {
        return match region_of_machine(metadata).await {
            Ok(region) => Finding::ok(
                "region",
                format!("{region}, as the metadata service of the machine names it"),
            ),
            Err(error) => Finding::failure(
                "region",
                error.to_string(),
                "set REGION, or run on a droplet",
            ),
        };
    };
    match api.regions().await {
        Err(error) => Finding::failure("region", error.to_string(), "try again"),
        Ok(known) => unavailable("region", "REGION", region, known.iter().map(String::as_str))
            .unwrap_or_else(|| Finding::ok("region", region.clone())),
    }
}
