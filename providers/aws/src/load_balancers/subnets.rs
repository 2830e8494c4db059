//! The subnets of a load balancer.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_protocol::Query;
use cloud_provider::{Error, Result};

use crate::annotations as key;
use crate::api::{Api, CLUSTER_TAG, Identity, PAGE, Tag, all, wire};

/// Age at which the subnets are read again.
pub(super) const AGE: Duration = Duration::from_secs(60);

/// The longest page of route tables.
const TABLES: usize = 100;

wire! { "camelCase";
    /// A subnet, with what decides about load balancers.
    Subnet {
        subnet_id: String, availability_zone: String, cidr_block: String, ipv6_cidr_block_association_set: Vec<Association>,
        tag_set: Vec<Tag>,
        /// If set, a route leads to an Internet gateway; `None` if the subnet has no route table.
        #[serde(skip)] is_public: Option<bool>,
        /// If set, the zone is no local and no wavelength zone.
        #[serde(skip)] is_regional: bool,
    }
    Association { ipv6_cidr_block: String }
    RouteTable { route_table_id: String, association_set: Vec<TableUse>, route_set: Vec<TableRoute> }
    TableUse { main: bool, subnet_id: String }
    TableRoute { gateway_id: String }
}

/// Demands on the subnets of a load balancer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// IDs or names of the annotation.
    pub(super) stated: &'a [String],
    pub(super) is_internal: bool,
    /// If set, subnets with IPv6 are preferred.
    pub(super) has_ipv6: bool,
}

impl Subnet {
    /// Returns the address ranges, of both families.
    pub(super) fn ranges(&self) -> impl Iterator<Item = &str> {
        let v6 = self
            .ipv6_cidr_block_association_set
            .iter()
            .map(|association| &*association.ipv6_cidr_block);
        std::iter::once(&*self.cidr_block)
            .chain(v6)
            .filter(|range| !range.is_empty())
    }

    fn has_tag(&self, key: &str) -> bool {
        self.tag_set.iter().any(|tag| tag.key == key)
    }

    fn is_called(&self, name: &str) -> bool {
        self.subnet_id == name
            || self
                .tag_set
                .iter()
                .any(|tag| tag.key == "Name" && tag.value == name)
    }
}

/// Reads the subnets of the VPC.
///
/// # Errors
/// The answer of EC2.
pub(super) async fn read(api: &Api) -> Result<Vec<Subnet>> {
    let vpc = &api.identity().await?.vpc;
    let ec2 = &api.aws.ec2;
    let query = |action, page| Query::new(action).filter("vpc-id", [vpc]).page(page);
    let subnets = all(
        ec2,
        query("DescribeSubnets", PAGE),
        "subnetSet",
        |subnet: &Subnet| subnet.subnet_id.clone(),
    );
    let id = |route_table: &RouteTable| route_table.route_table_id.clone();
    let tables = all(
        ec2,
        query("DescribeRouteTables", TABLES),
        "routeTableSet",
        id,
    );
    let (mut subnets, tables, zones) = futures::try_join!(subnets, tables, api.zones.list())?;
    for subnet in &mut subnets {
        let uses = |is_wanted: &dyn Fn(&TableUse) -> bool| {
            tables
                .iter()
                .find(|table| table.association_set.iter().any(is_wanted))
        };
        let table = uses(&|usage| usage.subnet_id == subnet.subnet_id)
            .or_else(|| uses(&|usage| usage.main));
        subnet.is_public = table.map(|table| {
            table
                .route_set
                .iter()
                .any(|route| route.gateway_id.starts_with("igw"))
        });
        let zone = zones
            .iter()
            .find(|zone| zone.zone_name == subnet.availability_zone);
        subnet.is_regional = zone
            .is_none_or(|zone| zone.zone_type.is_empty() || zone.zone_type == "availability-zone");
    }
    Ok(subnets)
}

/// Chooses the subnets of a load balancer: those that the annotation names, or one in each availability zone.
///
/// # Errors
/// *Invalid*, naming the annotation or the tags that are missing.
pub(super) fn choose<'a>(
    all: &'a [Subnet],
    wanted: &Wanted<'_>,
    cluster: &Identity,
) -> Result<Vec<&'a Subnet>> {
    if !wanted.stated.is_empty() {
        return stated(all, wanted.stated);
    }
    let has_cluster_tag = |subnet: &Subnet| cluster.has(&subnet.tag_set);
    let is_foreign = |subnet: &Subnet| {
        !has_cluster_tag(subnet)
            && subnet
                .tag_set
                .iter()
                .any(|tag| tag.key.starts_with(CLUSTER_TAG))
    };
    let mut usable: Vec<_> = all.iter().filter(|subnet| !is_foreign(subnet)).collect();
    if usable.is_empty() {
        usable = all
            .iter()
            .filter(|subnet| subnet.subnet_id == cluster.subnet)
            .collect();
    }
    let role = if wanted.is_internal {
        "kubernetes.io/role/internal-elb"
    } else {
        "kubernetes.io/role/elb"
    };
    let rank = |subnet: &Subnet| {
        let has_ipv6 = !wanted.has_ipv6 || !subnet.ipv6_cidr_block_association_set.is_empty();
        (
            !has_ipv6,
            !subnet.has_tag(role),
            !has_cluster_tag(subnet),
            subnet.subnet_id.clone(),
        )
    };
    let mut zones: BTreeMap<&str, &Subnet> = BTreeMap::new();
    for subnet in usable.into_iter().filter(|subnet| subnet.is_regional) {
        let no_table = || {
            Error::invalid(format!(
                "subnet {} has no route table, nor has its VPC",
                subnet.subnet_id
            ))
        };
        if !subnet.is_public.ok_or_else(no_table)? && !wanted.is_internal {
            continue;
        }
        let best = zones.entry(&subnet.availability_zone).or_insert(subnet);
        if rank(subnet) < rank(best) {
            *best = subnet;
        }
    }
    if zones.is_empty() {
        let [subnets, vpc] = [key::SUBNETS.key(), &cluster.vpc];
        return Err(Error::invalid(format!(
            "no suitable subnets in VPC {vpc:?}: give a subnet of each zone the tag {role}=1 and, unless the load balancer is internal, \
             a route to an Internet gateway; or name subnets in annotation {subnets}"
        )));
    }
    Ok(zones.into_values().collect())
}

fn stated<'a>(all: &'a [Subnet], stated: &[String]) -> Result<Vec<&'a Subnet>> {
    // In the order of the annotation: addresses are stated in that order.
    let place = |subnet: &Subnet| stated.iter().position(|name| subnet.is_called(name));
    let mut found: Vec<_> = all
        .iter()
        .filter(|subnet| place(subnet).is_some())
        .collect();
    found.sort_by_key(|subnet| place(subnet));
    if found.len() == stated.len() {
        return Ok(found);
    }
    let missing: Vec<_> = stated
        .iter()
        .filter(|name| !all.iter().any(|subnet| subnet.is_called(name)))
        .map(|text| &**text)
        .collect();
    Err(Error::invalid(format!(
        "annotation {}: expected {} subnets of the VPC, found {}; not found: {}",
        key::SUBNETS.key(),
        stated.len(),
        found.len(),
        if missing.is_empty() {
            "none, but a name is not unique".to_owned()
        } else {
            missing.join(", ")
        }
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A subnet such as `a1 public kubernetes.io/role/elb Name=x`.
    fn subnet(text: &str) -> Subnet {
        let mut words = text.split(' ');
        let id = words.next().unwrap_or_default();
        let mut subnet = Subnet {
            is_public: Some(false),
            is_regional: true,
            ..Subnet::default()
        };
        let zone = &id[..1];
        (subnet.subnet_id, subnet.availability_zone) = (id.to_owned(), zone.to_owned());
        for word in words {
            match word {
                "public" => subnet.is_public = Some(true),
                "local" => subnet.is_regional = false,
                "ipv6" => subnet
                    .ipv6_cidr_block_association_set
                    .push(Association::default()),
                tag => {
                    let (key, value) = tag.split_once('=').unwrap_or((tag, ""));
                    subnet.tag_set.push(Tag {
                        key: key.to_owned(),
                        value: value.to_owned(),
                    });
                }
            }
        }
        subnet
    }

    fn chosen(subnets: &[&str], stated: &str, is_internal: bool, has_ipv6: bool) -> Result<String> {
        let all: Vec<_> = subnets.iter().map(|text| subnet(text)).collect();
        let cluster = Identity {
            cluster: Some("us".to_owned()),
            subnet: "own".to_owned(),
            ..Identity::default()
        };
        let stated: Vec<_> = stated.split_whitespace().map(str::to_owned).collect();
        let chosen = choose(
            &all,
            &Wanted {
                stated: &stated,
                is_internal,
                has_ipv6,
            },
            &cluster,
        )?;
        Ok(chosen
            .iter()
            .map(|subnet| &*subnet.subnet_id)
            .collect::<Vec<_>>()
            .join(" "))
    }

    #[test]
    fn one_subnet_of_each_zone_is_chosen() {
        let ours = "kubernetes.io/cluster/us=owned";
        let others = "kubernetes.io/cluster/them=owned";
        let own_subnet = format!("a3 public {ours} kubernetes.io/role/internal-elb=1");
        let foreign = format!("b1 public {others}");
        let table: [(&[&str], bool, bool, &str); 7] = [
            (
                &["a1 public kubernetes.io/role/elb=1", &own_subnet],
                false,
                false,
                "a1",
            ),
            (
                &["a1 public kubernetes.io/role/elb=1", &own_subnet],
                true,
                false,
                "a3",
            ),
            (
                &["a2 public", "a1 public", "b9 public"],
                false,
                false,
                "a1 b9",
            ),
            (
                &["a1 public", "a2 public ipv6", "b1 public"],
                false,
                true,
                "a2 b1",
            ),
            (&["a1", "b1 public", "c1 public local"], false, false, "b1"),
            (&["a1", "b1 public"], true, false, "a1 b1"),
            (&["a1 public", &foreign], false, false, "a1"),
        ];
        for (subnets, is_internal, has_ipv6, expected) in table {
            assert_eq!(
                chosen(subnets, "", is_internal, has_ipv6).unwrap(),
                expected,
                "{subnets:?}"
            );
        }
        for none in [&["a1"][..], &["a1 public local"], &[&foreign], &[]] {
            assert!(
                chosen(none, "", false, false)
                    .unwrap_err()
                    .to_string()
                    .starts_with("no suitable subnets"),
                "{none:?}"
            );
        }
        assert_eq!(
            chosen(&[&format!("own public {others}")], "", false, false).unwrap(),
            "own"
        );
    }

    #[test]
    fn stated_subnets_are_found_by_id_or_name() {
        let all = ["a1 Name=one", "b1 Name=two"];
        assert_eq!(chosen(&all, "two a1", false, false).unwrap(), "b1 a1");
        let error = chosen(&all, "a1 foo", false, false)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("expected 2 subnets of the VPC, found 1; not found: foo"),
            "{error}"
        );
    }
}
