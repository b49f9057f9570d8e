//! The state machine: pieces of output in, events out. Pure: it knows no protocol, no ids and no clock.
//!
//! States: text (reasoning or answer) is looked through for markers; a block of calls holds calls and
//! text between them; a call holds parameters; a parameter holds a value. JSON mode puts three states in
//! the place of the answer. What is not a tag is delivered, in order. A state reads as far as it can
//! decide and keeps the rest in the input, so the events do not depend on how the output is cut.

mod block;
mod json_output;

use std::sync::Arc;

use super::call::Call;
use super::event::{Channel, Events, FinishReason, TokenLogprob};
use super::input::{Input, Kind};
use super::run::Run;
use super::scan::{Fired, Looks, Markers, Scan};
use super::tag::{is_space, Reading, Spelled, Tag, TagReader};
use super::OutputTools;
use crate::options::{ParsingOptions, ThinkingInitialStage};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Machine {
    markers: Arc<Markers>,
    options: Arc<ParsingOptions>,
    tools: Arc<OutputTools>,
    input: Input,
    /// Everything before this position is dealt with.
    pos: usize,
    state: State,
    /// Where text goes, and where a block goes back to.
    place: Place,
    skip: Skip,
    /// Whether a repeated `<think>` would still stand at the start of the reasoning.
    at_start: bool,
    /// Before the first text: how many empty pieces have come.
    empty_at_start: Option<usize>,
    /// A tag whose end has not come, and where the line breaks before it begin.
    tag: Option<(TagReader, usize)>,
    calls: usize,
    ended_calls: usize,
    /// How the machine ended by itself: the reason, and the stop sequence that matched.
    over: Option<(FinishReason, Option<usize>)>,
    /// The input ended normally: what is open is closed.
    closes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Reasoning,
    Content,
    /// Behind the value of JSON mode: nothing is delivered.
    AfterJson,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Skip {
    Nothing,
    Newlines,
    Space,
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    /// At the start of text in `place`.
    Enter,
    /// In reasoning or answer.
    Text(Scan),
    /// JSON mode: before the value. The ranges are text if no value comes.
    Seek {
        scan: Scan,
        kept: Vec<(usize, usize)>,
        start: usize,
    },
    /// JSON mode: in the value.
    Json(JsonValue),
    /// JSON mode: behind the value.
    After(Scan),
    /// In a block, between calls.
    Block(Run),
    /// In a call, between parameters.
    Call(Box<OpenCall>),
    /// In the value of a parameter, looked through up to `at`, handed on up to `fed`.
    Value {
        open: Box<OpenCall>,
        at: usize,
        fed: usize,
    },
    Over,
}

#[derive(Clone, Debug, PartialEq)]
struct OpenCall {
    call: Call,
    run: Run,
    /// Behind a value, before the closer of its parameter.
    passing: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct JsonValue {
    scan: Scan,
    depth: usize,
    string: bool,
    escape: bool,
}

/// How skipping ended.
enum Skipped {
    Done,
    /// More may come.
    Wait,
    /// A stop sequence matched, the one with this number.
    Stop(usize),
}

/// How a step ended.
#[derive(PartialEq)]
enum Step {
    Next,
    /// More input is needed.
    Wait,
}

impl Machine {
    pub(super) fn new(options: Arc<ParsingOptions>, tools: Arc<OutputTools>) -> Self {
        let stage = options.thinking_initial_stage;
        let place = match stage {
            Some(stage) if stage.starts_in_reasoning() => Place::Reasoning,
            _ => Place::Content,
        };
        let continues = matches!(
            stage,
            Some(ThinkingInitialStage::ReasoningContinuation | ThinkingInitialStage::ContentContinuation)
        );
        let starts_in_block = options.starts_in_tool_calls;
        Self {
            markers: Arc::new(Markers::new(&options)),
            tools,
            input: Input::new(),
            pos: 0,
            state: if starts_in_block { State::Block(Run::default()) } else { State::Enter },
            place: if starts_in_block { Place::Content } else { place },
            skip: if continues { Skip::Nothing } else { Skip::Newlines },
            at_start: stage == Some(ThinkingInitialStage::ReasoningStart),
            empty_at_start: Some(0),
            tag: None,
            calls: 0,
            ended_calls: 0,
            over: None,
            closes: false,
            options,
        }
    }

    /// Appends a piece. `run` deals with it.
    pub(super) fn push(&mut self, text: &str, kind: Kind, logprobs: Option<Arc<[TokenLogprob]>>) {
        self.input.push(text, kind, logprobs, &self.markers.end);
    }

    /// Deals with what can be decided.
    pub(super) fn run(&mut self, events: &mut Events) {
        while self.step(events) == Step::Next {}
        self.input.release(self.released());
    }

    /// Closes the input and deals with the rest. `normally`: what is open is closed.
    pub(super) fn end(&mut self, normally: bool, events: &mut Events) {
        self.input.end(&self.markers.end);
        self.closes = normally;
        self.run(events);
        self.state = State::Over;
    }

    /// The reason, if the machine ended by itself.
    pub(super) fn ended_by_itself(&self) -> Option<(FinishReason, Option<&str>)> {
        let (reason, stop) = self.over?;
        Some((reason, stop.map(|index| self.options.stop_sequences[index].as_str())))
    }

    /// The reason of a normal end.
    pub(super) fn normal_reason(&self) -> FinishReason {
        if self.ended_calls > 0 {
            FinishReason::ToolCalls
        } else {
            FinishReason::Stop
        }
    }

    /// Behind all that has come.
    pub(super) fn received(&self) -> usize {
        self.input.total()
    }

    /// Behind what ended the output, if the machine ended by itself.
    pub(super) fn ended_at(&self) -> Option<usize> {
        self.over.map(|_| self.pos)
    }

    /// The text behind that.
    pub(super) fn remaining(&self) -> &str {
        self.ended_at().map_or("", |end| self.input.slice(end, self.input.total()))
    }

    /// Behind what is dealt with.
    pub(super) fn released(&self) -> usize {
        match self.state {
            State::Value { fed, .. } => fed,
            _ => self.pos,
        }
    }

    fn step(&mut self, events: &mut Events) -> Step {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Enter => self.enter(),
            State::Text(scan) => self.text(scan, events),
            State::Seek { scan, kept, start } => self.seek(scan, kept, start, events),
            State::Json(value) => self.json(value, events),
            State::After(scan) => self.after(scan, events),
            State::Block(run) => self.block(run, events),
            State::Call(open) => self.call(open, events),
            State::Value { open, at, fed } => self.value(open, at, fed, events),
            State::Over => Step::Wait,
        }
    }

    // ---- text

    /// The output ends with the stop sequence that begins at `start`.
    fn stop(&mut self, index: usize, start: usize) -> Step {
        self.pos = start + self.options.stop_sequences[index].len();
        self.over = Some((FinishReason::Stop, Some(index)));
        Step::Wait
    }

    fn goes_to(&mut self, state: State) -> Step {
        self.state = state;
        Step::Next
    }

    fn waits_in(&mut self, state: State) -> Step {
        self.state = state;
        Step::Wait
    }

    /// Skips what is to be skipped, and a repeated `<think>`; then looks through the text.
    fn enter(&mut self) -> Step {
        match self.skip_space() {
            Skipped::Done => {}
            Skipped::Wait => return self.waits_in(State::Enter),
            Skipped::Stop(index) => {
                self.over = Some((FinishReason::Stop, Some(index)));
                return Step::Wait;
            }
        }
        if self.place == Place::Reasoning && self.at_start {
            match self.markers.spelled_at(&self.input, &self.markers.thinking_start, self.pos) {
                Spelled::Wait if !self.input.ended => return self.waits_in(State::Enter),
                Spelled::Yes => {
                    self.at_start = false;
                    self.pos += self.markers.thinking_start.len();
                    return self.goes_to(State::Enter);
                }
                _ => {}
            }
        }
        self.at_start = false;
        self.skip = Skip::Nothing;
        let looks = Looks { tags: self.options.parse_tool_calls, stops: false, brackets: false };
        let scan = |looks| Scan::new(self.pos, looks, &self.markers);
        let state = match self.place {
            Place::Reasoning => State::Text(scan(looks)),
            Place::AfterJson => State::After(scan(looks)),
            Place::Content if self.seeks_json() => {
                State::Seek { scan: scan(Looks { brackets: true, ..looks }), kept: Vec::new(), start: self.pos }
            }
            Place::Content => State::Text(scan(Looks { stops: true, ..looks })),
        };
        self.goes_to(state)
    }

    /// Whether the answer is the JSON value in it.
    fn seeks_json(&self) -> bool {
        let stage = self.options.thinking_initial_stage;
        self.options.parse_json_output && stage != Some(ThinkingInitialStage::ContentContinuation)
    }

    /// Drops line breaks, or all white space, with the empty pieces among them.
    fn skip_space(&mut self) -> Skipped {
        let empty = self.empty_at_start.take();
        if self.skip == Skip::Nothing {
            return Skipped::Done;
        }
        let first = self.pos;
        let limit = self.input.limit();
        let skipped = |byte: u8| if self.skip == Skip::Space { is_space(byte) } else { byte == b'\n' };
        while self.pos < limit && skipped(self.input.byte(self.pos)) {
            self.pos += 1;
        }
        // Of the stop sequences only a line break by itself matches among those before the answer.
        if self.pos > first && self.place == Place::Content && self.skip == Skip::Newlines && !self.seeks_json() {
            if let Some(index) = self.options.stop_sequences.iter().position(|stop| stop == "\n") {
                self.pos = first + 1;
                return Skipped::Stop(index);
            }
        }
        let taken = self.input.take_empty(first, self.pos);
        // Empty pieces at the start of the output wait for the first piece with text, unless a line break comes.
        let empty = empty.filter(|_| self.pos == first).map(|before| before + taken);
        if self.pos < limit {
            self.input.put_empty(self.pos, empty.unwrap_or(0));
        } else if !self.input.ended {
            self.empty_at_start = empty;
            return Skipped::Wait;
        }
        Skipped::Done
    }

    fn channel(&self) -> Option<Channel> {
        match self.place {
            Place::Reasoning => Some(Channel::Reasoning),
            Place::Content => Some(Channel::Content),
            Place::AfterJson => None,
        }
    }

    /// Delivers the text up to `to`, a delta a piece, and goes on there.
    fn emit(&mut self, channel: Channel, to: usize, events: &mut Events) {
        let to = to.min(self.input.limit());
        if to <= self.pos {
            return;
        }
        for part in self.input.parts(self.pos, to) {
            events.text(channel, part.text, part.piece.logprobs.as_ref());
        }
        self.pos = to;
    }

    /// Reasoning or answer.
    fn text(&mut self, mut scan: Scan, events: &mut Events) -> Step {
        let channel = if self.place == Place::Reasoning { Channel::Reasoning } else { Channel::Content };
        match self.next_trigger(&mut scan) {
            Trigger::Stop { index, start } => {
                self.emit(channel, start, events);
                self.stop(index, start)
            }
            Trigger::Think { start, trimmed } => {
                self.emit(channel, if channel == Channel::Reasoning { trimmed } else { start }, events);
                self.pos = start + self.markers.thinking_end.len();
                if channel == Channel::Reasoning {
                    self.place = Place::Content;
                    self.skip = Skip::Newlines;
                }
                self.goes_to(State::Enter)
            }
            Trigger::Tag { tag, trimmed } => {
                self.emit(channel, trimmed, events);
                self.opened(&tag, events)
            }
            Trigger::Wait { hold } => {
                let whole = self.input.whole_pieces(self.pos, hold);
                self.emit(channel, whole, events);
                self.waits_in(State::Text(scan))
            }
            Trigger::End => {
                self.emit(channel, self.input.limit(), events);
                self.emit_empty_at_end(channel, events);
                Step::Wait
            }
            Trigger::Bracket { .. } => unreachable!("brackets are looked for in JSON mode alone"),
        }
    }

    fn emit_empty_at_end(&mut self, channel: Channel, events: &mut Events) {
        for _ in 0..self.input.empty_at_end() {
            events.text(channel, "", None);
        }
    }

    /// Looks for what ends the text, and reads on in a tag until it is known to be one.
    fn next_trigger(&mut self, scan: &mut Scan) -> Trigger {
        loop {
            if let Some((reader, trimmed)) = &mut self.tag {
                let trimmed = *trimmed;
                match reader.read(&self.input, &self.markers) {
                    Reading::Wait => return Trigger::Wait { hold: trimmed },
                    Reading::Text => self.tag = None,
                    Reading::Tag(tag) => {
                        self.tag = None;
                        return Trigger::Tag { tag, trimmed };
                    }
                }
            }
            match scan.advance(&self.input, &self.markers) {
                Some(Fired::Stop { index, start }) => return Trigger::Stop { index, start },
                Some(Fired::Think { start, trimmed }) => return Trigger::Think { start, trimmed },
                Some(Fired::Bracket { start }) => return Trigger::Bracket { start },
                Some(Fired::Open { start, trimmed }) => {
                    self.tag = Some((TagReader::new(start, scan.at, false), trimmed));
                }
                None if self.input.ended => return Trigger::End,
                None => return Trigger::Wait { hold: scan.hold(self.place == Place::Reasoning) },
            }
        }
    }
}

/// What ends a run of text, tags read.
enum Trigger {
    Stop {
        index: usize,
        start: usize,
    },
    Think {
        start: usize,
        trimmed: usize,
    },
    Bracket {
        start: usize,
    },
    Tag {
        tag: Tag,
        trimmed: usize,
    },
    /// Text from `hold` on may still become something.
    Wait {
        hold: usize,
    },
    End,
}
