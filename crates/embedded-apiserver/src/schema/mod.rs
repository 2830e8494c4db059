//! Schema of the served kinds: types of fields, lists that are maps or sets, atomic values, and fields that Go's
//! encoder omits. Decoding, strategic merge, field ownership and `/openapi/v3` read this one table.

pub(crate) mod decode;
pub(crate) mod duplicates;
pub(crate) mod protobuf;
pub(crate) mod quantity;

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde_json::Value;

/// The table, as data: one kind or nested type per line.
const SOURCE: &str = include_str!("schema.json");

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::parse(SOURCE));

/// Merge and ownership rule of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// Replaced and owned as a whole.
    Atomic,
    /// A set of scalars.
    Set,
    /// A map keyed by these fields of its items.
    Map(Vec<String>),
}

/// The type of a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Type {
    String,
    Bool,
    Int32,
    Int64,
    Number,
    Time,
    MicroTime,
    Bytes,
    Quantity,
    IntOrString,
    Any,
    Object(usize),
    Map {
        value: Box<Type>,
        atomic: bool,
    },
    List {
        item: Box<Type>,
        kind: ListKind,
        merge_key: Option<String>,
        merge: bool,
    },
}

/// A field of an object type.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) ty: Type,
    /// Written even when it holds the zero value.
    pub(crate) always: bool,
    /// If set, an unset value differs from zero.
    pub(crate) pointer: bool,
    /// Owned as a whole although its type has fields.
    pub(crate) atomic: bool,
    /// Number in the protobuf form; 0 if it has none.
    pub(crate) number: u64,
}

/// A type with named fields.
#[derive(Debug, Clone)]
pub(crate) struct ObjectType {
    /// Name of the type, such as `core.v1.NodeSpec`
    pub(crate) name: String,
    pub(crate) fields: BTreeMap<String, Field>,
    pub(crate) atomic: bool,
}

impl ObjectType {
    /// Returns the Go name of the type: `NodeSpec`.
    pub(crate) fn short_name(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or(&self.name)
    }

    /// Returns the Go package of the type: `v1`.
    pub(crate) fn package(&self) -> &str {
        self.name.rsplit('.').nth(1).unwrap_or("v1")
    }
}

/// The types of all served kinds.
#[derive(Debug)]
pub(crate) struct Schema {
    objects: Vec<ObjectType>,
    by_name: HashMap<String, usize>,
}

impl Schema {
    /// Returns the only schema, which is constant.
    pub(crate) fn get() -> &'static Self {
        &SCHEMA
    }

    /// Returns the type called `name` (`core.v1.Node`).
    pub(crate) fn type_of(&self, name: &str) -> Type {
        self.by_name
            .get(name)
            .map_or(Type::Any, |index| Type::Object(*index))
    }

    pub(crate) fn object(&self, index: usize) -> &ObjectType {
        &self.objects[index]
    }

    /// Returns all object types, for `/openapi/v3`.
    pub(crate) fn objects(&self) -> &[ObjectType] {
        &self.objects
    }

    /// Returns the field `name` of `ty`, if it is an object that has it.
    pub(crate) fn field(&self, ty: &Type, name: &str) -> Option<&Field> {
        match ty {
            Type::Object(index) => self.objects[*index].fields.get(name),
            _ => None,
        }
    }

    fn parse(source: &str) -> Self {
        let raw: BTreeMap<String, Value> =
            serde_json::from_str(source).expect("the built-in table is JSON");
        let by_name: HashMap<String, usize> = raw
            .iter()
            .filter(|(_, value)| value.is_object())
            .enumerate()
            .map(|(index, (name, _))| (name.clone(), index))
            .collect();
        let parser = Parser {
            raw: &raw,
            by_name: &by_name,
        };
        let objects = raw
            .iter()
            .filter(|(_, value)| value.is_object())
            .map(|(name, value)| parser.object(name, value))
            .collect();
        Self { objects, by_name }
    }
}

struct Parser<'a> {
    raw: &'a BTreeMap<String, Value>,
    by_name: &'a HashMap<String, usize>,
}

impl Parser<'_> {
    fn object(&self, name: &str, value: &Value) -> ObjectType {
        let listed = |key: &str, field: &str| {
            value[key]
                .as_array()
                .is_some_and(|names| names.iter().any(|n| n.as_str() == Some(field)))
        };
        let fields = value["fields"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(field, ty)| {
                let parsed = Field {
                    ty: self.ty(ty),
                    always: listed("always", field),
                    pointer: listed("pointers", field),
                    atomic: ty["atomic"].as_bool().unwrap_or(false),
                    number: value["numbers"][field].as_u64().unwrap_or(0),
                };
                (field.clone(), parsed)
            })
            .collect();
        ObjectType {
            name: name.to_owned(),
            fields,
            atomic: value["atomic"].as_bool().unwrap_or(false),
        }
    }

    fn ty(&self, value: &Value) -> Type {
        if let Some(name) = value.as_str() {
            return scalar(name);
        }
        if let Some(name) = value["$"].as_str() {
            return match self.by_name.get(name) {
                Some(index) => Type::Object(*index),
                None => self
                    .raw
                    .get(name)
                    .map_or(Type::Any, |target| self.ty(target)),
            };
        }
        if value.get("map").is_some() {
            let atomic = value["atomic"].as_bool().unwrap_or(false);
            return Type::Map {
                value: Box::new(self.ty(&value["map"])),
                atomic,
            };
        }
        if value.get("list").is_some() {
            let keys = || {
                value["keys"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|k| k.as_str().map(str::to_owned))
                    .collect()
            };
            let kind = match value["as"].as_str() {
                Some("set") => ListKind::Set,
                Some("map") => ListKind::Map(keys()),
                _ => ListKind::Atomic,
            };
            return Type::List {
                item: Box::new(self.ty(&value["list"])),
                kind,
                merge_key: value["mergeKey"].as_str().map(str::to_owned),
                merge: value["strategy"].as_str() == Some("merge"),
            };
        }
        Type::Any
    }
}

fn scalar(name: &str) -> Type {
    match name {
        "string" => Type::String,
        "boolean" => Type::Bool,
        "int32" => Type::Int32,
        "int64" => Type::Int64,
        "number" | "double" => Type::Number,
        "time" => Type::Time,
        "microtime" => Type::MicroTime,
        "bytes" => Type::Bytes,
        "quantity" => Type::Quantity,
        "int-or-string" => Type::IntOrString,
        _ => Type::Any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ports_of_a_service_are_a_map_by_port_and_protocol() {
        let schema = Schema::get();
        let spec = schema.type_of("core.v1.ServiceSpec");
        let Some(Field {
            ty:
                Type::List {
                    kind,
                    merge_key,
                    merge,
                    ..
                },
            ..
        }) = schema.field(&spec, "ports")
        else {
            panic!("no list");
        };
        assert_eq!(
            kind,
            &ListKind::Map(vec!["port".to_owned(), "protocol".to_owned()])
        );
        assert_eq!((merge_key.as_deref(), *merge), (Some("port"), true));
    }

    #[test]
    fn taints_are_replaced_as_a_whole() {
        let schema = Schema::get();
        let spec = schema.type_of("core.v1.NodeSpec");
        let Some(Field {
            ty: Type::List { kind, merge, .. },
            ..
        }) = schema.field(&spec, "taints")
        else {
            panic!("no list");
        };
        assert_eq!((kind, *merge), (&ListKind::Atomic, false));
    }
}
