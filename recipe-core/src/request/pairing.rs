//! Repairs the order of tool calls and their results. Knows no protocol; each checks its own rules first.

use std::collections::{HashMap, HashSet};

use crate::conversation::{Content, Message};

const NO_RESULT: &str = "[no tool result]";

/// Moves each result directly behind the message of its call, in the order sent, and stands in for a
/// missing one. A result without a call stays where it is. Ids are unique within one message.
///
/// The result of a call is the first behind it with its id, up to the next call with the same id.
pub(crate) fn repair(messages: Vec<Message>) -> Vec<Message> {
    let owners = owners(&messages);
    let mut results: HashMap<usize, Vec<usize>> = HashMap::new();
    for (place, owner) in owners.iter().enumerate() {
        if let Some(owner) = owner {
            results.entry(*owner).or_default().push(place);
        }
    }
    let mut slots: Vec<Option<Message>> = messages.into_iter().map(Some).collect();
    let mut repaired = Vec::with_capacity(slots.len());
    for place in 0..slots.len() {
        if owners[place].is_some() {
            continue;
        }
        let Some(message) = slots[place].take() else {
            continue;
        };
        let mut open: Vec<String> = call_ids(&message).map(str::to_owned).collect();
        repaired.push(message);
        if open.is_empty() {
            continue;
        }
        let found: Vec<Message> =
            results.remove(&place).unwrap_or_default().into_iter().filter_map(|place| slots[place].take()).collect();
        let answered: HashSet<&str> = found.iter().filter_map(result_id).collect();
        open.retain(|id| !answered.contains(id.as_str()));
        repaired.extend(found);
        repaired.extend(
            open.into_iter()
                .map(|id| Message::Tool { content: Content::from(NO_RESULT.to_owned()), tool_call_id: Some(id) }),
        );
    }
    repaired
}

/// For each message that is the result of a call, the place of the call's message.
fn owners(messages: &[Message]) -> Vec<Option<usize>> {
    let mut open: HashMap<&str, usize> = HashMap::new();
    let mut owners = vec![None; messages.len()];
    for (place, message) in messages.iter().enumerate() {
        open.extend(call_ids(message).map(|id| (id, place)));
        owners[place] = result_id(message).and_then(|id| open.remove(id));
    }
    owners
}

fn call_ids(message: &Message) -> impl Iterator<Item = &str> {
    let calls = match message {
        Message::Assistant { tool_calls: Some(calls), .. } => calls.as_slice(),
        _ => &[],
    };
    calls.iter().map(|call| call.id.as_str())
}

fn result_id(message: &Message) -> Option<&str> {
    match message {
        Message::Tool { tool_call_id, .. } => tool_call_id.as_deref(),
        _ => None,
    }
}
