//! What a Responses reply repeats of its request, and the tool list that the model is shown after a search:
//! both spell tools as the API does. Knows no conversation.

use super::body::{
    AllowedMode, AllowedTools, ChosenTool, Execution, Function, KnownTool, Level, NamedTool, Namespace, NamespaceTool,
    Summary, TextFormat, Tool, ToolChoice, ToolSearch, WebSearch,
};
use super::ResponsesRequest;
use crate::json::{write_string, Value};
use crate::save::saved;

/// The settings that a response object reports, as the request gives them.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponsesEcho {
    /// The instructions.
    pub instructions: Option<String>,
    /// The output limit in tokens.
    pub max_output_tokens: Option<u32>,
    /// The temperature, or 1.0; not the one that is sampled with.
    pub temperature: f32,
    /// The nucleus mass, or 1.0; not the one that is sampled with.
    pub top_p: f32,
    /// The number of alternatives a token, or 0.
    pub top_logprobs: u8,
    /// The user.
    pub user: Option<String>,
    /// Whether the reasoning is wanted as a summary.
    pub(crate) summary: bool,
    /// `reasoning`, as JSON like those below.
    pub(crate) reasoning: String,
    pub(crate) text: String,
    pub(crate) tool_choice: String,
    pub(crate) tools: String,
}

impl Default for ResponsesEcho {
    fn default() -> Self {
        Self {
            instructions: None,
            max_output_tokens: None,
            temperature: 1.0,
            top_p: 1.0,
            top_logprobs: 0,
            user: None,
            summary: false,
            reasoning: "{\"effort\":null,\"summary\":null}".to_owned(),
            text: "{\"format\":{\"type\":\"text\"},\"verbosity\":null}".to_owned(),
            tool_choice: "\"auto\"".to_owned(),
            tools: "[]".to_owned(),
        }
    }
}

impl ResponsesEcho {
    pub(super) fn of(request: &ResponsesRequest) -> Self {
        let mut echo = Self {
            instructions: request.instructions.clone(),
            max_output_tokens: request.max_output_tokens,
            temperature: request.temperature.unwrap_or(1.0),
            top_p: request.top_p.unwrap_or(1.0),
            top_logprobs: request.top_logprobs.unwrap_or(0),
            user: request.user.clone(),
            ..Self::default()
        };
        if let Some(reasoning) = &request.reasoning {
            let summary = reasoning.summary.or(reasoning.generate_summary);
            echo.summary = summary.is_some();
            let effort = reasoning.effort.as_ref().map_or("null", |effort| &effort.spelling);
            let summary = summary.map_or("null", |summary| match summary {
                Summary::Auto => "\"auto\"",
                Summary::Concise => "\"concise\"",
                Summary::Detailed => "\"detailed\"",
            });
            echo.reasoning = format!("{{\"effort\":{effort},\"summary\":{summary}}}");
        }
        if let Some(text) = &request.text {
            let verbosity = text.verbosity.map_or("null", level);
            echo.text = format!("{{\"format\":{},\"verbosity\":{verbosity}}}", format_json(&text.format.0));
        }
        if let Some(choice) = &request.tool_choice {
            echo.tool_choice = choice_json(choice);
        }
        if let Some(tools) = &request.tools {
            let mut list = List::new(&mut echo.tools);
            for tool in tools {
                if let Tool::Known(tool) = tool {
                    write_tool(list.next(), tool);
                }
            }
            list.end();
        }
        echo
    }
}

/// A JSON array that is written item by item.
struct List<'o> {
    out: &'o mut String,
    started: bool,
}

impl<'o> List<'o> {
    /// Starts anew, whatever `out` holds.
    fn new(out: &'o mut String) -> Self {
        out.clear();
        out.push('[');
        Self { out, started: false }
    }

    /// Where the next item goes.
    fn next(&mut self) -> &mut String {
        if std::mem::replace(&mut self.started, true) {
            self.out.push(',');
        }
        self.out
    }

    fn end(self) {
        self.out.push(']');
    }
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Low => "\"low\"",
        Level::Medium => "\"medium\"",
        Level::High => "\"high\"",
    }
}

fn format_json(format: &TextFormat) -> String {
    let format = match format {
        TextFormat::Text(_) => return "{\"type\":\"text\"}".to_owned(),
        TextFormat::JsonObject(_) => return "{\"type\":\"json_object\"}".to_owned(),
        TextFormat::JsonSchema(format) => format,
    };
    let mut out = String::from("{\"type\":\"json_schema\",\"name\":");
    write_string(&mut out, &format.name);
    out.push_str(",\"schema\":");
    format.schema.write_compact(&mut out);
    out.push_str(",\"description\":");
    write_text(&mut out, format.description.as_deref());
    out.push_str(",\"strict\":");
    write_bool(&mut out, format.strict);
    out.push('}');
    out
}

fn choice_json(choice: &ToolChoice) -> String {
    let (kind, name) = match choice {
        ToolChoice::Auto => return "\"auto\"".to_owned(),
        ToolChoice::None => return "\"none\"".to_owned(),
        ToolChoice::Required => return "\"required\"".to_owned(),
        ToolChoice::Tool(ChosenTool::WebSearch(_)) => return "{\"type\":\"web_search\"}".to_owned(),
        ToolChoice::Tool(ChosenTool::DatedWebSearch(_)) => return "{\"type\":\"web_search_2025_08_26\"}".to_owned(),
        ToolChoice::Tool(ChosenTool::Allowed(allowed)) => return allowed_json(allowed),
        ToolChoice::Tool(ChosenTool::Function(NamedTool { name })) => ("function", name),
        ToolChoice::Tool(ChosenTool::Custom(NamedTool { name })) => ("custom", name),
    };
    let mut out = String::new();
    write_named(&mut out, kind, name);
    out.push('}');
    out
}

fn allowed_json(allowed: &AllowedTools) -> String {
    let mode = match allowed.mode {
        AllowedMode::Auto => "auto",
        AllowedMode::Required => "required",
    };
    let mut names = String::new();
    let mut list = List::new(&mut names);
    for tool in &allowed.tools {
        let out = list.next();
        out.push_str("{\"type\":");
        write_string(out, &tool.kind);
        out.push_str(",\"name\":");
        write_string(out, &tool.name);
        out.push('}');
    }
    list.end();
    format!("{{\"type\":\"allowed_tools\",\"mode\":\"{mode}\",\"tools\":{names}}}")
}

fn write_text(out: &mut String, text: Option<&str>) {
    match text {
        Some(text) => write_string(out, text),
        None => out.push_str("null"),
    }
}

fn write_bool(out: &mut String, value: Option<bool>) {
    out.push_str(match value {
        Some(true) => "true",
        Some(false) => "false",
        None => "null",
    });
}

fn write_value(out: &mut String, value: Option<&Value<'_>>) {
    match value {
        Some(value) => value.write_compact(out),
        None => out.push_str("null"),
    }
}

/// The type and the name, without the closing brace.
fn write_named(out: &mut String, kind: &str, name: &str) {
    out.push_str("{\"type\":\"");
    out.push_str(kind);
    out.push_str("\",\"name\":");
    write_string(out, name);
}

/// A function without the closing brace.
fn write_function(out: &mut String, function: &Function) {
    write_named(out, "function", &function.name);
    out.push_str(",\"description\":");
    write_text(out, function.description.as_deref());
    out.push_str(",\"parameters\":");
    write_value(out, function.parameters.as_ref());
    out.push_str(",\"strict\":");
    write_bool(out, function.strict);
}

fn write_tool(out: &mut String, tool: &KnownTool) {
    match tool {
        KnownTool::Function(function) => write_function(out, function),
        KnownTool::Namespace(Namespace { name, description, tools }) => {
            write_named(out, "namespace", name);
            out.push_str(",\"description\":");
            write_text(out, description.as_deref());
            let mut listed = String::new();
            let mut list = List::new(&mut listed);
            for tool in tools {
                let out = list.next();
                match tool {
                    NamespaceTool::Function(function) => write_function(out, function),
                    NamespaceTool::Custom(custom) => write_named(out, "custom", &custom.name),
                }
                out.push('}');
            }
            list.end();
            out.push_str(",\"tools\":");
            out.push_str(&listed);
        }
        KnownTool::Custom(custom) => write_named(out, "custom", &custom.name),
        KnownTool::ToolSearch(ToolSearch { execution, description, parameters }) => {
            out.push_str("{\"type\":\"tool_search\",\"execution\":");
            write_text(
                out,
                execution.map(|execution| match execution {
                    Execution::Client => "client",
                    Execution::Server => "server",
                }),
            );
            out.push_str(",\"description\":");
            write_text(out, description.as_deref());
            out.push_str(",\"parameters\":");
            write_value(out, parameters.as_ref());
        }
        KnownTool::WebSearch(search) => write_web_search(out, "web_search", search),
        KnownTool::DatedWebSearch(search) => write_web_search(out, "web_search_2025_08_26", search),
    }
    out.push('}');
}

/// A web search without the closing brace.
fn write_web_search(out: &mut String, kind: &str, search: &WebSearch) {
    out.push_str("{\"type\":\"");
    out.push_str(kind);
    out.push_str("\",\"search_context_size\":");
    out.push_str(search.search_context_size.map_or("null", level));
    out.push_str(",\"user_location\":");
    let Some(location) = &search.user_location else {
        out.push_str("null");
        return;
    };
    let fields = [
        ("{\"city\":", &location.city),
        (",\"country\":", &location.country),
        (",\"region\":", &location.region),
        (",\"timezone\":", &location.timezone),
    ];
    for (key, value) in fields {
        out.push_str(key);
        write_text(out, value.as_deref());
    }
    out.push('}');
}

/// What the model reads as the result of a search: the tools, those of namespaces one by one.
/// `None` if one of them is of an unknown type.
pub(super) fn search_result(tools: &[Tool]) -> Option<String> {
    let mut out = String::new();
    let mut list = List::new(&mut out);
    for tool in tools {
        match tool {
            Tool::Unknown(_) => return None,
            Tool::Known(KnownTool::Namespace(namespace)) => {
                for tool in &namespace.tools {
                    if let NamespaceTool::Function(function) = tool {
                        let out = list.next();
                        write_function(out, function);
                        out.push_str(",\"namespace\":{\"name\":");
                        write_string(out, &namespace.name);
                        out.push_str(",\"description\":");
                        write_string(out, namespace.description.as_deref().unwrap_or_default());
                        out.push_str("}}");
                    }
                }
            }
            Tool::Known(tool) => write_tool(list.next(), tool),
        }
    }
    list.end();
    Some(out)
}

saved! {
    struct ResponsesEcho {
        instructions, max_output_tokens, temperature, top_p, top_logprobs, user, summary, reasoning, text, tool_choice,
        tools,
    }
}
