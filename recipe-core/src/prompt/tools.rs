//! Tool declarations and past calls as DSML text. Knows no order of messages.

use super::text::{self, WriteFloat};
use super::writer::Writer;
use crate::conversation::{Conversation, ToolCall, ToolDefinition};
use crate::json::{self, write_string, Value};
use crate::special::SpecialToken;

/// How a version spells the markup.
pub(super) struct Markup {
    /// The name of the tag around all calls.
    pub(super) calls: &'static str,
    /// What stands between the DSML token and the name of a tag.
    pub(super) gap: &'static str,
    /// What stands in the place of a list of schemas or parameters that is empty.
    pub(super) no_items: &'static str,
    /// How numbers with a point are written.
    pub(super) write_float: WriteFloat,
}

impl Markup {
    /// Writes `<` or `</`, the DSML token, the name of the tag and what follows.
    fn tag(&self, writer: &mut Writer, open: &str, name: &str, rest: &str) {
        writer.plain(open);
        writer.special(SpecialToken::Dsml);
        writer.plain(self.gap);
        writer.plain(name);
        writer.plain(rest);
    }
}

/// Declares the tools, if they are active. Deferred ones are left out, even if none is left then.
pub(super) fn write_declarations(writer: &mut Writer, conversation: &Conversation, markup: &Markup) {
    if !conversation.has_active_tools() {
        return;
    }
    writer.plain(text::TOOLS_HEAD);
    markup.tag(writer, "<", markup.calls, ">\" block like the following:\n\n");
    markup.tag(writer, "<", markup.calls, ">\n");
    markup.tag(writer, "<", "invoke", " name=\"$TOOL_NAME\">\n");
    markup.tag(writer, "<", "parameter", " name=\"$PARAMETER_NAME\" string=\"true|false\">$PARAMETER_VALUE");
    markup.tag(writer, "</", "parameter", ">\n...\n");
    markup.tag(writer, "</", "invoke", ">\n");
    markup.tag(writer, "<", "invoke", " name=\"$TOOL_NAME2\">\n...\n");
    markup.tag(writer, "</", "invoke", ">\n");
    markup.tag(writer, "</", markup.calls, ">\n\n");
    writer.plain(text::TOOLS_VALUES);
    writer.special(SpecialToken::ThinkingStart);
    writer.plain("), you MUST output your complete reasoning inside ");
    writer.special(SpecialToken::ThinkingStart);
    writer.plain("...");
    writer.special(SpecialToken::ThinkingEnd);
    writer.plain(" BEFORE any tool calls or final response.\n\nOtherwise, output directly after ");
    writer.special(SpecialToken::ThinkingEnd);
    writer.plain(" with tool calls or final response.\n\n### Available Tool Schemas\n\n");
    let mut shown = conversation.tools.iter().filter(|tool| !tool.defer_loading).peekable();
    if shown.peek().is_none() {
        writer.plain(markup.no_items);
    }
    for tool in shown {
        write_schema(writer, tool, markup);
        writer.plain("\n");
    }
    writer.plain(text::TOOLS_END);
}

/// The part of a prompt that declares the tools.
pub(crate) fn declarations(prompt: &str) -> Option<&str> {
    let (_, declared) = prompt.split_once(text::TOOLS_HEAD)?;
    declared.split_once(text::TOOLS_END).map(|(declared, _)| declared)
}

/// Shows the tools of a system message, deferred ones too.
pub(super) fn write_updates(writer: &mut Writer, tools: Option<&[ToolDefinition]>, markup: &Markup) {
    for (i, tool) in tools.unwrap_or_default().iter().enumerate() {
        writer.plain(if i == 0 { text::UPDATES_HEAD } else { "\n" });
        write_schema(writer, tool, markup);
    }
}

fn write_schema(writer: &mut Writer, tool: &ToolDefinition, markup: &Markup) {
    let out = writer.plain_text();
    out.push_str("{\"name\": ");
    write_string(out, &tool.name);
    out.push_str(", \"description\": ");
    write_string(out, tool.description.as_deref().unwrap_or_default());
    out.push_str(", \"parameters\": ");
    tool.parameters.as_ref().unwrap_or(&Value::Null).write_spaced(out, markup.write_float);
    out.push('}');
}

/// Opens the block of calls.
pub(super) fn open_calls(writer: &mut Writer, markup: &Markup) {
    writer.plain("\n\n");
    markup.tag(writer, "<", markup.calls, ">\n");
}

/// Writes past calls in the given order. Names, keys and string values are never escaped.
pub(super) fn write_calls<'c>(writer: &mut Writer, calls: impl IntoIterator<Item = &'c ToolCall>, markup: &Markup) {
    open_calls(writer, markup);
    for call in calls {
        markup.tag(writer, "<", "invoke", " name=\"");
        writer.plain(&call.name);
        writer.plain("\">\n");
        write_arguments(writer, &call.arguments, markup);
        markup.tag(writer, "</", "invoke", ">\n");
    }
    markup.tag(writer, "</", markup.calls, ">");
}

/// Writes a parameter for each member; arguments that are no JSON object are one parameter as they are.
fn write_arguments(writer: &mut Writer, arguments: &str, markup: &Markup) {
    let Some(object) = json::arguments(arguments) else {
        return write_parameter(writer, "arguments", true, |out| out.push_str(arguments), markup);
    };
    if object.is_empty() {
        writer.plain(markup.no_items);
    }
    for (key, value) in object.iter() {
        let write_value = |out: &mut String| match value {
            Value::String(value) => out.push_str(value),
            value => value.write_spaced(out, markup.write_float),
        };
        write_parameter(writer, key, matches!(value, Value::String(_)), write_value, markup);
    }
}

fn write_parameter(
    writer: &mut Writer,
    key: &str,
    is_string: bool,
    write_value: impl FnOnce(&mut String),
    markup: &Markup,
) {
    markup.tag(writer, "<", "parameter", " name=\"");
    writer.plain(key);
    writer.plain(if is_string { "\" string=\"true\">" } else { "\" string=\"false\">" });
    write_value(writer.plain_text());
    markup.tag(writer, "</", "parameter", ">\n");
}
