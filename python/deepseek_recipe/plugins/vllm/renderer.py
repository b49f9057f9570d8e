"""vLLM's renderer: the messages of its APIs as ids of the codec. vLLM loads the images."""

# What is inherited from vLLM has no types here.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ..._native import ConversionError
from ...recipe import Encoded
from .tokenizer import codec_of

_base: Any = importlib.import_module("vllm.renderers.base")
_chat_utils: Any = importlib.import_module("vllm.renderers.chat_utils")
_exceptions: Any = importlib.import_module("vllm.exceptions")
_async_utils: Any = importlib.import_module("vllm.utils.async_utils")

_TEXT_PARTS = ("text", "input_text", "output_text")
_IMAGE_PARTS = ("image_url", "input_image", "image_pil")
_IMAGE_URL = "http://image/"
"""In the place of an image's own URL; behind it stands its number among the images of the messages."""


class RecipeRenderer(_base.BaseRenderer):
    """Renders with the codec."""

    def __init__(self, config: Any, tokenizer: Any):
        super().__init__(config, tokenizer)
        if tokenizer is not None:
            codec_of(tokenizer)
        self._prompt_async = _async_utils.make_async(self._prompt, executor=self._executor)

    def render_messages(self, messages: Any, params: Any) -> tuple[Any, Any]:
        """vLLM's conversation, and the prompt with its images. Raises `VLLMValidationError` for what is not served."""
        wanted = _body(messages, params)
        conversation, data, uuids = _chat_utils.parse_chat_messages(messages, self.model_config, **_media(params))
        return conversation, self._prompt(wanted, data, uuids)

    async def render_messages_async(self, messages: Any, params: Any) -> tuple[Any, Any]:
        """As `render_messages`; the codec runs in vLLM's threads."""
        wanted = _body(messages, params)
        parsed = await _chat_utils.parse_chat_messages_async(messages, self.model_config, **_media(params))
        conversation, data, uuids = parsed
        return conversation, await self._prompt_async(wanted, data, uuids)

    def _prompt(self, wanted: dict[str, Any], data: Any, uuids: Any) -> dict[str, Any]:
        encoded = encode(self.get_tokenizer(), wanted)
        prompt: dict[str, Any] = {"prompt_token_ids": encoded.token_ids.tolist()}
        # Images come in the order of the messages; the prompt sorts the results of tools by their calls.
        order = [int(str(source.url).removeprefix(_IMAGE_URL)) for source in encoded.image_sources]
        for key, items in (("multi_modal_data", data), ("multi_modal_uuids", uuids)):
            if items:
                prompt[key] = {**items, "image": [items["image"][place] for place in order]} if order else items
        return prompt


def _body(messages: Any, params: Any) -> dict[str, Any]:
    """Made before vLLM reads the messages: it puts objects in the place of the arguments of calls, digits lost."""
    extra = {"tool_choice": params.tool_choice, "response_format": params.response_format}
    return body(messages, {**params.chat_template_kwargs, **extra})


def _media(params: Any) -> dict[str, Any]:
    return {
        "content_format": "openai",
        "media_io_kwargs": params.media_io_kwargs,
        "mm_processor_kwargs": params.mm_processor_kwargs,
    }


def encode(tokenizer: Any, body: Mapping[str, Any]) -> Encoded:
    """A body of Chat Completions as ids. Raises `VLLMValidationError`, which is status 400."""
    try:
        return tokenizer.recipe.encode(body, protocol="chat_completions")
    except (ConversionError, ValueError) as error:
        raise _exceptions.VLLMValidationError(str(error), parameter="messages") from error


def body(messages: Sequence[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """What vLLM hands to templates, as a body of Chat Completions.

    Choices that force a call are left to vLLM's grammar, which expects the model to open the calls itself. Raises
    `VLLMValidationError` for a prompt without the beginning of an answer.
    """
    made: dict[str, Any] = {"model": "", "messages": _messages(messages)}
    if options.get("continue_final_message"):
        for last in made["messages"][-1:]:
            last["prefix"] = True
    elif not options.get("add_generation_prompt", True):
        raise _exceptions.VLLMValidationError("prompts end with the beginning of an answer", parameter="messages")
    if options.get("tools"):
        made["tools"] = [_without_nulls(tool) for tool in options["tools"]]
        if options.get("tool_choice") == "none":
            made["tool_choice"] = "none"
    form = options.get("response_format")
    if form is not None:
        form = form if isinstance(form, Mapping) else form.model_dump(by_alias=True, exclude_none=True)
        if form["type"] != "structural_tag":  # Of the grammar alone.
            made["response_format"] = form
    effort = options.get("reasoning_effort")
    if effort is not None:
        made["reasoning_effort"] = effort
    wanted = [bool(options[name]) for name in ("thinking", "enable_thinking") if name in options]
    if wanted and effort != "none":
        made["thinking"] = {"type": "enabled" if any(wanted) else "disabled"}
    return made


def _messages(messages: Sequence[Any]) -> list[dict[str, Any]]:
    images = 0
    made: list[dict[str, Any]] = []
    for message in messages:
        message = {key: value for key, value in message.items() if value is not None}
        if "reasoning" in message:
            message["reasoning_content"] = message.pop("reasoning")
        if isinstance(message.get("content"), list):
            parts: list[Any] = []
            for part in message["content"]:
                kind = part["type"] if isinstance(part, Mapping) else None
                if kind in _TEXT_PARTS:
                    part = {"type": "text", "text": cast("Mapping[str, Any]", part).get("text")}
                elif kind in _IMAGE_PARTS:
                    part = {"type": "image_url", "image_url": {"url": f"{_IMAGE_URL}{images}"}}
                    images += 1
                parts.append(part)
            message["content"] = parts
        if "tool_calls" in message:
            message["tool_calls"] = [_call(call) for call in message["tool_calls"]]
        made.append(message)
    return made


def _call(call: Any) -> Any:
    """A call of its own, so that what vLLM does to the other is not seen. Arguments as an object become text again."""
    function = dict(call["function"])
    if not isinstance(function.get("arguments"), str):
        function["arguments"] = json.dumps(function.get("arguments") or {}, ensure_ascii=False)
    return {**call, "function": function}


def _without_nulls(value: Any) -> Any:
    """An absent field and a null are the same to vLLM; a schema, in which null is a value, is left alone."""
    if not isinstance(value, Mapping):
        return value
    fields = cast("Mapping[str, Any]", value)
    return {key: one if key == "parameters" else _without_nulls(one) for key, one in fields.items() if one is not None}
