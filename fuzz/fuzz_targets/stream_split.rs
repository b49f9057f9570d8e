//! However an output is cut into chunks, its events add up to the same.

#![no_main]

#[path = "../../recipe-core/tests/common/fragments.rs"]
mod fragments;
#[path = "../../recipe-core/tests/common/output.rs"]
mod output;
#[path = "common/script.rs"]
mod script;

use libfuzzer_sys::fuzz_target;
use output::{cut_again, merged, run};
use recipe_core::stream::StreamProcessor;

fuzz_target!(|bytes: &[u8]| {
    let Some(script) = script::Script::read(bytes, false) else { return };
    let processor =
        || StreamProcessor::new(script.options.clone(), script::output_tools(), Some(script::TOKENIZER.clone()));
    let mut chunks = script.chunks.clone();
    chunks.push(script.end.clone());
    let whole = run(&mut processor(), &chunks);
    let mut cuts = script.cuts.iter().cycle();
    let cut = cut_again(&chunks, || cuts.next().is_some_and(|cut| *cut));
    assert_eq!(merged(&whole), merged(&run(&mut processor(), &cut)));
    let all = cut_again(&chunks, || true);
    assert_eq!(merged(&whole), merged(&run(&mut processor(), &all)));
});
