//! Reads a tokenizer.json, and refuses what the splitter and the merges here do not do. Knows no built-in data.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::added::{AddedToken, AddedTokens};
use super::bpe::{Merger, Parts, TokenBytes, Vocabulary, ID_BITS, NONE, NO_PARTS};
use super::builtin;
use super::split::PATTERNS;
use crate::error::{Error, Result};
use crate::json::{Number, Value};

/// The vocabulary and the added tokens that the text of a tokenizer.json describes.
pub(super) fn tokenizer(text: &str) -> Result<(Arc<Vocabulary>, AddedTokens)> {
    if u32::try_from(text.len()).is_err() {
        return Err(Error::tokenizer("a tokenizer file of 4 GiB or more is not supported"));
    }
    let file = Value::parse(text.as_bytes()).map_err(|e| Error::tokenizer(e.message()))?;
    check_steps(&file)?;
    let model = file.get("model").ok_or_else(|| missing("model"))?;
    check_model(model)?;
    let added = added_tokens(&file)?;
    let spellings = spellings_by_id(model)?;
    // Both released files hold the vocabulary that is built in. Its tables need not be made twice.
    let builtin = builtin::vocabulary();
    let vocabulary = match is_vocabulary(&builtin, model, &spellings, &added) {
        true => builtin,
        false => Arc::new(vocabulary(model, &spellings, &added)?),
    };
    for id in 0..vocabulary.len() as u32 {
        if let (Some(spelling), false) = (added.spelling(id), vocabulary.bytes(id).is_empty()) {
            return Err(Error::tokenizer(format!("added token {spelling:?} has the id {id} of an ordinary token")));
        }
    }
    Ok((vocabulary, added))
}

fn missing(name: &str) -> Error {
    Error::tokenizer(format!("tokenizer file: `{name}` is missing or has the wrong type"))
}

fn unsupported(what: &str) -> Error {
    Error::tokenizer(format!("unsupported tokenizer: {what}"))
}

fn is_absent(object: &Value<'_>, key: &str) -> bool {
    matches!(object.get(key), None | Some(Value::Null))
}

fn is_set(object: &Value<'_>, key: &str) -> bool {
    object.get(key) == Some(&Value::Bool(true))
}

fn text_of<'v>(object: &'v Value<'_>, key: &str) -> Option<&'v str> {
    object.get(key).and_then(Value::as_str)
}

fn items_of<'v, 'a>(object: &'v Value<'a>, key: &str) -> Option<&'v [Value<'a>]> {
    object.get(key).and_then(Value::as_array)
}

fn id_of(value: &Value<'_>) -> Option<u32> {
    match value {
        Value::Number(Number::Unsigned(n)) => u32::try_from(*n).ok().filter(|&id| id != u32::MAX),
        _ => None,
    }
}

/// Everything around the model: what happens to the text before, and to the ids after.
fn check_steps(file: &Value<'_>) -> Result<()> {
    for key in ["truncation", "padding"] {
        if !is_absent(file, key) {
            return Err(unsupported(key));
        }
    }
    let is_empty_sequence = |normalizer: &Value<'_>| {
        text_of(normalizer, "type") == Some("Sequence") && items_of(normalizer, "normalizers") == Some(&[])
    };
    if !is_absent(file, "normalizer") && !file.get("normalizer").is_some_and(is_empty_sequence) {
        return Err(unsupported("a normalizer"));
    }
    if !file.get("pre_tokenizer").is_some_and(is_known_splitter) {
        return Err(unsupported("a pre-tokenizer other than the three split steps of DeepSeek V4 and byte level"));
    }
    if !is_absent(file, "decoder") && file.get("decoder").and_then(|step| text_of(step, "type")) != Some("ByteLevel") {
        return Err(unsupported("a decoder other than byte level"));
    }
    // A post-processor only puts tokens around a text, and the template has put them into the prompt already.
    Ok(())
}

fn is_known_splitter(splitter: &Value<'_>) -> bool {
    let is_split = |step: &Value<'_>, pattern: &str| {
        text_of(step, "type") == Some("Split")
            && step.get("pattern").and_then(|p| text_of(p, "Regex")) == Some(pattern)
            && text_of(step, "behavior") == Some("Isolated")
            && !is_set(step, "invert")
    };
    let Some([steps @ .., byte_level]) = items_of(splitter, "pretokenizers") else {
        return false;
    };
    text_of(splitter, "type") == Some("Sequence")
        && steps.len() == PATTERNS.len()
        && steps.iter().zip(PATTERNS).all(|(step, pattern)| is_split(step, pattern))
        && text_of(byte_level, "type") == Some("ByteLevel")
        && byte_level.get("add_prefix_space") == Some(&Value::Bool(false))
        && byte_level.get("use_regex") == Some(&Value::Bool(false))
}

fn check_model(model: &Value<'_>) -> Result<()> {
    // Old files do not name the type.
    if !is_absent(model, "type") && text_of(model, "type") != Some("BPE") {
        return Err(unsupported("a model other than BPE"));
    }
    for key in ["dropout", "unk_token"] {
        if !is_absent(model, key) {
            return Err(unsupported(key));
        }
    }
    for key in ["continuing_subword_prefix", "end_of_word_suffix"] {
        if !is_absent(model, key) && text_of(model, key) != Some("") {
            return Err(unsupported(key));
        }
    }
    for key in ["fuse_unk", "byte_fallback", "ignore_merges"] {
        if is_set(model, key) {
            return Err(unsupported(key));
        }
    }
    Ok(())
}

fn added_tokens(file: &Value<'_>) -> Result<AddedTokens> {
    let items = items_of(file, "added_tokens").unwrap_or_default();
    let mut tokens = Vec::with_capacity(items.len());
    for item in items {
        let id = item.get("id").and_then(id_of).ok_or_else(|| missing("added_tokens[].id"))?;
        let spelling = text_of(item, "content").ok_or_else(|| missing("added_tokens[].content"))?;
        for key in ["lstrip", "rstrip", "single_word"] {
            if is_set(item, key) {
                return Err(unsupported(&format!("added token {spelling:?} with {key}")));
            }
        }
        tokens.push(AddedToken { id, spelling: spelling.into(), normalized: is_set(item, "normalized") });
    }
    AddedTokens::new(tokens)
}

/// The entries of the vocabulary, at their ids.
fn spellings_by_id<'v>(model: &'v Value<'_>) -> Result<Vec<Option<&'v str>>> {
    let entries = model.get("vocab").and_then(Value::as_object).ok_or_else(|| missing("model.vocab"))?;
    let mut spellings: Vec<Option<&str>> = Vec::with_capacity(entries.len());
    for (spelling, id) in entries.iter() {
        let id = id_of(id).ok_or_else(|| missing("model.vocab[]"))? as usize;
        // Tables are indexed by id, so this bounds memory by the size of the file.
        if id >= 4 * entries.len() {
            return Err(unsupported("a vocabulary with wide gaps between ids"));
        }
        // The last number that the tables have room for says that there is no token.
        if id >= (1 << ID_BITS) - 1 {
            return Err(unsupported("a vocabulary of over a million tokens"));
        }
        if id >= spellings.len() {
            spellings.resize(id + 1, None);
        }
        if spellings[id].replace(spelling).is_some() {
            return Err(Error::tokenizer(format!("two entries of the vocabulary have the id {id}")));
        }
    }
    Ok(spellings)
}

fn vocabulary(model: &Value<'_>, spellings: &[Option<&str>], added: &AddedTokens) -> Result<Vocabulary> {
    let byte_of = stand_ins();
    let mut ends = Vec::with_capacity(spellings.len());
    let mut ids: FxHashMap<&str, u32> = FxHashMap::default();
    let mut byte_ids = [None; 256];
    let mut bytes = Vec::new();
    for (id, spelling) in (0u32..).zip(spellings) {
        let before = bytes.len();
        if let Some(spelling) = spelling {
            match added.id(spelling) {
                // The vocabulary may list added tokens too. Merging does not make them.
                Some(own) if own == id => {}
                Some(own) => {
                    return Err(Error::tokenizer(format!("{spelling:?} has the id {id} and, as added token, {own}")));
                }
                None => read_bytes(spelling, &byte_of, &mut bytes)?,
            }
        }
        if let [byte] = bytes[before..] {
            byte_ids[byte as usize] = Some(id);
        }
        if let (Some(spelling), false) = (spelling, bytes.len() == before) {
            ids.insert(spelling, id);
        }
        // A spelling is at least as long, and the file has less than 4 GiB.
        ends.push(bytes.len() as u32);
    }
    if byte_ids.contains(&None) {
        return Err(unsupported("a vocabulary without a token for each byte"));
    }
    let parts = Parts::Listed(parts(model, &ids, ends.len())?);
    let tokens = TokenBytes::new(bytes, ends.into_iter());
    let mut vocabulary = Vocabulary::new(tokens, byte_ids.map(Option::unwrap_or_default), parts);
    let mut merger = Merger::default();
    let mut merged = Vec::new();
    // Only what merging makes of its own bytes may be taken whole.
    let is_whole = |&id: &u32| {
        merged.clear();
        vocabulary.merge_piece(vocabulary.bytes(id), &mut merger, &mut merged);
        merged == [id]
    };
    let whole: Vec<u32> = (0..vocabulary.len() as u32).filter(is_whole).collect();
    vocabulary.take_whole(whole.into_iter());
    Ok(vocabulary)
}

/// Whether the file has just the tokens and merges of `vocabulary`.
fn is_vocabulary(vocabulary: &Vocabulary, model: &Value<'_>, spellings: &[Option<&str>], added: &AddedTokens) -> bool {
    let byte_of = stand_ins();
    let spells = |spelling: &str, bytes: &[u8]| {
        let mut rest = bytes.iter();
        let is_next = |c: char| rest.next().is_some_and(|&byte| byte_of.get(c as usize) == Some(&Some(byte)));
        spelling.chars().all(is_next) && rest.next().is_none()
    };
    let is_token = |(id, spelling): (u32, &Option<&str>)| match *spelling {
        Some(spelling) if added.id(spelling) == Some(id) => vocabulary.bytes(id).is_empty(),
        Some(spelling) => spells(spelling, vocabulary.bytes(id)),
        None => false,
    };
    let products = (0..vocabulary.len() as u32).filter_map(|id| vocabulary.parts(id));
    let is_merge = |((left, right), merge): ((u32, u32), &Value<'_>)| {
        parts_of(merge).is_some_and(|(first, second)| {
            spells(first, vocabulary.bytes(left)) && spells(second, vocabulary.bytes(right))
        })
    };
    let merges = items_of(model, "merges").unwrap_or_default();
    spellings.len() == vocabulary.len()
        && merges.len() == products.clone().count()
        && (0..).zip(spellings).all(is_token)
        && products.zip(merges).all(is_merge)
}

/// The two spellings of a merge.
fn parts_of<'v>(merge: &'v Value<'_>) -> Option<(&'v str, &'v str)> {
    match merge {
        Value::String(pair) => pair.split_once(' '),
        Value::Array(pair) => match &pair[..] {
            [Value::String(left), Value::String(right)] => Some((&**left, &**right)),
            _ => None,
        },
        _ => None,
    }
}

fn read_bytes(spelling: &str, byte_of: &StandIns, bytes: &mut Vec<u8>) -> Result<()> {
    for character in spelling.chars() {
        bytes.push(
            byte_of
                .get(character as usize)
                .copied()
                .flatten()
                .ok_or_else(|| unsupported("a vocabulary that is not byte level"))?,
        );
    }
    Ok(())
}

/// The two tokens that merge to an id, for each of `size` ids.
fn parts(model: &Value<'_>, ids: &FxHashMap<&str, u32>, size: usize) -> Result<Vec<(u32, u32)>> {
    let merges = items_of(model, "merges").ok_or_else(|| missing("model.merges"))?;
    let mut parts = vec![NO_PARTS; size];
    let mut before = None;
    let mut spelling = String::new();
    for merge in merges {
        let (left, right) = parts_of(merge).ok_or_else(|| missing("model.merges[]"))?;
        spelling.clear();
        spelling.push_str(left);
        spelling.push_str(right);
        let id = |spelling: &str| {
            let unknown = || Error::tokenizer(format!("merge of {left:?} and {right:?}: {spelling:?} is no entry"));
            ids.get(spelling).copied().ok_or_else(unknown)
        };
        let (left, right, product) = (id(left)?, id(right)?, id(&spelling)?);
        // A product then has one merge only, and its id can stand for the rank.
        if before >= Some(product) {
            return Err(unsupported("merges whose products' ids do not rise with the rank"));
        }
        before = Some(product);
        parts[product as usize] = (left, right);
    }
    let is_made_later = |part: u32, id: u32| part != NONE && part >= id && parts[part as usize] != NO_PARTS;
    if (0..).zip(&parts).any(|(id, &(left, right))| is_made_later(left, id) || is_made_later(right, id)) {
        return Err(unsupported("merges of parts that are made later"));
    }
    Ok(parts)
}

/// By code point, the byte that a printable character of a byte-level vocabulary stands for.
type StandIns = [Option<u8>; 0x144];

fn stand_ins() -> StandIns {
    let is_printable = |byte: &u8| matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
    let mut byte_of = [None; 0x144];
    for byte in (0..=255u8).filter(is_printable) {
        byte_of[byte as usize] = Some(byte);
    }
    for (place, byte) in byte_of[0x100..].iter_mut().zip((0..=255u8).filter(|byte| !is_printable(byte))) {
        *place = Some(byte);
    }
    byte_of
}
