//! Services of load balancers: request bodies, and their form in the API.

use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;

/// A port of a load balancer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)] // fields of the API
pub struct Service {
    pub protocol: String,
    pub listen_port: u16,
    pub destination_port: u16,
    pub proxyprotocol: bool,
    pub http: Option<Http>,
    pub health_check: HealthCheck,
}

/// HTTP settings of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)] // fields of the API
pub struct Http {
    pub cookie_name: String,
    pub cookie_lifetime: u32,
    pub certificates: Vec<u64>,
    pub redirect_http: bool,
    pub sticky_sessions: bool,
    pub timeout_idle: u32,
}

/// Health check of a service's targets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)] // fields of the API
pub struct HealthCheck {
    pub protocol: String,
    pub port: u16,
    pub interval: u32,
    pub timeout: u32,
    pub retries: u32,
    pub http: Option<HealthCheckHttp>,
}

/// A check by HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)] // fields of the API
pub struct HealthCheckHttp {
    pub domain: String,
    pub path: String,
    pub response: String,
    pub status_codes: Vec<String>,
    pub tls: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ServiceChange {
    protocol: Option<String>,
    pub(crate) listen_port: Option<u16>,
    destination_port: Option<u16>,
    proxyprotocol: Option<bool>,
    http: Option<HttpChange>,
    health_check: Option<CheckChange>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct HttpChange {
    cookie_name: Option<String>,
    cookie_lifetime: Option<u32>,
    certificates: Option<Vec<u64>>,
    redirect_http: Option<bool>,
    sticky_sessions: Option<bool>,
    timeout_idle: Option<u32>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct CheckChange {
    protocol: Option<String>,
    port: Option<u16>,
    interval: Option<u32>,
    timeout: Option<u32>,
    retries: Option<u32>,
    http: Option<CheckHttpChange>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct CheckHttpChange {
    domain: Option<String>,
    path: Option<String>,
    response: Option<String>,
    status_codes: Option<Vec<String>>,
    tls: Option<bool>,
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

fn within(name: &str, value: u32, least: u32, most: u32) -> Result<(), Refusal> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Refusal::field(
        name,
        &format!("must be between {least} and {most}"),
    ))
}

fn is_http(protocol: &str) -> bool {
    ["http", "https"].contains(&protocol)
}

impl Service {
    /// Creates a service with the API's defaults.
    pub(crate) fn new(change: ServiceChange) -> Result<Self, Refusal> {
        let protocol = change
            .protocol
            .clone()
            .ok_or_else(|| Refusal::field("protocol", "is required"))?;
        let default = match protocol.as_str() {
            "http" => Some(80),
            "https" => Some(443),
            _ => None,
        };
        let missing = |name: &'static str| move || Refusal::field(name, "is required");
        let listen_port = change
            .listen_port
            .or(default)
            .ok_or_else(missing("listen_port"))?;
        let destination_port = change
            .destination_port
            .or(default.map(|_| 80))
            .ok_or_else(missing("destination_port"))?;
        let check = HealthCheck {
            protocol: "tcp".to_owned(),
            port: destination_port,
            interval: 15,
            timeout: 10,
            retries: 3,
            http: None,
        };
        let mut service = Self {
            protocol,
            listen_port,
            destination_port,
            proxyprotocol: false,
            http: None,
            health_check: check,
        };
        service.change(change)?;
        Ok(service)
    }

    /// Changes what is stated.
    pub(crate) fn change(&mut self, change: ServiceChange) -> Result<(), Refusal> {
        set(&mut self.protocol, change.protocol);
        set(&mut self.destination_port, change.destination_port);
        set(&mut self.proxyprotocol, change.proxyprotocol);
        if !["tcp", "http", "https"].contains(&self.protocol.as_str()) {
            return Err(Refusal::field(
                "protocol",
                "must be one of tcp, http, https",
            ));
        }
        if is_http(&self.protocol) {
            let mut http = self.http.take().unwrap_or_else(|| Http {
                cookie_name: "HCLBSTICKY".to_owned(),
                cookie_lifetime: 300,
                certificates: Vec::new(),
                redirect_http: false,
                sticky_sessions: false,
                timeout_idle: 60,
            });
            let change = change.http.unwrap_or_default();
            set(&mut http.cookie_name, change.cookie_name);
            set(&mut http.cookie_lifetime, change.cookie_lifetime);
            set(&mut http.certificates, change.certificates);
            set(&mut http.redirect_http, change.redirect_http);
            set(&mut http.sticky_sessions, change.sticky_sessions);
            set(&mut http.timeout_idle, change.timeout_idle);
            within("http.timeout_idle", http.timeout_idle, 30, 300)?;
            if self.protocol == "https" && http.certificates.is_empty() {
                return Err(Refusal::field(
                    "http.certificates",
                    "https needs at least one certificate",
                ));
            }
            if http.redirect_http && self.protocol != "https" {
                return Err(Refusal::field("http.redirect_http", "is for https only"));
            }
            self.http = Some(http);
        } else {
            self.http = None;
        }
        self.health_check
            .change(change.health_check.unwrap_or_default())
    }
}

impl HealthCheck {
    fn change(&mut self, change: CheckChange) -> Result<(), Refusal> {
        set(&mut self.protocol, change.protocol);
        set(&mut self.port, change.port);
        set(&mut self.interval, change.interval);
        set(&mut self.timeout, change.timeout);
        set(&mut self.retries, change.retries);
        if !["tcp", "http", "https"].contains(&self.protocol.as_str()) {
            return Err(Refusal::field(
                "health_check.protocol",
                "must be one of tcp, http, https",
            ));
        }
        within("health_check.interval", self.interval, 3, 60)?;
        within("health_check.timeout", self.timeout, 1, 60)?;
        within("health_check.retries", self.retries, 0, 5)?;
        if !is_http(&self.protocol) {
            self.http = None;
            return Ok(());
        }
        let mut http = self.http.take().unwrap_or_else(|| HealthCheckHttp {
            domain: String::new(),
            path: "/".to_owned(),
            response: String::new(),
            status_codes: ["2??", "3??"].map(str::to_owned).into(),
            tls: false,
        });
        let change = change.http.unwrap_or_default();
        set(&mut http.domain, change.domain);
        set(&mut http.path, change.path);
        set(&mut http.response, change.response);
        set(&mut http.status_codes, change.status_codes);
        set(&mut http.tls, change.tls);
        self.http = Some(http);
        Ok(())
    }
}
