//! Tool names, definitions and choices, as the three protocols share them. Knows no protocol's field names.

use foldhash::{HashMap, HashSet, HashSetExt};

use crate::conversation::{Message, ToolChoice, ToolDefinition};
use crate::error::{Error, Result};
use crate::json::{write_string, Value};
use crate::options::{ConstraintKind, ConversionOptions, ForcedToolChoice, OutputConstraint};
use crate::request::custom::{CustomTool, Grammar};
use crate::schema;

const MAX_NAME_BYTES: usize = 128;

/// Checks the name of a declared tool; `path` is its place in the request.
pub(crate) fn check_name(name: &str, path: impl Fn() -> String) -> Result<()> {
    check_letters(name, b"_.:/-", path)
}

/// The same for a name that is not the tool's own, so that it has the reference's letters alone.
pub(crate) fn check_plain_name(name: &str, path: impl Fn() -> String) -> Result<()> {
    check_letters(name, b"_-", path)
}

fn check_letters(name: &str, marks: &[u8], path: impl Fn() -> String) -> Result<()> {
    let fault = if name.is_empty() {
        "empty string. Expected a string with minimum length 1, but got an empty string instead.".to_owned()
    } else if name.len() > MAX_NAME_BYTES {
        format!(
            "string too long. Expected a string with maximum length {MAX_NAME_BYTES}, \
             but got a string with length {} instead.",
            name.len()
        )
    } else if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || marks.contains(&byte)) {
        // The pattern is the reference's, which takes fewer names.
        "string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::conversion(format!("Invalid '{}': {fault}", path())).at(path()))
}

/// Checks declared tools one by one: the name is a new one, and the parameters are right. Those of
/// strict tools are normalised, missing ones become `{}`.
pub(crate) fn check_definitions(tools: &mut [ToolDefinition]) -> Result<()> {
    let mut names = HashSet::with_capacity(tools.len());
    for ToolDefinition { name, parameters, strict, .. } in tools {
        if !names.insert(name.as_str()) {
            return Err(Error::conversion("Tool names must be unique."));
        }
        let given = parameters.take();
        *parameters = Some(if *strict == Some(true) {
            schema::strict_parameters(given.as_ref())?
        } else {
            let given = given.unwrap_or_else(|| Value::Object(Default::default()));
            check_parameters(name, &given)?;
            given
        });
    }
    Ok(())
}

/// The parameters of a tool that is not strict: no member at all, or a valid schema of an object.
fn check_parameters(name: &str, parameters: &Value<'_>) -> Result<()> {
    if parameters.as_object().is_some_and(|object| object.is_empty()) {
        return Ok(());
    }
    let invalid = |text: String| Error::conversion(format!("Invalid schema for function '{name}': {text}"));
    if let Some(text) = schema::fault(parameters)? {
        return Err(invalid(text));
    }
    let kind = parameters.get("type");
    let is_object = match kind {
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind.as_str() == Some("object")),
        kind => kind.and_then(Value::as_str) == Some("object"),
    };
    if is_object {
        return Ok(());
    }
    let kind = kind.map_or_else(|| "null".to_owned(), Value::to_compact);
    Err(invalid(format!("schema must be a JSON Schema of 'type: \"object\"', got 'type: {kind}'.")))
}

/// A tool choice as requested.
#[derive(Debug)]
pub(crate) enum Choice {
    /// The model decides.
    Auto,
    /// No call.
    None,
    /// At least one call.
    Required,
    /// A call of this tool.
    Named(String),
    /// Calls of these tools only; at least one if `required`.
    Allowed {
        /// Whether a call is wanted.
        required: bool,
        /// The tools' names.
        names: Vec<String>,
    },
}

/// What a tool choice leaves.
#[derive(Debug)]
pub(crate) struct Chosen {
    /// The tools of the conversation.
    pub(crate) tools: Vec<ToolDefinition>,
    /// Whether a call is wanted.
    pub(crate) choice: ToolChoice,
    /// Places in `tools` of those that may be called, if not all.
    allowed: Option<Vec<usize>>,
    /// The custom ones of the declared tools.
    pub(crate) custom: Vec<CustomTool>,
}

/// Checks the declared tools, of which some are `custom`, and applies the choice. With `Choice::None` nothing is
/// checked.
pub(crate) fn choose(
    mut tools: Vec<ToolDefinition>,
    custom: Vec<CustomTool>,
    choice: Choice,
    thinking: bool,
    options: &ConversionOptions,
) -> Result<Chosen> {
    if matches!(choice, Choice::None) {
        return Ok(Chosen { tools: Vec::new(), choice: ToolChoice::None, allowed: None, custom });
    }
    check_definitions(&mut tools)?;
    if tools.is_empty() {
        return Ok(Chosen { tools, choice: ToolChoice::Auto, allowed: None, custom });
    }
    let place = |name: &str| tools.iter().position(|tool| tool.name == name).ok_or_else(|| unknown_tool(name));
    let (required, only, allowed) = match choice {
        Choice::Auto | Choice::None => (false, None, None),
        Choice::Required => (true, None, None),
        Choice::Named(name) => (true, Some(place(&name)?), None),
        Choice::Allowed { required, names } => (required, None, Some(allowed_places(&tools, &names, place)?)),
    };
    if required && thinking && options.forced_tool_choice == ForcedToolChoice::Refuse {
        return Err(Error::conversion("Thinking mode does not support this tool_choice"));
    }
    if let Some(only) = only {
        tools = vec![tools.swap_remove(only)];
    }
    let choice = if required { ToolChoice::Required } else { ToolChoice::Auto };
    Ok(Chosen { tools, choice, allowed, custom })
}

/// The error of a choice that names no declared tool.
pub(crate) fn unknown_tool(name: &str) -> Error {
    Error::conversion(format!(
        "Invalid value for 'tool_call': no function named '{name}' was specified in the 'tools' parameter."
    ))
}

/// The places of allowed tools in declared order.
fn allowed_places(
    tools: &[ToolDefinition],
    names: &[String],
    place: impl Fn(&str) -> Result<usize>,
) -> Result<Vec<usize>> {
    if names.is_empty() {
        return Err(Error::conversion(
            "Invalid 'tool_choice.tools': empty array. \
             Expected an array with minimum length 1, but got an empty array instead.",
        ));
    }
    let wanted: HashSet<&str> = names.iter().map(String::as_str).collect();
    let places: Vec<usize> = (0..tools.len()).filter(|&i| wanted.contains(tools[i].name.as_str())).collect();
    if places.len() < wanted.len() {
        let known: HashSet<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        names.iter().find(|name| !known.contains(name.as_str())).map_or(Ok(0), |name| place(name))?;
    }
    Ok(places)
}

impl Chosen {
    /// Puts the tools that the choice left into the system messages that load some. One that says nothing then is
    /// dropped.
    pub(crate) fn load(&self, messages: &mut Vec<Message>) {
        let tools_by_name: HashMap<&str, &ToolDefinition> =
            self.tools.iter().map(|tool| (tool.name.as_str(), tool)).collect();
        messages.retain_mut(|message| {
            let Message::System { content, tools: Some(loaded) } = message else {
                return true;
            };
            *loaded =
                loaded.iter().filter_map(|tool| tools_by_name.get(tool.name.as_str()).copied().cloned()).collect();
            !loaded.is_empty() || !content.text().is_empty()
        });
    }

    /// Strict tools mix neither with others nor with an answer format, be it `text`, that the request sets.
    pub(crate) fn check_strict(&self, sets_format: bool) -> Result<()> {
        let strict = self.tools.iter().filter(|tool| tool.strict == Some(true)).count();
        if strict == 0 {
            return Ok(());
        }
        if strict < self.tools.len() {
            return Err(Error::conversion("Cannot use strict tool with non-strict tool in the same request"));
        }
        if sets_format {
            return Err(Error::conversion("response_format should not be used with tools"));
        }
        Ok(())
    }

    /// The constraint that the tools and the choice make, if there are tools.
    pub(crate) fn constraint(&self) -> Option<OutputConstraint> {
        if self.tools.is_empty() {
            return None;
        }
        let kind = match self.choice {
            ToolChoice::Required => ConstraintKind::ToolCallRequired,
            _ => ConstraintKind::ToolCall,
        };
        let grammars: HashMap<&str, &Grammar> =
            self.custom.iter().filter_map(|tool| Some((tool.name.as_str(), tool.grammar.as_ref()?))).collect();
        let mut schema = String::from("[");
        let mut write = |tool: &ToolDefinition| {
            if schema.len() > 1 {
                schema.push(',');
            }
            write_tool(&mut schema, tool, grammars.get(tool.name.as_str()).copied());
        };
        match &self.allowed {
            Some(places) => places.iter().for_each(|&place| write(&self.tools[place])),
            None => self.tools.iter().for_each(write),
        }
        schema.push(']');
        Some(OutputConstraint { kind, schema })
    }
}

fn write_tool(out: &mut String, tool: &ToolDefinition, grammar: Option<&Grammar>) {
    out.push_str(r#"{"type":"function","function":{"name":"#);
    write_string(out, &tool.name);
    out.push_str(r#","description":"#);
    match &tool.description {
        Some(description) => write_string(out, description),
        None => out.push_str("null"),
    }
    out.push_str(r#","parameters":"#);
    match &tool.parameters {
        Some(parameters) => parameters.write_compact(out),
        None => out.push_str("null"),
    }
    out.push_str(r#","strict":"#);
    out.push_str(match tool.strict {
        Some(true) => "true",
        Some(false) => "false",
        None => "null",
    });
    if let Some(grammar) = grammar {
        out.push_str(r#","grammar":"#);
        grammar.write_json(out);
    }
    out.push('}');
    if tool.defer_loading {
        out.push_str(r#","defer_loading":true"#);
    }
    out.push('}');
}
