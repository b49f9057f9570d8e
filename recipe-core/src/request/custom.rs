//! Custom tools: their input is free text. The model sees a function of one string.
//! Knows no protocol's field names.

use crate::conversation::ToolDefinition;
use crate::json::{write_string, Object, Value};
use crate::request::shape::{names, shape};

names! {
    /// How a grammar is written.
    pub(crate) enum Syntax {
        Lark = "lark",
        Regex = "regex",
    }
}

shape! {
    /// What the input has to match. It is handed on as sent, never compiled.
    #[derive(Clone)]
    pub(crate) struct Grammar = plain "a grammar" {
        "syntax" => syntax: Syntax,
        "definition" => definition: String,
    }
}

/// A custom tool once its definition has been made.
#[derive(Clone, Debug)]
pub(crate) struct CustomTool {
    /// The name.
    pub(crate) name: String,
    /// What the input has to match, if anything.
    pub(crate) grammar: Option<Grammar>,
}

/// The function that stands for a custom tool. The description ends with the grammar.
pub(crate) fn definition(name: &str, description: Option<String>, grammar: Option<&Grammar>) -> ToolDefinition {
    let mut description = description.unwrap_or_default();
    if let Some(Grammar { syntax, definition }) = grammar {
        let kind = match syntax {
            Syntax::Lark => "lark grammar",
            Syntax::Regex => "regular expression",
        };
        description.push_str("\nThe input must match this ");
        description.push_str(kind);
        description.push_str(":\n");
        description.push_str(definition);
    }
    function_of_input(name, description, vec![("type", "string")])
}

/// A function whose one parameter is the string `input`, with this schema of it.
pub(crate) fn function_of_input(
    name: &str,
    description: String,
    input_schema: Vec<(&'static str, &'static str)>,
) -> ToolDefinition {
    let string = |text: &'static str| Value::String(text.into());
    let object = |members: Vec<(&'static str, Value<'static>)>| {
        Value::Object(Object::from_members(members.into_iter().map(|(key, value)| (key.into(), value)).collect()))
    };
    let input = object(input_schema.into_iter().map(|(key, text)| (key, string(text))).collect());
    let parameters = object(vec![
        ("type", string("object")),
        ("additionalProperties", Value::Bool(false)),
        ("properties", object(vec![("input", input)])),
        ("required", Value::Array(vec![string("input")])),
    ]);
    ToolDefinition {
        name: name.to_owned(),
        description: Some(description),
        parameters: Some(parameters),
        strict: None,
        defer_loading: false,
    }
}

/// The arguments of a past call with this input.
pub(crate) fn arguments(input: &str) -> String {
    let mut arguments = String::from("{\"input\":");
    write_string(&mut arguments, input);
    arguments.push('}');
    arguments
}

impl Grammar {
    /// Appends the grammar as JSON, for an output constraint.
    pub(crate) fn write_json(&self, out: &mut String) {
        out.push_str(match self.syntax {
            Syntax::Lark => "{\"syntax\":\"lark\",\"definition\":",
            Syntax::Regex => "{\"syntax\":\"regex\",\"definition\":",
        });
        write_string(out, &self.definition);
        out.push('}');
    }
}
