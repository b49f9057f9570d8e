//! Every body is converted or refused: no panic, and what comes out is bounded by what came in.

#![no_main]

use libfuzzer_sys::fuzz_target;
use recipe_core::options::ConversionOptions;
use recipe_core::prompt::render;
use recipe_core::request::chat::ChatRequest;

fuzz_target!(|body: &[u8]| {
    let converted = ChatRequest::parse(body).and_then(|request| request.convert(&ConversionOptions::default()));
    let size = match converted {
        Ok(request) => {
            let tokens = &request.parsing_options.special_tokens;
            let constraint =
                request.inference_options.output_constraint.map_or(0, |constraint| constraint.schema.len());
            render(&request.conversation, request.model_version, tokens).prompt().len() + constraint
        }
        Err(error) => {
            assert!(error.is_client(), "{error:?}");
            serde_json::from_str::<serde_json::Value>(&error.body()).expect("the body of an error is JSON");
            error.body().len()
        }
    };
    // Floats are spelled out (`1e300`), characters escaped, schemas completed; the template has a few kilobytes.
    assert!(size < 10_000 + 400 * body.len(), "{size} bytes");
});
