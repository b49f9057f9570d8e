//! No bytes make a saved state that panics: they are refused, or the stream goes on.

#![no_main]

#[path = "../../recipe-core/tests/common/forged.rs"]
mod forged;

use libfuzzer_sys::fuzz_target;
use recipe_core::stream::StreamProcessor;

// The bytes are those of a saved state without the head and the checksum, which a fuzzer would hardly hit.
fuzz_target!(|bytes: &[u8]| {
    assert!(StreamProcessor::restore(bytes, None).is_err());
    forged::go_on(&forged::signed([forged::HEAD, bytes].concat()));
});
