//! The states of JSON mode: before the value all is held, the value is delivered, behind it all is dropped.

use super::{JsonValue, Machine, Place, State, Step, Trigger};
use crate::stream::event::{Channel, Events};
use crate::stream::scan::{Fired, Looks, Scan};
use crate::stream::tag::SPACE;

impl Machine {
    /// Before the value: all is held. At a bracket it is dropped, before a block or at the end it is text.
    pub(super) fn seek(
        &mut self,
        mut scan: Scan,
        mut kept: Vec<(usize, usize)>,
        mut start: usize,
        events: &mut Events,
    ) -> Step {
        loop {
            match self.next_trigger(&mut scan) {
                Trigger::Bracket { start: bracket } => {
                    let before = self.input.slice(self.pos, bracket);
                    let fence = before.trim_end_matches(SPACE);
                    let fenced = before[fence.len()..].starts_with('\n')
                        && (fence.ends_with("```") || fence.ends_with("```json"));
                    self.pos = bracket;
                    if !fenced {
                        // The bracket of a bare value is a delta of its own.
                        self.emit(Channel::Content, bracket + 1, events);
                    }
                    let looks = Looks { tags: false, stops: true, brackets: false };
                    let scan = Scan::new(bracket + 1, looks, &self.markers);
                    let value = JsonValue { scan, depth: 1, string: false, escape: false };
                    return self.goes_to(State::Json(value));
                }
                Trigger::Think { start: think, .. } => {
                    kept.push((start, think));
                    start = think + self.markers.thinking_end.len();
                    scan = Scan::new(
                        start,
                        Looks { tags: self.options.parse_tool_calls, stops: false, brackets: true },
                        &self.markers,
                    );
                }
                Trigger::Tag { tag, trimmed } => {
                    kept.push((start, trimmed));
                    self.emit_ranges(&kept, events);
                    return self.opened(&tag, events);
                }
                Trigger::Wait { .. } => return self.waits_in(State::Seek { scan, kept, start }),
                Trigger::End => {
                    kept.push((start, self.input.limit()));
                    self.emit_ranges(&kept, events);
                    self.emit_empty_at_end(Channel::Content, events);
                    return Step::Wait;
                }
                Trigger::Stop { .. } => unreachable!("stop sequences are not looked for before the value"),
            }
        }
    }

    fn emit_ranges(&mut self, ranges: &[(usize, usize)], events: &mut Events) {
        for &(from, to) in ranges {
            self.pos = from;
            self.emit(Channel::Content, to, events);
        }
    }

    /// In the value: to its closing bracket, by depth and strings.
    pub(super) fn json(&mut self, mut value: JsonValue, events: &mut Events) -> Step {
        let end = if self.input.ended { self.input.total() } else { self.input.limit() };
        while value.scan.at < end {
            let at = value.scan.at;
            let byte = self.input.byte(at);
            let kind = self.input.piece_at(at).0.kind;
            if let Some(Fired::Stop { index, start }) = value.scan.step_stops(&self.markers, byte, kind) {
                self.emit(Channel::Content, start, events);
                return self.stop(index, start);
            }
            if value.string {
                value.string = value.escape || byte != b'"';
                value.escape = byte == b'\\' && !value.escape;
            } else {
                match byte {
                    b'"' => value.string = true,
                    b'{' | b'[' => value.depth += 1,
                    b'}' | b']' => value.depth -= 1,
                    _ => {}
                }
                if value.depth == 0 {
                    self.emit(Channel::Content, at + 1, events);
                    self.place = Place::AfterJson;
                    return self.goes_to(State::Enter);
                }
            }
        }
        if self.input.ended {
            self.emit(Channel::Content, end, events);
            return Step::Wait;
        }
        let whole = self.input.whole_pieces(self.pos, value.scan.hold(false));
        self.emit(Channel::Content, whole, events);
        self.waits_in(State::Json(value))
    }

    /// Behind the value: nothing is delivered, blocks are parsed.
    pub(super) fn after(&mut self, mut scan: Scan, events: &mut Events) -> Step {
        loop {
            match self.next_trigger(&mut scan) {
                Trigger::Tag { tag, .. } => return self.opened(&tag, events),
                Trigger::Wait { hold } => {
                    self.pos = self.pos.max(hold);
                    return self.waits_in(State::After(scan));
                }
                Trigger::End => return Step::Wait,
                _ => {}
            }
        }
    }
}
