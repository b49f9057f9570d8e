//! The V4.1 template: order and wording only. Knows no spelling of a special token.

use foldhash::{HashMap, HashMapExt};

use super::tools::{self, Markup};
use super::writer::Writer;
use super::{text, write_generation, write_tool_result};
use crate::conversation::{Conversation, Message, ToolCall};
use crate::json::write_float_repr;
use crate::special::SpecialToken;

const MARKUP: Markup = Markup { calls: "calls", gap: " ", no_items: "\n", write_float: write_float_repr };

pub(super) fn write(writer: &mut Writer, conversation: &Conversation) {
    let messages = ordered(&conversation.messages);
    writer.special(SpecialToken::Bos);
    let has_declarations = conversation.has_active_tools() || text::has_response_format(&conversation.response_format);
    write_first_system(writer, conversation, messages.first().copied(), has_declarations);
    for (i, &message) in messages.iter().enumerate() {
        writer.begin(Some(message));
        match message {
            Message::System { .. } if i == 0 => {}
            Message::System { tools, .. } => {
                writer.special(SpecialToken::System);
                writer.message(message);
                tools::write_updates(writer, tools.as_deref(), &MARKUP);
            }
            Message::User { .. } | Message::Tool { .. } => {
                if i > 0 && is_user_side(messages[i - 1]) {
                    writer.plain("\n\n");
                } else {
                    writer.special(SpecialToken::User);
                }
                match message {
                    Message::Tool { .. } => write_tool_result(writer, message),
                    _ => writer.message(message),
                }
            }
            Message::Assistant { .. } => write_assistant(writer, conversation, message, i == 0 && !has_declarations),
            Message::LatestReminder { .. } => {
                writer.special(SpecialToken::LatestReminder);
                writer.message(message);
            }
        }
    }
    write_generation(writer, conversation, messages.last().copied(), &MARKUP);
}

/// Writes the system turn that holds effort and declarations. It is there without a system message, too, if it
/// says anything; the effort alone does not open it before an empty conversation.
fn write_first_system(
    writer: &mut Writer,
    conversation: &Conversation,
    first: Option<&Message>,
    has_declarations: bool,
) {
    let is_system = matches!(first, Some(Message::System { .. }));
    let has_effort = conversation.thinking_mode && first.is_some();
    if !is_system && !has_declarations && !has_effort {
        return;
    }
    let system = first.filter(|_| is_system);
    writer.begin(system);
    writer.special(SpecialToken::System);
    if conversation.thinking_mode {
        writer.begin(None);
        text::write_effort_v41(writer, conversation.reasoning_effort);
    }
    if let Some(message) = system {
        writer.begin(system);
        writer.message(message);
    }
    writer.begin(None);
    tools::write_declarations(writer, conversation, &MARKUP);
    text::write_response_format(writer, &conversation.response_format, text::JSON_OBJECT_V41, MARKUP.write_float);
    if let Some(Message::System { tools, .. }) = first {
        writer.begin(system);
        tools::write_updates(writer, tools.as_deref(), &MARKUP);
    }
}

/// The messages in prompt order: of adjacent reminders only the first, and the results in each run of user and tool
/// messages in the order of the calls before it.
fn ordered(messages: &[Message]) -> Vec<&Message> {
    let mut messages: Vec<&Message> = messages.iter().collect();
    messages.dedup_by(|next, kept| {
        matches!((kept, next), (Message::LatestReminder { .. }, Message::LatestReminder { .. }))
    });
    let mut calls: &[ToolCall] = &[];
    let mut places: HashMap<&str, usize> = HashMap::new();
    for run in messages.chunk_by_mut(|a, b| is_user_side(a) && is_user_side(b)) {
        match run[0] {
            Message::Assistant { tool_calls: Some(made), .. } if !made.is_empty() => {
                calls = made;
                places.clear();
            }
            Message::User { .. } | Message::Tool { .. } => order_results(run, calls, &mut places),
            _ => {}
        }
    }
    messages
}

/// Sorts the results with a call id among the slots that they take. An unknown id counts as the first call's.
/// `places` are those of the calls, or empty until they are needed.
fn order_results<'m>(run: &mut [&Message], calls: &'m [ToolCall], places: &mut HashMap<&'m str, usize>) {
    let has_id = |message: &Message| matches!(message, Message::Tool { tool_call_id: Some(_), .. });
    if calls.is_empty() || run.iter().filter(|message| has_id(message)).count() < 2 {
        return;
    }
    if places.is_empty() {
        // Of calls with the same id the first one counts: it comes last.
        places.extend(calls.iter().enumerate().rev().map(|(place, call)| (call.id.as_str(), place)));
    }
    let slots: Vec<usize> = (0..run.len()).filter(|&i| has_id(run[i])).collect();
    let mut results: Vec<&Message> = slots.iter().map(|&slot| run[slot]).collect();
    results.sort_by_key(|message| match message {
        Message::Tool { tool_call_id: Some(id), .. } => places.get(id.as_str()).copied().unwrap_or(0),
        _ => 0,
    });
    for (slot, result) in slots.into_iter().zip(results) {
        run[slot] = result;
    }
}

/// Writes an assistant turn. A continuation keeps its reasoning, unless it `opens_prompt`.
fn write_assistant(writer: &mut Writer, conversation: &Conversation, message: &Message, opens_prompt: bool) {
    let Message::Assistant { content, reasoning_content, tool_calls, prefix } = message else {
        return;
    };
    let calls = tool_calls.as_deref().unwrap_or_default();
    writer.special(SpecialToken::Assistant);
    let keeps_reasoning = conversation.thinking_mode && (conversation.has_active_tools() || (*prefix && !opens_prompt));
    if keeps_reasoning {
        writer.special(SpecialToken::ThinkingStart);
        writer.model_text(reasoning_content.as_deref().unwrap_or_default());
    }
    let goes_on_thinking = keeps_reasoning && *prefix && content.is_empty() && calls.is_empty();
    if !goes_on_thinking {
        writer.special(SpecialToken::ThinkingEnd);
    }
    writer.model_text(content);
    if !calls.is_empty() {
        tools::write_calls(writer, calls, &MARKUP);
    }
    if !prefix {
        writer.special(SpecialToken::Eos);
    }
}

fn is_user_side(message: &Message) -> bool {
    matches!(message, Message::User { .. } | Message::Tool { .. })
}
