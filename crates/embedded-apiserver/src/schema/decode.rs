//! Decoding as in the real server: JSON through a Go struct and back. Unknown fields are dropped (and reported), a
//! wrong type is refused with Go's message, zero values that Go omits are omitted, and quantities become canonical.

use serde_json::{Map, Value, json};

use super::quantity;
use super::{Schema, Type};

/// Passes `value` through the type: what comes out is what the real server would answer.
///
/// # Errors
///
/// Go's message for the first value that does not fit its field.
pub(crate) fn decode(value: Value, ty: &Type, unknown: &mut Vec<String>) -> Result<Value, String> {
    let mut decoder = Decoder {
        schema: Schema::get(),
        path: Vec::new(),
        json_path: String::new(),
        unknown,
    };
    decoder.value(value, ty, "")
}

struct Decoder<'a> {
    schema: &'static Schema,
    /// Field names from the root, as Go's decoder reports them.
    path: Vec<String>,
    /// The same with indices, as strict decoding reports them.
    json_path: String,
    unknown: &'a mut Vec<String>,
}

impl Decoder<'_> {
    fn value(&mut self, value: Value, ty: &Type, owner: &str) -> Result<Value, String> {
        match (ty, value) {
            (_, Value::Null) => Ok(Value::Null),
            (Type::Any, value) => Ok(value),
            (Type::Object(index), Value::Object(map)) => self.object(map, *index),
            (Type::Map { value: item, .. }, Value::Object(map)) => self.map(map, item, owner),
            (Type::List { item, .. }, Value::Array(items)) => self.list(items, item, owner),
            (Type::String, Value::String(text)) => Ok(Value::String(text)),
            (Type::Bool, Value::Bool(flag)) => Ok(Value::Bool(flag)),
            (Type::Int32, Value::Number(number)) => {
                self.integer(&number, owner, i64::from(i32::MIN), i64::from(i32::MAX), ty)
            }
            (Type::Int64, Value::Number(number)) => {
                self.integer(&number, owner, i64::MIN, i64::MAX, ty)
            }
            (Type::Number, Value::Number(number)) => Ok(Value::Number(number)),
            (Type::IntOrString, value @ (Value::Number(_) | Value::String(_))) => Ok(value),
            (Type::Quantity, Value::Number(number)) => self.quantity(&number.to_string()),
            (Type::Quantity, Value::String(text)) => self.quantity(&text),
            (Type::Time, Value::String(text)) => time(&text),
            (Type::MicroTime, Value::String(text)) => micro_time(&text),
            (Type::Bytes, Value::String(text)) => bytes(text),
            (ty, value) => Err(self.mismatch(&value, ty, owner)),
        }
    }

    fn object(&mut self, map: Map<String, Value>, index: usize) -> Result<Value, String> {
        let object = self.schema.object(index);
        let mut out = Map::new();
        for (name, value) in map {
            let Some(field) = object.fields.get(&name) else {
                self.unknown.push(join(&self.json_path, &name));
                continue;
            };
            let before = self.json_path.len();
            let joined = join(&self.json_path, &name);
            self.json_path = joined;
            self.path.push(name.clone());
            let decoded = self.value(value, &field.ty, object.short_name())?;
            self.path.pop();
            self.json_path.truncate(before);
            let keep = !decoded.is_null() && (field.pointer || !is_zero(&decoded, &field.ty));
            if keep {
                out.insert(name, decoded);
            }
        }
        fill(&mut out, index, self.schema);
        Ok(Value::Object(out))
    }

    fn map(&mut self, map: Map<String, Value>, item: &Type, owner: &str) -> Result<Value, String> {
        let mut out = Map::new();
        for (key, value) in map {
            let before = self.json_path.len();
            self.json_path = join(&self.json_path, &key);
            let decoded = self.value(value, item, owner)?;
            self.json_path.truncate(before);
            let decoded = if decoded.is_null() {
                zero(item, self.schema)
            } else {
                decoded
            };
            out.insert(key, decoded);
        }
        Ok(Value::Object(out))
    }

    fn list(&mut self, items: Vec<Value>, item: &Type, owner: &str) -> Result<Value, String> {
        let mut out = Vec::with_capacity(items.len());
        for (index, value) in items.into_iter().enumerate() {
            let before = self.json_path.len();
            self.json_path.push_str(&format!("[{index}]"));
            let decoded = self.value(value, item, owner)?;
            self.json_path.truncate(before);
            out.push(if decoded.is_null() {
                zero(item, self.schema)
            } else {
                decoded
            });
        }
        Ok(Value::Array(out))
    }

    fn integer(
        &self,
        number: &serde_json::Number,
        owner: &str,
        min: i64,
        max: i64,
        ty: &Type,
    ) -> Result<Value, String> {
        if let Some(value) = number.as_i64()
            && (min..=max).contains(&value)
        {
            return Ok(Value::from(value));
        }
        Err(self.cannot_unmarshal(&format!("number {number}"), ty, owner))
    }

    fn quantity(&self, text: &str) -> Result<Value, String> {
        quantity::canonical(text).map(Value::String).ok_or_else(|| {
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".to_owned()
        })
    }

    fn mismatch(&self, value: &Value, ty: &Type, owner: &str) -> String {
        match (ty, value) {
            (Type::Time | Type::MicroTime, value) => {
                return format!(
                    "json: cannot unmarshal {} into Go value of type string",
                    kind_of(value)
                );
            }
            (Type::Quantity, _) => return self.quantity("x").err().unwrap_or_default(),
            _ => {}
        }
        self.cannot_unmarshal(kind_of(value), ty, owner)
    }

    fn cannot_unmarshal(&self, what: &str, ty: &Type, owner: &str) -> String {
        if self.path.is_empty() {
            return format!(
                "json: cannot unmarshal {what} into Go value of type {}",
                go_type(ty, self.schema)
            );
        }
        let path = self.path.join(".");
        format!(
            "json: cannot unmarshal {what} into Go struct field {owner}.{path} of type {}",
            go_type(ty, self.schema)
        )
    }
}

/// Adds the fields that Go writes although they are zero.
pub(crate) fn fill(out: &mut Map<String, Value>, index: usize, schema: &Schema) {
    for (name, field) in schema
        .object(index)
        .fields
        .iter()
        .filter(|(_, field)| field.always)
    {
        if !out.contains_key(name) {
            out.insert(name.clone(), zero(&field.ty, schema));
        }
    }
}

/// Returns the zero value as Go writes it.
pub(crate) fn zero(ty: &Type, schema: &Schema) -> Value {
    match ty {
        Type::String | Type::Bytes => json!(""),
        Type::Bool => json!(false),
        Type::Int32 | Type::Int64 | Type::Number | Type::IntOrString => json!(0),
        Type::Quantity => json!("0"),
        Type::Time | Type::MicroTime | Type::Any | Type::Map { .. } | Type::List { .. } => {
            Value::Null
        }
        Type::Object(index) => {
            let mut map = Map::new();
            fill(&mut map, *index, schema);
            Value::Object(map)
        }
    }
}

fn is_zero(value: &Value, ty: &Type) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        // A pointer to IntOrString and a struct of one are both kept.
        Value::Number(number) => number.as_f64() == Some(0.0) && !matches!(ty, Type::IntOrString),
        Value::String(text) => text.is_empty() && !matches!(ty, Type::Quantity | Type::IntOrString),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty() && matches!(ty, Type::Map { .. }),
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn go_type(ty: &Type, schema: &Schema) -> String {
    match ty {
        Type::String => "string".to_owned(),
        Type::Bool => "bool".to_owned(),
        Type::Int32 => "int32".to_owned(),
        Type::Int64 => "int64".to_owned(),
        Type::Number => "float64".to_owned(),
        Type::Time => "v1.Time".to_owned(),
        Type::MicroTime => "v1.MicroTime".to_owned(),
        Type::Bytes => "[]uint8".to_owned(),
        Type::Quantity => "resource.Quantity".to_owned(),
        Type::IntOrString => "intstr.IntOrString".to_owned(),
        Type::Any => "interface {}".to_owned(),
        Type::Object(index) => {
            let object = schema.object(*index);
            format!("{}.{}", object.package(), object.short_name())
        }
        Type::Map { value, .. } if **value == Type::Quantity => "v1.ResourceList".to_owned(),
        Type::Map { value, .. } => format!("map[string]{}", go_type(value, schema)),
        Type::List { item, .. } => format!("[]{}", go_type(item, schema)),
    }
}

fn time(text: &str) -> Result<Value, String> {
    let parsed: jiff::Timestamp = text
        .parse()
        .map_err(|_| go_time_error(text, "2006-01-02T15:04:05Z07:00"))?;
    Ok(Value::String(
        parsed.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    ))
}

fn micro_time(text: &str) -> Result<Value, String> {
    const LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";
    let fraction = text.split_once('.').map_or("", |(_, rest)| rest);
    let digits = fraction.chars().take_while(char::is_ascii_digit).count();
    let parsed: jiff::Timestamp = text.parse().map_err(|_| go_time_error(text, LAYOUT))?;
    if digits != 6 {
        let rest = text.get(19..).unwrap_or_default();
        return Err(format!(
            "parsing time \"{text}\" as \"{LAYOUT}\": cannot parse \"{rest}\" as \".000000\""
        ));
    }
    Ok(Value::String(
        parsed.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
    ))
}

fn go_time_error(text: &str, layout: &str) -> String {
    format!("parsing time \"{text}\" as \"{layout}\": cannot parse \"{text}\" as \"2006\"")
}

fn bytes(text: String) -> Result<Value, String> {
    use base64::Engine as _;
    match base64::engine::general_purpose::STANDARD.decode(&text) {
        Ok(_) => Ok(Value::String(text)),
        Err(problem) => {
            let position = match problem {
                base64::DecodeError::InvalidByte(at, _)
                | base64::DecodeError::InvalidLastSymbol(at, _) => at,
                _ => text.len(),
            };
            Err(format!("illegal base64 data at input byte {position}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(value: Value) -> (Result<Value, String>, Vec<String>) {
        let mut unknown = Vec::new();
        let result = decode(value, &Schema::get().type_of("core.v1.Node"), &mut unknown);
        (result, unknown)
    }

    #[test]
    fn unknown_fields_are_dropped_and_reported_with_their_path() {
        let (decoded, unknown) = node(
            json!({"spec": {"foo": 1, "taints": [{"key": "a", "effect": "NoSchedule", "x": 1}]}}),
        );
        assert_eq!(
            decoded.unwrap()["spec"],
            json!({"taints": [{"key": "a", "effect": "NoSchedule"}]})
        );
        assert_eq!(unknown, ["spec.foo", "spec.taints[0].x"]);
    }

    #[test]
    fn a_wrong_type_is_refused_in_the_words_of_go() {
        let (decoded, _) = node(json!({"spec": {"taints": [{"key": 1}]}}));
        assert_eq!(
            decoded.unwrap_err(),
            "json: cannot unmarshal number into Go struct field Taint.spec.taints.key of type string"
        );
        let (decoded, _) = node(json!({"spec": {"taints": "a"}}));
        assert_eq!(
            decoded.unwrap_err(),
            "json: cannot unmarshal string into Go struct field NodeSpec.spec.taints of type []v1.Taint"
        );
    }

    #[test]
    fn zero_values_are_written_or_left_out_as_go_does() {
        let (decoded, _) = node(
            json!({"spec": {"unschedulable": false, "taints": []}, "status": {"conditions": [{"type": "Ready"}]}}),
        );
        let decoded = decoded.unwrap();
        assert_eq!(decoded["spec"], json!({}));
        assert_eq!(
            decoded["status"]["conditions"],
            json!([{"type": "Ready", "status": "", "lastHeartbeatTime": null, "lastTransitionTime": null}])
        );
        assert_eq!(
            decoded["status"]["daemonEndpoints"],
            json!({"kubeletEndpoint": {"Port": 0}})
        );
    }
}
