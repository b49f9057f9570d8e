//! The machine's state as bytes, and back. What is read is checked, so that no bytes make a machine that panics.

use std::sync::Arc;

use super::block::Look;
use super::{JsonValue, Machine, OpenCall, Place, Skip, State};
use crate::error::Result;
use crate::options::ParsingOptions;
use crate::save::{damaged, saved, Reader, Save, Writer};
use crate::stream::input::Input;
use crate::stream::scan::{Looks, Scan};
use crate::stream::tag::TagReader;

saved! { enum Place { 0 = Reasoning, 1 = Content, 2 = AfterJson } }
saved! { enum Skip { 0 = Nothing, 1 = Newlines, 2 = Space } }
saved! { struct OpenCall { call, run, passing } }
saved! { struct JsonValue { scan, depth, string, escape } }
saved! {
    enum State {
        0 = Enter, 1 = Text(scan), 2 = Seek { scan, kept, start }, 3 = Json(value), 4 = After(scan), 5 = Block(run),
        6 = Call(open), 7 = Value { open, at, fed }, 8 = Over,
    }
}

impl Machine {
    /// Whether no more output is dealt with.
    pub(in crate::stream) fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    fn is_sound(&self) -> bool {
        let is_stop = |stop: Option<usize>| stop.is_none_or(|index| index < self.options.stop_sequences.len());
        if self.is_over() {
            return self.input.is_boundary(self.pos) && self.over.is_none_or(|(_, stop)| is_stop(stop));
        }
        if self.over.is_some() || !self.input.is_place(self.pos) {
            return false;
        }
        let looks = Looks { tags: self.options.parse_tool_calls, stops: false, brackets: false };
        let is_scan = |scan: &Scan, looks| scan.is_sound(looks, self.pos, &self.input, &self.markers);
        let state = match &self.state {
            State::Text(scan) => is_scan(scan, Looks { stops: self.place == Place::Content, ..looks }),
            State::Seek { scan, kept, start } => {
                // Behind a range nothing is delivered where it is empty.
                let is_range = |(from, to): &(usize, usize)| {
                    self.input.is_place(*from) && (to <= from || self.input.is_place(*to))
                };
                is_scan(scan, Looks { brackets: true, ..looks })
                    && self.input.is_place(*start)
                    && kept.iter().all(is_range)
            }
            State::Json(JsonValue { scan, depth, .. }) => {
                is_scan(scan, Looks { tags: false, stops: true, brackets: false })
                    && scan.sees_no_marker()
                    && (1..=self.input.total()).contains(depth)
            }
            State::After(scan) => is_scan(scan, looks),
            State::Value { at, fed, .. } => at == fed && *at == self.pos,
            State::Enter | State::Block(_) | State::Call(_) => true,
            State::Over => false,
        };
        let is_tag = |(reader, trimmed): &(TagReader, usize)| {
            let is_there = match &self.state {
                State::Text(_) | State::Seek { .. } | State::After(_) => {
                    *trimmed <= reader.start && (*trimmed < self.pos || self.input.is_place(*trimmed))
                }
                State::Block(_) | State::Call(_) | State::Value { .. } => {
                    reader.start == self.pos && matches!(self.look(self.pos), Look::Open(_) | Look::Close(_))
                }
                _ => false,
            };
            is_there && self.pos <= reader.start && reader.is_sound(&self.input)
        };
        state && self.tag.as_ref().is_none_or(is_tag)
    }
}

impl Save for Machine {
    fn save(&self, out: &mut Writer) {
        let Self {
            markers: _,
            options,
            tools,
            input,
            pos: _,
            state,
            place,
            skip,
            at_start,
            empty_at_start,
            tag,
            calls,
            ended_calls,
            over,
            closes: _,
        } = self;
        options.save(out);
        tools.save(out);
        input.save(out);
        // In a value the position before it is of no use, and released.
        self.released().save(out);
        state.save(out);
        place.save(out);
        skip.save(out);
        at_start.save(out);
        // Empty pieces will be put in: a byte for each, so that a few bytes cannot ask for many.
        empty_at_start.map(|count| vec![0u8; count]).save(out);
        tag.save(out);
        calls.save(out);
        ended_calls.save(out);
        over.save(out);
    }

    fn load(from: &mut Reader<'_>) -> Result<Self> {
        let options = Arc::<ParsingOptions>::load(from)?;
        let mut machine = Self::new(options, Save::load(from)?);
        machine.input = Input::load(from, &machine.markers.end)?;
        machine.pos = Save::load(from)?;
        machine.state = Save::load(from)?;
        machine.place = Save::load(from)?;
        machine.skip = Save::load(from)?;
        machine.at_start = Save::load(from)?;
        machine.empty_at_start = Option::<Vec<u8>>::load(from)?.map(|pieces| pieces.len());
        machine.tag = Save::load(from)?;
        machine.calls = Save::load(from)?;
        machine.ended_calls = Save::load(from)?;
        machine.over = Save::load(from)?;
        if machine.is_sound() {
            Ok(machine)
        } else {
            Err(damaged())
        }
    }
}
