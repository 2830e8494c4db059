//! Flags of the endpoints: webhooks, secure serving, authentication, authorization.

use super::*;

/// Rows of section "Webhook" of `--help`.
pub(super) const WEBHOOKS: [Row; 11] = [
    row(
        "webhooks",
        "strings",
        "",
        &["--webhooks=pvlabel"],
        Both(
            "/Webhook/Webhooks",
            || json!(["pvlabel"]),
            |config| config.webhooks.includes("pvlabel") && !config.webhooks.includes("lb-service"),
        ),
    ),
    row(
        "webhook-bind-address",
        "ip",
        "0.0.0.0",
        &["--webhook-bind-address=::1"],
        Opt(|config| config.webhook_serving.bind_address.is_loopback()),
    ),
    row(
        "webhook-secure-port",
        "int",
        "10260",
        &["--webhook-secure-port=0"],
        Opt(|config| config.webhook_serving.port == 0),
    ),
    row(
        "webhook-cert-dir",
        "path",
        "",
        &["--webhook-cert-dir=/a"],
        Opt(|config| {
            let options = &config.webhook_serving;
            options.cert_dir.as_deref() == Some("/a".as_ref())
                && options.pair_name == "cloud-controller-manager-webhook"
        }),
    ),
    row(
        "webhook-tls-cert-file",
        "path",
        "",
        &[
            "--webhook-tls-cert-file=/c",
            "--webhook-tls-private-key-file=/k",
        ],
        Opt(|config| {
            config
                .webhook_serving
                .certificate
                .clone()
                .unwrap()
                .certificate
                .as_os_str()
                == "/c"
        }),
    ),
    row(
        "webhook-tls-private-key-file",
        "path",
        "",
        &[
            "--webhook-tls-cert-file=/c",
            "--webhook-tls-private-key-file=/k",
        ],
        Opt(|config| {
            config
                .webhook_serving
                .certificate
                .clone()
                .unwrap()
                .key
                .as_os_str()
                == "/k"
        }),
    ),
    row(
        "webhook-tls-cipher-suites",
        "strings",
        "",
        &["--webhook-tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"],
        Opt(|config| config.webhook_serving.cipher_suites.len() == 1),
    ),
    row(
        "webhook-tls-curve-preferences",
        "int32 list",
        "",
        &["--webhook-tls-curve-preferences=29"],
        Opt(|config| config.webhook_serving.curve_preferences == [29]),
    ),
    row(
        "webhook-tls-min-version",
        "string",
        "",
        &["--webhook-tls-min-version=VersionTLS13"],
        Opt(|config| config.webhook_serving.min_version == serving::options::TlsVersion::V1_3),
    ),
    row(
        "webhook-tls-sni-cert-key",
        "pair",
        "",
        &["--webhook-tls-sni-cert-key=/c,/k:a.example"],
        Opt(|config| config.webhook_serving.sni[0].names == ["a.example"]),
    ),
    row(
        "webhook-disable-http2-serving",
        "bool",
        "false",
        &["--webhook-disable-http2-serving"],
        Opt(|config| config.webhook_serving.disable_http2),
    ),
];

/// Section "Secure serving" of `--help`.
pub(super) const SERVING: [Row; 13] = [
    row(
        "bind-address",
        "ip",
        "0.0.0.0",
        &["--bind-address=127.0.0.1"],
        Opt(|config| config.serving.bind_address.is_loopback()),
    ),
    row(
        "secure-port",
        "int",
        "10258",
        &["--secure-port=10253"],
        Opt(|config| config.serving.port == 10253),
    ),
    row(
        "cert-dir",
        "path",
        "",
        &["--cert-dir=/a"],
        Opt(|config| config.serving.cert_dir.clone().unwrap().as_os_str() == "/a"),
    ),
    row(
        "tls-cert-file",
        "path",
        "",
        &["--tls-cert-file=/c", "--tls-private-key-file=/k"],
        Opt(|config| {
            config
                .serving
                .certificate
                .clone()
                .unwrap()
                .certificate
                .as_os_str()
                == "/c"
        }),
    ),
    row(
        "tls-private-key-file",
        "path",
        "",
        &["--tls-cert-file=/c", "--tls-private-key-file=/k"],
        Opt(|config| config.serving.certificate.clone().unwrap().key.as_os_str() == "/k"),
    ),
    row(
        "tls-sni-cert-key",
        "pair",
        "",
        &[
            "--tls-sni-cert-key=/c,/k:*.a.example,b",
            "--tls-sni-cert-key=/d,/l",
        ],
        Opt(|config| {
            let sni = &config.serving.sni;
            sni.len() == 2
                && sni[0].names == ["*.a.example", "b"]
                && sni[1].files.key.as_os_str() == "/l"
                && sni[1].names.is_empty()
        }),
    ),
    row(
        "tls-cipher-suites",
        "strings",
        "",
        &["--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_RSA_WITH_RC4_128_SHA"],
        Opt(|config| config.serving.cipher_suites.len() == 2),
    ),
    row(
        "tls-min-version",
        "string",
        "",
        &["--tls-min-version=VersionTLS13"],
        Opt(|config| config.serving.min_version == serving::options::TlsVersion::V1_3),
    ),
    row(
        "tls-curve-preferences",
        "int32 list",
        "",
        &[
            "--tls-curve-preferences=29,23",
            "--tls-curve-preferences=24",
        ],
        Opt(|config| config.serving.curve_preferences == [29, 23, 24]),
    ),
    row(
        "http2-max-streams-per-connection",
        "int",
        "0",
        &["--http2-max-streams-per-connection=250"],
        Opt(|config| config.serving.http2_max_streams == 250),
    ),
    row(
        "disable-http2-serving",
        "bool",
        "false",
        &["--disable-http2-serving"],
        Opt(|config| config.serving.disable_http2),
    ),
    row(
        "permit-port-sharing",
        "bool",
        "false",
        &["--permit-port-sharing"],
        Opt(|config| config.serving.permit_port_sharing),
    ),
    row(
        "permit-address-sharing",
        "bool",
        "false",
        &["--permit-address-sharing"],
        Opt(|config| config.serving.permit_address_sharing),
    ),
];

/// Section "Authentication" of `--help`.
pub(super) const AUTHENTICATION: [Row; 11] = [
    row(
        "authentication-kubeconfig",
        "path",
        "",
        &["--authentication-kubeconfig=/a"],
        Opt(|config| {
            config
                .authentication
                .kubeconfig
                .clone()
                .unwrap()
                .as_os_str()
                == "/a"
        }),
    ),
    row(
        "authentication-skip-lookup",
        "bool",
        "false",
        &["--authentication-skip-lookup"],
        Opt(|config| config.authentication.skip_lookup),
    ),
    row(
        "authentication-tolerate-lookup-failure",
        "bool",
        "false",
        &["--authentication-tolerate-lookup-failure"],
        Opt(|config| config.authentication.tolerate_lookup_failure),
    ),
    row(
        "authentication-token-webhook-cache-ttl",
        "duration",
        "10s",
        &["--authentication-token-webhook-cache-ttl=-1s"],
        Opt(|config| config.authentication.token_cache_ttl.is_zero()),
    ),
    row(
        "client-ca-file",
        "path",
        "",
        &["--client-ca-file=/a"],
        Opt(|config| {
            config
                .authentication
                .client_ca_file
                .clone()
                .unwrap()
                .as_os_str()
                == "/a"
        }),
    ),
    row(
        "requestheader-client-ca-file",
        "path",
        "",
        &["--requestheader-client-ca-file=/a"],
        Opt(|config| {
            config
                .authentication
                .request_header
                .client_ca_file
                .clone()
                .unwrap()
                .as_os_str()
                == "/a"
        }),
    ),
    row(
        "requestheader-allowed-names",
        "strings",
        "",
        &["--requestheader-allowed-names=a,b"],
        Opt(|config| config.authentication.request_header.allowed_names == ["a", "b"]),
    ),
    row(
        "requestheader-username-headers",
        "strings",
        "x-remote-user",
        &["--requestheader-username-headers=x-user,x-remote-user"],
        Opt(|config| {
            config.authentication.request_header.username_headers == ["x-user", "x-remote-user"]
        }),
    ),
    row(
        "requestheader-uid-headers",
        "strings",
        "",
        &["--requestheader-uid-headers=x-remote-uid"],
        Opt(|config| config.authentication.request_header.uid_headers == ["x-remote-uid"]),
    ),
    row(
        "requestheader-group-headers",
        "strings",
        "x-remote-group",
        &["--requestheader-group-headers=a"],
        Opt(|config| config.authentication.request_header.group_headers == ["a"]),
    ),
    row(
        "requestheader-extra-headers-prefix",
        "strings",
        "x-remote-extra-",
        &["--requestheader-extra-headers-prefix=a-"],
        Opt(|config| config.authentication.request_header.extra_prefixes == ["a-"]),
    ),
];

/// Sections "Authorization" and "Misc" of `--help`.
pub(super) const AUTHORIZATION: [Row; 7] = [
    row(
        "authorization-kubeconfig",
        "path",
        "",
        &["--authorization-kubeconfig=/a"],
        Opt(|config| config.authorization.kubeconfig.clone().unwrap().as_os_str() == "/a"),
    ),
    row(
        "authorization-always-allow-paths",
        "strings",
        "/healthz,/readyz,/livez",
        &["--authorization-always-allow-paths=\"/metrics\""],
        Opt(|config| config.authorization.always_allow_paths == ["/metrics"]),
    ),
    row(
        "authorization-webhook-cache-authorized-ttl",
        "duration",
        "10s",
        &["--authorization-webhook-cache-authorized-ttl=1m"],
        Opt(|config| config.authorization.allowed_ttl == secs(60)),
    ),
    row(
        "authorization-webhook-cache-unauthorized-ttl",
        "duration",
        "10s",
        &["--authorization-webhook-cache-unauthorized-ttl=1m"],
        Opt(|config| config.authorization.denied_ttl == secs(60)),
    ),
    row(
        "kubeconfig",
        "path",
        "",
        &["--kubeconfig=/a"],
        Both(
            "/Generic/ClientConnection/kubeconfig",
            || json!("/a"),
            |config| config.client_options.kubeconfig.as_deref() == Some("/a".as_ref()),
        ),
    ),
    row(
        "master",
        "string",
        "",
        &["--master=https://a"],
        Opt(|config| config.client_options.master.as_deref() == Some("https://a")),
    ),
    row(
        "node-status-update-frequency",
        "duration",
        "5m0s",
        &["--node-status-update-frequency=10s"],
        Both(
            "/NodeStatusUpdateFrequency",
            || json!("10s"),
            |config| config.options.node.status_update_frequency == secs(10),
        ),
    ),
];
