//! The classes under the short way, for Python: neutral events, and replies that keep their complete
//! response. Knows no markup and no JSON of a protocol.

use std::sync::Mutex;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use recipe_core::options::ParsingOptions as ParsedAs;
use recipe_core::reply::CallIds;
use recipe_core::stream::{Event as CoreEvent, Events, FinishReason, OutputTools, StreamProcessor};

use crate::conversation::ToolDefinition;
use crate::error::raise;
use crate::lock;
use crate::options::ParsingOptions;
use crate::reply::{objects, output, random, Input, Output};
use crate::request::ConversationRequest;
use crate::stream::InferenceChunk;
use crate::text::Text;
use crate::tokenizer::Tokenizer;

/// One fact about an output. Texts are deltas: they add up to the whole.
#[pyclass(frozen, eq, module = "deepseek_recipe._native")]
#[derive(PartialEq)]
pub enum Event {
    /// More of the reasoning.
    Reasoning { text: String },
    /// More of the answer.
    Content { text: String },
    /// A call begins. `index` counts the calls of the output, `id` is made up.
    ToolCallStart { index: usize, id: String, name: String },
    /// More of a call's arguments: JSON text.
    ToolCallArguments { index: usize, text: String },
    /// A call is finished: its arguments are one JSON object.
    ToolCallEnd { index: usize },
    /// The output has ended. `reason` is `stop`, `tool_calls`, `length` or `content_filter`. Tokens are counted from ids
    /// and from text chunks that say theirs. What remains stands behind a stop sequence, or behind the one call that
    /// was wanted.
    Finish {
        reason: String,
        stop_sequence: Option<String>,
        completion_tokens: u64,
        reasoning_tokens: Option<u64>,
        remaining_text: String,
        remaining_ids: Vec<u32>,
    },
    /// The output has failed.
    Error { message: String, code: String },
}

#[pymethods]
impl Event {
    /// `reasoning`, `content`, `tool_call_start`, `tool_call_arguments`, `tool_call_end`, `finish` or `error`.
    #[getter]
    fn r#type(&self) -> &'static str {
        match self {
            Self::Reasoning { .. } => "reasoning",
            Self::Content { .. } => "content",
            Self::ToolCallStart { .. } => "tool_call_start",
            Self::ToolCallArguments { .. } => "tool_call_arguments",
            Self::ToolCallEnd { .. } => "tool_call_end",
            Self::Finish { .. } => "finish",
            Self::Error { .. } => "error",
        }
    }

    /// Returns the event as a dict: `type`, then its fields.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        fields.set_item("type", self.r#type())?;
        match self {
            Self::Reasoning { text } | Self::Content { text } => fields.set_item("text", text)?,
            Self::ToolCallStart { index, id, name } => {
                fields.set_item("index", index)?;
                fields.set_item("id", id)?;
                fields.set_item("name", name)?;
            }
            Self::ToolCallArguments { index, text } => {
                fields.set_item("index", index)?;
                fields.set_item("text", text)?;
            }
            Self::ToolCallEnd { index } => fields.set_item("index", index)?,
            Self::Finish {
                reason,
                stop_sequence,
                completion_tokens,
                reasoning_tokens,
                remaining_text,
                remaining_ids,
            } => {
                fields.set_item("reason", reason)?;
                fields.set_item("stop_sequence", stop_sequence)?;
                fields.set_item("completion_tokens", completion_tokens)?;
                fields.set_item("reasoning_tokens", reasoning_tokens)?;
                fields.set_item("remaining_text", remaining_text)?;
                fields.set_item("remaining_ids", remaining_ids)?;
            }
            Self::Error { message, code } => {
                fields.set_item("message", message)?;
                fields.set_item("code", code)?;
            }
        }
        Ok(fields)
    }

    fn __repr__(&self) -> String {
        match self {
            Self::Reasoning { text } => format!("Event.Reasoning(text={text:?})"),
            Self::Content { text } => format!("Event.Content(text={text:?})"),
            Self::ToolCallStart { index, id, name } => {
                format!("Event.ToolCallStart(index={index}, id={id:?}, name={name:?})")
            }
            Self::ToolCallArguments { index, text } => format!("Event.ToolCallArguments(index={index}, text={text:?})"),
            Self::ToolCallEnd { index } => format!("Event.ToolCallEnd(index={index})"),
            Self::Finish { reason, stop_sequence, .. } => {
                let stop = stop_sequence.as_ref().map_or("None".to_owned(), |stop| format!("{stop:?}"));
                format!("Event.Finish(reason={reason:?}, stop_sequence={stop})")
            }
            Self::Error { message, code } => format!("Event.Error(message={message:?}, code={code:?})"),
        }
    }
}

/// Parses an output into events, without a protocol.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct OutputParser(Mutex<Parser>);

struct Parser {
    processor: StreamProcessor,
    events: Events,
    call_ids: CallIds,
}

impl Parser {
    fn event(&mut self, event: &CoreEvent<'_>) -> Option<Event> {
        Some(match *event {
            CoreEvent::Start { .. } => return None,
            CoreEvent::Reasoning { text, .. } => Event::Reasoning { text: text.to_owned() },
            CoreEvent::Content { text, .. } => Event::Content { text: text.to_owned() },
            CoreEvent::CallStart { index, name } => {
                Event::ToolCallStart { index, id: self.call_ids.next(index), name: name.to_owned() }
            }
            CoreEvent::CallArguments { index, text } => Event::ToolCallArguments { index, text: text.to_owned() },
            CoreEvent::CallEnd { index } => Event::ToolCallEnd { index },
            CoreEvent::Finish { reason, stop_sequence, usage } => Event::Finish {
                reason: match reason {
                    FinishReason::Stop => "stop",
                    FinishReason::ToolCalls => "tool_calls",
                    FinishReason::Length => "length",
                    FinishReason::ContentFilter => "content_filter",
                }
                .to_owned(),
                stop_sequence: stop_sequence.map(str::to_owned),
                completion_tokens: usage.completion_tokens,
                reasoning_tokens: usage.reasoning_tokens,
                remaining_text: self.processor.remaining_text().to_owned(),
                remaining_ids: self.processor.remaining_ids(),
            },
            CoreEvent::Error { message, code, .. } => {
                Event::Error { message: message.to_owned(), code: code.to_owned() }
            }
        })
    }

    fn drive(
        &mut self,
        step: impl FnOnce(&mut StreamProcessor, &mut Events) -> recipe_core::Result<()>,
    ) -> recipe_core::Result<Vec<Event>> {
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        let done = step(&mut self.processor, &mut events);
        let found = events.iter().filter_map(|event| self.event(&event)).collect();
        self.events = events;
        done.map(|()| found)
    }
}

impl OutputParser {
    fn of(options: ParsedAs, tools: OutputTools, tokenizer: Option<&Bound<'_, Tokenizer>>) -> Self {
        let tokenizer = tokenizer.map(|tokenizer| tokenizer.get().0.clone());
        let processor = StreamProcessor::new(options, tools.into(), tokenizer);
        Self(Mutex::new(Parser { processor, events: Events::default(), call_ids: CallIds::new(random()) }))
    }
}

#[pymethods]
impl OutputParser {
    #[new]
    #[pyo3(signature = (options, tools, tokenizer=None))]
    fn new(
        py: Python<'_>,
        options: &ParsingOptions,
        tools: Vec<Bound<'_, ToolDefinition>>,
        tokenizer: Option<&Bound<'_, Tokenizer>>,
    ) -> Self {
        let tools = tools.iter().map(|tool| tool.get().0.clone()).collect();
        Self::of(options.get(py), OutputTools::new(tools, Vec::new()), tokenizer)
    }

    /// Returns a parser of a request's output.
    #[staticmethod]
    #[pyo3(signature = (request, tokenizer=None))]
    fn for_request(request: &ConversationRequest, tokenizer: Option<&Bound<'_, Tokenizer>>) -> Self {
        let ConversationRequest(request) = request;
        let tools = OutputTools::new(request.conversation.tools.clone(), request.custom_tools.clone());
        Self::of(request.parsing_options.clone(), tools, tokenizer)
    }

    /// Whether the output has ended.
    #[getter]
    fn finished(&self, py: Python<'_>) -> bool {
        lock::state(py, &self.0).processor.is_finished()
    }

    /// Takes an engine chunk and returns its events.
    fn push(&self, py: Python<'_>, chunk: &InferenceChunk) -> PyResult<Vec<Event>> {
        let parser = &mut *lock::state(py, &self.0);
        lock::work(py, chunk.size(), || parser.drive(|processor, events| processor.push(&chunk.0, events)))
            .map_err(|error| raise(py, error))
    }

    /// Closes the input. Without a `finish` chunk before it, the last event is an error.
    fn finish(&self, py: Python<'_>) -> PyResult<Vec<Event>> {
        lock::state(py, &self.0).drive(StreamProcessor::finish).map_err(|error| raise(py, error))
    }
}

/// A reply in the protocol of its generator: engine chunks in, protocol chunks out, the complete response kept.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct ReplyStream(Mutex<Box<dyn Output>>);

#[pymethods]
impl ReplyStream {
    #[new]
    fn new(
        generator: &Bound<'_, PyAny>,
        options: &ParsingOptions,
        tokenizer: &Tokenizer,
        id: Text,
        model: Text,
    ) -> PyResult<Self> {
        let options = options.get(generator.py());
        let output = output(generator, options, Some(tokenizer.0.clone()), Some((&id.0, &model.0)))?;
        Ok(Self(Mutex::new(output)))
    }

    /// Whether the output has ended.
    #[getter]
    fn finished(&self, py: Python<'_>) -> bool {
        lock::state(py, &self.0).processor().is_finished()
    }

    /// The stop sequence that ended the output, if one did.
    #[getter]
    fn stop_sequence(&self, py: Python<'_>) -> Option<String> {
        lock::state(py, &self.0).processor().stop_sequence().map(str::to_owned)
    }

    /// The text behind the place where the output ended by itself, `""` if it did not.
    #[getter]
    fn remaining_text(&self, py: Python<'_>) -> String {
        lock::state(py, &self.0).processor().remaining_text().to_owned()
    }

    /// The ids of the remaining text, as a new list. One with text on both sides of the end is not among them.
    #[getter]
    fn remaining_ids(&self, py: Python<'_>) -> Vec<u32> {
        lock::state(py, &self.0).processor().remaining_ids()
    }

    /// Takes an engine chunk and returns the protocol chunks that it makes.
    fn push<'py>(&self, py: Python<'py>, chunk: &InferenceChunk) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let output = &mut *lock::state(py, &self.0);
        objects(py, lock::work(py, chunk.size(), || output.push(Input::Chunk(&chunk.0))))
    }

    /// As `push`, as server-sent events.
    fn push_sse<'py>(&self, py: Python<'py>, chunk: &InferenceChunk) -> PyResult<Bound<'py, PyBytes>> {
        let output = &mut *lock::state(py, &self.0);
        let sent = lock::work(py, chunk.size(), || output.push_sse(Input::Chunk(&chunk.0)));
        sent.map(|sent| PyBytes::new(py, sent.as_bytes())).map_err(|error| raise(py, error))
    }

    /// Closes the input and returns the last chunks: a failure, unless the output had ended.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        objects(py, lock::state(py, &self.0).push(Input::Close))
    }

    /// As `finish`, as server-sent events, with the protocol's end mark behind them unless the reply failed.
    fn finish_sse<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let output = &mut *lock::state(py, &self.0);
        let mut sent = output.push_sse(Input::Close).map_err(|error| raise(py, error))?;
        if let Some(done) = output.done() {
            sent.push_str("data: ");
            sent.push_str(done);
            sent.push_str("\n\n");
        }
        Ok(PyBytes::new(py, sent.as_bytes()))
    }

    /// Returns the complete response as JSON text, also before the reply is complete.
    fn response_json(&self, py: Python<'_>) -> String {
        lock::state(py, &self.0).response_json()
    }
}
