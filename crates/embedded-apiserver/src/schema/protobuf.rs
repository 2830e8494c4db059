//! Bodies in Kubernetes' protobuf form, which Go clients send for built-in kinds (`kubectl create configmap`): read
//! into the JSON that the same object would have been sent as. Answers are always JSON, which those clients accept too.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::{Schema, Type};

/// Prefix of every protobuf body.
const MAGIC: &[u8] = b"k8s\0";
/// Seconds of Go's zero time.
const ZERO_TIME: i64 = -62_135_596_800;

/// Reads an object; `None` if it is malformed. Fields that the schema does not have are skipped, as in kube-apiserver.
pub(crate) fn decode(body: &[u8], ty: &Type) -> Option<Value> {
    let envelope = Message::parse(body.strip_prefix(MAGIC)?)?;
    let meta = Message::parse(envelope.bytes(1).unwrap_or_default())?;
    let mut value = object(envelope.bytes(2).unwrap_or_default(), ty)?;
    for (field, number) in [("apiVersion", 1), ("kind", 2)] {
        if let Some(text) = meta.bytes(number).and_then(text) {
            value[field] = text;
        }
    }
    Some(value)
}

/// A field as it is on the wire.
#[derive(Debug, Clone, Copy)]
enum Wire<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Other,
}

/// The fields of a message, in order.
struct Message<'a>(Vec<(u64, Wire<'a>)>);

impl<'a> Message<'a> {
    fn parse(mut input: &'a [u8]) -> Option<Self> {
        let mut fields = Vec::new();
        while !input.is_empty() {
            let tag = varint(&mut input)?;
            let wire = match tag & 7 {
                0 => Wire::Varint(varint(&mut input)?),
                1 => take(&mut input, 8).map(|_| Wire::Other)?,
                2 => {
                    let length = usize::try_from(varint(&mut input)?).ok()?;
                    Wire::Bytes(take(&mut input, length)?)
                }
                5 => take(&mut input, 4).map(|_| Wire::Other)?,
                _ => return None,
            };
            fields.push((tag >> 3, wire));
        }
        Some(Self(fields))
    }

    fn bytes(&self, number: u64) -> Option<&'a [u8]> {
        self.0.iter().find_map(|(n, wire)| match wire {
            Wire::Bytes(bytes) if *n == number => Some(*bytes),
            _ => None,
        })
    }

    fn varint(&self, number: u64) -> Option<u64> {
        self.0.iter().find_map(|(n, wire)| match wire {
            Wire::Varint(value) if *n == number => Some(*value),
            _ => None,
        })
    }
}

fn varint(input: &mut &[u8]) -> Option<u64> {
    let mut out = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = input.split_first()?;
        *input = rest;
        out |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(out);
        }
    }
    None
}

fn take<'a>(input: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = input.split_at_checked(length)?;
    *input = rest;
    Some(taken)
}

fn text(bytes: &[u8]) -> Option<Value> {
    std::str::from_utf8(bytes).ok().map(|text| json!(text))
}

fn object(bytes: &[u8], ty: &Type) -> Option<Value> {
    let Type::Object(index) = ty else { return None };
    let object = Schema::get().object(*index);
    let mut out = Map::new();
    for (number, wire) in Message::parse(bytes)?.0 {
        // Unknown fields, such as the `clusterName` of old metadata, are skipped, as protobuf requires.
        let Some((name, field)) = object
            .fields
            .iter()
            .find(|(_, field)| field.number == number)
        else {
            continue;
        };
        match &field.ty {
            Type::List { item, .. } => {
                let list = out.entry(name.clone()).or_insert_with(|| json!([]));
                list.as_array_mut()?.push(scalar_or_message(wire, item)?);
            }
            Type::Map { value, .. } => {
                let Wire::Bytes(entry) = wire else {
                    return None;
                };
                let (key, value) = map_entry(entry, value)?;
                out.entry(name.clone())
                    .or_insert_with(|| json!({}))
                    .as_object_mut()?
                    .insert(key, value);
            }
            ty => {
                out.insert(name.clone(), scalar_or_message(wire, ty)?);
            }
        }
    }
    Some(Value::Object(out))
}

fn map_entry(bytes: &[u8], ty: &Type) -> Option<(String, Value)> {
    let entry = Message::parse(bytes)?;
    let key = std::str::from_utf8(entry.bytes(1).unwrap_or_default()).ok()?;
    let value = entry.bytes(2).unwrap_or_default();
    let value = match ty {
        // A list as the value of a map is a message with one repeated field.
        Type::List { item, .. } => {
            let items: Option<Vec<Value>> = Message::parse(value)?
                .0
                .into_iter()
                .map(|(_, wire)| scalar_or_message(wire, item))
                .collect();
            Value::Array(items?)
        }
        ty => scalar_or_message(Wire::Bytes(value), ty)?,
    };
    Some((key.to_owned(), value))
}

fn scalar_or_message(wire: Wire<'_>, ty: &Type) -> Option<Value> {
    match (ty, wire) {
        (Type::Bool, Wire::Varint(value)) => Some(json!(value != 0)),
        // Negative numbers are written as 64 bits in two's complement, whatever their type.
        (Type::Int32 | Type::Int64, Wire::Varint(value)) => Some(json!(value.cast_signed())),
        (Type::String, Wire::Bytes(bytes)) => text(bytes),
        (Type::Bytes, Wire::Bytes(bytes)) => Some(json!(STANDARD.encode(bytes))),
        (Type::Quantity, Wire::Bytes(bytes)) => {
            text(Message::parse(bytes)?.bytes(1).unwrap_or(b"0"))
        }
        (Type::Time, Wire::Bytes(bytes)) => time(bytes, "%Y-%m-%dT%H:%M:%SZ"),
        (Type::MicroTime, Wire::Bytes(bytes)) => time(bytes, "%Y-%m-%dT%H:%M:%S.%6fZ"),
        (Type::IntOrString, Wire::Bytes(bytes)) => {
            let message = Message::parse(bytes)?;
            if message.varint(1) == Some(1) {
                return text(message.bytes(3).unwrap_or_default());
            }
            Some(json!(message.varint(2).unwrap_or(0).cast_signed()))
        }
        // FieldsV1, the one free-form field of our kinds, is JSON inside.
        (Type::Any, Wire::Bytes(bytes)) => {
            serde_json::from_slice(Message::parse(bytes)?.bytes(1)?).ok()
        }
        (Type::Object(_), Wire::Bytes(bytes)) => object(bytes, ty),
        _ => None,
    }
}

fn time(bytes: &[u8], format: &str) -> Option<Value> {
    let message = Message::parse(bytes)?;
    let seconds = message.varint(1).unwrap_or(0).cast_signed();
    let nanos = i32::try_from(message.varint(2).unwrap_or(0)).ok()?;
    if message.0.is_empty() || seconds == ZERO_TIME {
        return Some(Value::Null);
    }
    let time = jiff::Timestamp::new(seconds, nanos).ok()?;
    Some(json!(time.strftime(format).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![(number << 3) | 2, u8::try_from(bytes.len()).unwrap()];
        out.extend_from_slice(bytes);
        out
    }

    #[test]
    fn a_config_map_is_read_from_protobuf() {
        let meta = [field(1, b"v1"), field(2, b"ConfigMap")].concat();
        let entry = [field(1, b"key"), field(2, b"value")].concat();
        let object = [field(1, &field(1, b"cm")), field(2, &entry)].concat();
        let body = [MAGIC.to_vec(), field(1, &meta), field(2, &object)].concat();
        let decoded = decode(&body, &Schema::get().type_of("core.v1.ConfigMap")).unwrap();
        assert_eq!(
            decoded,
            json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "cm"}, "data": {"key": "value"}})
        );
    }

    #[test]
    fn unknown_fields_of_old_clients_are_skipped() {
        // `clusterName` was field 15 of ObjectMeta until Kubernetes 1.27; 100 is a varint, 101 has eight bytes, 102
        // four.
        let metadata = [
            field(1, b"web"),
            field(15, b"a-cluster"),
            vec![0xa0, 0x06, 1],
        ]
        .concat();
        let unknown = [vec![0xa9, 0x06], vec![0; 8], vec![0xb5, 0x06], vec![0; 4]].concat();
        for (kind, name) in [("core.v1.Service", "Service"), ("core.v1.Node", "Node")] {
            let meta = [field(1, b"v1"), field(2, name.as_bytes())].concat();
            let body = [
                MAGIC.to_vec(),
                field(1, &meta),
                field(2, &[field(1, &metadata), unknown.clone()].concat()),
            ]
            .concat();
            let decoded = decode(&body, &Schema::get().type_of(kind));
            assert_eq!(
                decoded,
                Some(json!({"kind": name, "apiVersion": "v1", "metadata": {"name": "web"}}))
            );
        }
    }

    #[test]
    fn truncated_message_is_refused() {
        assert_eq!(
            decode(
                b"k8s\0\x0a\x10v1",
                &Schema::get().type_of("core.v1.ConfigMap")
            ),
            None
        );
        assert_eq!(
            decode(b"{}", &Schema::get().type_of("core.v1.ConfigMap")),
            None
        );
    }
}
