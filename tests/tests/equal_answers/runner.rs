//! Runs a scenario against a server and collects its answers, unmasked.

use crate::mask::SEEN;
use crate::pointer;
use crate::scenario::{Scenario, Step, Until, accept, content_type};
use anyhow::{Context, Result, bail};
use bytes::{Bytes, BytesMut};
use futures::future::{BoxFuture, FutureExt};
use http::{Request, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// The longest wait for an answer, or for what a watch is read until.
const PATIENCE: Duration = Duration::from_secs(60);

/// Responses of a scenario.
#[derive(Debug)]
pub(crate) struct Transcript {
    /// Masked responses, one for each step.
    pub(crate) answers: Vec<Value>,
    /// Generated names: the name and its `generateName`.
    pub(crate) generated: Vec<(String, String)>,
}

struct Run<'a> {
    client: &'a Client,
    variables: BTreeMap<String, Value>,
    generated: Vec<(String, String)>,
    created: Vec<String>,
}

/// Runs all steps. With `clean`, what was created is deleted afterwards, finalizers or not.
pub(crate) async fn run(
    client: &Client,
    scenario: &Scenario,
    tag: &str,
    clean: bool,
) -> Result<Transcript> {
    let mut run = Run {
        client,
        variables: BTreeMap::new(),
        generated: Vec::new(),
        created: Vec::new(),
    };
    let outcome = run.all(scenario, tag).await;
    if clean {
        for path in &scenario.cleanup {
            let path = run.fill(path);
            run.created.push(path);
        }
        for path in std::mem::take(&mut run.created).iter().rev() {
            run.delete(path)
                .await
                .with_context(|| format!("cleaning up {path}"))?;
        }
    }
    Ok(Transcript {
        answers: outcome?,
        generated: run.generated,
    })
}

impl Run<'_> {
    async fn all(&mut self, scenario: &Scenario, tag: &str) -> Result<Vec<Value>> {
        if scenario.literals.contains("${ns}") {
            let name = format!("{tag}{}", scenario.id);
            self.variables.insert("ns".into(), json!(name));
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            let request =
                Request::post("/api/v1/namespaces").header("content-type", "application/json");
            let answer = self
                .client
                .send(request.body(Body::from(serde_json::to_vec(&body)?))?)
                .await?;
            if answer.status() != 201 {
                bail!("creating namespace {name}: {}", answer.status());
            }
            self.created.push(format!("/api/v1/namespaces/{name}"));
        }
        let mut answers = Vec::new();
        for (index, step) in scenario.steps.iter().enumerate() {
            let answer = self
                .step(step)
                .await
                .with_context(|| format!("step {}: {}", index + 1, step.call))?;
            answers.push(answer);
        }
        Ok(answers)
    }

    fn step<'a>(&'a mut self, step: &'a Step) -> BoxFuture<'a, Result<Value>> {
        async move {
            let request = self.request(step)?;
            let method = request.method().clone();
            let path = request.uri().path().to_owned();
            let response = tokio::time::timeout(PATIENCE, self.client.send(request))
                .await
                .context("no answer")??;
            let mut answer = head(step, &response);
            let status = response.status().as_u16();
            let mut during = Vec::new();
            for inner in &step.during {
                during.push(self.step(inner).await.with_context(|| inner.call.clone())?);
            }
            let mut body = match step.watch {
                Some(until) if status == 200 => {
                    let (events, end) = read_watch(response.into_body(), until).await?;
                    answer.insert("end".into(), json!(end));
                    Value::Array(events)
                }
                _ => {
                    let bytes = tokio::time::timeout(PATIENCE, response.into_body().collect())
                        .await??
                        .to_bytes();
                    document(&bytes)
                }
            };
            self.note(&method, &path, status, &body);
            for (name, place) in &step.save {
                let value = body
                    .pointer(place)
                    .cloned()
                    .unwrap_or_else(|| json!("missing"));
                self.variables.insert(name.clone(), value);
            }
            if step.setup {
                if status >= 300 {
                    bail!("{status}: {}", body["message"]);
                }
                // The version of a list belongs to no object.
                if body["items"].is_null() {
                    answer.insert(
                        SEEN.into(),
                        json!({"resourceVersion": body["metadata"]["resourceVersion"]}),
                    );
                }
            } else {
                if !step.managed {
                    drop_managed_fields(&mut body);
                }
                step.ignore
                    .iter()
                    .for_each(|place| pointer::remove(&mut body, place));
                if !step.only.is_empty() {
                    body = pointer::keep(&body, &step.only);
                }
                answer.insert("body".into(), body);
            }
            if !during.is_empty() {
                answer.insert("during".into(), Value::Array(during));
            }
            Ok(Value::Object(answer))
        }
        .boxed()
    }

    fn request(&self, step: &Step) -> Result<Request<Body>> {
        let (method, path) = step
            .call
            .split_once(' ')
            .context("a call is METHOD /path")?;
        let mut request = Request::builder().method(method).uri(self.fill(path));
        request = request.header(
            "accept",
            accept(step.accept.as_deref().unwrap_or("application/json")),
        );
        let body = match (&step.raw, &step.body) {
            (Some(raw), _) => self.fill(raw).into_bytes(),
            (None, Some(body)) => serde_json::to_vec(&self.fill_value(body))?,
            (None, None) => Vec::new(),
        };
        if step.content_type.is_some() || !body.is_empty() {
            request = request.header(
                "content-type",
                content_type(step.content_type.as_deref().unwrap_or("application/json")),
            );
        }
        Ok(request.body(Body::from(body))?)
    }

    /// Records objects to clean up, and generated names.
    fn note(&mut self, method: &http::Method, path: &str, status: u16, body: &Value) {
        let name = body.pointer("/metadata/name").and_then(Value::as_str);
        if let (Some(name), Some(prefix)) = (
            name,
            body.pointer("/metadata/generateName")
                .and_then(Value::as_str),
        ) {
            self.generated.push((name.to_owned(), prefix.to_owned()));
        }
        if status == 201 {
            match (method, name) {
                (&http::Method::POST, Some(name)) if !path.ends_with("/token") => {
                    self.created.push(format!("{path}/{name}"));
                }
                (&http::Method::PUT | &http::Method::PATCH, _) => {
                    self.created.push(path.to_owned());
                }
                _ => {}
            }
        }
    }

    /// Returns the text with every `${name}` replaced.
    fn fill(&self, text: &str) -> String {
        self.variables
            .iter()
            .fold(text.to_owned(), |text, (name, value)| {
                let value = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                text.replace(&format!("${{{name}}}"), &value)
            })
    }

    /// Fills variables like [`Self::fill`]; a string that consists of one variable becomes its value, of any type.
    fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                let whole = text
                    .strip_prefix("${")
                    .and_then(|rest| rest.strip_suffix('}'));
                whole
                    .and_then(|name| self.variables.get(name))
                    .cloned()
                    .unwrap_or_else(|| Value::String(self.fill(text)))
            }
            Value::Array(elements) => elements
                .iter()
                .map(|element| self.fill_value(element))
                .collect(),
            Value::Object(members) => members
                .iter()
                .map(|(key, member)| (self.fill(key), self.fill_value(member)))
                .collect(),
            other => other.clone(),
        }
    }

    async fn delete(&self, path: &str) -> Result<()> {
        let request = Request::patch(path).header("content-type", "application/merge-patch+json");
        self.client
            .send(request.body(Body::from(br#"{"metadata":{"finalizers":null}}"#.to_vec()))?)
            .await?;
        self.client
            .send(Request::delete(path).body(Body::empty())?)
            .await?;
        if path.starts_with("/api/v1/namespaces/") && path.split('/').count() == 5 {
            let answer = self
                .client
                .send(Request::get(path).body(Body::empty())?)
                .await?;
            let mut namespace = document(&answer.into_body().collect().await?.to_bytes());
            if namespace["kind"] == "Namespace" {
                namespace["spec"]["finalizers"] = json!([]);
                let request = Request::put(format!("{path}/finalize"))
                    .header("content-type", "application/json");
                self.client
                    .send(request.body(Body::from(serde_json::to_vec(&namespace)?))?)
                    .await?;
            }
        }
        Ok(())
    }
}

/// Returns the part of an answer that every step has.
fn head(step: &Step, response: &Response<Body>) -> Map<String, Value> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let mut answer = Map::new();
    answer.insert("step".into(), json!(step.call));
    answer.insert("status".into(), json!(response.status().as_u16()));
    if !step.setup {
        answer.insert(
            "contentType".into(),
            json!(response.headers().get("content-type").map(text)),
        );
        let warnings: Vec<String> = response
            .headers()
            .get_all("warning")
            .iter()
            .map(text)
            .collect();
        if !warnings.is_empty() {
            answer.insert("warnings".into(), json!(warnings));
        }
    }
    answer
}

/// Reads events, one a line, and returns how the reading ended: `enough`, `closed` by the server, or `timeout`.
async fn read_watch(mut body: Body, until: Until) -> Result<(Vec<Value>, &'static str)> {
    let mut events = Vec::new();
    let mut pending = BytesMut::new();
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let event = document(&pending.split_to(end + 1));
            let enough = match until {
                Until::Events(count) => events.len() + 1 == count,
                Until::Bookmark => event["type"] == "BOOKMARK",
                Until::Closed => false,
            };
            events.push(event);
            if enough {
                return Ok((events, "enough"));
            }
        }
        match tokio::time::timeout_at(deadline, body.frame()).await {
            Err(_) => return Ok((events, "timeout")),
            Ok(None) => return Ok((events, "closed")),
            Ok(Some(frame)) => {
                if let Ok(data) = frame?.into_data() {
                    let data: Bytes = data;
                    pending.extend_from_slice(&data);
                }
            }
        }
    }
}

/// Returns the body as JSON, as YAML if it is an object in it, or else as text.
fn document(bytes: &[u8]) -> Value {
    let yaml = || {
        serde_saphyr::from_slice(bytes)
            .ok()
            .filter(Value::is_object)
    };
    let text = || Value::String(String::from_utf8_lossy(bytes).into_owned());
    serde_json::from_slice(bytes)
        .ok()
        .or_else(yaml)
        .unwrap_or_else(text)
}

fn drop_managed_fields(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if let Some(Value::Object(metadata)) = members.get_mut("metadata") {
                metadata.remove("managedFields");
            }
            members.values_mut().for_each(drop_managed_fields);
        }
        Value::Array(elements) => elements.iter_mut().for_each(drop_managed_fields),
        _ => {}
    }
}
