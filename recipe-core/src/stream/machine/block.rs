//! The states inside a block of calls: between calls, in a call, in the value of a parameter.

use super::{Machine, OpenCall, Place, Skip, State, Step};
use crate::stream::call::Call;
use crate::stream::event::{Events, FinishReason};
use crate::stream::run::Run;
use crate::stream::tag::{Reading, Spelled, Tag, TagName, TagReader};

/// What stands at a place inside a block. Positions are behind the marker.
pub(super) enum Look {
    Text,
    /// More output decides.
    Wait,
    /// The end of the output cut a tag's beginning off.
    CutOff,
    Open(usize),
    Close(usize),
    Think(usize),
}

impl Machine {
    /// An opener that is no parameter of a call: an `invoke` with a name starts one, any other enters the block.
    pub(super) fn opened(&mut self, tag: &Tag, events: &mut Events) -> Step {
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

    pub(super) fn look(&self, at: usize) -> Look {
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
    pub(super) fn block(&mut self, mut run: Run, events: &mut Events) -> Step {
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
    pub(super) fn call(&mut self, mut open: Box<OpenCall>, events: &mut Events) -> Step {
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
    pub(super) fn value(
        &mut self,
        mut open: Box<OpenCall>,
        mut at: usize,
        mut fed: usize,
        events: &mut Events,
    ) -> Step {
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

/// What stands next inside a block.
enum Inside {
    Tag(Tag),
    /// The end of a reasoning that the block began in; the position is behind it.
    Think(usize),
    /// The end of the output.
    End,
}
