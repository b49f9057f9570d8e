//! The V4 template: order and wording only. Knows no spelling of a special token.
//!
//! System messages come first, wherever they stand. Calls and results are ordered by call id, by
//! position rather than by which call a result answers, so odd histories move in odd ways; the
//! model was trained on these prompts.

use super::tools::{self, Markup};
use super::writer::Writer;
use super::{text, write_generation, write_tool_result};
use crate::conversation::{Conversation, Message, ToolCall};
use crate::json::write_float;
use crate::special::SpecialToken;

const MARKUP: Markup = Markup { calls: "tool_calls", gap: "", no_items: "", write_float };

pub(super) fn write(writer: &mut Writer, conversation: &Conversation) {
    writer.special(SpecialToken::Bos);
    if conversation.thinking_mode {
        writer.plain(text::effort_v4(conversation.reasoning_effort));
    }
    let (system, dialogue): (Vec<&Message>, Vec<&Message>) =
        conversation.messages.iter().partition(|message| matches!(message, Message::System { .. }));
    write_joined(writer, system.into_iter().filter(|message| !message.text().is_empty()));
    writer.begin(None);
    tools::write_declarations(writer, conversation, &MARKUP);
    text::write_response_format(writer, &conversation.response_format, text::JSON_OBJECT_V4, MARKUP.write_float);

    // Adjacent user messages are one turn.
    let mut turns: Vec<&[&Message]> = dialogue.chunk_by(|a, b| is_user(a) && is_user(b)).collect();
    order_results(&mut turns);
    let mut last = None;
    for (i, turn) in turns.iter().enumerate() {
        let message = turn[0];
        writer.begin(Some(message));
        match message {
            Message::User { .. } => {
                open_user_turn(writer, last.is_some_and(|last| is_tool(last) || is_user(last)));
                write_joined(writer, turn.iter().copied());
            }
            Message::Tool { .. } => {
                open_user_turn(writer, last.is_some_and(is_tool));
                write_tool_result(writer, message);
            }
            Message::Assistant { prefix, .. } => {
                write_assistant(writer, conversation, message);
                if !(*prefix && i + 1 == turns.len()) {
                    writer.special(SpecialToken::Eos);
                }
            }
            // Written above, whatever their place.
            Message::System { .. } => {}
            Message::LatestReminder { .. } => {
                writer.special(SpecialToken::LatestReminder);
                writer.message(message);
            }
        }
        last = Some(message);
    }
    write_generation(writer, conversation, last, &MARKUP);
}

/// Behind each assistant with `n` calls, sorts the `n` turns that follow it by call id, results before all else.
/// The positions are those from before the first move. With fewer than `n` turns nothing moves.
fn order_results(turns: &mut [&[&Message]]) {
    let calls: Vec<(usize, usize)> = turns
        .iter()
        .enumerate()
        .filter_map(|(i, turn)| match turn[0] {
            Message::Assistant { tool_calls: Some(calls), .. } => Some((i + 1, calls.len())),
            _ => None,
        })
        .collect();
    for (start, count) in calls {
        if let Some(results) = turns[start..].get_mut(..count) {
            results.sort_by_key(|turn| match turn[0] {
                Message::Tool { tool_call_id, .. } => (false, tool_call_id.as_deref()),
                _ => (true, None),
            });
        }
    }
}

fn write_assistant(writer: &mut Writer, conversation: &Conversation, message: &Message) {
    let Message::Assistant { content, reasoning_content, tool_calls, prefix } = message else {
        return;
    };
    writer.special(SpecialToken::Assistant);
    // The model goes on with the reasoning, or begins it itself.
    let goes_on_thinking = conversation.thinking_mode && *prefix && content.is_empty();
    let keeps_reasoning = conversation.has_active_tools() || *prefix;
    let reasoning = reasoning_content.as_deref().filter(|_| keeps_reasoning);
    if let Some(reasoning) = reasoning {
        writer.special(SpecialToken::ThinkingStart);
        writer.model_text(reasoning);
    }
    if !goes_on_thinking {
        writer.special(SpecialToken::ThinkingEnd);
    }
    writer.model_text(content);
    if let Some(calls) = tool_calls {
        let mut calls: Vec<&ToolCall> = calls.iter().collect();
        calls.sort_by_key(|call| call.id.as_str());
        tools::write_calls(writer, calls, &MARKUP);
    }
}

fn open_user_turn(writer: &mut Writer, is_open: bool) {
    if is_open {
        writer.plain("\n\n");
    } else {
        writer.special(SpecialToken::User);
    }
}

/// Writes the messages with an empty line between. Empty ones add nothing but their images.
fn write_joined<'m>(writer: &mut Writer, messages: impl Iterator<Item = &'m Message>) {
    let mut is_first = true;
    for message in messages {
        writer.begin(Some(message));
        if !message.text().is_empty() {
            if !is_first {
                writer.plain("\n\n");
            }
            is_first = false;
        }
        writer.message(message);
    }
}

fn is_user(message: &Message) -> bool {
    matches!(message, Message::User { .. })
}

fn is_tool(message: &Message) -> bool {
    matches!(message, Message::Tool { .. })
}
