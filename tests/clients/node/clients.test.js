// The SDKs of OpenAI and Anthropic and the Vercel AI SDK in JavaScript, against a gateway (GATEWAY is its URL).
// Its model calls get_weather until the prompt has the tool's result, and fills in a form where the prompt says so.

import assert from "node:assert/strict";
import { test } from "node:test";

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import Anthropic from "@anthropic-ai/sdk";
import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const URL = process.env.GATEWAY;
const MODEL = "deepseek-flash";
const QUESTION = "The weather in Paris?";
const SUNNY = "It is sunny in Paris.";
const PARAMETERS = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const Form = z.object({ city: z.string(), degrees: z.number() });
const FILLED = { city: "Paris", degrees: 20 };

const openai = new OpenAI({ apiKey: "key", baseURL: `${URL}/v1`, maxRetries: 0 });
const anthropic = new Anthropic({ apiKey: "key", baseURL: URL, maxRetries: 0 });

const weather = (input) => {
  assert.deepEqual(typeof input === "string" ? JSON.parse(input) : input, { city: "Paris" });
  return "result: sunny";
};

test("openai: chat tool loop, whole and streamed", async () => {
  const tools = [{ type: "function", function: { name: "get_weather", parameters: PARAMETERS } }];
  const messages = [{ role: "user", content: QUESTION }];
  const stream = openai.chat.completions.stream({ model: MODEL, messages, tools });
  const { message } = (await stream.finalChatCompletion()).choices[0];
  const [call] = message.tool_calls;
  messages.push(message, { role: "tool", tool_call_id: call.id, content: weather(call.function.arguments) });
  const completion = await openai.chat.completions.create({ model: MODEL, messages, tools });
  assert.equal(completion.choices[0].message.content, SUNNY);
});

test("openai: responses tool loop by reference", async () => {
  const tools = [{ type: "function", name: "get_weather", parameters: PARAMETERS, strict: false }];
  const first = await openai.responses.stream({ model: MODEL, input: QUESTION, tools }).finalResponse();
  const call = first.output.find((item) => item.type === "function_call");
  const output = { type: "function_call_output", call_id: call.call_id, output: weather(call.arguments) };
  const second = await openai.responses.create({
    model: MODEL,
    input: [output],
    previous_response_id: first.id,
    tools,
  });
  assert.equal(second.output_text, SUNNY);
});

test("openai: parse", async () => {
  const messages = [{ role: "user", content: "Fill in the form." }];
  const response_format = zodResponseFormat(Form, "form");
  const completion = await openai.chat.completions.parse({ model: MODEL, messages, response_format });
  assert.deepEqual(completion.choices[0].message.parsed, FILLED);
  const text = { format: zodTextFormat(Form, "form") };
  const response = await openai.responses.parse({ model: MODEL, input: "Fill in the form.", text });
  assert.deepEqual(response.output_parsed, FILLED);
});

test("openai: errors", async () => {
  await assert.rejects(openai.chat.completions.create({ model: MODEL, messages: [] }), (error) => {
    assert(error instanceof OpenAI.BadRequestError);
    assert.match(error.message, /Empty input messages/);
    return true;
  });
  await assert.rejects(openai.models.retrieve("other"), OpenAI.NotFoundError);
});

test("anthropic: tool loop, whole and streamed", async () => {
  const tools = [{ name: "get_weather", input_schema: PARAMETERS }];
  const messages = [{ role: "user", content: QUESTION }];
  const request = { model: MODEL, max_tokens: 1000, messages, tools };
  const message = await anthropic.messages.stream(request).finalMessage();
  assert.equal(message.stop_reason, "tool_use");
  const call = message.content.find((block) => block.type === "tool_use");
  const result = { type: "tool_result", tool_use_id: call.id, content: weather(call.input) };
  messages.push({ role: "assistant", content: message.content }, { role: "user", content: [result] });
  const last = await anthropic.messages.create(request);
  assert.equal(last.content.at(-1).text, SUNNY);
  const counted = await anthropic.messages.countTokens({ model: MODEL, messages, tools });
  assert.equal(counted.input_tokens, last.usage.input_tokens);
});

test("anthropic: errors", async () => {
  const request = { model: MODEL, max_tokens: 10, messages: [] };
  await assert.rejects(anthropic.messages.create(request), Anthropic.BadRequestError);
});

const provider = createOpenAI({ apiKey: "key", baseURL: `${URL}/v1` });
const models = {
  chat: provider.chat(MODEL),
  responses: provider.responses(MODEL),
  messages: createAnthropic({ apiKey: "key", baseURL: `${URL}/v1` })(MODEL),
};
const tools = {
  get_weather: tool({
    description: "Looks out of the window.",
    inputSchema: z.object({ city: z.string() }),
    execute: weather,
  }),
};

for (const [protocol, model] of Object.entries(models)) {
  test(`Vercel AI SDK, ${protocol}: tool loop, whole and streamed`, async () => {
    const request = { model, prompt: QUESTION, tools, stopWhen: stepCountIs(3), maxRetries: 0 };
    assert.equal((await generateText(request)).text, SUNNY);
    const result = streamText(request);
    let text = "";
    for await (const delta of result.textStream) text += delta;
    assert(text.endsWith(SUNNY));
  });

  test(`Vercel AI SDK, ${protocol}: object`, async () => {
    const output = Output.object({ schema: Form });
    const result = await generateText({ model, prompt: "Fill in the form.", output, maxRetries: 0 });
    assert.deepEqual(result.output, FILLED);
  });
}

test("Vercel AI SDK, responses: the reasoning is shown where a summary is asked for", async () => {
  // Its Responses provider takes reasoning parts only from models that it knows as reasoning ones.
  const options = { openai: { reasoningSummary: "auto", forceReasoning: true } };
  const request = { model: models.responses, prompt: QUESTION, providerOptions: options, maxRetries: 0 };
  const whole = await generateText(request);
  assert.equal(whole.reasoningText, "I look.");
  let reasoning = "";
  for await (const part of streamText(request).fullStream) {
    if (part.type === "reasoning-delta") reasoning += part.text;
  }
  assert.equal(reasoning, "I look.");
});
