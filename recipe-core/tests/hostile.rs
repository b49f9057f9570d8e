//! Outputs that are made to cost much: each at two sizes, the second four times the first. A quadratic step
//! shows in the printed times (`--nocapture`).

#![allow(clippy::unwrap_used)]

use std::sync::{Arc, LazyLock};
use std::time::Instant;

use recipe_core::options::{ModelVersion, ParsingOptions, ThinkingInitialStage};
use recipe_core::stream::{Events, InferenceChunk, InferenceFinishReason, OutputTools, StreamProcessor};
use recipe_core::tokenizer::Tokenizer;

/// The smaller size, in characters or ids: `HOSTILE_SIZE`, small if it is not set. Measure with 50000.
fn size() -> usize {
    std::env::var("HOSTILE_SIZE").map_or(4_000, |size| size.parse().unwrap())
}

/// Milliseconds that a thread was running so far, on a machine that others use, too; elsewhere by the clock.
fn now() -> f64 {
    let nanoseconds =
        || std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse::<f64>().ok();
    nanoseconds().map_or_else(|| START.elapsed().as_secs_f64() * 1e3, |n| n / 1e6)
}

static START: LazyLock<Instant> = LazyLock::new(Instant::now);
const CALL: &str = "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n";
const STRING: &str = "<｜DSML｜ parameter name=\"a\" string=\"true\">";
const JSON: &str = "<｜DSML｜ parameter name=\"a\" string=\"false\">";
const END: &str = "</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>";

fn tools() -> ParsingOptions {
    ParsingOptions::default()
}

fn thinking() -> ParsingOptions {
    ParsingOptions { thinking_initial_stage: Some(ThinkingInitialStage::ReasoningStart), ..tools() }
}

fn json() -> ParsingOptions {
    ParsingOptions { parse_json_output: true, ..tools() }
}

fn stops(stops: &[&str]) -> ParsingOptions {
    ParsingOptions { stop_sequences: stops.iter().map(|s| (*s).to_owned()).collect(), ..tools() }
}

/// Runs the output in one chunk, and a character at a time, to a normal end and to a cut-off one.
fn run(options: &ParsingOptions, output: &str) -> usize {
    let mut events = 0;
    for (by_character, reason) in [
        (false, InferenceFinishReason::Stop),
        (true, InferenceFinishReason::Stop),
        (true, InferenceFinishReason::Length),
    ] {
        let mut processor = StreamProcessor::new(options.clone(), Arc::new(OutputTools::default()), None);
        let mut said = Events::default();
        let mut push = |text: &str| {
            if !processor.is_finished() {
                said.clear();
                processor.push_text(text, 1, &mut said).unwrap();
                events += said.len();
            }
        };
        if by_character {
            output.chars().for_each(|c| push(c.encode_utf8(&mut [0; 4])));
        } else {
            push(output);
        }
        if !processor.is_finished() {
            said.clear();
            processor.push(&InferenceChunk::Finish(reason), &mut said).unwrap();
            events += said.len();
        }
    }
    events
}

/// The output at both sizes. `size` is in characters, about.
fn at_two_sizes(name: &str, options: &ParsingOptions, output: impl Fn(usize) -> String) {
    let time = |size: usize| {
        let output = output(size);
        let start = now();
        run(options, &output);
        now() - start
    };
    print_times(name, time);
}

fn print_times(name: &str, time: impl Fn(usize) -> f64) {
    let (small, large) = (time(size()), time(4 * size()));
    println!("{name:50} {small:8.1} ms {large:8.1} ms  x{:.1}", large / small);
}

fn repeated(text: &str) -> impl Fn(usize) -> String + '_ {
    move |size| text.repeat(size / text.chars().count())
}

#[test]
fn text() {
    for unit in [
        "<",
        "<｜",
        "<｜DSML",
        "</think",
        "\n",
        "\n<",
        "\n</｜DSML｜",
        "｜",
        "<｜DSML｜",
        "<｜DSML｜ ",
        "<｜DSML｜ x",
        "{",
        "```json\n",
        "<｜end▁of▁sentence｜>",
        "</think>",
        "\n\n<｜DSML｜ nothing",
    ] {
        for (name, options) in [("text", tools()), ("reasoning", thinking()), ("json mode", json())] {
            at_two_sizes(&format!("{name}: {unit:?}"), &options, repeated(unit));
        }
    }
}

#[test]
fn tags() {
    for unit in [
        "<｜DSML｜ invoke",
        "<｜DSML｜ invoke name=\"",
        "<｜DSML｜ invoke name=\"f\">",
        "<｜DSML｜ invoke name=\"f\" x='",
        "<｜DSML｜ invoke a=\"b\"",
        "<｜DSML｜ calls>",
        "<｜DSML｜ calls></｜DSML｜ calls>",
        "</｜DSML｜ invoke>",
        "</｜DSML｜",
        "</｜DSML｜ x",
        "<｜DSML｜ parameter name=\"a\" string=\"true\">",
        "<｜DSML｜ parameter name=\"a\" string=\"true\">x</｜DSML｜ parameter>",
        "<｜DSML｜ parameter name=\"a\">{",
        "<｜DSML｜ parameter name=\"arguments\">{}</｜DSML｜ parameter>",
        " ",
        "\n",
        "\n ",
        "x\n",
        "x",
        "<",
        "</",
        "</think>",
    ] {
        at_two_sizes(&format!("text: {unit:?}"), &tools(), repeated(unit));
        at_two_sizes(&format!("call: {unit:?}"), &tools(), |size| CALL.to_owned() + &repeated(unit)(size));
        at_two_sizes(&format!("call in reasoning: {unit:?}"), &thinking(), |size| {
            CALL.to_owned() + &repeated(unit)(size)
        });
    }
}

/// A tag that grows and does not end.
#[test]
fn long_tags() {
    for start in [
        "<｜DSML｜ invoke ",
        "<｜DSML｜ invoke name=\"",
        "<｜DSML｜ parameter name=\"",
        "</｜DSML｜ x ",
        "</｜DSML｜ invoke a=\"",
    ] {
        for unit in
            ["x", "\"", "'", "=\"", "=\"'", "a=\"b", "\n", " ", "<", "<｜DSML", "a=\"\n", "a='\n b=\"\n", "='\n"]
        {
            for (place, before) in [
                ("text", String::new()),
                ("call", CALL.to_owned()),
                ("value", [CALL, STRING].concat()),
                ("JSON value", format!("{CALL}{JSON}{{\"a\": 1}}")),
            ] {
                at_two_sizes(&format!("{place}: {start}{unit:?}"), &tools(), |size| {
                    format!("{before}{start}{}", repeated(unit)(size))
                });
            }
        }
    }
}

#[test]
fn values() {
    let units = [
        "x",
        "\"",
        "\\",
        "\n",
        " ",
        "<",
        "</",
        "<｜DSML｜",
        "<｜DSML｜ parameter",
        "<｜DSML｜ parameter name=\"",
        "</think>",
        "{",
        "[",
        "{\"a\":",
        "[1,",
        ",",
        ":",
        "'",
        "\\u12",
        "\"\\",
        "}",
        "]",
        "1",
        "a b ",
        "{,",
        "[{},",
        ", \n",
    ];
    for unit in units {
        for (name, before) in [
            ("string", STRING.to_owned()),
            ("scalar", format!("{JSON}x")),
            ("value", JSON.to_owned()),
            ("array", format!("{JSON}[")),
            ("object", format!("{JSON}{{")),
            ("JSON string", format!("{JSON}\"")),
            ("behind", format!("{JSON}{{}}")),
            ("whole", "<｜DSML｜ parameter name=\"arguments\">{\"a\": \"".to_owned()),
        ] {
            at_two_sizes(&format!("{name}: {unit:?}"), &tools(), |size| {
                format!("{CALL}{before}{}{END}", repeated(unit)(size))
            });
        }
    }
}

/// What is open meets closers of the other kind, or what follows a value comes much later.
#[test]
fn halves() {
    let half = |first: &'static str, second: &'static str| {
        move |size: usize| first.repeat(size / 2) + &second.repeat(size / 2)
    };
    for (first, second) in
        [("[", "}"), ("{", "]"), ("[", "]"), ("{", "}"), ("[{", "]"), ("\\", "\""), (",", "}"), ("a", " "), ("1", "\n")]
    {
        at_two_sizes(&format!("value: {first:?}, {second:?}"), &tools(), |size| {
            format!("{CALL}{JSON}[{}{END}", half(first, second)(size))
        });
    }
    for (first, second) in [("x", "\n"), ("\n", "x"), (" ", "\n"), ("x", " "), ("<", "\n")] {
        for (place, before) in [("text", ""), ("block", "<｜DSML｜ calls>"), ("call", CALL)] {
            at_two_sizes(&format!("{place}: {first:?}, {second:?}"), &tools(), |size| {
                before.to_owned() + &half(first, second)(size)
            });
        }
        at_two_sizes(&format!("json mode: {first:?}, {second:?}"), &json(), half(first, second));
    }
}

/// Empty chunks, which protocols with an event for each must not lose.
#[test]
fn empty_chunks() {
    for (name, before, between) in [
        ("start", "", ""),
        ("line breaks", "", "\n"),
        ("text", "x", ""),
        ("held", "<｜DSML", ""),
        ("block", "<｜DSML｜ calls>", "\n"),
        ("value", &[CALL, STRING].concat(), ""),
    ] {
        for (mode, options) in [("text", tools()), ("reasoning", thinking()), ("json mode", json())] {
            let time = |size: usize| {
                let start = now();
                let mut processor = StreamProcessor::new(options.clone(), Arc::default(), None);
                let mut events = Events::default();
                processor.push_text(before, 1, &mut events).unwrap();
                for _ in 0..size / 2 {
                    events.clear();
                    processor.push_text("", 1, &mut events).unwrap();
                    processor.push_text(between, 1, &mut events).unwrap();
                }
                processor.push_text("x", 1, &mut events).unwrap();
                processor.finish(&mut events).unwrap();
                now() - start
            };
            print_times(&format!("empty chunks: {mode}, {name}"), time);
        }
    }
}

#[test]
fn many_calls_and_parameters() {
    let call = format!("{CALL}{STRING}v{END}\ntext");
    at_two_sizes("blocks", &tools(), repeated(&call));
    at_two_sizes("different keys", &tools(), |size| {
        let parameter = |n| format!("<｜DSML｜ parameter name=\"a{n}\" string=\"true\">v</｜DSML｜ parameter>\n");
        format!("{CALL}{}", (0..size / 60).map(parameter).collect::<String>())
    });
    // `a_2`, then `a` again and again: the free number is not looked for from the start.
    at_two_sizes("keys that meet the numbers", &tools(), |size| {
        let parameter = |n| format!("<｜DSML｜ parameter name=\"a_{n}\">v<｜DSML｜ parameter name=\"a\">v");
        format!("{CALL}{}", (0..size / 80).map(parameter).collect::<String>())
    });
    at_two_sizes("text between parameters", &tools(), |size| {
        CALL.to_owned() + &repeated("text<｜DSML｜ parameter>")(size)
    });
}

#[test]
fn stop_sequences() {
    let near = "ab".repeat(8_000);
    at_two_sizes("a long stop, near misses", &stops(&[&near]), repeated(&format!("{}x", &near[..15_999])));
    at_two_sizes(
        "a long stop, all alike",
        &stops(&[&"a".repeat(16_000)]),
        repeated(&format!("{}b", "a".repeat(15_999))),
    );
    at_two_sizes("a long stop, json mode", &ParsingOptions { parse_json_output: true, ..stops(&[&near]) }, |size| {
        "{".to_owned() + &repeated(&format!("{}x", &near[..15_999]))(size)
    });
    let many: Vec<String> = (1..=16).map(|n| "a".repeat(n * 100) + "b").collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    at_two_sizes("many stops", &stops(&many), repeated("a"));
    at_two_sizes("a stop of line breaks", &stops(&[&"\n".repeat(1_000)]), repeated(&("\n".repeat(999) + "x")));
}

/// Ids whose bytes never complete a character, and single ones among whole ones.
#[test]
fn ids_that_complete_nothing() {
    let tokenizer = Tokenizer::builtin(ModelVersion::DeepseekV41Flash);
    let byte = |byte: u8| {
        (0..1000)
            .find(|id| matches!(tokenizer.token(*id), Some(recipe_core::tokenizer::Token::Plain(b)) if b == [byte]))
            .unwrap()
    };
    for (name, pattern) in [
        ("lead bytes", vec![byte(0xF0)]),
        ("continuation bytes", vec![byte(0x80)]),
        ("three of four", vec![byte(0xF0), byte(0x9F), byte(0x98)]),
        ("a letter and a lead byte", vec![byte(b'a'), byte(0xE4)]),
        ("unknown ids", vec![200_000]),
        ("markup", vec![byte(b'<'), 128_825]),
        ("closers", vec![byte(b'<'), byte(b'/'), 128_825]),
        ("ends of sentence", vec![1]),
        ("ends of reasoning", vec![128_822]),
    ] {
        let time = |size: usize| {
            let start = now();
            let mut processor = StreamProcessor::new(thinking(), Arc::default(), Some(tokenizer.clone()));
            let mut events = Events::default();
            for id in pattern.iter().cycle().take(size) {
                events.clear();
                processor.push_tokens(&[*id], None, &mut events).unwrap();
            }
            processor.finish(&mut events).unwrap();
            now() - start
        };
        print_times(name, time);
    }
}
