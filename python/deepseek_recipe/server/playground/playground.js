// The page: reads what is typed, asks the server's endpoints, and shows what comes. It knows no protocol and no
// template. Text is only ever set as text.

import { element, number, showDifference, showPrompt } from "./prompt.js";

const STREAMS = ["events", "chat_completions", "messages", "responses"];
const MODELS = ["DeepSeek-V4.1-Flash", "DeepSeek-V4-Pro"];
const MOST_SHOWN = 100; // Entries of a stream in the page: the last ones.
const TYPING = 250; // Milliseconds without a key until the server is asked.
const FRAME = 40; // Milliseconds a token while an output is replayed.

const by = (id) => document.getElementById(id);
const editors = [by("first"), by("second")];
const field = (editor, name) => editor.querySelector(`[name=${name}]`);

let prompts = []; // What the server said about the requests, one or two.
let steps = []; // What it said about the output.
let wantedCut = null; // In steps; `null`: the whole output.
let drawnCut = 0;
let replaying = 0; // The timer, if an output is being replayed.

/** A function that runs `work` with a signal, which is aborted when it is called again. */
function latest(work) {
  let running = new AbortController();
  return async () => {
    running.abort();
    running = new AbortController();
    const { signal } = running;
    try {
      await work(signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  };
}

function waiting(work) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, TYPING);
  };
}

// --- state -----------------------------------------------------------------------------------------------------------

function readState() {
  const request = (editor) => ({
    request: field(editor, "request").value,
    protocol: field(editor, "protocol").value || null,
    model: field(editor, "model").value,
  });
  const compare = by("compare").value;
  return {
    first: request(editors[0]),
    second: compare === "request" ? request(editors[1]) : null,
    compare,
    view: document.querySelector("[name=view]:checked").value,
    output: by("output").value,
    form: by("form").value,
    finish: by("finish").value,
    cut: wantedCut,
  };
}

function writeState(state) {
  [state.first, state.second ?? state.first].forEach((request, place) => {
    field(editors[place], "request").value = request.request;
    field(editors[place], "protocol").value = request.protocol ?? "";
    field(editors[place], "model").value = request.model ?? MODELS[0];
  });
  by("compare").value = state.compare ?? "";
  for (const radio of document.getElementsByName("view")) radio.checked = radio.value === (state.view ?? "text");
  by("output").value = state.output ?? "";
  by("form").value = state.form ?? "text";
  by("finish").value = state.finish ?? "stop";
}

/** The state as a URL fragment: JSON, deflated, in base64 for URLs. */
async function packed(state) {
  const stream = new Blob([JSON.stringify(state)]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const letters = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** Rejects what `packed` did not make. */
async function unpacked(fragment) {
  const letters = atob(fragment.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
  const state = await new Response(
    new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")),
  ).json();
  if (typeof state?.first?.request !== "string") throw new TypeError("no state of this page");
  return state;
}

let kept = ""; // The fragment that this page wrote last.

const keepState = latest(async (signal) => {
  const fragment = `#${await packed(readState())}`;
  if (signal.aborted) return;
  kept = fragment;
  history.replaceState(null, "", kept);
});

// --- asking ----------------------------------------------------------------------------------------------------------

/** Answers of the server, or an `Error` whose message is for people. */
async function ask(path, body, signal) {
  const headers = { "content-type": "application/json" };
  const key = by("key").value;
  if (key) headers.authorization = `Bearer ${key}`;
  let reply;
  try {
    reply = await fetch(`playground/${path}`, { method: "POST", headers, body: JSON.stringify(body), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer.");
  }
  const answer = await reply.json().catch(() => null);
  if (reply.ok && answer) return answer;
  const { message, param } = answer?.error ?? { message: reply.ok ? "The answer broke off." : reply.statusText };
  throw new Error(`${reply.status}${param ? ` at ${param}` : ""}: ${message}`);
}

function showError(place, control, error) {
  place.hidden = !error;
  place.textContent = error ? error.message : "";
  control.setAttribute("aria-invalid", String(Boolean(error)));
}

// --- prompts ---------------------------------------------------------------------------------------------------------

const updatePrompts = latest(async (signal) => {
  const { first, second, compare } = readState();
  const other = { ...first, model: MODELS.find((model) => model !== first.model) };
  const wanted = { "": [first], model: [first, other], request: [first, second] }[compare];
  const answers = await Promise.allSettled(wanted.map((request) => ask("prompt", request, signal)));
  if (signal.aborted) return;
  editors.forEach((editor, place) => {
    const refused = answers[place]?.status === "rejected" ? answers[place].reason : null;
    showError(editor.querySelector(".error"), field(editor, "request"), compare !== "model" || place === 0 ? refused : null);
  });
  // The last good prompt stays where a request is being typed.
  if (answers.some((answer) => answer.status === "rejected")) return;
  prompts = answers.map((answer) => answer.value);
  drawPrompts();
});

function drawPrompts() {
  if (prompts.length === 0) return;
  by("counts").replaceChildren(...prompts.map((prompt) => element("span", {}, counts(prompt))));
  by("views").hidden = prompts.length > 1;
  by("legend").hidden = prompts.length === 1;
  const { view } = readState();
  if (prompts.length > 1) showDifference(by("prompt"), ...prompts);
  else showPrompt(by("prompt"), prompts[0], view);
  const told = prompts.map((prompt) => prompt.inference_options);
  by("options").textContent = JSON.stringify(told.length > 1 ? told : told[0], null, 2);
}

function counts(prompt) {
  const special = prompt.segments.filter((segment) => segment.kind !== "plain").length;
  const parts = [number(prompt.tokens, "token"), number(special, "special token"), number(prompt.characters, "character")];
  parts.push(number(prompt.messages.length, "message"));
  if (prompt.images.length) parts.push(number(prompt.images.length, "image"));
  return `${prompt.model_version}, ${prompt.protocol}: ${parts.join(", ")}`;
}

// --- output ----------------------------------------------------------------------------------------------------------

const updateOutput = latest(async (signal) => {
  const state = readState();
  const body = { ...state.first, finish_reason: state.finish || null };
  try {
    Object.assign(body, output(state));
    const answer = await ask("output", body, signal);
    showError(by("output-error"), by("output"), null);
    steps = answer.steps;
    by("response").textContent = JSON.stringify(answer.response, null, 2);
    by("tokens").replaceChildren(...steps.map((step) => tokenElement(step)));
    drawnCut = 0;
    by("cut").max = steps.length;
    setCut(wantedCut ?? steps.length);
  } catch (error) {
    if (signal.aborted) throw error;
    // A refused request has its message above.
    const known = document.querySelector("#first .error:not([hidden])");
    showError(by("output-error"), by("output"), known ? null : error);
  }
});

/** The output as the server takes it. A recording is a line with `ids` or `text`. */
function output({ form, output: written }) {
  if (form === "text") return { text: written };
  try {
    const given = JSON.parse(written.trim().startsWith("{") || written.trim().startsWith("[") ? written : `[${written}]`);
    return Array.isArray(given) ? { ids: given } : { ids: given.ids, text: given.text };
  } catch {
    throw new Error("Expected ids with commas between them, a JSON list, or one line of a recording.");
  }
}

async function askEngine() {
  if (by("ask").ariaBusy === "true") return;
  by("ask").ariaBusy = "true";
  by("status").textContent = "The engine is asked.";
  try {
    const { ids, finish_reason } = await ask("engine", readState().first);
    by("form").value = "ids";
    by("output").value = ids.join(", ");
    by("finish").value = finish_reason ?? "";
    wantedCut = null;
    by("status").textContent = "The engine has answered.";
    await updateAll();
  } catch (error) {
    by("status").textContent = "";
    showError(by("output-error"), by("output"), error);
  } finally {
    by("ask").ariaBusy = "false";
  }
}

function tokenElement(step) {
  if (step.id === undefined) return element("span", { class: "end cut-off" }, " end");
  return element("span", { class: step.special ? "token special cut-off" : "token cut-off", title: `id ${step.id}` }, step.text);
}

function setCut(cut) {
  by("cut").value = cut;
  drawCut();
}

function drawCut() {
  const cut = Number(by("cut").value);
  wantedCut = cut === steps.length ? null : cut;
  const tokens = steps.filter((step) => step.id !== undefined).length;
  const place = cut > tokens ? `all ${tokens} tokens, and the end` : `${cut} of ${tokens} tokens`;
  by("place").textContent = place;
  by("cut").setAttribute("aria-valuetext", place);
  drawTokens(cut);
  for (const stream of STREAMS) drawStream(by(stream), cut, (step) => (stream === "events" ? step.events : step.streams[stream]));
}

function drawTokens(cut) {
  const tokens = by("tokens").children;
  // Only those between the last cut and this one change.
  for (let i = Math.min(drawnCut, cut); i <= Math.max(drawnCut, cut) && i < tokens.length; i++) {
    tokens[i].classList.toggle("cut-off", i >= cut);
    tokens[i].classList.toggle("here", i === cut);
  }
  drawnCut = cut;
  // Not scrollIntoView: that would move the page, too.
  const token = tokens[Math.min(cut, tokens.length - 1)];
  if (token) by("tokens").scrollTop = token.offsetTop - by("tokens").clientHeight / 2;
}

/** Draws the newest entries that the steps before `cut` made. */
function drawStream(list, cut, entriesOf) {
  const drawn = [];
  let place = cut - 1;
  for (; place >= 0 && drawn.length < MOST_SHOWN; place--) {
    const at = steps[place].id === undefined ? "end" : String(place + 1);
    for (const entry of entriesOf(steps[place]).toReversed()) {
      const text = typeof entry === "string" ? entry : JSON.stringify(entry);
      const attributes = { class: place === cut - 1 ? "newest" : "" };
      drawn.push(element("li", attributes, element("span", { class: "at" }, at), element("code", {}, text)));
    }
  }
  if (place >= 0) drawn.push(element("li", { class: "note" }, `Those of ${number(place + 1, "token")} before are not shown.`));
  if (cut === 0 || drawn.length === 0) drawn.push(element("li", { class: "note" }, "nothing yet"));
  list.replaceChildren(...drawn.reverse());
  list.scrollTop = list.scrollHeight;
}

function replay() {
  if (replaying) return stopReplay();
  by("play").textContent = "Stop";
  if (Number(by("cut").value) >= steps.length) setCut(0);
  replaying = setInterval(() => {
    setCut(Number(by("cut").value) + 1);
    if (Number(by("cut").value) >= steps.length) stopReplay();
  }, FRAME);
}

function stopReplay() {
  clearInterval(replaying);
  replaying = 0;
  by("play").textContent = "Replay";
  keepState();
}

// --- the page --------------------------------------------------------------------------------------------------------

function makeEditors() {
  editors.forEach((editor, place) => {
    editor.append(by("editor").content.cloneNode(true));
    editor.querySelector("legend").textContent = place === 0 ? "The request" : "The other request";
    const error = editor.querySelector(".error");
    error.id = `error-${place}`;
    field(editor, "request").setAttribute("aria-describedby", error.id);
  });
  by("output").setAttribute("aria-describedby", "output-error");
}

async function updateAll() {
  const { compare } = readState();
  editors[1].hidden = compare !== "request";
  by("requests").classList.toggle("two", compare === "request");
  await updatePrompts();
  await updateOutput();
  await keepState();
}

function listen() {
  const typed = waiting(updateAll);
  for (const place of ["requests", "key", "output"]) by(place).addEventListener("input", typed);
  for (const place of ["form", "finish"]) by(place).addEventListener("change", updateAll);
  by("views").addEventListener("change", () => {
    drawPrompts();
    keepState();
  });
  const settled = waiting(keepState);
  by("cut").addEventListener("input", () => {
    drawCut();
    settled();
  });
  by("play").addEventListener("click", replay);
  by("ask").addEventListener("click", askEngine);
  by("link").addEventListener("click", copyLink);
  addEventListener("hashchange", () => location.hash !== kept && start());
}

async function copyLink() {
  await keepState();
  try {
    await navigator.clipboard.writeText(location.href);
    by("status").textContent = "The link is copied.";
  } catch {
    by("status").textContent = "The link is in the address bar.";
  }
}

async function start() {
  let state = null;
  by("status").textContent = "";
  if (location.hash.length > 1) {
    state = await unpacked(location.hash.slice(1)).catch(() => null);
    if (!state) by("status").textContent = "The link cannot be read; this is the example.";
  }
  if (!state) {
    const example = await (await fetch("playground/example")).json();
    state = { first: { request: example.request }, output: example.output };
  }
  writeState(state);
  wantedCut = Number.isInteger(state.cut) ? state.cut : null;
  await updateAll();
}

makeEditors();
listen();
start();
