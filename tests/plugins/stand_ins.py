"""What the plug-in uses of vLLM 0.33.0 and of transformers, as small stand-ins with their signatures.

`tests/installed/test_in_vllm.py` compares the signatures with those of the installed packages.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar


class VLLMValidationError(Exception):
    def __init__(self, message: str, *, parameter: str | None = None, value: Any = None) -> None:
        super().__init__(message)


class Registry:
    """Both registries of modules."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[str, str]] = {}

    @property
    def renderers(self) -> dict[str, tuple[str, str]]:
        return self.found

    @property
    def tokenizers(self) -> dict[str, tuple[str, str]]:
        return self.found

    def register(self, mode: str, module: str, class_name: str) -> None:
        assert mode not in self.found
        self.found[mode] = (module, class_name)


class ReasoningParserManager:
    lazy_parsers: ClassVar[dict[str, tuple[str, str]]] = {}

    @classmethod
    def register_lazy_module(cls, name: str, module_path: str, class_name: str) -> None:
        cls.lazy_parsers[name] = (module_path, class_name)


class ToolParserManager:
    lazy_parsers: ClassVar[dict[str, tuple[str, str]]] = {}

    @classmethod
    def register_lazy_module(cls, name: str, module_path: str, class_name: str) -> None:
        cls.lazy_parsers[name] = (module_path, class_name)


class ReasoningParser:
    engine_based_streaming = False

    def __init__(self, tokenizer: Any, *args: Any, **kwargs: Any) -> None:
        self.model_tokenizer = tokenizer

    def has_engine_confirmed_reasoning_end(self) -> bool:
        return False

    def is_reasoning_end(self, input_ids: Any) -> bool:
        raise NotImplementedError

    def is_reasoning_end_streaming(self, input_ids: Any, delta_ids: Any) -> bool:
        raise NotImplementedError

    def extract_content_ids(self, input_ids: Any) -> Any:
        raise NotImplementedError

    def count_reasoning_tokens(self, token_ids: Any) -> int:
        return 0

    def adjust_request(self, request: Any) -> Any:
        return request

    def set_prompt_token_ids(self, prompt_token_ids: Any) -> None:
        pass

    def extract_reasoning(self, model_output: str, request: Any) -> Any:
        raise NotImplementedError

    def extract_reasoning_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Any,
        current_token_ids: Any,
        delta_token_ids: Any,
    ) -> Any:
        raise NotImplementedError


class ToolParser:
    engine_based_streaming = False
    supports_required_and_named = True
    structural_tag_model: str | None = None

    def __init__(self, tokenizer: Any, tools: Any = None):
        self.tools = tools or []

    def adjust_request(self, request: Any) -> Any:
        return request

    def extract_tool_calls(self, model_output: str, request: Any) -> Any:
        raise NotImplementedError

    def extract_tool_calls_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Any,
        current_token_ids: Any,
        delta_token_ids: Any,
        request: Any,
    ) -> Any:
        raise NotImplementedError


class BaseRenderer:
    def __init__(self, config: Any, tokenizer: Any) -> None:
        self.model_config = config.model_config
        self.tokenizer = tokenizer
        self._executor = ThreadPoolExecutor(1)

    def get_tokenizer(self) -> Any:
        return self.tokenizer

    def render_messages(self, messages: Any, params: Any) -> Any:
        raise NotImplementedError

    async def render_messages_async(self, messages: Any, params: Any) -> Any:
        raise NotImplementedError


@dataclass
class ChatParams:
    chat_template_kwargs: dict[str, Any] = field(default_factory=dict)
    media_io_kwargs: Any = None
    mm_processor_kwargs: Any = None
    tool_choice: Any = None
    response_format: Any = None


def parse_chat_messages(
    messages: Any,
    model_config: Any,
    content_format: str,
    media_io_kwargs: Any = None,
    mm_processor_kwargs: Any = None,
) -> tuple[Any, Any, Any]:
    """An image is loaded as its URL."""
    parts = [part for message in messages if isinstance(message["content"], list) for part in message["content"]]
    images = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    return messages, {"image": images} if images else None, {"image": [None] * len(images)} if images else None


async def parse_chat_messages_async(
    messages: Any,
    model_config: Any,
    content_format: str,
    media_io_kwargs: Any = None,
    mm_processor_kwargs: Any = None,
) -> tuple[Any, Any, Any]:
    return parse_chat_messages(messages, model_config, content_format, media_io_kwargs, mm_processor_kwargs)


def make_async(func: Any, executor: Any = None) -> Any:
    return lambda *args: asyncio.get_running_loop().run_in_executor(executor, partial(func, *args))


def get_cached_tokenizer(tokenizer: Any) -> Any:
    return tokenizer


class TokenizersBackend:
    """Of `transformers`. `from_pretrained` takes the path of a tokenizer.json; texts get a beginning token."""

    def __init__(self, text: str):
        self.text = text

    @property
    def backend_tokenizer(self) -> Any:
        return self

    def to_str(self) -> str:
        return self.text

    @classmethod
    def from_pretrained(cls, path: Any, *args: Any, **kwargs: Any) -> "TokenizersBackend":
        with open(path, encoding="utf-8") as file:
            return cls(file.read())

    def __call__(self, text: Any = None, *args: Any, **kwargs: Any) -> Any:
        return {"input_ids": {"": [0], "a": [0, 67]}.get(str(text), ["transformers"])}


class BatchEncoding(dict[str, Any]):
    pass


@dataclass
class DeltaFunctionCall:
    name: str | None = None
    arguments: str | None = None


@dataclass
class DeltaToolCall:
    index: int
    function: DeltaFunctionCall
    id: str | None = None
    type: str | None = None


@dataclass
class DeltaMessage:
    content: str | None = None
    reasoning: str | None = None
    tool_calls: list[DeltaToolCall] = field(default_factory=list)


@dataclass
class FunctionCall:
    name: str
    arguments: str


@dataclass
class ToolCall:
    id: str
    function: FunctionCall


@dataclass
class ExtractedToolCallInformation:
    tools_called: bool
    tool_calls: list[ToolCall]
    content: str | None = None


@dataclass
class FunctionDefinition:
    name: str
    parameters: Any = None


@dataclass
class ChatCompletionToolsParam:
    function: FunctionDefinition


MODULES: dict[str, dict[str, Any]] = {
    "vllm.exceptions": {"VLLMValidationError": VLLMValidationError},
    "vllm.reasoning": {"ReasoningParser": ReasoningParser, "ReasoningParserManager": ReasoningParserManager},
    "vllm.tool_parsers": {"ToolParser": ToolParser, "ToolParserManager": ToolParserManager},
    "vllm.tokenizers.registry": {"TokenizerRegistry": Registry()},
    "vllm.tokenizers.hf": {"get_cached_tokenizer": get_cached_tokenizer},
    "vllm.renderers.registry": {"RENDERER_REGISTRY": Registry()},
    "vllm.renderers.base": {"BaseRenderer": BaseRenderer},
    "vllm.renderers.params": {"ChatParams": ChatParams},
    "vllm.renderers.chat_utils": {
        "parse_chat_messages": parse_chat_messages,
        "parse_chat_messages_async": parse_chat_messages_async,
    },
    "vllm.utils.async_utils": {"make_async": make_async},
    "vllm.entrypoints.generate.base.protocol": {
        kind.__name__: kind
        for kind in (
            DeltaFunctionCall,
            DeltaMessage,
            DeltaToolCall,
            ExtractedToolCallInformation,
            FunctionCall,
            FunctionDefinition,
            ToolCall,
        )
    },
    "vllm.entrypoints.openai.chat_completion.protocol": {"ChatCompletionToolsParam": ChatCompletionToolsParam},
    "transformers": {"TokenizersBackend": TokenizersBackend, "BatchEncoding": BatchEncoding},
}
"""By module and name, what stands in for what."""
