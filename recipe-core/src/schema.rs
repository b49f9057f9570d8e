//! JSON Schemas of tools and answers: the check of ordinary ones. Strict ones have their own file.
//! Knows no protocol and no tool.

mod strict;

use foldhash::{HashSet, HashSetExt};

use crate::error::{Error, Result};
use crate::json::{Number, Value};
pub(crate) use strict::{strict_answer, strict_parameters};

/// Says why a value is no valid JSON Schema, if it is none: the validator's text, a wire string.
///
/// Fails, with status 500, where the machine has no thread for the check.
pub(crate) fn fault(schema: &Value<'_>) -> Result<Option<String>> {
    if is_plain(schema) {
        return Ok(None);
    }
    let depth = depth_bound(schema);
    if depth > MAX_DEPTH {
        return Ok(Some(format!("references may lead more than {MAX_DEPTH} levels down")));
    }
    let schema = schema.to_serde();
    if depth <= INLINE_DEPTH {
        return Ok(compile(&schema).err());
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(depth * STACK_PER_LEVEL);
        let checked = thread.spawn_scoped(scope, || compile(&schema).err());
        let unchecked = |why: &str| Error::server(format!("a schema cannot be checked: {why}"));
        let checked = checked.map_err(|error| unchecked(&error.to_string()))?;
        checked.join().map_err(|_| unchecked("the validator failed"))
    })
}

// The validator goes down by recursion, and follows references on the way: three thousand of them in a
// row overflow a stack of 8 MiB. A level takes up to 3 KiB when optimised; a stack is only mapped, not used.
const STACK_PER_LEVEL: usize = 32 * 1024;
const INLINE_DEPTH: usize = 256;
const MAX_DEPTH: usize = 3_000;

/// How deep the validator may go. It meets no node twice on its way down, so a reference leads down by the depth of
/// the text at most once.
fn depth_bound(schema: &Value<'_>) -> usize {
    let (mut nodes, mut text_depth, mut references) = (0_usize, 0_usize, 0_usize);
    let mut open = vec![(schema, 1)];
    while let Some((value, depth)) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(object) => {
                references += object.iter().filter(|(key, _)| is_reference(key)).count();
                open.extend(object.iter().map(|(_, value)| (value, depth + 1)));
            }
            _ => continue,
        }
        nodes += 1;
        text_depth = text_depth.max(depth);
    }
    nodes.min(text_depth.saturating_mul(references + 1))
}

fn is_reference(key: &str) -> bool {
    key == "$ref" || key.starts_with('$') && key.ends_with("Ref")
}

fn compile(schema: &serde_json::Value) -> std::result::Result<(), String> {
    match jsonschema::options().with_retriever(NoRetrieval).build(schema) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// External references are never fetched.
struct NoRetrieval;

impl jsonschema::Retrieve for NoRetrieval {
    fn retrieve(
        &self,
        uri: &jsonschema::Uri<String>,
    ) -> std::result::Result<serde_json::Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("Retrieval is disabled, cannot fetch {uri}").into())
    }
}

/// Whether a schema uses only what surely is valid in every draft that the validator knows.
/// Most tool schemas do, and this look costs far less than the validator's compilation.
fn is_plain(schema: &Value<'_>) -> bool {
    let Value::Object(object) = schema else {
        return matches!(schema, Value::Bool(_));
    };
    object.iter().all(|(key, value)| match key.as_ref() {
        "type" => is_type(value),
        "title" | "description" | "format" => value.as_str().is_some(),
        "default" => true,
        "enum" => value.as_array().is_some_and(is_plain_enum),
        "properties" => value.as_object().is_some_and(|properties| properties.iter().all(|(_, node)| is_plain(node))),
        "required" => value.as_array().is_some_and(are_unique_strings),
        "items" => value.as_object().is_some() && is_plain(value),
        "additionalProperties" => is_plain(value),
        "anyOf" | "oneOf" | "allOf" => {
            value.as_array().is_some_and(|nodes| !nodes.is_empty() && nodes.iter().all(is_plain))
        }
        "minimum" | "maximum" => matches!(value, Value::Number(_)),
        "minLength" | "maxLength" | "minItems" | "maxItems" => matches!(value, Value::Number(Number::Unsigned(_))),
        "uniqueItems" => matches!(value, Value::Bool(_)),
        "$schema" => value.as_str().is_some_and(|draft| {
            draft == "https://json-schema.org/draft/2020-12/schema"
                || draft == "http://json-schema.org/draft-07/schema#"
        }),
        _ => false,
    })
}

fn is_type(value: &Value<'_>) -> bool {
    let is_name = |value: &Value<'_>| {
        let known = ["object", "string", "number", "integer", "boolean", "array", "null"];
        value.as_str().is_some_and(|name| known.contains(&name))
    };
    match value {
        Value::Array(names) => !names.is_empty() && are_unique_strings(names) && names.iter().all(is_name),
        value => is_name(value),
    }
}

fn are_unique_strings(values: &[Value<'_>]) -> bool {
    let mut seen = HashSet::with_capacity(values.len());
    values.iter().all(|value| value.as_str().is_some_and(|text| seen.insert(text)))
}

/// Older drafts want the values of an `enum` to be there and to differ.
fn is_plain_enum(values: &[Value<'_>]) -> bool {
    !values.is_empty() && are_unique_strings(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn schema() -> impl Strategy<Value = String> {
        let leaf = prop::sample::select(vec![
            r#"{"type":"string"}"#,
            r#"{"type":["string","null"],"enum":["a","b"]}"#,
            r#"{"type":["string","string"]}"#,
            r#"{"type":"integer","minimum":1,"default":null}"#,
            r#"{"minLength":1,"maxItems":-1}"#,
            r#"{"enum":[]}"#,
            r#"{"enum":["a","a"]}"#,
            r#"{"required":["a","a"]}"#,
            r#"{"format":"date","title":1}"#,
            r#"{"uniqueItems":true,"description":"d"}"#,
            r#"{"pattern":"("}"#,
            r##"{"$ref":"#/nowhere"}"##,
            "true",
            "{}",
            "[]",
            "1",
        ]);
        let leaf = leaf.prop_map(str::to_owned);
        leaf.prop_recursive(3, 20, 3, |inner| {
            let key = prop::sample::select(vec!["items", "additionalProperties", "properties", "anyOf", "allOf"]);
            prop_oneof![
                (key, inner.clone()).prop_map(|(key, node)| format!(r#"{{"type":"object","{key}":{node}}}"#)),
                inner.clone().prop_map(|node| format!(r#"{{"properties":{{"a":{node}}},"required":["a"]}}"#)),
                prop::collection::vec(inner, 0..3).prop_map(|nodes| format!(r#"{{"oneOf":[{}]}}"#, nodes.join(","))),
            ]
        })
    }

    #[test]
    fn long_chains_of_references_do_not_overflow() {
        for (length, nesting, valid) in [(2_990, 0, true), (140, 20, true), (30_000, 0, false)] {
            let (open, close) = (r#"{"not":"#.repeat(nesting), "}".repeat(nesting));
            let links: Vec<String> =
                (0..length).map(|i| format!(r##""d{i}":{open}{{"$ref":"#/$defs/d{}"}}{close}"##, i + 1)).collect();
            let text = format!(r##"{{"$ref":"#/$defs/d0","$defs":{{{},"d{length}":{{}}}}}}"##, links.join(","));
            let schema = Value::parse(text.as_bytes()).expect("the text is JSON");
            assert_eq!(fault(&schema).expect("a thread can be made").is_none(), valid, "{length}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// What is waved through is valid for the validator, under every draft that may be named.
        #[test]
        fn plain_schemas_are_valid(text in schema(), draft in 0_usize..3) {
            let drafts = ["", "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"];
            let text = match drafts[draft] {
                "" => text,
                draft => format!(r#"{{"$schema":"{draft}","properties":{{"x":{text}}}}}"#),
            };
            let schema = Value::parse(text.as_bytes()).expect("the text is JSON");
            if is_plain(&schema) {
                prop_assert_eq!(compile(&schema.to_serde()), Ok(()), "{}", text);
            }
        }
    }
}
