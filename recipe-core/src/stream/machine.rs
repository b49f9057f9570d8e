//! The state machine: pieces of output in, events out. Pure: it knows no protocol, no ids and no clock.
//!
//! States: text (reasoning or answer) is looked through for markers; a block of calls holds calls and
//! text between them; a call holds parameters; a parameter holds a value. JSON mode puts three states in
//! the place of the answer. What is not a tag is delivered, in order. A state reads as far as it can
//! decide and keeps the rest in the input, so the events do not depend on how the output is cut.

mod json_output;

use std::sync::Arc;

use json_output::JsonValue;

use super::call::Call;
use super::event::{Channel, Events, FinishReason, TokenLogprob};
use super::input::{Input, Kind};
use super::run::Run;
use super::scan::{Fired, Looks, Markers, Scan};
use super::tag::{is_space, Reading, Spelled, Tag, TagName, TagReader, SPACE};
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

/// What stands at a place inside a block. Positions are behind the marker.
enum Look {
    Text,
    /// More output decides.
    Wait,
    /// The end of the output cut a tag's beginning off.
    CutOff,
    Open(usize),
    Close(usize),
    Think(usize),
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

    fn released(&self) -> usize {
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
        if !self.skip_space() {
            return self.waits_in(State::Enter);
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
        let tags = self.options.parse_tool_calls;
        let stage = self.options.thinking_initial_stage;
        let json = self.options.parse_json_output && stage != Some(ThinkingInitialStage::ContentContinuation);
        let looks = Looks { tags, stops: false, brackets: false };
        let scan = |looks| Scan::new(self.pos, looks, &self.markers);
        let state = match self.place {
            Place::Reasoning => State::Text(scan(looks)),
            Place::AfterJson => State::After(scan(looks)),
            Place::Content if json => {
                State::Seek { scan: scan(Looks { brackets: true, ..looks }), kept: Vec::new(), start: self.pos }
            }
            Place::Content => State::Text(scan(Looks { stops: true, ..looks })),
        };
        self.goes_to(state)
    }

    /// Drops line breaks, or all white space, with the empty pieces among them. False: more may come.
    fn skip_space(&mut self) -> bool {
        let empty = self.empty_at_start.take();
        if self.skip == Skip::Nothing {
            return true;
        }
        let first = self.pos;
        let limit = self.input.limit();
        let skipped = |byte: u8| if self.skip == Skip::Space { is_space(byte) } else { byte == b'\n' };
        while self.pos < limit && skipped(self.input.byte(self.pos)) {
            self.pos += 1;
        }
        let taken = self.input.take_empty(first, self.pos);
        // Empty pieces at the start of the output wait for the first piece with text.
        let empty = empty.map(|before| before + taken);
        if self.pos < limit {
            self.input.put_empty(self.pos, empty.unwrap_or(0));
        } else if !self.input.ended {
            self.empty_at_start = empty;
            return false;
        }
        true
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
                self.over = Some((FinishReason::Stop, Some(index)));
                Step::Wait
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

    // ---- blocks

    /// An opener that is no parameter of a call: an `invoke` with a name starts one, any other enters the block.
    fn opened(&mut self, tag: &Tag, events: &mut Events) -> Step {
        self.pos = tag.end;
        let name = tag.name_value.clone().filter(|name| !name.is_empty() && !tag.cut);
        match name {
            Some(name) if tag.name == Some(TagName::Invoke) => {
                let call = Call::start(self.calls, self.input.slice(name.start, name.end), events);
                self.calls += 1;
                let open = OpenCall { call, run: Run::default(), passing: false };
                self.goes_to(State::Call(Box::new(open)))
            }
            _ => self.goes_to(State::Block(Run::default())),
        }
    }

    /// Behind a block: back to the state before it.
    fn left(&mut self) -> Step {
        self.skip = Skip::Space;
        self.goes_to(State::Enter)
    }

    /// Behind a block that the end of the reasoning ended.
    fn left_reasoning(&mut self, behind: usize) -> Step {
        self.pos = behind;
        self.place = Place::Content;
        self.left()
    }

    fn look(&self, at: usize) -> Look {
        let spelled = |pattern| self.markers.spelled_at(&self.input, pattern, at);
        let (open, close, think) =
            (spelled(&self.markers.open), spelled(&self.markers.close), spelled(&self.markers.thinking_end));
        match (open, close, think) {
            (Spelled::Yes, _, _) => Look::Open(at + self.markers.open.len()),
            (_, Spelled::Yes, _) => Look::Close(at + self.markers.close.len()),
            (_, _, Spelled::Yes) => Look::Think(at + self.markers.thinking_end.len()),
            (Spelled::No, Spelled::No, Spelled::No) => Look::Text,
            _ if !self.input.ended => Look::Wait,
            (Spelled::No, Spelled::No, _) => Look::Text,
            _ => Look::CutOff,
        }
    }

    /// The next place from `at` on where a marker can begin, or the limit.
    fn candidate(&self, at: usize) -> usize {
        let limit = self.input.limit();
        let think = self.markers.thinking_end.first().unwrap_or(b'<');
        memchr::memchr2(b'<', think, self.input.bytes(at, limit)).map_or(limit, |found| at + found)
    }

    /// Reads the tag at `at`, whose `｜DSML｜` ends before `behind`.
    fn read_tag(&mut self, at: usize, behind: usize, closer: bool) -> Reading {
        let (mut reader, _) = self
            .tag
            .take()
            .filter(|(reader, _)| reader.start == at)
            .unwrap_or_else(|| (TagReader::new(at, behind, closer), at));
        let reading = reader.read(&self.input, &self.markers);
        if let Reading::Wait = reading {
            self.tag = Some((reader, at));
        }
        reading
    }

    /// The next thing inside a block or a call, text before it put into `run`; `None`: more input is needed.
    fn next_inside(&mut self, run: &mut Run) -> Option<Inside> {
        loop {
            let at = self.candidate(self.pos);
            self.add_to(run, at);
            if at == self.input.limit() {
                return self.input.ended.then_some(Inside::End);
            }
            let reading = match self.look(at) {
                Look::Wait => return None,
                Look::Text => Reading::Text,
                Look::CutOff => {
                    self.pos = self.input.limit();
                    continue;
                }
                Look::Think(behind) if self.place == Place::Reasoning => return Some(Inside::Think(behind)),
                Look::Think(behind) => {
                    self.pos = behind;
                    continue;
                }
                Look::Open(behind) => self.read_tag(at, behind, false),
                Look::Close(behind) => self.read_tag(at, behind, true),
            };
            match reading {
                Reading::Wait => return None,
                Reading::Text => self.add_to(run, self.input.char_end(at)),
                Reading::Tag(tag) => return Some(Inside::Tag(tag)),
            }
        }
    }

    fn add_to(&mut self, run: &mut Run, to: usize) {
        for part in self.input.parts(self.pos, to) {
            run.add(&part);
        }
        self.pos = to;
    }

    /// In a block, between calls.
    fn block(&mut self, mut run: Run, events: &mut Events) -> Step {
        let channel = self.channel();
        let Some(inside) = self.next_inside(&mut run) else {
            run.release(channel, events);
            return self.waits_in(State::Block(run));
        };
        run.finish(channel, events);
        match inside {
            Inside::End => Step::Wait,
            Inside::Think(behind) => self.left_reasoning(behind),
            Inside::Tag(tag) if !tag.closer => self.opened(&tag, events),
            Inside::Tag(tag) => {
                self.pos = tag.end;
                if tag.name == Some(TagName::Block) && !tag.cut {
                    return self.left();
                }
                self.goes_to(State::Block(run))
            }
        }
    }

    /// In a call, between parameters.
    fn call(&mut self, mut open: Box<OpenCall>, events: &mut Events) -> Step {
        let Some(inside) = self.next_inside(&mut open.run) else {
            return self.waits_in(State::Call(open));
        };
        let tag = match inside {
            Inside::End => {
                self.end_call(open, self.closes, events);
                return Step::Wait;
            }
            Inside::Think(behind) => {
                return if self.end_call(open, true, events) { Step::Wait } else { self.left_reasoning(behind) };
            }
            Inside::Tag(tag) if tag.cut => {
                self.pos = self.input.limit();
                return self.goes_to(State::Call(open));
            }
            Inside::Tag(tag) => tag,
        };
        if !tag.closer && tag.name == Some(TagName::Invoke) {
            return if self.end_call(open, true, events) { Step::Wait } else { self.opened(&tag, events) };
        }
        self.pos = tag.end;
        if tag.closer && tag.name != Some(TagName::Parameter) && !(open.passing && tag.name.is_none()) {
            if self.end_call(open, true, events) {
                return Step::Wait;
            }
            return if tag.name == Some(TagName::Block) {
                self.left()
            } else {
                self.goes_to(State::Block(Run::default()))
            };
        }
        let run = std::mem::take(&mut open.run);
        open.call.runs.push(run);
        open.passing = false;
        if tag.opens_parameter() && open.call.takes_parameters(&self.tools) {
            open.call.start_parameter(&tag, &self.input, &self.tools, events);
            return self.goes_to(State::Value { open, at: self.pos, fed: self.pos });
        }
        self.goes_to(State::Call(open))
    }

    /// Ends a call and delivers the text that stood inside it. True: that was the one call that was wanted.
    fn end_call(&mut self, mut open: Box<OpenCall>, finished: bool, events: &mut Events) -> bool {
        open.call.runs.push(std::mem::take(&mut open.run));
        if finished {
            open.call.end(events);
            self.ended_calls += 1;
        } else {
            open.call.unwrap(events);
        }
        let channel = self.channel();
        for run in &mut open.call.runs {
            run.finish(channel, events);
        }
        if finished && !self.options.parallel_tool_calls {
            self.over = Some((FinishReason::ToolCalls, None));
        }
        self.over.is_some()
    }

    /// In the value of a parameter: it ends before any `</｜DSML｜`, before the opener of the next parameter,
    /// and, once it is complete JSON, before any tag.
    fn value(&mut self, mut open: Box<OpenCall>, mut at: usize, mut fed: usize, events: &mut Events) -> Step {
        loop {
            at = self.candidate(at);
            let ended = self.input.ended;
            if at == self.input.limit() {
                self.feed(&mut open, &mut fed, at);
                if ended {
                    return self.end_value(open, at, self.closes, events);
                }
                open.call.flush_value(self.input.piece_from(at), events);
                return self.waits_in(State::Value { open, at, fed });
            }
            let look = self.look(at);
            let reading = match look {
                Look::Open(behind) => Some(self.read_tag(at, behind, false)),
                _ => None,
            };
            if let (Look::Wait, _) | (_, Some(Reading::Wait)) = (&look, &reading) {
                self.feed(&mut open, &mut fed, at);
                open.call.flush_value(self.input.piece_from(at), events);
                return self.waits_in(State::Value { open, at, fed });
            }
            let tag = match reading {
                Some(Reading::Tag(tag)) => Some(tag),
                _ => None,
            };
            let ends_reasoning = matches!(look, Look::Think(_)) && self.place == Place::Reasoning;
            if tag.is_some() || ends_reasoning || matches!(look, Look::Close(_) | Look::CutOff) {
                self.feed(&mut open, &mut fed, at);
                if matches!(look, Look::Close(_)) || open.call.value_is_complete() {
                    return self.end_value(open, at, true, events);
                }
            }
            if let Look::Think(behind) = look {
                self.feed(&mut open, &mut fed, at);
                for part in self.input.parts(at, behind) {
                    open.call.feed_thinking_end(part.piece.start, part.text);
                }
                (at, fed) = (behind, behind);
                continue;
            }
            match tag {
                Some(tag) if tag.opens_parameter() && tag.complete => {
                    return self.end_value(open, at, true, events);
                }
                Some(tag) if tag.cut && matches!(tag.name, None | Some(TagName::Parameter)) => {
                    return self.end_value(open, at, self.closes, events);
                }
                _ => at += 1,
            }
        }
    }

    fn feed(&self, open: &mut OpenCall, fed: &mut usize, to: usize) {
        for part in self.input.parts(*fed, to) {
            open.call.feed(part.piece.start, part.text);
        }
        *fed = to;
    }

    fn end_value(&mut self, mut open: Box<OpenCall>, at: usize, closed: bool, events: &mut Events) -> Step {
        open.call.end_value(closed, events);
        open.passing = true;
        self.pos = at;
        self.goes_to(State::Call(open))
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

/// What stands next inside a block.
enum Inside {
    Tag(Tag),
    /// The end of a reasoning that the block began in; the position is behind it.
    Think(usize),
    /// The end of the output.
    End,
}
