//! Strict schemas: a small language that is read and written back in normal form; other keywords are dropped.
//! They are not checked as JSON Schemas.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::error::{Error, Result};
use crate::json::{Number, Object, Value};

/// The normal form of the parameters of a strict tool.
pub(crate) fn strict_parameters(schema: Option<&Value<'_>>) -> Result<Value<'static>> {
    let nothing = Value::Object(Object::from_members(vec![("type".into(), Value::String("object".into()))]));
    let top = Top { prefix: "Invalid tool parameters schema : ", name: "function parameters", may_be_empty: true };
    top.normalise(schema.unwrap_or(&nothing))
}

/// The normal form of a strict answer schema.
pub(crate) fn strict_answer(schema: &Value<'_>) -> Result<Value<'static>> {
    let top = Top { prefix: "Invalid json schema: ", name: "json", may_be_empty: false };
    top.normalise(schema)
}

/// What depends on where a strict schema stands.
struct Top {
    prefix: &'static str,
    name: &'static str,
    may_be_empty: bool,
}

impl Top {
    fn normalise(&self, schema: &Value<'_>) -> Result<Value<'static>> {
        let node =
            Node::read(schema).map_err(|error| Error::conversion(format!("{}{}", self.prefix, error.message())))?;
        node.check(self.may_be_empty)?;
        if !matches!(node, Node::Object { .. }) {
            let text = format!("The top level of the {} schema must be an object.", self.name);
            return Err(Error::conversion(text));
        }
        let definitions = Definitions::of(schema).needed_by(&node);
        let mut members = node.into_members();
        members.extend(definitions);
        Ok(Value::Object(Object::from_members(members)))
    }
}

type Members = Vec<(Cow<'static, str>, Value<'static>)>;

/// A node of a strict schema, with what is kept of it.
#[derive(Debug)]
enum Node {
    /// Anything but the others, as its members in the order they are written.
    Plain(Members),
    Object {
        kind: Value<'static>,
        /// Absent where the schema gives no `properties`; a type list counts as an empty object then.
        properties: Option<Vec<(String, Node)>>,
        additional: bool,
        required: Option<Vec<String>>,
        description: Members,
    },
    Array {
        kind: Value<'static>,
        items: Box<Node>,
        description: Members,
    },
    AnyOf {
        nodes: Vec<Node>,
        description: Members,
    },
    Ref(String),
}

type Check = fn(&Value<'_>) -> Result<()>;

const DESCRIPTION: (&str, Check) = ("description", text);
const STRING: &[(&str, Check)] = &[DESCRIPTION, ("pattern", text), ("format", name), ("enum", texts)];
const NUMBER: &[(&str, Check)] = &[
    DESCRIPTION,
    ("const", number),
    ("default", number),
    ("minimum", number),
    ("maximum", number),
    ("exclusiveMinimum", number),
    ("exclusiveMaximum", number),
    ("multipleOf", number),
];
const INTEGER: &[(&str, Check)] = &[
    DESCRIPTION,
    ("const", integer),
    ("default", integer),
    ("minimum", integer),
    ("maximum", integer),
    ("exclusiveMinimum", integer),
    ("exclusiveMaximum", integer),
    ("multipleOf", integer),
];

fn text(value: &Value<'_>) -> Result<()> {
    value.as_str().map(|_| ()).ok_or_else(|| value.mismatch("a string"))
}

fn name(value: &Value<'_>) -> Result<()> {
    value.as_str().map(|_| ()).ok_or_else(|| value.mismatch("string or map"))
}

/// A kind in a list of kinds. `serde` takes the name as the one key of an object, too; `object` and `array`, which
/// the reference does not know here, have to be spelled plainly.
fn listed_kind<'v>(value: &'v Value<'_>) -> Result<&'v str> {
    const SCALARS: &[&str] = &["string", "number", "integer", "boolean", "null"];
    let unknown = |name: &str| Error::unknown_variant(name, SCALARS);
    match value {
        Value::String(name) if KINDS.contains(&name.as_ref()) => Ok(name),
        Value::String(name) => Err(unknown(name)),
        Value::Object(object) => match object.iter().as_slice() {
            [(name, _)] if !SCALARS.contains(&name.as_ref()) => Err(unknown(name)),
            [(name, Value::Null)] => Ok(name),
            [(_, value)] => Err(value.mismatch("unit")),
            _ => Err(Error::shape("invalid value: map, expected map with a single key")),
        },
        value => Err(value.mismatch("string or map")),
    }
}

fn texts(value: &Value<'_>) -> Result<()> {
    value.as_array().ok_or_else(|| value.mismatch("a sequence"))?.iter().try_for_each(text)
}

fn number(value: &Value<'_>) -> Result<()> {
    match value {
        Value::Number(_) => Ok(()),
        _ => Err(value.mismatch("a JSON number")),
    }
}

fn integer(value: &Value<'_>) -> Result<()> {
    match value {
        Value::Number(Number::Negative(_)) => Ok(()),
        Value::Number(Number::Unsigned(n)) if i64::try_from(*n).is_ok() => Ok(()),
        Value::Number(Number::Unsigned(n)) => Err(Error::shape(format!("invalid value: integer `{n}`, expected i64"))),
        _ => Err(value.mismatch("i64")),
    }
}

/// The members that `kept` names and that are not null: checked in the order given, returned in that of `kept`.
fn keep(object: &Object<'_>, kept: &[(&'static str, Check)]) -> Result<Members> {
    let mut found: Vec<Option<Value<'static>>> = vec![None; kept.len()];
    for (key, value) in object.iter() {
        let Some(place) = kept.iter().position(|(name, _)| name == key) else {
            continue;
        };
        if *value != Value::Null {
            kept[place].1(value)?;
            found[place] = Some(value.clone().into_owned());
        }
    }
    let members = kept.iter().zip(found).filter_map(|((name, _), value)| Some(((*name).into(), value?)));
    Ok(members.collect())
}

fn in_field(field: &str) -> impl Fn(Error) -> Error + '_ {
    move |error| Error::shape(format!("field `{field}`: {}", error.message()))
}

const KINDS: &[&str] = &["object", "string", "number", "integer", "boolean", "array", "null"];

impl Node {
    fn read(value: &Value<'_>) -> Result<Self> {
        let no_kind = || Error::shape("one of `type`, `anyOf`, `$ref` field is required");
        let object = value.as_object().ok_or_else(no_kind)?;
        if let Some(kind) = object.get("type") {
            return match kind {
                Value::Array(kinds) => Self::read_list(object, kinds),
                kind => Self::read_kind(object, kind),
            };
        }
        if let Some(any_of) = object.get("anyOf") {
            let nodes = any_of.as_array().ok_or_else(|| any_of.mismatch("a sequence"));
            let nodes = nodes.and_then(|nodes| nodes.iter().map(Self::read_member).collect());
            let nodes = nodes.map_err(in_field("anyOf"))?;
            let description = keep(object, &[DESCRIPTION]).map_err(in_field("description"))?;
            return Ok(Self::AnyOf { nodes, description });
        }
        let target = object.get("$ref").ok_or_else(no_kind)?;
        match target {
            Value::String(target) => Ok(Self::Ref(target.clone().into_owned())),
            other => Err(in_field("$ref")(other.mismatch("a string"))),
        }
    }

    /// A member of `anyOf` needs a `type`, and no list.
    fn read_member(value: &Value<'_>) -> Result<Self> {
        let object = value.as_object().ok_or_else(|| value.mismatch("internally tagged enum JsonSchemaType"))?;
        let kind = object.get("type").ok_or_else(|| Error::shape("missing field `type`"))?;
        Self::read_kind(object, kind)
    }

    fn read_kind(object: &Object<'_>, kind: &Value<'_>) -> Result<Self> {
        let name = kind.as_str().ok_or_else(|| kind.mismatch("variant identifier"))?;
        let written = Value::String(name.to_owned().into());
        match name {
            "object" => Self::read_object(object, written),
            "array" => Self::read_array(object, written),
            "string" => Self::read_plain(object, written, STRING),
            "number" => Self::read_plain(object, written, NUMBER),
            "integer" => Self::read_plain(object, written, INTEGER),
            "boolean" | "null" => Self::read_plain(object, written, &[DESCRIPTION]),
            unknown => Err(Error::unknown_variant(unknown, KINDS)),
        }
    }

    /// A list that names `object` or `array` is written as that kind, with the list as its type.
    fn read_list(object: &Object<'_>, kinds: &[Value<'_>]) -> Result<Self> {
        let names: Vec<&str> = kinds.iter().map(listed_kind).collect::<Result<_>>().map_err(in_field("type"))?;
        let has = |name: &str| names.contains(&name);
        let written = Value::Array(names.iter().map(|name| Value::String((*name).to_owned().into())).collect());
        if has("object") {
            return Self::read_object(object, written);
        }
        if has("array") {
            return Self::read_array(object, written);
        }
        Self::read_plain(object, written, &[DESCRIPTION]).map_err(in_field("description"))
    }

    fn read_plain(object: &Object<'_>, kind: Value<'static>, kept: &[(&'static str, Check)]) -> Result<Self> {
        let mut members: Members = vec![("type".into(), kind)];
        members.extend(keep(object, kept)?);
        Ok(Self::Plain(members))
    }

    fn read_object(object: &Object<'_>, kind: Value<'static>) -> Result<Self> {
        let (mut properties, mut additional, mut required, mut description) = (None, false, None, Members::new());
        for (key, value) in object.iter().filter(|(_, value)| *value != Value::Null) {
            match key.as_ref() {
                "properties" => {
                    let nodes = value.as_object().ok_or_else(|| value.mismatch("a map"))?;
                    let read = |(name, node): &(Cow<'_, str>, Value<'_>)| Ok((name.to_string(), Self::read(node)?));
                    properties = Some(nodes.iter().map(read).collect::<Result<Vec<_>>>()?);
                }
                "additionalProperties" => match value {
                    Value::Bool(allowed) => additional = *allowed,
                    other => return Err(other.mismatch("a boolean")),
                },
                "required" => {
                    texts(value)?;
                    let names = value.as_array().unwrap_or_default();
                    required = Some(names.iter().filter_map(Value::as_str).map(str::to_owned).collect());
                }
                "description" => {
                    text(value)?;
                    description = vec![("description".into(), value.clone().into_owned())];
                }
                _ => {}
            }
        }
        if matches!(kind, Value::Array(_)) {
            properties.get_or_insert_default();
        }
        Ok(Self::Object { kind, properties, additional, required, description })
    }

    fn read_array(object: &Object<'_>, kind: Value<'static>) -> Result<Self> {
        let (mut items, mut description) = (None, Members::new());
        for (key, value) in object.iter() {
            match (key.as_ref(), value) {
                ("items", node) => items = Some(Box::new(Self::read(node)?)),
                ("description", Value::Null) => {}
                ("description", value) => {
                    text(value)?;
                    description = vec![("description".into(), value.clone().into_owned())];
                }
                _ => {}
            }
        }
        let items = items.ok_or_else(|| Error::shape("missing field `items`"))?;
        Ok(Self::Array { kind, items, description })
    }

    /// Checks what a shape cannot say: children first, then the node.
    fn check(&self, may_be_empty: bool) -> Result<()> {
        match self {
            Self::Plain(_) | Self::Ref(_) => Ok(()),
            Self::Array { items, .. } => items.check(false),
            Self::AnyOf { nodes, .. } => nodes.iter().try_for_each(|node| node.check(may_be_empty)),
            Self::Object { properties: None, .. } if !may_be_empty => {
                Err(Error::conversion("An object with no properties is not allowed."))
            }
            Self::Object { properties, additional, required, .. } => {
                let properties = properties.as_deref().unwrap_or_default();
                properties.iter().try_for_each(|(_, node)| node.check(false))?;
                check_required(properties, required.as_deref())?;
                if *additional {
                    return Err(Error::conversion("additionalProperties should not be true"));
                }
                Ok(())
            }
        }
    }

    fn into_value(self) -> Value<'static> {
        Value::Object(Object::from_members(self.into_members()))
    }

    fn into_members(self) -> Members {
        match self {
            Self::Plain(members) => members,
            Self::Object { kind, properties, description, .. } => {
                let properties = properties.unwrap_or_default();
                let required = properties.iter().map(|(name, _)| Value::String(name.clone().into())).collect();
                let properties = properties.into_iter().map(|(name, node)| (name.into(), node.into_value()));
                let mut members: Members = vec![
                    ("type".into(), kind),
                    ("properties".into(), Value::Object(Object::from_members(properties.collect()))),
                    ("additionalProperties".into(), Value::Bool(false)),
                    ("required".into(), Value::Array(required)),
                ];
                members.extend(description);
                members
            }
            Self::Array { kind, items, description } => {
                let mut members: Members = vec![("type".into(), kind), ("items".into(), items.into_value())];
                members.extend(description);
                members
            }
            Self::AnyOf { nodes, description } => {
                let nodes = nodes.into_iter().map(Self::into_value).collect();
                let mut members: Members = vec![("anyOf".into(), Value::Array(nodes))];
                members.extend(description);
                members
            }
            Self::Ref(target) => vec![("$ref".into(), Value::String(target.into()))],
        }
    }

    /// Calls `visit` with every reference below.
    fn each_ref<'n>(&'n self, visit: &mut dyn FnMut(&'n str)) {
        match self {
            Self::Plain(_) => {}
            Self::Ref(target) => visit(target),
            Self::Array { items, .. } => items.each_ref(visit),
            Self::AnyOf { nodes, .. } => nodes.iter().for_each(|node| node.each_ref(visit)),
            Self::Object { properties, .. } => {
                properties.iter().flatten().for_each(|(_, node)| node.each_ref(visit));
            }
        }
    }
}

fn check_required(properties: &[(String, Node)], required: Option<&[String]>) -> Result<()> {
    let Some(required) = required else {
        return Ok(());
    };
    let known: HashSet<&str> = properties.iter().map(|(name, _)| name.as_str()).collect();
    let mut seen = HashSet::with_capacity(required.len());
    for name in required {
        if !seen.insert(name.as_str()) {
            return Err(Error::conversion(format!("Duplicate required property '{name}'")));
        }
        if !known.contains(name.as_str()) {
            return Err(Error::conversion(format!("Required property '{name}' not found in object")));
        }
    }
    if seen.len() < known.len() {
        return Err(Error::conversion("Required properties must match all properties in the object"));
    }
    Ok(())
}

/// The definitions at the top of a strict schema, by the member that holds them.
struct Definitions(HashMap<&'static str, Vec<(String, Node)>>);

const DEFINITIONS: [&str; 3] = ["$defs", "$def", "definitions"];

impl Definitions {
    /// Entries that are no nodes are left out, so a reference to one dangles, as all do in the reference.
    fn of(schema: &Value<'_>) -> Self {
        let entries = |member| {
            let entries = schema.get(member)?.as_object()?;
            let usable = |(name, entry): &(Cow<'_, str>, Value<'_>)| {
                let node = Node::read(entry).ok()?;
                node.check(false).ok().map(|()| (name.to_string(), node))
            };
            Some((member, entries.iter().filter_map(usable).collect()))
        };
        Self(DEFINITIONS.into_iter().filter_map(entries).collect())
    }

    /// The members that a reference of the node points into, or one of another needed member.
    fn needed_by(mut self, node: &Node) -> Members {
        let holder = |target: &str| {
            let path = target.strip_prefix("#/")?;
            DEFINITIONS.into_iter().find(|member| path.split('/').next() == Some(member))
        };
        let mut needed: Vec<&'static str> = Vec::new();
        node.each_ref(&mut |target| needed.extend(holder(target)));
        let mut members = Members::new();
        while let Some(member) = needed.pop() {
            let Some(entries) = self.0.remove(member) else {
                continue;
            };
            entries.iter().for_each(|(_, entry)| entry.each_ref(&mut |target| needed.extend(holder(target))));
            let entries = entries.into_iter().map(|(name, entry)| (name.into(), entry.into_value())).collect();
            members.push((member.into(), Value::Object(Object::from_members(entries))));
        }
        members
    }
}
