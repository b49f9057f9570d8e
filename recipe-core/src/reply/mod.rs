//! Events to a protocol's chunks and complete response. A reply knows no markup and no ids.
//!
//! A protocol is a [`Reply`] that makes [`Chunk`]s. [`ReplyStream`] puts one behind a stream processor.

pub mod chat;
mod custom_input;
mod json;
pub mod messages;
pub mod responses;

use std::sync::Arc;

use crate::error::Result;
use crate::options::ParsingOptions;
use crate::stream::{Event, Events, InferenceChunk, OutputTools, StreamProcessor};
use crate::tokenizer::Tokenizer;

/// Makes the chunks of one protocol for one output. A plain value: its clone goes on the same way.
pub trait Reply: Clone + 'static {
    /// One message of the protocol. It may borrow from the event that it says.
    type Chunk<'a>: Chunk;

    /// The tools that the output may call.
    fn tools(&self) -> Arc<OutputTools>;

    /// Says an event in the protocol's words: any number of chunks.
    fn say(&mut self, event: &Event<'_>, chunk: &mut dyn FnMut(Self::Chunk<'_>));
}

/// One message of a protocol.
pub trait Chunk {
    /// The event name in server-sent events, where the protocol has them.
    fn sse_event_name(&self) -> Option<&'static str>;

    /// Appends the message as JSON.
    fn write_json(&self, out: &mut String);

    /// Appends the message as one server-sent event.
    fn write_sse(&self, out: &mut String) {
        if let Some(name) = self.sse_event_name() {
            out.push_str("event: ");
            out.push_str(name);
            out.push('\n');
        }
        out.push_str("data: ");
        self.write_json(out);
        out.push_str("\n\n");
    }
}

/// A stream processor with a reply behind it: engine chunks in, protocol chunks out.
#[derive(Clone, Debug)]
pub struct ReplyStream<R> {
    processor: StreamProcessor,
    reply: R,
    events: Events,
}

impl<R: Reply> ReplyStream<R> {
    /// A stream at its start. Without a tokenizer it takes text chunks alone.
    pub fn new(reply: R, options: ParsingOptions, tokenizer: Option<Tokenizer>) -> Self {
        let processor = StreamProcessor::new(options, reply.tools(), tokenizer);
        Self { processor, reply, events: Events::default() }
    }

    /// Takes a chunk of the engine. Errors as [`StreamProcessor::push`].
    pub fn push(&mut self, input: &InferenceChunk, chunk: &mut dyn FnMut(R::Chunk<'_>)) -> Result<()> {
        self.drive(|processor, events| processor.push(input, events), chunk)
    }

    /// Takes token ids.
    pub fn push_tokens(&mut self, ids: &[u32], chunk: &mut dyn FnMut(R::Chunk<'_>)) -> Result<()> {
        self.drive(|processor, events| processor.push_tokens(ids, None, events), chunk)
    }

    /// Closes the input. Without a finish chunk before it, that is a failure.
    pub fn finish(&mut self, chunk: &mut dyn FnMut(R::Chunk<'_>)) -> Result<()> {
        self.drive(StreamProcessor::finish, chunk)
    }

    /// Ends without any chunk.
    pub fn close(&mut self) {
        self.processor.close();
    }

    /// Whether the output has ended and the stream has not been closed.
    pub fn is_finished(&self) -> bool {
        self.processor.is_finished()
    }

    /// The output, for what no chunk says: how it ended, and what is behind the end.
    pub fn output(&self) -> &StreamProcessor {
        &self.processor
    }

    fn drive(
        &mut self,
        step: impl FnOnce(&mut StreamProcessor, &mut Events) -> Result<()>,
        chunk: &mut dyn FnMut(R::Chunk<'_>),
    ) -> Result<()> {
        self.events.clear();
        step(&mut self.processor, &mut self.events)?;
        for event in self.events.iter() {
            self.reply.say(&event, chunk);
        }
        Ok(())
    }
}

/// Makes call ids: `call_`, the call's number, `_`, 20 letters and digits, 4 digits.
///
/// The randomness comes from outside as a seed, so that the core stays a function of its input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallIds {
    state: [u64; 2],
}

impl CallIds {
    /// Ids of one output. Two outputs need two seeds.
    pub fn new(seed: u128) -> Self {
        // The generator must not start at zero.
        Self { state: [seed as u64 | 1, (seed >> 64) as u64] }
    }

    /// The id of the call with this number.
    pub fn next(&mut self, index: usize) -> String {
        const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let mut id = format!("call_{index:02}_");
        for place in 0..24 {
            let choices = if place < 20 { LETTERS.len() } else { 10 };
            let chosen = (u128::from(self.random()) * choices as u128) >> 64;
            id.push(LETTERS[chosen as usize].into());
        }
        id
    }

    /// xoroshiro128+ (Blackman and Vigna).
    fn random(&mut self) -> u64 {
        let [a, b] = self.state;
        let mixed = b ^ a;
        self.state = [a.rotate_left(24) ^ mixed ^ (mixed << 16), mixed.rotate_left(37)];
        a.wrapping_add(b)
    }
}
