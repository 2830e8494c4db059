//! The endpoints: §7 to §11.

use super::*;

/// §7: webhooks.
pub(super) const WEBHOOKS: [Row; 11] = [
    row(
        "Webhook",
        ("webhooks", "strings", "", Should),
        &["--webhooks=pvlabel"],
        Configz("/Webhook/Webhooks", || json!(["pvlabel"])),
    ),
    row(
        "Webhook serving",
        ("webhook-bind-address", "ip", "0.0.0.0", Should),
        &["--webhook-bind-address=::1"],
        Opt(|flags| flags.webhook_serving().bind_address.is_loopback()),
    ),
    row(
        "Webhook serving",
        ("webhook-secure-port", "int", "10260", Must),
        &["--webhook-secure-port=0"],
        Opt(|flags| flags.webhook_serving().port == 0),
    ),
    row(
        "Webhook serving",
        ("webhook-cert-dir", "path", "", Should),
        &["--webhook-cert-dir=/a"],
        Opt(|flags| {
            let options = flags.webhook_serving();
            options.cert_dir.unwrap().as_os_str() == "/a" && options.pair_name == "cloud-controller-manager-webhook"
        }),
    ),
    row(
        "Webhook serving",
        ("webhook-tls-cert-file", "path", "", Should),
        &["--webhook-tls-cert-file=/c", "--webhook-tls-private-key-file=/k"],
        Opt(|flags| flags.webhook_serving().certificate.unwrap().certificate.as_os_str() == "/c"),
    ),
    row(
        "Webhook serving",
        ("webhook-tls-private-key-file", "path", "", Should),
        &["--webhook-tls-cert-file=/c", "--webhook-tls-private-key-file=/k"],
        Opt(|flags| flags.webhook_serving().certificate.unwrap().key.as_os_str() == "/k"),
    ),
    row(
        "Webhook serving",
        ("webhook-tls-cipher-suites", "strings", "", Should),
        &["--webhook-tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"],
        Opt(|flags| flags.webhook_serving().cipher_suites.len() == 1),
    ),
    row(
        "Webhook serving",
        ("webhook-tls-curve-preferences", "int32 list", "", Should),
        &["--webhook-tls-curve-preferences=29"],
        Opt(|flags| flags.webhook_serving().curve_preferences == [29]),
    ),
    row(
        "Webhook serving",
        ("webhook-tls-min-version", "string", "", Should),
        &["--webhook-tls-min-version=VersionTLS13"],
        Opt(|flags| flags.webhook_serving().min_version == serving::options::TlsVersion::V1_3),
    ),
    row(
        "Webhook serving",
        ("webhook-tls-sni-cert-key", "pair", "", Should),
        &["--webhook-tls-sni-cert-key=/c,/k:a.example"],
        Opt(|flags| flags.webhook_serving().sni[0].names == ["a.example"]),
    ),
    row(
        "Webhook serving",
        ("webhook-disable-http2-serving", "bool", "false", Should),
        &["--webhook-disable-http2-serving"],
        Opt(|flags| flags.webhook_serving().disable_http2),
    ),
];

/// §8: secure serving.
pub(super) const SERVING: [Row; 13] = [
    row(
        "Secure serving",
        ("bind-address", "ip", "0.0.0.0", Must),
        &["--bind-address=127.0.0.1"],
        Opt(|flags| flags.serving().bind_address.is_loopback()),
    ),
    row(
        "Secure serving",
        ("secure-port", "int", "10258", Must),
        &["--secure-port=10253"],
        Opt(|flags| flags.serving().port == 10253),
    ),
    row(
        "Secure serving",
        ("cert-dir", "path", "", Must),
        &["--cert-dir=/a"],
        Opt(|flags| flags.serving().cert_dir.unwrap().as_os_str() == "/a"),
    ),
    row(
        "Secure serving",
        ("tls-cert-file", "path", "", Must),
        &["--tls-cert-file=/c", "--tls-private-key-file=/k"],
        Opt(|flags| flags.serving().certificate.unwrap().certificate.as_os_str() == "/c"),
    ),
    row(
        "Secure serving",
        ("tls-private-key-file", "path", "", Must),
        &["--tls-cert-file=/c", "--tls-private-key-file=/k"],
        Opt(|flags| flags.serving().certificate.unwrap().key.as_os_str() == "/k"),
    ),
    row(
        "Secure serving",
        ("tls-sni-cert-key", "pair", "", Should),
        &["--tls-sni-cert-key=/c,/k:*.a.example,b", "--tls-sni-cert-key=/d,/l"],
        Opt(|flags| {
            let sni = flags.serving().sni;
            sni.len() == 2
                && sni[0].names == ["*.a.example", "b"]
                && sni[1].files.key.as_os_str() == "/l"
                && sni[1].names.is_empty()
        }),
    ),
    row(
        "Secure serving",
        ("tls-cipher-suites", "strings", "", Should),
        &["--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_RSA_WITH_RC4_128_SHA"],
        Opt(|flags| flags.serving().cipher_suites.len() == 2),
    ),
    row(
        "Secure serving",
        ("tls-min-version", "string", "", Should),
        &["--tls-min-version=VersionTLS13"],
        Opt(|flags| flags.serving().min_version == serving::options::TlsVersion::V1_3),
    ),
    row(
        "Secure serving",
        ("tls-curve-preferences", "int32 list", "", Should),
        &["--tls-curve-preferences=29,23", "--tls-curve-preferences=24"],
        Opt(|flags| flags.serving().curve_preferences == [29, 23, 24]),
    ),
    row(
        "Secure serving",
        ("http2-max-streams-per-connection", "int", "0", Should),
        &["--http2-max-streams-per-connection=250"],
        Opt(|flags| flags.serving().http2_max_streams == 250),
    ),
    row(
        "Secure serving",
        ("disable-http2-serving", "bool", "false", Should),
        &["--disable-http2-serving"],
        Opt(|flags| flags.serving().disable_http2),
    ),
    row(
        "Secure serving",
        ("permit-port-sharing", "bool", "false", Should),
        &["--permit-port-sharing"],
        Opt(|flags| flags.serving().permit_port_sharing),
    ),
    row(
        "Secure serving",
        ("permit-address-sharing", "bool", "false", Should),
        &["--permit-address-sharing"],
        Opt(|flags| flags.serving().permit_address_sharing),
    ),
];

/// §9: authentication.
pub(super) const AUTHENTICATION: [Row; 11] = [
    row(
        "Authentication",
        ("authentication-kubeconfig", "path", "", Must),
        &["--authentication-kubeconfig=/a"],
        Opt(|flags| flags.authentication().kubeconfig.unwrap().as_os_str() == "/a"),
    ),
    row(
        "Authentication",
        ("authentication-skip-lookup", "bool", "false", Must),
        &["--authentication-skip-lookup"],
        Opt(|flags| flags.authentication().skip_lookup),
    ),
    row(
        "Authentication",
        ("authentication-tolerate-lookup-failure", "bool", "false", Must),
        &["--authentication-tolerate-lookup-failure"],
        Opt(|flags| flags.authentication().tolerate_lookup_failure),
    ),
    row(
        "Authentication",
        ("authentication-token-webhook-cache-ttl", "duration", "10s", Should),
        &["--authentication-token-webhook-cache-ttl=-1s"],
        Opt(|flags| flags.authentication().token_cache_ttl.is_zero()),
    ),
    row(
        "Authentication",
        ("client-ca-file", "path", "", Should),
        &["--client-ca-file=/a"],
        Opt(|flags| flags.authentication().client_ca_file.unwrap().as_os_str() == "/a"),
    ),
    row(
        "Authentication",
        ("requestheader-client-ca-file", "path", "", Should),
        &["--requestheader-client-ca-file=/a"],
        Opt(|flags| flags.authentication().request_header.client_ca_file.unwrap().as_os_str() == "/a"),
    ),
    row(
        "Authentication",
        ("requestheader-allowed-names", "strings", "", Should),
        &["--requestheader-allowed-names=a,b"],
        Opt(|flags| flags.authentication().request_header.allowed_names == ["a", "b"]),
    ),
    row(
        "Authentication",
        ("requestheader-username-headers", "strings", "x-remote-user", Should),
        &["--requestheader-username-headers=x-user,x-remote-user"],
        Opt(|flags| flags.authentication().request_header.username_headers == ["x-user", "x-remote-user"]),
    ),
    row(
        "Authentication",
        ("requestheader-uid-headers", "strings", "", Should),
        &["--requestheader-uid-headers=x-remote-uid"],
        Opt(|flags| flags.authentication().request_header.uid_headers == ["x-remote-uid"]),
    ),
    row(
        "Authentication",
        ("requestheader-group-headers", "strings", "x-remote-group", Should),
        &["--requestheader-group-headers=a"],
        Opt(|flags| flags.authentication().request_header.group_headers == ["a"]),
    ),
    row(
        "Authentication",
        ("requestheader-extra-headers-prefix", "strings", "x-remote-extra-", Should),
        &["--requestheader-extra-headers-prefix=a-"],
        Opt(|flags| flags.authentication().request_header.extra_prefixes == ["a-"]),
    ),
];

/// §10 and §11: authorization, misc.
pub(super) const AUTHORIZATION: [Row; 7] = [
    row(
        "Authorization",
        ("authorization-kubeconfig", "path", "", Must),
        &["--authorization-kubeconfig=/a"],
        Opt(|flags| flags.authorization().kubeconfig.unwrap().as_os_str() == "/a"),
    ),
    row(
        "Authorization",
        ("authorization-always-allow-paths", "strings", "/healthz,/readyz,/livez", Must),
        &["--authorization-always-allow-paths=\"/metrics\""],
        Opt(|flags| flags.authorization().always_allow_paths == ["/metrics"]),
    ),
    row(
        "Authorization",
        ("authorization-webhook-cache-authorized-ttl", "duration", "10s", Should),
        &["--authorization-webhook-cache-authorized-ttl=1m"],
        Opt(|flags| flags.authorization().allowed_ttl == secs(60)),
    ),
    row(
        "Authorization",
        ("authorization-webhook-cache-unauthorized-ttl", "duration", "10s", Should),
        &["--authorization-webhook-cache-unauthorized-ttl=1m"],
        Opt(|flags| flags.authorization().denied_ttl == secs(60)),
    ),
    row(
        "Misc",
        ("kubeconfig", "path", "", Must),
        &["--kubeconfig=/a"],
        Configz("/Generic/ClientConnection/kubeconfig", || json!("/a")),
    ),
    row(
        "Misc",
        ("master", "string", "", Must),
        &["--master=https://a"],
        Opt(|flags| flags.client_options().master.as_deref() == Some("https://a")),
    ),
    row(
        "Misc",
        ("node-status-update-frequency", "duration", "5m0s", Must),
        &["--node-status-update-frequency=10s"],
        Configz("/NodeStatusUpdateFrequency", || json!("10s")),
    ),
];
