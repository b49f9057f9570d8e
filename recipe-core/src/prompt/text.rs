//! The fixed texts of the templates, and JSON text as they spell it. Knows no order of messages.

use super::writer::Writer;
use crate::conversation::{Effort, ResponseFormat};

/// Appends a float: the one thing of JSON that the versions spell differently.
pub(super) type WriteFloat = fn(&mut String, f64);

pub(super) const TOOLS_HEAD: &str = "\n\n## Tools\n\nYou have access to a set of tools to help answer the user's \
    question. You can invoke tools by writing a \"";

pub(super) const TOOLS_VALUES: &str = "String parameters should be specified as is and set `string=\"true\"`. For \
    all other types (numbers, booleans, arrays, objects), pass the value in JSON format and set `string=\"false\"`.\n\n\
    If thinking_mode is enabled (triggered by ";

pub(super) const TOOLS_END: &str =
    "\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.\n";

pub(super) const UPDATES_HEAD: &str = "\n\n### Updated Tool Schemas\n\n";

const RESPONSE_FORMAT: &str = "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n";

pub(super) const JSON_OBJECT_V4: &str = "\n\nYou are a helpful assistant designed to output JSON.\n\
    ## Response Format:\n\nReply with JSON object ONLY.";

pub(super) const JSON_OBJECT_V41: &str = "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema \
    to reply:\n{\"type\": \"json_object\"}";

const EFFORT_HIGH_V4: &str = "\
Reasoning Effort: Absolute maximum with no shortcuts permitted.
You MUST be very thorough in your thinking and comprehensively decompose the problem to resolve the root cause, \
rigorously stress-testing your logic against all potential paths, edge cases, and adversarial scenarios.
Explicitly write out your entire deliberation process, documenting every intermediate step, considered alternative, \
and rejected hypothesis to ensure absolutely no assumption is left unchecked.

";

const EFFORT_MAX_V4: &str = "\
Reasoning Effort: Beyond maximum — exhaustive, relentless, and uncompromising.
You MUST reason with the utmost depth and rigor, leaving absolutely nothing to chance: exhaustively decompose the \
problem into its most fundamental components, trace every causal chain to its root, and resolve the underlying cause \
rather than any surface symptom.
Do not stop reasoning until you have independently verified the solution from multiple angles and are certain that \
no assumption remains unchecked and no error remains undiscovered.

";

/// What V4 says about the effort; the default is as `High`.
pub(super) fn effort_v4(effort: Option<Effort>) -> &'static str {
    match effort {
        Some(Effort::Low | Effort::Number(..=50)) => "",
        None | Some(Effort::High | Effort::XHigh | Effort::Number(..=99)) => EFFORT_HIGH_V4,
        Some(Effort::Max | Effort::Number(_)) => EFFORT_MAX_V4,
    }
}

/// Writes the effort line of V4.1; the default is as `High`.
pub(super) fn write_effort_v41(writer: &mut Writer, effort: Option<Effort>) {
    let number = match effort {
        Some(Effort::Low) => 50,
        None | Some(Effort::High | Effort::XHigh) => 75,
        Some(Effort::Max) => 100,
        Some(Effort::Number(number)) => number,
    };
    writer.plain("Reasoning Effort: ");
    writer.plain(&number.to_string());
    writer.plain(" (range 1-100, the higher the value, the more thorough the reasoning)\n\n");
}

/// Whether the prompt says something about the form of the answer.
pub(super) fn has_response_format(format: &ResponseFormat) -> bool {
    matches!(format, ResponseFormat::JsonObject | ResponseFormat::JsonSchema(_))
}

/// Writes the form of the answer, `json_object` in the version's words.
pub(super) fn write_response_format(
    writer: &mut Writer,
    format: &ResponseFormat,
    json_object: &str,
    write_float: WriteFloat,
) {
    match format {
        ResponseFormat::Text | ResponseFormat::Regex(_) => {}
        ResponseFormat::JsonObject => writer.plain(json_object),
        ResponseFormat::JsonSchema(schema) => {
            writer.plain(RESPONSE_FORMAT);
            schema.write_spaced(writer.plain_text(), write_float);
        }
    }
}
