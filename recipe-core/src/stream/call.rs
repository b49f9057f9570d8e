//! One call: its parameters to argument deltas. Reads tags that the machine found, never the output itself.

use std::collections::BTreeMap;

use super::deltas::Deltas;
use super::event::Events;
use super::input::Input;
use super::repair::{begins_json, literal, Repair};
use super::run::Run;
use super::tag::{Tag, SPACE};
use super::OutputTools;
use crate::json::{is_unique_object, write_escaped, write_string};
use crate::save::saved;

/// What a custom tool's arguments begin with where its input is the text of its one parameter.
const CUSTOM_INPUT: &str = "{\"input\": \"";

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) index: usize,
    name: String,
    /// The keys so far, each with the number that its next namesake tries first.
    keys: BTreeMap<String, usize>,
    /// A first parameter `arguments` that may be the whole object.
    wrapper: Option<Wrapper>,
    value: Option<Parameter>,
    /// Text that stood between the parameters: held to the call's end.
    pub(super) runs: Vec<Run>,
    /// The first bytes of the arguments, as far as `CUSTOM_INPUT` goes.
    begun: String,
}

#[derive(Clone, Debug, PartialEq)]
struct Wrapper {
    parameter: Parameter,
    closed: bool,
    /// How many runs stood before it.
    place: usize,
}

#[derive(Clone, Debug, PartialEq)]
struct Parameter {
    key: String,
    /// The key as JSON, without the quote at its end, and the piece of that quote.
    spelled: Deltas,
    quote_piece: usize,
    value: ParameterValue,
    /// The value as it came, if this may be the whole object.
    raw: Option<Deltas>,
}

#[derive(Clone, Debug, PartialEq)]
enum ParameterValue {
    /// Escaped text.
    Text(Deltas),
    /// Not a string, and only white space so far.
    Open(Deltas),
    /// An object, an array or a string in JSON.
    Json(Box<Repair>),
    /// Anything else: held to its end.
    Scalar(Deltas),
}

impl Call {
    pub(super) fn start(index: usize, name: &str, events: &mut Events) -> Self {
        events.call_start(index, name);
        Self {
            index,
            name: name.to_owned(),
            keys: BTreeMap::new(),
            wrapper: None,
            value: None,
            runs: Vec::new(),
            begun: String::new(),
        }
    }

    /// Behind a custom tool's input, parameters are text.
    pub(super) fn takes_parameters(&self, tools: &OutputTools) -> bool {
        self.begun != CUSTOM_INPUT || !tools.is_custom(&self.name)
    }

    /// A parameter begins; its tag has a name.
    pub(super) fn start_parameter(&mut self, tag: &Tag, input: &Input, tools: &OutputTools, events: &mut Events) {
        let name = tag.name_value.clone().unwrap_or_default();
        let key = input.slice(name.start, name.end).to_owned();
        let mut spelled = Deltas::default();
        spelled.push(input.piece_at(name.start - 1).0.start, "\"");
        for part in input.parts(name.start, name.end) {
            let mut escaped = String::new();
            write_escaped(&mut escaped, part.text);
            spelled.push(part.piece.start, &escaped);
        }
        let parameters = tools.parameters(&self.name);
        let is_string = match tag.string_value.as_ref().map(|word| input.slice(word.start, word.end)) {
            Some("true") => true,
            Some("false") => false,
            // A parameter that is not declared may be anything.
            _ => parameters.get(&key).copied().unwrap_or(true),
        };
        let wraps = key == "arguments"
            && self.keys.is_empty()
            && self.wrapper.is_none()
            && !parameters.is_empty()
            && !parameters.contains_key("arguments");
        let parameter = Parameter {
            key,
            spelled,
            quote_piece: input.piece_at(name.end).0.start,
            value: if is_string {
                ParameterValue::Text(Deltas::default())
            } else {
                ParameterValue::Open(Deltas::default())
            },
            raw: wraps.then(Deltas::default),
        };
        if !wraps {
            self.unwrap(events);
            self.write_key(&parameter, events);
        }
        self.value = Some(parameter);
    }

    /// More of the open value, from one piece.
    pub(super) fn feed(&mut self, piece: usize, text: &str) {
        let Some(parameter) = &mut self.value else { return };
        if let Some(raw) = &mut parameter.raw {
            raw.push(piece, text);
        }
        match &mut parameter.value {
            ParameterValue::Text(out) => {
                let mut escaped = String::new();
                write_escaped(&mut escaped, text);
                out.push(piece, &escaped);
            }
            ParameterValue::Json(repair) => repair.feed(piece, text),
            ParameterValue::Scalar(held) => held.push(piece, text),
            ParameterValue::Open(held) => {
                held.push(piece, text);
                // What was held before is white space.
                match begins_json(text) {
                    None => {}
                    Some(false) => parameter.value = ParameterValue::Scalar(std::mem::take(held)),
                    Some(true) => {
                        let mut repair = Box::new(Repair::new());
                        for (piece, text) in held.parts() {
                            repair.feed(piece, text);
                        }
                        parameter.value = ParameterValue::Json(repair);
                    }
                }
            }
        }
    }

    /// A `</think>` in the open value: part of it, but removed from text behind it.
    pub(super) fn feed_thinking_end(&mut self, piece: usize, text: &str) {
        match &mut self.value {
            Some(Parameter { value: ParameterValue::Json(repair), raw, .. }) if repair.is_done() => {
                if let Some(raw) = raw {
                    raw.push(piece, text);
                }
            }
            _ => self.feed(piece, text),
        }
    }

    /// Whether the open value is JSON and complete: then tags behind it are those of the call.
    pub(super) fn value_is_complete(&self) -> bool {
        match &self.value {
            Some(Parameter { value: ParameterValue::Json(repair), .. }) => repair.is_complete(),
            _ => false,
        }
    }

    /// Delivers what is ready of the open value, from pieces before `piece`.
    pub(super) fn flush_value(&mut self, piece: usize, events: &mut Events) {
        let (index, begun) = (self.index, &mut self.begun);
        let Some(parameter) = &mut self.value else { return };
        if parameter.raw.is_some() {
            return;
        }
        let put = |text: &str| put(index, begun, text, events);
        match &mut parameter.value {
            ParameterValue::Text(out) => out.drain_before(piece, put),
            ParameterValue::Json(repair) => repair.drain_before(piece, put),
            ParameterValue::Open(_) | ParameterValue::Scalar(_) => {}
        }
    }

    /// The open value ends. `closed`: by a tag or at the normal end; otherwise the output was cut off in it.
    pub(super) fn end_value(&mut self, closed: bool, events: &mut Events) {
        let Some(parameter) = self.value.take() else { return };
        let place = self.runs.len();
        if parameter.raw.is_some() {
            self.wrapper = Some(Wrapper { parameter, closed, place });
        } else {
            self.write_value(parameter, closed, place, events);
        }
    }

    /// The call is finished: its arguments become one JSON object.
    pub(super) fn end(&mut self, events: &mut Events) {
        let wrapped = self.wrapper.as_ref().and_then(|wrapper| wrapper.parameter.raw.as_ref());
        if let Some(raw) = wrapped.filter(|raw| is_unique_object(raw.text())) {
            let text = raw.text();
            let start = text.len() - text.trim_start_matches(SPACE).len();
            let object = raw.trimmed(start, text.trim_end_matches(SPACE).len());
            for (_, text) in object.parts() {
                events.call_arguments(self.index, text);
            }
        } else {
            self.unwrap(events);
            self.put(if self.keys.is_empty() { "{}" } else { "}" }, events);
        }
        events.call_end(self.index);
    }

    /// The held parameter is an ordinary one.
    pub(super) fn unwrap(&mut self, events: &mut Events) {
        if let Some(Wrapper { parameter, closed, place }) = self.wrapper.take() {
            self.write_key(&parameter, events);
            self.write_value(parameter, closed, place, events);
        }
    }

    fn put(&mut self, text: &str, events: &mut Events) {
        put(self.index, &mut self.begun, text, events);
    }

    fn write_key(&mut self, parameter: &Parameter, events: &mut Events) {
        self.put(if self.keys.is_empty() { "{" } else { ", " }, events);
        let suffix = self.unused_key(&parameter.key);
        let mut spelled = parameter.spelled.clone();
        spelled.push(parameter.quote_piece, &format!("{suffix}\""));
        for (_, text) in spelled.parts() {
            self.put(text, events);
        }
        self.put(": ", events);
        if let ParameterValue::Text(_) = parameter.value {
            self.put("\"", events);
        }
    }

    /// Takes a key, or the first free one of `KEY_2`, `KEY_3`, …; returns what was added to it.
    fn unused_key(&mut self, key: &str) -> String {
        let Some(mut number) = self.keys.get(key).copied() else {
            self.keys.insert(key.to_owned(), 2);
            return String::new();
        };
        loop {
            let suffix = format!("_{number}");
            number += 1;
            let renamed = format!("{key}{suffix}");
            if !self.keys.contains_key(&renamed) {
                self.keys.insert(renamed, 2);
                self.keys.insert(key.to_owned(), number);
                return suffix;
            }
        }
    }

    fn write_value(&mut self, parameter: Parameter, closed: bool, place: usize, events: &mut Events) {
        match parameter.value {
            ParameterValue::Text(mut out) => {
                out.drain_before(usize::MAX, |text| put(self.index, &mut self.begun, text, events));
                if closed {
                    self.put("\"", events);
                }
            }
            ParameterValue::Json(mut repair) => {
                repair.end(closed);
                repair.drain_before(usize::MAX, |text| put(self.index, &mut self.begun, text, events));
                let mut behind = Run::default();
                behind.add_deltas(repair.rest());
                self.runs.insert(place, behind);
            }
            ParameterValue::Open(held) | ParameterValue::Scalar(held) => {
                let bare = held.text().trim_matches(SPACE);
                let good = literal(bare);
                if !closed || good == Some(bare) {
                    for (_, text) in held.parts() {
                        self.put(text, events);
                    }
                } else if bare.is_empty() {
                    self.put("null", events);
                } else if let Some(good) = good {
                    self.put(good, events);
                } else {
                    let mut text = String::new();
                    write_string(&mut text, held.text());
                    self.put(&text, events);
                }
            }
        }
    }
}

fn put(index: usize, begun: &mut String, text: &str, events: &mut Events) {
    for c in text.chars() {
        if begun.len() >= CUSTOM_INPUT.len() {
            break;
        }
        begun.push(c);
    }
    events.call_arguments(index, text);
}

saved! {
    struct Call { index, name, keys, wrapper, value, runs, begun }
    check |call| call.wrapper.as_ref().is_none_or(|wrapper| wrapper.place <= call.runs.len())
}
saved! { struct Wrapper { parameter, closed, place } }
saved! { struct Parameter { key, spelled, quote_piece, value, raw } }
saved! { enum ParameterValue { 0 = Text(text), 1 = Open(held), 2 = Json(repair), 3 = Scalar(held) } }
