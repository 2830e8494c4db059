//! Requests that all collections share: lists with filters, creation, change and deletion.

use fake_cloud::{Next, Page, Refused, Reply};
use regex_lite::Regex;
use serde_json::{Value, json};

use crate::references::{check, check_users, complete};
use crate::{Answer, ApiRequest, Gcp, array, invalid, not_found, refuse, singular};

/// Returns `true` if an object fits a filter: `name eq REGEX`, `(a = "x") OR (a = "y")`, `(a eq x) (b eq y)`.
pub(crate) fn fits(object: &Value, filter: &str) -> Result<bool, Refused> {
    if filter.contains(" OR ") {
        return filter
            .split(" OR ")
            .map(|part| fits(object, part))
            .try_fold(false, |any, part| Ok(any || part?));
    }
    let mut rest = filter.trim();
    let is_grouped =
        rest.starts_with('(') && (rest.ends_with(')')) && rest.matches(") (").count() > 0;
    if is_grouped {
        let parts = rest[1..rest.len() - 1].split(") (");
        return parts
            .map(|part| fits(object, part))
            .try_fold(true, |all, part| Ok(all && part?));
    }
    if rest.starts_with('(') && rest.ends_with(')') {
        rest = &rest[1..rest.len() - 1];
    }
    let wrong = || {
        invalid(format!(
            "Invalid value for field 'filter': '{filter}'. Invalid list filter expression."
        ))
    };
    let (key, rest) = rest.split_once(' ').ok_or_else(wrong)?;
    let (operator, wanted) = rest.split_once(' ').ok_or_else(wrong)?;
    let has = object[key].as_str().unwrap_or_default();
    let wanted = wanted.trim_matches('"');
    match operator {
        "=" => Ok(has == wanted),
        "eq" => Ok(Regex::new(&format!("^(?:{wanted})$"))
            .map_err(|_| wrong())?
            .is_match(has)),
        _ => Err(wrong()),
    }
}

/// Returns a page of a list. One without items has no field for them.
pub(crate) fn page(cloud: &Gcp, request: &ApiRequest, kind: &str, mut all: Vec<Value>) -> Answer {
    if let Some(filter) = request.query("filter").filter(|query| !query.is_empty()) {
        let kept: Result<Vec<_>, _> = all
            .into_iter()
            .map(|object| Ok(fits(&object, filter)?.then_some(object)))
            .collect();
        all = kept?.into_iter().flatten().collect();
    }
    let page = cut(cloud, request, all)?;
    let mut answer = json!({"kind": kind, "id": request.path.trim_start_matches('/'), "selfLink": format!("{}{}", cloud.base, request.path)});
    if let Some(token) = token(&page, request) {
        answer["nextPageToken"] = token.into();
    }
    if !page.items.is_empty() {
        answer["items"] = page.items.into();
    }
    Ok(Reply::new(200, answer))
}

/// Cuts a list into pages; a token is the number of the first item.
pub(crate) fn cut<T>(cloud: &Gcp, request: &ApiRequest, all: Vec<T>) -> Result<Page<T>, Refused> {
    let size = request.query("maxResults").map_or(Ok(500), |text| {
        text.parse::<usize>().map_err(|_| invalid("maxResults"))
    })?;
    let start = request.query("pageToken").map_or(Ok(0), |text| {
        text.parse::<usize>().map_err(|_| invalid("pageToken"))
    })?;
    if !(1..=500).contains(&size) {
        return Err(invalid("maxResults must be between 0 and 500"));
    }
    Ok(Page::starting(
        all,
        start,
        size.min(cloud.page),
        &request.effects,
    ))
}

/// Returns the token of the page after a page.
pub(crate) fn token<T>(page: &Page<T>, request: &ApiRequest) -> Option<String> {
    let start: usize = request
        .query("pageToken")
        .and_then(|query| query.parse().ok())
        .unwrap_or_default();
    match page.next {
        Next::Nothing => None,
        Next::Following => Some((start + page.items.len().max(1)).to_string()),
        Next::Itself => Some(start.to_string()),
    }
}

pub(crate) fn list(cloud: &mut Gcp, request: &ApiRequest) -> Answer {
    let path = Gcp::path(request) + "/";
    let own = cloud.objects.iter().filter(|(object, _)| {
        object
            .strip_prefix(&path)
            .is_some_and(|name| !name.contains('/'))
    });
    let all = own.map(|(_, object)| shown(object)).collect();
    let kind = format!(
        "compute#{}List",
        singular(
            path.trim_end_matches('/')
                .rsplit('/')
                .next()
                .unwrap_or_default()
        )
    );
    page(cloud, request, &kind, all)
}

/// Returns an object without what the API does not show.
pub(crate) fn shown(object: &Value) -> Value {
    let mut object = object.clone();
    object
        .as_object_mut()
        .map(|fields| fields.remove("members"));
    object
}

pub(crate) fn zones(cloud: &mut Gcp, request: &ApiRequest) -> Answer {
    let prefix = format!("{}/global/zones/", request.id());
    let all = cloud
        .objects
        .iter()
        .filter(|(path, _)| path.starts_with(&prefix))
        .map(|(_, object)| object.clone())
        .collect();
    page(cloud, request, "compute#zoneList", all)
}

pub(crate) fn get(cloud: &mut Gcp, request: &ApiRequest) -> Answer {
    cloud
        .object(&Gcp::path(request))
        .map(|object| Reply::new(200, shown(object)))
}

fn is_name(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&name.len())
        && name.bytes().all(is_inner)
        && name.as_bytes()[0].is_ascii_lowercase()
        && !name.ends_with('-')
}

pub(crate) fn create(cloud: &mut Gcp, request: &ApiRequest) -> Answer {
    if let Some(repeated) = cloud.repeated(request) {
        return repeated;
    }
    let collection = Gcp::path(request);
    let mut body = request.body.clone();
    let name = body["name"].as_str().unwrap_or_default().to_owned();
    if !is_name(&name) {
        return Err(invalid(format!(
            "Invalid value for field 'resource.name': '{name}'."
        )));
    }
    let path = format!("{collection}/{name}");
    if cloud.objects.contains_key(&path) {
        return Err(refuse(
            409,
            "alreadyExists",
            format!("The resource 'projects/{path}' already exists"),
        ));
    }
    let hop = body["nextHopInstance"].take();
    let instances = body["instances"].take();
    if let Some(url) = hop.as_str() {
        body["nextHopInstance"] = cloud.resolved(request, url).into();
    }
    if instances.is_array() {
        body["instances"] = array(&instances)
            .filter_map(Value::as_str)
            .map(|text| cloud.resolved(request, text))
            .collect();
    }
    body.as_object_mut()
        .into_iter()
        .for_each(|fields| fields.retain(|_, value| !value.is_null()));
    check(cloud, &path, &body)?;
    complete(cloud, &path, &mut body)?;
    cloud.insert(&path, body);
    cloud.begin(request, &path, None, Some(path.clone()))
}

pub(crate) fn change(cloud: &mut Gcp, request: &ApiRequest) -> Answer {
    if let Some(repeated) = cloud.repeated(request) {
        return repeated;
    }
    let path = Gcp::path(request);
    let mut changed = cloud.object(&path)?.clone();
    if path.contains("/backendServices/") && request.body["fingerprint"] != changed["fingerprint"] {
        return Err(refuse(412, "conditionNotMet", "Invalid fingerprint."));
    }
    for (key, value) in request
        .body
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| *key != "name")
    {
        match (value, &mut changed[key.as_str()]) {
            (Value::Object(fields), Value::Object(known)) => known.extend(fields.clone()),
            (value, known) => *known = value.clone(),
        }
    }
    check(cloud, &path, &changed)?;
    if !changed["fingerprint"].is_null() {
        changed["fingerprint"] = fingerprint(cloud);
    }
    cloud.begin_change(request, &path, changed)
}

/// Returns a fingerprint, in Base64 as the API has it.
pub(crate) fn fingerprint(cloud: &mut Gcp) -> Value {
    format!("{:011}=", cloud.number()).into()
}

pub(crate) fn delete(cloud: &mut Gcp, request: &ApiRequest) -> Answer {
    if let Some(repeated) = cloud.repeated(request) {
        return repeated;
    }
    let path = Gcp::path(request);
    if !cloud.objects.contains_key(&path) {
        return Err(not_found(&path));
    }
    check_users(cloud, &path)?;
    cloud.begin(request, &path, Some(path.clone()), None)
}
