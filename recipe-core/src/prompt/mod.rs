//! Renders a conversation as a prompt. Knows no protocol and no tokenizer.
//!
//! V4 and V4.1 are two algorithms, not one with two spellings: `v4` and `v41` hold their order, and
//! share the writer, the tool markup and the fixed texts.

mod text;
mod tools;
mod v4;
mod v41;
mod writer;

use crate::conversation::{Conversation, Message, ToolChoice};
use crate::options::ModelVersion;
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
    let mut writer = Writer::new(tokens);
    match version {
        ModelVersion::DeepseekV4Pro => v4::write(&mut writer, conversation),
        ModelVersion::DeepseekV41Flash => v41::write(&mut writer, conversation),
    }
    writer.finish()
}

/// Opens the turn to generate, unless the model goes on with `last`, and the calls block if a call is required.
fn write_generation(writer: &mut Writer, conversation: &Conversation, last: Option<&Message>, markup: &Markup) {
    if !matches!(last, Some(Message::Assistant { prefix: true, .. })) {
        writer.special(SpecialToken::Assistant);
        writer.special(match conversation.thinking_mode {
            true => SpecialToken::ThinkingStart,
            false => SpecialToken::ThinkingEnd,
        });
    }
    // Inside the reasoning the model has to end that first: a block opened there would be read as reasoning.
    let is_required = conversation.has_active_tools() && conversation.tool_choice == ToolChoice::Required;
    if is_required && !writer.is_in_reasoning() {
        tools::open_calls(writer, markup);
    }
}

fn write_tool_result(writer: &mut Writer, message: &Message) {
    writer.plain("<tool_result>");
    writer.message(message);
    writer.plain("</tool_result>");
}
