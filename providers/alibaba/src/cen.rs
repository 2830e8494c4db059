//! Publication of Pod routes to a Cloud Enterprise Network (CEN), by which other VPCs and sites reach Pods.
//!
//! Routes that lead to instances are not published by themselves. The state is the cloud's: a route that is not published
//! counts as missing, and its creation publishes it.

use std::collections::BTreeSet;

use cloud_provider::{CompleteListing, Result};
use serde_json::Value;

use crate::api::{Api, CBN, Query};

/// Routes of one page.
const PAGE: usize = 50;

/// Returns an action about a route table of the VPC in the CEN.
async fn query(api: &Api, action: &'static str, cen: &str, table: &str) -> Result<Query> {
    let vpc = api.metadata.vpc().await?;
    let region = api.metadata.region().await?;
    let query = Query::new(CBN, action)
        .set("CenId", cen)
        .set("ChildInstanceType", "VPC")
        .set("ChildInstanceId", vpc);
    Ok(query
        .set("ChildInstanceRegionId", region)
        .set("ChildInstanceRouteTableId", table))
}

/// Reads the published destinations of a route table, or whether one of them is published.
async fn read(
    api: &Api,
    cen: &str,
    table: &str,
    destination: Option<&str>,
) -> Result<BTreeSet<String>> {
    let query = query(api, "DescribePublishedRouteEntries", cen, table).await?;
    let text = |object: &Value| {
        object["DestinationCidrBlock"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let query = query.set("DestinationCidrBlock", destination);
    let found = api
        .pages(
            query,
            PAGE,
            "/PublishedRouteEntries/PublishedRouteEntry",
            text,
        )
        .await?;
    let all = found.complete().map(CompleteListing::into_items)?;
    Ok(all
        .iter()
        .filter(|object| object["PublishStatus"] == "Published")
        .map(text)
        .collect())
}

/// Reads the published destinations of a route table; `None` without a CEN in the configuration.
pub(crate) async fn published(api: &Api, table: &str) -> Result<Option<BTreeSet<String>>> {
    match &api.config.cen {
        Some(cen) => read(api, cen, table, None).await.map(Some),
        None => Ok(None),
    }
}

/// Publishes a route, or withdraws it, if its state is another. Without a CEN in the configuration, nothing is sent.
pub(crate) async fn set_published(
    api: &Api,
    table: &str,
    destination: &str,
    is_published: bool,
) -> Result<()> {
    let Some(cen) = &api.config.cen else {
        return Ok(());
    };
    if read(api, cen, table, Some(destination))
        .await?
        .contains(destination)
        == is_published
    {
        return Ok(());
    }
    let action = if is_published {
        "PublishRouteEntries"
    } else {
        "WithdrawPublishedRouteEntries"
    };
    let query = query(api, action, cen, table)
        .await?
        .set("DestinationCidrBlock", destination);
    match api.change(query).await {
        Err(error) if error.is_not_found() && !is_published => Ok(()),
        outcome => outcome.map(drop),
    }
}
