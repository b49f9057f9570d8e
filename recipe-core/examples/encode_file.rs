//! Encodes the beginning of a file some times, for profilers and for scripts/count_instructions.sh.
//!
//! `encode_file FILE BYTES PASSES` prints the number of ids of one pass, the seconds of the first and of the fastest.

use std::time::Instant;

use recipe_core::options::ModelVersion;
use recipe_core::tokenizer::Tokenizer;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut argument = || arguments.next().expect("usage: encode_file FILE BYTES PASSES");
    let text = std::fs::read_to_string(argument()).expect("the file can be read and is UTF-8");
    let bytes: usize = argument().parse().expect("BYTES is a number");
    let passes: usize = argument().parse().expect("PASSES is a number");
    let end = (0..=bytes.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or_default();
    let tokenizer = Tokenizer::builtin(ModelVersion::DeepseekV41Flash);
    let mut ids = Vec::new();
    let mut seconds = Vec::new();
    for _ in 0..passes {
        ids.clear();
        let start = Instant::now();
        tokenizer.encode_plain_into(&text[..end], &mut ids);
        seconds.push(start.elapsed().as_secs_f64());
    }
    let fastest = seconds.iter().copied().fold(f64::INFINITY, f64::min);
    println!("{} ids, {:?} s, {fastest} s", ids.len(), seconds.first());
}
