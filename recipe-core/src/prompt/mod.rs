//! Renders a conversation as a prompt. Knows no protocol and no tokenizer.
//!
//! V4 and V4.1 are two algorithms, not one with two spellings: `v4` and `v41` hold their order, and
//! share the writer, the tool markup and the fixed texts.

mod text;
mod tools;
mod v4;
mod v41;
mod writer;

use crate::conversation::{Conversation, Message, ResponseFormat, ToolChoice};
use crate::options::{ModelVersion, ParsingOptions, ThinkingInitialStage};
use crate::special::{SpecialToken, SpecialTokens};
use tools::Markup;
use writer::Writer;

pub(crate) use tools::declarations;
pub use writer::{RenderedPrompt, Segment};

/// Renders `conversation` with the template of `version`, special tokens spelled as in `tokens`.
///
/// Every conversation has a prompt: what a protocol would refuse renders here, too.
///
/// ```
/// use recipe_core::conversation::{Content, Conversation, Message};
/// use recipe_core::options::ModelVersion;
/// use recipe_core::prompt::{render, Segment};
/// use recipe_core::special::SpecialTokens;
///
/// let user = Message::User { content: Content::from("say <think>".to_owned()) };
/// let conversation = Conversation { messages: vec![user], thinking_mode: false, ..Conversation::default() };
/// let rendered = render(&conversation, ModelVersion::DeepseekV41Flash, &SpecialTokens::default());
/// assert_eq!(rendered.prompt(), "<｜begin▁of▁sentence｜><｜User｜>say <think><｜Assistant｜></think>");
/// assert_eq!(rendered.segments().nth(2), Some(Segment::Plain("say <think>")));
/// ```
pub fn render(conversation: &Conversation, version: ModelVersion, tokens: &SpecialTokens) -> RenderedPrompt {
    let mut writer = Writer::new(tokens, conversation);
    match version {
        ModelVersion::DeepseekV4Pro => v4::write(&mut writer, conversation),
        ModelVersion::DeepseekV41Flash => v41::write(&mut writer, conversation),
    }
    writer.finish()
}

/// How the output behind the prompt of `conversation` is to be read: where it begins, and what is looked for.
///
/// ```
/// use recipe_core::conversation::Conversation;
/// use recipe_core::options::ThinkingInitialStage;
/// use recipe_core::prompt::parse_start;
///
/// let options = parse_start(&Conversation::default());
/// assert_eq!(options.thinking_initial_stage, Some(ThinkingInitialStage::ReasoningStart));
/// assert!(!options.parse_tool_calls);
/// ```
pub fn parse_start(conversation: &Conversation) -> ParsingOptions {
    let Conversation { messages, thinking_mode, tools, .. } = conversation;
    let loads_tools =
        |message: &Message| matches!(message, Message::System { tools: Some(tools), .. } if !tools.is_empty());
    let stage = thinking_mode.then(|| initial_stage(messages.last()));
    ParsingOptions {
        parse_tool_calls: !tools.is_empty() || messages.iter().any(loads_tools),
        starts_in_tool_calls: requires_call(conversation) && !stage.is_some_and(|stage| stage.starts_in_reasoning()),
        parse_json_output: conversation.response_format == ResponseFormat::JsonObject,
        thinking_initial_stage: stage,
        ..ParsingOptions::default()
    }
}

/// Where the output begins in thinking mode, behind a last message that may go on.
fn initial_stage(last: Option<&Message>) -> ThinkingInitialStage {
    match last {
        Some(Message::Assistant { prefix: true, content, .. }) if !content.is_empty() => {
            ThinkingInitialStage::ContentContinuation
        }
        Some(Message::Assistant { prefix: true, reasoning_content: Some(reasoning), .. }) if !reasoning.is_empty() => {
            ThinkingInitialStage::ReasoningContinuation
        }
        _ => ThinkingInitialStage::ReasoningStart,
    }
}

fn requires_call(conversation: &Conversation) -> bool {
    conversation.has_active_tools() && conversation.tool_choice == ToolChoice::Required
}

/// Opens the turn to generate, unless the model goes on with `last`, and the calls block if a call is required.
fn write_generation(writer: &mut Writer, conversation: &Conversation, last: Option<&Message>, markup: &Markup) {
    writer.begin(None);
    if !matches!(last, Some(Message::Assistant { prefix: true, .. })) {
        writer.special(SpecialToken::Assistant);
        writer.special(match conversation.thinking_mode {
            true => SpecialToken::ThinkingStart,
            false => SpecialToken::ThinkingEnd,
        });
    }
    // Inside the reasoning the model has to end that first: a block opened there would be read as reasoning.
    if requires_call(conversation) && !writer.is_in_reasoning() {
        tools::open_calls(writer, markup);
    }
}

fn write_tool_result(writer: &mut Writer, message: &Message) {
    writer.plain("<tool_result>");
    writer.message(message);
    writer.plain("</tool_result>");
}
