//! Tests of what Services get: rules, probes, addresses and security rules.

use azure_fake::id;
use cloud_provider::{AddressType, Caches, NodeAddress, Service};
use serde_json::{Value, json};

use crate::harness::{ADDRESSES, Form, Harness, list, service, text};

/// Annotations without the prefix of their keys.
type Pairs<'a> = &'a [(&'a str, &'a str)];

const INTERNAL: (&str, &str) = ("azure-load-balancer-internal", "true");

/// Returns the rules and probes of a Service, without what is common to all.
async fn rules(
    ports: &[u16],
    annotations: &[(&str, &str)],
    more: &Value,
) -> Result<(Vec<Value>, Vec<Value>), String> {
    let harness = Harness::new(Form::Addresses);
    let provider = harness.started().await;
    harness
        .ensure(&provider, &service("web", ports, annotations, more))
        .await
        .map_err(|error| error.to_string())?;
    let name = if annotations.contains(&INTERNAL) {
        "kubernetes-internal"
    } else {
        "kubernetes"
    };
    let shown = harness.balancer(name);
    let all = |key: &str| {
        list(&shown["properties"][key])
            .map(|properties| properties["properties"].clone())
            .collect()
    };
    Ok((all("loadBalancingRules"), all("probes")))
}

#[tokio::test(start_paused = true)]
async fn rules_and_probes_follow_the_service_and_its_annotations() {
    let (all, probes) = rules(&[80], &[], &Value::Null).await.unwrap();
    assert_eq!(
        (
            &all[0]["frontendPort"],
            &all[0]["backendPort"],
            &all[0]["enableFloatingIP"]
        ),
        (&json!(80), &json!(80), &json!(true))
    );
    assert_eq!(
        (&all[0]["enableTcpReset"], &all[0]["idleTimeoutInMinutes"]),
        (&json!(true), &json!(4))
    );
    assert_eq!(
        (&probes[0]["protocol"], &probes[0]["port"]),
        (&json!("Tcp"), &json!(30_080))
    );
    let node_ports = [
        ("azure-disable-load-balancer-floating-ip", "true"),
        ("azure-load-balancer-tcp-idle-timeout", "30"),
    ];
    let (all, _) = rules(&[80], &node_ports, &json!({"sessionAffinity": "ClientIP"}))
        .await
        .unwrap();
    assert_eq!(
        (
            &all[0]["backendPort"],
            &all[0]["enableFloatingIP"],
            &all[0]["loadDistribution"]
        ),
        (&json!(30_080), &json!(false), &json!("SourceIP"))
    );
    let local = json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 32_000});
    let (_, probes) = rules(&[80, 443], &[], &local).await.unwrap();
    assert_eq!(probes.len(), 1);
    assert_eq!(
        (
            &probes[0]["protocol"],
            &probes[0]["port"],
            &probes[0]["requestPath"]
        ),
        (&json!("Http"), &json!(32_000), &json!("/healthz"))
    );
    let all_ports = [
        INTERNAL,
        ("azure-load-balancer-enable-high-availability-ports", "true"),
    ];
    let (all, probes) = rules(&[80, 443], &all_ports, &Value::Null).await.unwrap();
    assert_eq!(
        (
            all.len(),
            probes.len(),
            &all[0]["protocol"],
            &all[0]["frontendPort"]
        ),
        (1, 1, &json!("All"), &json!(0))
    );
    let of_port = [
        ("port_80_no_lb_rule", "true"),
        ("port_443_health-probe_protocol", "https"),
        ("port_443_health-probe_port", "8443"),
    ];
    let (all, probes) = rules(&[80, 443], &of_port, &Value::Null).await.unwrap();
    assert_eq!(
        (
            all.len(),
            &probes[0]["protocol"],
            &probes[0]["port"],
            &probes[0]["requestPath"]
        ),
        (1, &json!("Https"), &json!(8443), &json!("/"))
    );
}

#[tokio::test(start_paused = true)]
async fn port_settings_win_over_the_protocol_of_the_application_and_the_service() {
    let of_service = ("azure-load-balancer-health-probe-protocol", "https");
    let app =
        json!({"ports": [{"name": "p", "port": 80, "nodePort": 30_080, "appProtocol": "http"}]});
    for (annotations, more, expected) in [
        (&[of_service][..], Value::Null, "Https"),
        (&[of_service], app.clone(), "Http"),
        (
            &[of_service, ("port_80_health-probe_protocol", "tcp")],
            app,
            "Tcp",
        ),
        (&[("port_80_no_probe_rule", "true")], Value::Null, ""),
    ] {
        let (all, probes) = rules(&[80], annotations, &more).await.unwrap();
        let protocol = probes
            .first()
            .map_or(String::new(), |probes| text(&probes["protocol"]));
        assert_eq!((all.len(), &*protocol), (1, expected), "{annotations:?}");
    }
    let sctp =
        json!({"ports": [{"name": "p", "port": 80, "nodePort": 30_080, "protocol": "SCTP"}]});
    assert!(rules(&[], &[], &sctp).await.unwrap_err().contains("SCTP"));
    assert_eq!(
        rules(&[], &[INTERNAL], &sctp).await.unwrap().0[0]["protocol"],
        "All"
    );
}

#[tokio::test(start_paused = true)]
async fn shared_probe_lives_as_long_as_a_service_uses_it() {
    let harness = Harness::new(Form::Addresses)
        .with(json!({"clusterServiceLoadBalancerHealthProbeMode": "Shared"}));
    let provider = harness.started().await;
    let local = json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 32_000});
    let all = [("web", Value::Null), ("mail", Value::Null), ("near", local)];
    let all = all.map(|(name, more)| service(name, &[80, 443], &[], &more));
    for object in &all {
        harness.ensure_among(&provider, object, &all).await.unwrap();
    }
    for (gone, expected) in [(&all[0], 2), (&all[1], 1)] {
        let of_all = |harness: &Harness| {
            let shown = harness.balancer("kubernetes");
            list(&shown["properties"]["probes"])
                .map(|probes| (text(&probes["name"]), probes["properties"]["port"].clone()))
                .collect::<Vec<_>>()
        };
        let shared = (
            "cluster-service-shared-health-probe".to_owned(),
            json!(10256),
        );
        assert!(of_all(&harness).contains(&shared));
        harness.delete(&provider, gone).await.unwrap();
        assert_eq!(of_all(&harness).len(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_floating_address_security_rules_lead_to_nodes_and_further_addresses() {
    let harness = Harness::new(Form::Addresses);
    let provider = harness.started().await;
    let annotations = [
        ("azure-disable-load-balancer-floating-ip", "true"),
        ("azure-additional-public-ips", "20.9.9.9"),
    ];
    let web = service("web", &[80], &annotations, &Value::Null);
    let ingress = harness
        .ensure(&provider, &web)
        .await
        .unwrap()
        .unwrap()
        .ingress
        .unwrap();
    assert_eq!(
        (ingress.len(), ingress[1].ip.as_deref()),
        (2, Some("20.9.9.9"))
    );
    let rules = harness.security_rules();
    assert_eq!(
        rules[0]["properties"]["destinationPortRanges"],
        json!(["30080"])
    );
    let nodes = harness.cluster.nodes();
    let mut expected: Vec<_> = nodes
        .iter()
        .map(|node| node.addresses[0].address.to_string())
        .chain(["20.9.9.9".into()])
        .collect();
    expected.sort();
    let there: Vec<_> = list(&rules[0]["properties"]["destinationAddressPrefixes"])
        .map(text)
        .collect();
    assert_eq!(there, expected);
    harness.delete(&provider, &web).await.unwrap();
    assert_eq!(harness.security_rules(), Vec::<Value>::new());
}

/// Returns what a sync of a Service with these further addresses ends with, and the addresses of its status.
async fn with_further(
    harness: &Harness,
    all: &[Service],
    addresses: &str,
) -> Result<Vec<String>, String> {
    let provider = harness.started().await;
    let web = service(
        "web",
        &[80],
        &[("azure-additional-public-ips", addresses)],
        &Value::Null,
    );
    let all: Vec<_> = all.iter().cloned().chain([web.clone()]).collect();
    let status = harness
        .ensure_among(&provider, &web, &all)
        .await
        .map_err(|error| error.to_string())?;
    let ingress = status.and_then(|status| status.ingress).unwrap_or_default();
    Ok(ingress
        .into_iter()
        .skip(1)
        .filter_map(|ingress| ingress.ip)
        .collect())
}

/// Returns a Service with this status, which may name the address in its annotation, too.
fn showing(ip: &str, port: u16, annotations: &[(&str, &str)]) -> Service {
    let mut other = service("other", &[port], annotations, &Value::Null);
    other.status =
        Some(serde_json::from_value(json!({"loadBalancer": {"ingress": [{"ip": ip}]}})).unwrap());
    other
}

#[tokio::test(start_paused = true)]
async fn further_address_of_a_node_or_of_another_service_is_refused_and_not_opened() {
    let harness = Harness::new(Form::Addresses);
    let mut node = (*harness.cluster.node("worker-1").unwrap()).clone();
    node.addresses = [
        node.addresses[0].clone(),
        NodeAddress::new(AddressType::ExternalIP, "20.1.1.1"),
    ]
    .into();
    harness.cluster.set_node(node);
    let named = [("azure-additional-public-ips", "20.9.9.9")];
    let victim = showing("20.2.2.2", 443, &[]);
    let same_port = showing("20.9.9.9", 80, &named);
    let table: [(&[Service], &str, &str); 5] = [
        (&[], "20.1.1.1", "20.1.1.1 is used by Node worker-1"),
        (
            &[victim],
            "20.2.2.2",
            "20.2.2.2 is used by Service default/other",
        ),
        (
            &[same_port],
            "20.9.9.9",
            "20.9.9.9 is used by Service default/other",
        ),
        (&[], "10.1.0.4", "10.1.0.4 is no public address"),
        (
            &[],
            "169.254.169.254",
            "169.254.169.254 is no public address",
        ),
    ];
    for (others, address, expected) in table {
        let error = with_further(&harness, others, address).await.unwrap_err();
        assert!(
            error.contains("azure-additional-public-ips") && error.contains(expected),
            "{error}"
        );
        assert_eq!(harness.security_rules(), Vec::<Value>::new(), "{address}");
    }
}

#[tokio::test(start_paused = true)]
async fn services_that_name_a_further_address_share_it_with_different_ports() {
    let harness = Harness::new(Form::Addresses);
    let other = showing(
        "20.9.9.9",
        443,
        &[("azure-additional-public-ips", "20.9.9.9")],
    );
    assert_eq!(
        with_further(&harness, &[other], "20.9.9.9").await.unwrap(),
        ["20.9.9.9"]
    );
}

#[tokio::test(start_paused = true)]
async fn further_addresses_are_limited_to_the_ranges_of_the_configuration() {
    let harness =
        Harness::new(Form::Addresses).with(json!({"additionalPublicIPRanges": ["20.9.9.0/24"]}));
    assert_eq!(
        with_further(&harness, &[], "20.9.9.9").await.unwrap(),
        ["20.9.9.9"]
    );
    let error = with_further(&harness, &[], "8.8.8.8").await.unwrap_err();
    assert!(
        error.contains("8.8.8.8 is not in a range of additionalPublicIPRanges"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn mistakes_are_reported_with_their_remedy_before_any_request() {
    let table: [(Pairs<'_>, Value, &str); 12] = [
        (
            &[("azure-pip-tags", "ccm-rs-service=u")],
            Value::Null,
            "is reserved",
        ),
        (
            &[("azure-pip-tags", "Kubernetes-Cluster-Name=a")],
            Value::Null,
            "is reserved",
        ),
        (
            &[("azure-pip-tags", "team=web,SERVICE=shop/web")],
            Value::Null,
            "is reserved",
        ),
        (
            &[("azure-load-balancer-tcp-idle-timeout", "3")],
            Value::Null,
            "azure-load-balancer-tcp-idle-timeout",
        ),
        (
            &[
                ("azure-load-balancer-health-probe-interval", "60"),
                ("azure-load-balancer-health-probe-num-of-probe", "2"),
            ],
            Value::Null,
            "less than 120",
        ),
        (
            &[("azure-pls-create", "true")],
            Value::Null,
            "needs an internal load balancer",
        ),
        (
            &[
                INTERNAL,
                ("azure-pls-create", "true"),
                ("azure-pls-ip-configuration-ip-address", "10.1.0.9 10.1.0.8"),
            ],
            Value::Null,
            "1 is less than the number of addresses",
        ),
        (
            &[],
            json!({"loadBalancerIP": "10.0.0.1"}),
            "needs a public address",
        ),
        (
            &[],
            json!({"loadBalancerIP": "100.64.0.1"}),
            "needs a public address",
        ),
        (
            &[("azure-allowed-ip-ranges", "10.0.0.1/24")],
            Value::Null,
            "10.0.0.1/24",
        ),
        (
            &[("azure-allowed-ip-ranges", "10.0.0.0/24")],
            json!({"loadBalancerSourceRanges": ["10.1.0.0/24"]}),
            "both set",
        ),
        (
            &[("azure-pip-name", "missing")],
            Value::Null,
            "does not exist in resource group nodes",
        ),
    ];
    for (annotations, more, expected) in table {
        let error = rules(&[80], annotations, &more).await.unwrap_err();
        assert!(error.contains(expected), "{annotations:?} {more}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn address_of_a_user_is_used_and_neither_tagged_nor_deleted() {
    let harness = Harness::new(Form::Addresses);
    let address = id(ADDRESSES, "mine");
    harness.fake.lock().insert(
        &address,
        json!({"location": "westeurope", "sku": {"name": "Standard"}, "properties": {
            "publicIPAllocationMethod": "Static", "ipAddress": "20.1.2.3",
        }}),
    );
    let provider = harness.started().await;
    for more in [
        (&[("azure-pip-name", "mine")][..], Value::Null),
        (&[], json!({"loadBalancerIP": "20.1.2.3"})),
    ] {
        let web = service("web", &[80], more.0, &more.1);
        let status = harness.ensure(&provider, &web).await.unwrap().unwrap();
        assert_eq!(status.ingress.unwrap()[0].ip.as_deref(), Some("20.1.2.3"));
        harness.delete(&provider, &web).await.unwrap();
        let cloud = harness.fake.lock();
        assert!(
            cloud.get(&address).unwrap()["tags"].is_null() && cloud.all(ADDRESSES).count() == 1
        );
    }
}

#[tokio::test(start_paused = true)]
async fn two_services_share_an_address_with_different_ports() {
    let harness = Harness::new(Form::Addresses);
    let provider = harness.started().await;
    let web = service("web", &[80], &[], &Value::Null);
    let ip = harness
        .ensure(&provider, &web)
        .await
        .unwrap()
        .unwrap()
        .ingress
        .unwrap()[0]
        .ip
        .clone()
        .unwrap();
    let pinned = json!({ "loadBalancerIP": ip });
    let mail = service("mail", &[25], &[], &pinned);
    harness.ensure(&provider, &mail).await.unwrap();
    let count = |key: &str| list(&harness.balancer("kubernetes")["properties"][key]).count();
    assert_eq!(
        (
            count("frontendIPConfigurations"),
            count("loadBalancingRules")
        ),
        (1, 2)
    );
    let error = harness
        .ensure(&provider, &service("other", &[80], &[], &pinned))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("uses already"), "{error}");
    harness.delete(&provider, &mail).await.unwrap();
    assert_eq!(
        (
            count("frontendIPConfigurations"),
            count("loadBalancingRules")
        ),
        (1, 1)
    );
    let rules = harness.security_rules();
    assert!(
        rules.len() == 1 && rules[0]["properties"]["destinationPortRanges"] == json!(["80"]),
        "{rules:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn security_rules_admit_the_stated_sources_and_leave_with_the_service() {
    let harness = Harness::new(Form::Addresses);
    let provider = harness.started().await;
    let annotations = [
        ("azure-allowed-service-tags", "AzureCloud"),
        ("azure-deny-all-except-load-balancer-source-ranges", "true"),
    ];
    let ranges =
        json!({"loadBalancerSourceRanges": ["10.0.0.0/25", "10.0.0.128/25", "2001:db8::/32"]});
    let web = service("web", &[80], &annotations, &ranges);
    harness.ensure(&provider, &web).await.unwrap();
    let mut shown: Vec<_> = harness
        .security_rules()
        .iter()
        .map(|security_rule| {
            format!(
                "{} {}",
                text(&security_rule["properties"]["access"]),
                text(&security_rule["properties"]["sourceAddressPrefix"])
            )
        })
        .collect();
    shown.sort();
    assert_eq!(shown, ["Allow 10.0.0.0/24", "Allow AzureCloud", "Deny *"]);
    let mut priorities: Vec<_> = harness
        .security_rules()
        .iter()
        .map(|security_rule| security_rule["properties"]["priority"].as_u64().unwrap())
        .collect();
    priorities.sort_unstable();
    assert_eq!(priorities, [500, 501, 4095]);
    let name = text(&harness.security_rules()[0]["name"]);
    assert!(
        name.starts_with("k8s-azure-lb_allow_IPv4_")
            && name.len() == "k8s-azure-lb_allow_IPv4_".len() + 32,
        "{name}"
    );
    harness
        .ensure(
            &provider,
            &service(
                "web",
                &[80],
                &[("azure-disable-load-balancer-nsg-rule", "true")],
                &Value::Null,
            ),
        )
        .await
        .unwrap();
    assert!(harness.security_rules().is_empty());
    harness.delete(&provider, &web).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn service_with_two_families_has_two_of_each() {
    for (form, internal) in [
        (Form::Addresses, false),
        (Form::Interfaces, false),
        (Form::Addresses, true),
    ] {
        let harness = Harness::new(form);
        harness.add_ipv6("worker-1", "fd00::11");
        harness.add_ipv6("worker-2", "fd00::12");
        let provider = harness.started().await;
        let annotations = if internal { vec![INTERNAL] } else { Vec::new() };
        let dual = json!({"ipFamilies": ["IPv6", "IPv4"], "ipFamilyPolicy": "RequireDualStack"});
        let web = service("web", &[80], &annotations, &dual);
        let ingress = harness
            .ensure(&provider, &web)
            .await
            .unwrap()
            .unwrap()
            .ingress
            .unwrap();
        let ips: Vec<_> = ingress
            .iter()
            .map(|ingress| ingress.ip.as_deref().unwrap())
            .collect();
        assert!(
            ips.len() == 2 && ips[0].contains(':') && ips[1].contains('.'),
            "{form:?}: {ips:?}"
        );
        let shown = harness.balancer(if internal {
            "kubernetes-internal"
        } else {
            "kubernetes"
        });
        let owner = cloud_provider::default_load_balancer_name(&web);
        let names = |key: &str| {
            let mut names: Vec<_> = list(&shown["properties"][key])
                .map(|properties| text(&properties["name"]))
                .collect();
            names.sort();
            names
        };
        assert_eq!(
            names("frontendIPConfigurations"),
            [owner.clone(), format!("{owner}-IPv6")]
        );
        assert_eq!(
            names("loadBalancingRules"),
            [format!("{owner}-TCP-80"), format!("{owner}-TCP-80-IPv6")]
        );
        assert_eq!(
            names("backendAddressPools"),
            ["kubernetes", "kubernetes-IPv6"]
        );
        let members = |pool: &Value| {
            let interfaces = harness.fake.lock().members_of(&text(&pool["id"])).len();
            interfaces + list(&pool["properties"]["loadBalancerBackendAddresses"]).count()
        };
        assert!(
            list(&shown["properties"]["backendAddressPools"])
                .all(|backend_address_pool| members(backend_address_pool) == 2),
            "{shown:#}"
        );
        let of_rule = list(&shown["properties"]["loadBalancingRules"])
            .find(|load_balancing_rule| text(&load_balancing_rule["name"]).ends_with("IPv6"));
        let backend = &of_rule.unwrap()["properties"]["backendPort"];
        assert_eq!(
            *backend,
            json!(if internal { 30_080 } else { 80 }),
            "internal IPv6 leads to the node ports"
        );
        harness.fake.fault_injector().forget_requests();
        harness.ensure(&provider, &web).await.unwrap();
        assert_eq!(harness.changes(), [""; 0]);
        harness
            .ensure(
                &provider,
                &service("web", &[80], &annotations, &json!({"ipFamilies": ["IPv4"]})),
            )
            .await
            .unwrap();
        let left = harness.fake.lock().all(ADDRESSES).count();
        assert_eq!(
            left,
            usize::from(!internal),
            "the second address is given back"
        );
        harness.delete(&provider, &web).await.unwrap();
        assert_eq!(harness.fake.lock().all(ADDRESSES).count(), 0);
        assert_eq!(harness.security_rules(), Vec::<Value>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn frontend_with_a_long_subnet_is_cut_to_what_azure_accepts() {
    let harness = Harness::new(Form::Addresses);
    let provider = harness.started().await;
    let subnet = "s".repeat(40) + "-" + &"t".repeat(40);
    let web = service(
        "web",
        &[80],
        &[INTERNAL, ("azure-load-balancer-internal-subnet", &subnet)],
        &Value::Null,
    );
    harness.ensure(&provider, &web).await.unwrap();
    let shown = harness.balancer("kubernetes-internal");
    let name = |key: &str| text(&list(&shown["properties"][key]).next().unwrap()["name"]);
    assert_eq!(
        (
            name("frontendIPConfigurations").len(),
            name("loadBalancingRules").len()
        ),
        (75, 75)
    );
    assert!(
        name("frontendIPConfigurations").ends_with('t')
            && name("loadBalancingRules").ends_with("-TCP-80")
    );
}

#[tokio::test(start_paused = true)]
async fn private_link_service_follows_its_annotations_and_goes_before_its_frontend() {
    let harness = Harness::new(Form::Addresses);
    let provider = harness.started().await;
    let create = ("azure-pls-create", "true");
    let more = [
        ("azure-pls-ip-configuration-ip-address-count", "2"),
        ("azure-pls-ip-configuration-ip-address", "10.1.0.9"),
        ("azure-pls-visibility", "a b"),
        ("azure-pls-auto-approval", "b"),
        ("azure-pls-fqdns", "web.example.com"),
    ];
    let of = |annotations: &[(&str, &str)]| service("web", &[80], annotations, &Value::Null);
    let all: Vec<_> = [INTERNAL, create].into_iter().chain(more).collect();
    harness.ensure(&provider, &of(&all)).await.unwrap();
    let name = format!(
        "pls-{}",
        cloud_provider::default_load_balancer_name(&of(&[]))
    );
    let link = id("Microsoft.Network/privateLinkServices", &name);
    let shown = || harness.fake.lock().get(&link).cloned().unwrap_or_default();
    let configurations: Vec<_> = list(&shown()["properties"]["ipConfigurations"])
        .map(|ip_configurations| {
            (
                text(&ip_configurations["properties"]["privateIPAddress"]),
                ip_configurations["properties"]["primary"] == true,
            )
        })
        .collect();
    assert_eq!(
        configurations,
        [("10.1.0.9".to_owned(), true), (String::new(), false)]
    );
    assert_eq!(shown()["tags"]["k8s-azure-owner-service"], "default/web");
    assert_eq!(
        shown()["properties"]["visibility"]["subscriptions"],
        json!(["a", "b"])
    );
    harness.changes();
    harness.ensure(&provider, &of(&all)).await.unwrap();
    assert_eq!(harness.changes(), [""; 0]);
    harness
        .ensure(&provider, &of(&[INTERNAL, create]))
        .await
        .unwrap();
    assert_eq!(
        harness.changes(),
        ["PUT /Microsoft.Network/privateLinkServices/{name}"]
    );
    assert_eq!(list(&shown()["properties"]["ipConfigurations"]).count(), 1);
    harness.fake.lock().edit(&link, |object| {
        object["properties"]["privateEndpointConnections"] = json!([{"name": "theirs"}]);
    });
    // Without the annotation, the private link service is found when Azure refuses to remove its frontend.
    for annotations in [&[INTERNAL, create][..], &[INTERNAL]] {
        harness
            .ensure(&provider, &of(&[INTERNAL, create]))
            .await
            .unwrap();
        harness.delete(&provider, &of(annotations)).await.unwrap();
        assert_eq!(
            (shown(), harness.balancer("kubernetes-internal")),
            (Value::Null, Value::Null)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn services_whose_namespaces_and_names_join_to_one_text_have_pools_of_their_own() {
    let local = json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 32_000});
    let of = |namespace: &str, name: &str, port: u16| {
        let mut service = service(name, &[port], &[], &local);
        service.metadata.namespace = Some(namespace.to_owned());
        service
    };
    // The name of the Go program is `a-b-c` for both.
    let all = [of("a", "b-c", 80), of("a-b", "c", 25)];
    for (is_first_alone, expected) in [(true, ["a-b-c", "a-b_c"]), (false, ["a-b_c", "a_b-c"])] {
        let configured = json!([{"name": "kubernetes", "primaryVMSet": "one"}]);
        let harness = Harness::new(Form::Addresses)
            .with(json!({ "multipleStandardLoadBalancerConfigurations": configured }));
        let provider = harness.started().await;
        let known = if is_first_alone { &all[..1] } else { &all[..] };
        harness
            .ensure_among(&provider, &all[0], known)
            .await
            .unwrap();
        harness
            .ensure_among(&provider, &all[1], &all)
            .await
            .unwrap();
        let pools = |harness: &Harness| {
            let shown = harness.balancer("kubernetes");
            let mut names: Vec<_> = list(&shown["properties"]["backendAddressPools"])
                .map(|backend_address_pools| text(&backend_address_pools["name"]))
                .collect();
            names.sort();
            names
        };
        assert_eq!(pools(&harness), expected, "{is_first_alone}");
        harness.changes();
        for object in &all {
            harness.ensure_among(&provider, object, &all).await.unwrap();
        }
        assert_eq!(
            (harness.changes(), pools(&harness)),
            (Vec::new(), expected.map(str::to_owned).into())
        );
        harness.delete(&provider, &all[0]).await.unwrap();
        assert_eq!(
            pools(&harness),
            ["a-b_c"],
            "the pool of the other Service stays"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn several_load_balancers_share_services_and_nodes() {
    let harness =
        Harness::new(Form::Addresses).with(json!({"multipleStandardLoadBalancerConfigurations": [
            {"name": "kubernetes", "primaryVMSet": "one"},
            {"name": "second", "primaryVMSet": "two"},
        ]}));
    let provider = harness.started().await;
    let members = |name: &str, pool: &str| {
        let shown = harness.balancer(name);
        let pools = list(&shown["properties"]["backendAddressPools"])
            .filter(|backend_address_pool| backend_address_pool["name"] == *pool);
        let members =
            pools.flat_map(|pool| list(&pool["properties"]["loadBalancerBackendAddresses"]));
        let mut names: Vec<_> = members.map(|members| text(&members["name"])).collect();
        names.sort();
        names
    };
    let web = service("web", &[80], &[], &Value::Null);
    let first = harness.ensure(&provider, &web).await.unwrap();
    assert_eq!(
        members("kubernetes", "kubernetes"),
        ["worker-1", "worker-2"]
    );
    let mail = service("mail", &[25], &[], &Value::Null);
    harness.ensure(&provider, &mail).await.unwrap();
    let both = [
        members("kubernetes", "kubernetes"),
        members("second", "kubernetes"),
    ]
    .concat();
    assert_eq!(
        (
            both.len(),
            both.iter().collect::<std::collections::BTreeSet<_>>().len()
        ),
        (2, 2),
        "{both:?}"
    );
    let local = json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 32_000});
    let near = service(
        "near",
        &[53],
        &[("azure-load-balancer-configurations", "second")],
        &local,
    );
    harness.ensure(&provider, &near).await.unwrap();
    assert_eq!(members("second", "default-near"), ["worker-1", "worker-2"]);
    for (nodes, expected) in [
        (json!([{"nodeName": "worker-2"}]), &["worker-2"][..]),
        (json!([]), &[]),
        (
            json!([{"nodeName": "worker-1"}, {"nodeName": "worker-2"}]),
            &["worker-1", "worker-2"],
        ),
    ] {
        let slices = json!({"items": [{"endpoints": nodes}]}).to_string();
        harness.cluster.set_document(
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
            slices,
        );
        harness.ensure(&provider, &near).await.unwrap();
        assert_eq!(
            members("second", "default-near"),
            expected,
            "the Nodes with endpoints"
        );
    }
    harness.changes();
    for service in [&web, &mail, &near] {
        harness.ensure(&provider, service).await.unwrap();
    }
    assert_eq!(harness.changes(), [""; 0]);
    let moved = service(
        "web",
        &[80],
        &[("azure-load-balancer-configurations", "second")],
        &Value::Null,
    );
    let status = harness.ensure(&provider, &moved).await.unwrap();
    assert_eq!(
        status.unwrap().ingress,
        first.unwrap().ingress,
        "the address stays"
    );
    assert_eq!(harness.balancer("kubernetes"), Value::Null);
    assert_eq!(members("second", "kubernetes"), ["worker-1", "worker-2"]);
    for service in [&moved, &mail, &near] {
        harness.delete(&provider, service).await.unwrap();
    }
    assert_eq!(harness.balancer("second"), Value::Null);
    assert_eq!(harness.fake.lock().all(ADDRESSES).count(), 0);
}
