//! Conversations, messages, tools and image sources for Python. Knows no protocol and no template.

use std::borrow::Cow;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyInt, PyType};
use recipe_core::conversation as core;
use recipe_core::conversation::{Effort, ImageData, ImageDetail, ResponseFormat, ToolChoice};
use recipe_core::special::SpecialToken;

use crate::json::{to_python, to_value};
use crate::save::record;
use crate::text::{choose, Text};

/// A call in the history: `id` is what the result refers to, `name` the tool, and `arguments` the
/// text that the caller sent, usually a JSON object; it is not checked.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct ToolCall(core::ToolCall);

record!(ToolCall);

#[pymethods]
impl ToolCall {
    #[new]
    fn new(id: Text, name: Text, arguments: Text) -> Self {
        Self(core::ToolCall { id: id.0, name: name.0, arguments: arguments.0 })
    }

    /// What the result refers to.
    #[getter]
    fn id(&self) -> &str {
        &self.0.id
    }

    /// The tool.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// The arguments as the caller sent them.
    #[getter]
    fn arguments(&self) -> &str {
        &self.0.arguments
    }

    fn __repr__(&self) -> String {
        let core::ToolCall { id, name, arguments } = &self.0;
        format!("ToolCall(id={id:?}, name={name:?}, arguments={arguments:?})")
    }
}

/// A declared tool. `parameters` is the JSON Schema of its arguments as JSON objects of Python.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct ToolDefinition(pub core::ToolDefinition);

record!(ToolDefinition);

#[pymethods]
impl ToolDefinition {
    #[new]
    #[pyo3(signature = (name, description=None, parameters=None, strict=None, defer_loading=false))]
    fn new(
        name: Text,
        description: Option<Text>,
        parameters: Option<&Bound<'_, PyAny>>,
        strict: Option<bool>,
        defer_loading: bool,
    ) -> PyResult<Self> {
        Ok(Self(core::ToolDefinition {
            name: name.0,
            description: description.map(|text| text.0),
            parameters: parameters.map(to_value).transpose()?,
            strict,
            defer_loading,
        }))
    }

    /// The name.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// What it does.
    #[getter]
    fn description(&self) -> Option<&str> {
        self.0.description.as_deref()
    }

    /// The JSON Schema of the arguments, as new objects.
    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.0.parameters.as_ref().map(|value| to_python(py, value)).transpose()
    }

    /// The `strict` setting as sent.
    #[getter]
    fn strict(&self) -> Option<bool> {
        self.0.strict
    }

    /// Whether the prompt leaves it out until a system message loads it (V4.1).
    #[getter]
    fn defer_loading(&self) -> bool {
        self.0.defer_loading
    }

    fn __repr__(&self) -> String {
        let core::ToolDefinition { name, description, strict, .. } = &self.0;
        format!("ToolDefinition(name={name:?}, description={description:?}, strict={strict:?})")
    }
}

/// The level of a name.
pub fn image_detail(name: &str) -> PyResult<ImageDetail> {
    let all = [ImageDetail::Low, ImageDetail::High, ImageDetail::Original, ImageDetail::Auto];
    choose("detail", name, &all, ImageDetail::as_str)
}

/// Base class of the places where the bytes of an image are.
#[pyclass(frozen, subclass, module = "deepseek_recipe._native")]
pub struct ImageSource(core::ImageSource);

record!(ImageSource, |py, value| Self::object(py, &value), Bound<'py, PyAny>);

impl ImageSource {
    fn new(data: ImageData, detail: &str, path: Text) -> PyResult<PyClassInitializer<Self>> {
        let detail = image_detail(detail)?;
        Ok(PyClassInitializer::from(Self(core::ImageSource { data, detail, path: path.0 })))
    }

    /// The source itself.
    pub fn source(&self) -> &core::ImageSource {
        &self.0
    }

    /// The Python object of a source, of the class for its kind.
    pub fn object<'py>(py: Python<'py>, source: &core::ImageSource) -> PyResult<Bound<'py, PyAny>> {
        let base = PyClassInitializer::from(Self(source.clone()));
        Ok(match source.data {
            ImageData::Url(_) => Bound::new(py, base.add_subclass(UrlImageSource))?.into_any(),
            ImageData::DataUrl(_) => Bound::new(py, base.add_subclass(DataUrlImageSource))?.into_any(),
            ImageData::Bytes(_) => Bound::new(py, base.add_subclass(BytesImageSource))?.into_any(),
        })
    }
}

#[pymethods]
impl ImageSource {
    /// `url`, `data_url` or `bytes`.
    #[getter]
    fn kind(&self) -> &'static str {
        match self.0.data {
            ImageData::Url(_) => "url",
            ImageData::DataUrl(_) => "data_url",
            ImageData::Bytes(_) => "bytes",
        }
    }

    /// The level that the request asks for: `low`, `high`, `original` or `auto`.
    #[getter]
    fn detail(&self) -> &'static str {
        self.0.detail.as_str()
    }

    /// The place in the request, for messages; empty unless it was given.
    #[getter]
    fn path(&self) -> &str {
        &self.0.path
    }

    /// The URL of a `url` source.
    #[getter]
    fn url(&self) -> Option<&str> {
        match &self.0.data {
            ImageData::Url(url) => Some(url),
            _ => None,
        }
    }

    /// The URL of a `data_url` source.
    #[getter]
    fn data_url(&self) -> Option<&str> {
        match &self.0.data {
            ImageData::DataUrl(url) => Some(url),
            _ => None,
        }
    }

    /// The encoded bytes of a `bytes` source.
    #[getter]
    fn data(&self) -> Option<Cow<'_, [u8]>> {
        match &self.0.data {
            ImageData::Bytes(bytes) => Some(Cow::Borrowed(bytes)),
            _ => None,
        }
    }

    fn __repr__(&self) -> String {
        let (class, data) = match &self.0.data {
            ImageData::Url(url) => ("UrlImageSource", format!("{url:?}")),
            ImageData::DataUrl(url) => ("DataUrlImageSource", format!("{url:?}")),
            ImageData::Bytes(bytes) => ("BytesImageSource", format!("<{} bytes>", bytes.len())),
        };
        format!("{class}({data}, detail={:?}, path={:?})", self.detail(), self.path())
    }
}

/// An image behind an external URL.
#[pyclass(frozen, extends = ImageSource, module = "deepseek_recipe._native")]
pub struct UrlImageSource;

#[pymethods]
impl UrlImageSource {
    #[new]
    #[pyo3(signature = (url, detail="high", *, path=Text::default()))]
    fn new(url: Text, detail: &str, path: Text) -> PyResult<PyClassInitializer<Self>> {
        Ok(ImageSource::new(ImageData::Url(url.0), detail, path)?.add_subclass(Self))
    }
}

/// An image in a `data:` URL, base64 or percent-encoded.
#[pyclass(frozen, extends = ImageSource, module = "deepseek_recipe._native")]
pub struct DataUrlImageSource;

#[pymethods]
impl DataUrlImageSource {
    #[new]
    #[pyo3(signature = (data_url, detail="high", *, path=Text::default()))]
    fn new(data_url: Text, detail: &str, path: Text) -> PyResult<PyClassInitializer<Self>> {
        Ok(ImageSource::new(ImageData::DataUrl(data_url.0), detail, path)?.add_subclass(Self))
    }
}

/// An image as the bytes of its file.
#[pyclass(frozen, extends = ImageSource, module = "deepseek_recipe._native")]
pub struct BytesImageSource;

#[pymethods]
impl BytesImageSource {
    #[new]
    #[pyo3(signature = (data, detail="high", *, path=Text::default()))]
    fn new(data: Vec<u8>, detail: &str, path: Text) -> PyResult<PyClassInitializer<Self>> {
        Ok(ImageSource::new(ImageData::Bytes(data), detail, path)?.add_subclass(Self))
    }
}

/// Base class of the messages. What a role does not have is `None`, `False` or an empty list.
#[pyclass(frozen, subclass, module = "deepseek_recipe._native")]
pub struct Message(core::Message);

record!(Message, |py, value| Self::object(py, &value), Bound<'py, PyAny>);

impl Message {
    /// The Python object of a message, of the class for its role.
    pub fn object<'py>(py: Python<'py>, message: &core::Message) -> PyResult<Bound<'py, PyAny>> {
        let base = PyClassInitializer::from(Self(message.clone()));
        Ok(match message {
            core::Message::System { .. } => Bound::new(py, base.add_subclass(SystemMessage))?.into_any(),
            core::Message::User { .. } => Bound::new(py, base.add_subclass(UserMessage))?.into_any(),
            core::Message::Assistant { .. } => Bound::new(py, base.add_subclass(AssistantMessage))?.into_any(),
            core::Message::Tool { .. } => Bound::new(py, base.add_subclass(ToolMessage))?.into_any(),
            core::Message::LatestReminder { .. } => {
                Bound::new(py, base.add_subclass(LatestReminderMessage))?.into_any()
            }
        })
    }
}

type ImageSources<'py> = Option<Vec<Bound<'py, ImageSource>>>;
type Tools<'py> = Option<Vec<Bound<'py, ToolDefinition>>>;

/// Text whose first occurrences of `image_token` stand for the images, one a source.
fn content(text: Text, sources: ImageSources<'_>, image_token: Option<Text>) -> PyResult<core::Content> {
    let token = image_token.as_ref().map_or(SpecialToken::Image.default_str(), |token| &token.0);
    if token.is_empty() {
        return Err(PyValueError::new_err("image_token must not be empty"));
    }
    let sources = sources.unwrap_or_default().iter().map(|source| source.get().0.clone()).collect();
    Ok(core::Content::with_images(text.0, sources, token))
}

fn definitions(tools: Vec<Bound<'_, ToolDefinition>>) -> Vec<core::ToolDefinition> {
    tools.iter().map(|tool| tool.get().0.clone()).collect()
}

#[pymethods]
impl Message {
    /// `system`, `user`, `assistant`, `tool` or `latest_reminder`.
    #[getter]
    fn role(&self) -> &'static str {
        self.0.role()
    }

    /// The text, image placeholders spelled out.
    #[getter]
    fn content(&self) -> &str {
        self.0.text()
    }

    /// The reasoning before an assistant's answer.
    #[getter]
    fn reasoning_content(&self) -> Option<&str> {
        match &self.0 {
            core::Message::Assistant { reasoning_content, .. } => reasoning_content.as_deref(),
            _ => None,
        }
    }

    /// The calls of an assistant, as a new list.
    #[getter]
    fn tool_calls(&self) -> Option<Vec<ToolCall>> {
        match &self.0 {
            core::Message::Assistant { tool_calls, .. } => {
                tool_calls.as_ref().map(|calls| calls.iter().cloned().map(ToolCall).collect())
            }
            _ => None,
        }
    }

    /// The call that a tool message answers.
    #[getter]
    fn tool_call_id(&self) -> Option<&str> {
        match &self.0 {
            core::Message::Tool { tool_call_id, .. } => tool_call_id.as_deref(),
            _ => None,
        }
    }

    /// Whether the model goes on with this assistant message.
    #[getter]
    fn prefix(&self) -> bool {
        matches!(self.0, core::Message::Assistant { prefix: true, .. })
    }

    /// The images of a system, user or tool message, as a new list.
    #[getter]
    fn image_sources<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let sources = self.0.content().map_or(&[][..], core::Content::image_sources);
        sources.iter().map(|source| ImageSource::object(py, source)).collect()
    }

    fn __repr__(&self) -> String {
        let text = self.0.text();
        let images = self.0.content().map_or(0, |content| content.image_sources().len());
        match &self.0 {
            core::Message::System { .. } => format!("SystemMessage({text:?})"),
            core::Message::User { .. } => format!("UserMessage({text:?}, image_sources={images})"),
            core::Message::Assistant { reasoning_content, tool_calls, prefix, .. } => format!(
                "AssistantMessage({text:?}, reasoning_content={}, tool_calls={}, prefix={})",
                truth(reasoning_content.is_some()),
                tool_calls.as_ref().map_or(0, Vec::len),
                truth(*prefix),
            ),
            core::Message::Tool { tool_call_id, .. } => {
                format!("ToolMessage({text:?}, tool_call_id={tool_call_id:?}, image_sources={images})")
            }
            core::Message::LatestReminder { .. } => format!("LatestReminderMessage({text:?})"),
        }
    }
}

fn truth(value: bool) -> &'static str {
    if value {
        "True"
    } else {
        "False"
    }
}

/// Instructions, possibly with tools that become callable here. Images as in `UserMessage`.
#[pyclass(frozen, extends = Message, module = "deepseek_recipe._native")]
pub struct SystemMessage;

#[pymethods]
impl SystemMessage {
    #[new]
    #[pyo3(signature = (content, image_sources=None, tools=None, *, image_token=None))]
    fn new(
        content: Text,
        image_sources: ImageSources<'_>,
        tools: Tools<'_>,
        image_token: Option<Text>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let content = self::content(content, image_sources, image_token)?;
        let message = core::Message::System { content, tools: tools.map(definitions) };
        Ok(PyClassInitializer::from(Message(message)).add_subclass(Self))
    }

    /// The tools introduced by this message, as a new list. V4.1 renders them; V4 does not.
    #[getter]
    fn tools(slf: &Bound<'_, Self>) -> Option<Vec<ToolDefinition>> {
        match &slf.as_super().get().0 {
            core::Message::System { tools, .. } => {
                tools.as_ref().map(|tools| tools.iter().cloned().map(ToolDefinition).collect())
            }
            _ => None,
        }
    }
}

/// What the user says. The first occurrences of `image_token` in `content` (by default the released
/// spelling) stand for the images, one a source; further ones are plain text. Where there are fewer,
/// the sources are kept all the same.
#[pyclass(frozen, extends = Message, module = "deepseek_recipe._native")]
pub struct UserMessage;

#[pymethods]
impl UserMessage {
    #[new]
    #[pyo3(signature = (content, image_sources=None, *, image_token=None))]
    fn new(
        content: Text,
        image_sources: ImageSources<'_>,
        image_token: Option<Text>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let content = self::content(content, image_sources, image_token)?;
        Ok(PyClassInitializer::from(Message(core::Message::User { content })).add_subclass(Self))
    }
}

/// What the model said: the answer, the reasoning before it and the calls after it. With `prefix`
/// the model goes on with this message.
#[pyclass(frozen, extends = Message, module = "deepseek_recipe._native")]
pub struct AssistantMessage;

#[pymethods]
impl AssistantMessage {
    #[new]
    #[pyo3(signature = (content, reasoning_content=None, tool_calls=None, prefix=false))]
    fn new(
        content: Text,
        reasoning_content: Option<Text>,
        tool_calls: Option<Vec<Bound<'_, ToolCall>>>,
        prefix: bool,
    ) -> PyClassInitializer<Self> {
        PyClassInitializer::from(Message(core::Message::Assistant {
            content: content.0,
            reasoning_content: reasoning_content.map(|text| text.0),
            tool_calls: tool_calls.map(|calls| calls.iter().map(|call| call.get().0.clone()).collect()),
            prefix,
        }))
        .add_subclass(Self)
    }
}

/// What a tool answered. Images as in `UserMessage`.
#[pyclass(frozen, extends = Message, module = "deepseek_recipe._native")]
pub struct ToolMessage;

#[pymethods]
impl ToolMessage {
    #[new]
    #[pyo3(signature = (content, tool_call_id=None, image_sources=None, *, image_token=None))]
    fn new(
        content: Text,
        tool_call_id: Option<Text>,
        image_sources: ImageSources<'_>,
        image_token: Option<Text>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let content = self::content(content, image_sources, image_token)?;
        let message = core::Message::Tool { content, tool_call_id: tool_call_id.map(|id| id.0) };
        Ok(PyClassInitializer::from(Message(message)).add_subclass(Self))
    }
}

/// Instructions that follow the conversation.
#[pyclass(frozen, extends = Message, module = "deepseek_recipe._native")]
pub struct LatestReminderMessage;

#[pymethods]
impl LatestReminderMessage {
    #[new]
    fn new(content: Text) -> PyClassInitializer<Self> {
        PyClassInitializer::from(Message(core::Message::LatestReminder { content: content.0 })).add_subclass(Self)
    }
}

/// An effort by name or by number, of the right type; its value is looked at when all arguments have theirs.
enum EffortArgument<'py> {
    Name(Text),
    Number(Bound<'py, PyInt>),
}

impl<'a, 'py> FromPyObject<'a, 'py> for EffortArgument<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        // `True` is an `int` for Python, but no number for JSON.
        match object.cast::<PyInt>() {
            Ok(number) if !object.is_instance_of::<PyBool>() => Ok(Self::Number(number.to_owned())),
            _ => Text::extract(object).map(Self::Name),
        }
    }
}

impl EffortArgument<'_> {
    fn value(self) -> PyResult<Effort> {
        let all = [Effort::Low, Effort::High, Effort::XHigh, Effort::Max];
        match self {
            Self::Name(name) => choose("reasoning_effort", &name.0, &all, effort_name),
            Self::Number(number) => match number.extract() {
                Ok(number @ 1..=100) => Ok(Effort::Number(number)),
                _ => Err(PyValueError::new_err(format!("invalid reasoning_effort {number}; expected 1 to 100"))),
            },
        }
    }
}

fn effort_name(effort: Effort) -> &'static str {
    effort.as_str().unwrap_or("number")
}

/// A conversation and what the prompt has to say about it. `response_schema` and `response_regex`
/// choose the formats `json_schema` and `regex`.
#[pyclass(frozen, module = "deepseek_recipe._native")]
pub struct Conversation(pub Arc<core::Conversation>);

record!(Conversation);

#[pymethods]
impl Conversation {
    #[new]
    #[pyo3(signature = (messages=None, *, thinking_mode=true, tools=None, tool_choice="auto", reasoning_effort=None,
        response_format="text", response_schema=None, response_regex=None))]
    #[allow(clippy::too_many_arguments)] // One keyword a field.
    fn new(
        messages: Option<Vec<Bound<'_, Message>>>,
        thinking_mode: bool,
        tools: Tools<'_>,
        tool_choice: &str,
        reasoning_effort: Option<EffortArgument<'_>>,
        response_format: &str,
        response_schema: Option<&Bound<'_, PyAny>>,
        response_regex: Option<Text>,
    ) -> PyResult<Self> {
        let reasoning_effort = reasoning_effort.map(EffortArgument::value).transpose()?;
        let choices = [ToolChoice::Auto, ToolChoice::None, ToolChoice::Required];
        let tool_choice = choose("tool_choice", tool_choice, &choices, ToolChoice::as_str)?;
        let plain = choose("response_format", response_format, &["text", "json_object"], |name| name)?;
        let response_format = match (response_schema, response_regex) {
            (None, None) if plain == "json_object" => ResponseFormat::JsonObject,
            (None, None) => ResponseFormat::Text,
            (Some(_), Some(_)) => {
                return Err(PyValueError::new_err("response_schema and response_regex cannot be combined"));
            }
            _ if plain != "text" => {
                return Err(PyValueError::new_err(format!(
                    "response_format {plain:?} cannot be combined with response_schema or response_regex"
                )));
            }
            (Some(schema), None) => ResponseFormat::JsonSchema(to_value(schema)?),
            (None, Some(regex)) => ResponseFormat::Regex(regex.0),
        };
        Ok(Self(Arc::new(core::Conversation {
            messages: messages.unwrap_or_default().iter().map(|message| message.get().0.clone()).collect(),
            thinking_mode,
            tools: definitions(tools.unwrap_or_default()),
            tool_choice,
            reasoning_effort,
            response_format,
        })))
    }

    /// The messages in order, as a new list.
    #[getter]
    fn messages<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.0.messages.iter().map(|message| Message::object(py, message)).collect()
    }

    /// Whether the next assistant turn starts with reasoning.
    #[getter]
    fn thinking_mode(&self) -> bool {
        self.0.thinking_mode
    }

    /// The declared tools in order, as a new list.
    #[getter]
    fn tools(&self) -> Vec<ToolDefinition> {
        self.0.tools.iter().cloned().map(ToolDefinition).collect()
    }

    /// `auto`, `none` or `required`.
    #[getter]
    fn tool_choice(&self) -> &'static str {
        self.0.tool_choice.as_str()
    }

    /// How much to think: `low`, `high`, `xhigh`, `max` or a number from 1 to 100. Only looked at in thinking mode.
    #[getter]
    fn reasoning_effort<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(match self.0.reasoning_effort {
            None => None,
            Some(Effort::Number(number)) => Some(number.into_pyobject(py)?.into_any()),
            Some(effort) => Some(effort_name(effort).into_pyobject(py)?.into_any()),
        })
    }

    /// `text`, `json_object`, `json_schema` or `regex`.
    #[getter]
    fn response_format(&self) -> &'static str {
        self.0.response_format.as_str()
    }

    /// The schema of the format `json_schema`, as new objects.
    #[getter]
    fn response_schema<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match &self.0.response_format {
            ResponseFormat::JsonSchema(schema) => to_python(py, schema).map(Some),
            _ => Ok(None),
        }
    }

    /// The expression of the format `regex`.
    #[getter]
    fn response_regex(&self) -> Option<&str> {
        match &self.0.response_format {
            ResponseFormat::Regex(expression) => Some(expression),
            _ => None,
        }
    }

    fn __repr__(&self) -> String {
        let effort = match self.0.reasoning_effort {
            None => "None".to_owned(),
            Some(Effort::Number(number)) => format!("Some({number})"),
            Some(effort) => format!("Some({:?})", effort_name(effort)),
        };
        format!(
            "Conversation(messages={}, thinking_mode={}, tools={}, tool_choice={:?}, reasoning_effort={effort}, \
             response_format={:?})",
            self.0.messages.len(),
            truth(self.0.thinking_mode),
            self.0.tools.len(),
            self.tool_choice(),
            self.response_format(),
        )
    }
}
