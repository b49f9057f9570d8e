// Draws a prompt, and two prompts as a difference. Text is only ever set as text.

import { diff } from "./diff.js";

const MOST_PIECES = 40000; // Tokens that are drawn one by one.
const CONTEXT = 12; // Tokens shown on either side of a difference.

/** An element with attributes and children; strings are text. */
export function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** A count with its word. */
export function number(count, word) {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
}

/** The pieces of all segments, each with its segment's kind. */
function pieces(prompt) {
  return prompt.segments.flatMap(({ kind, pieces }) => pieces.map((piece) => ({ kind, ...piece })));
}

/** Draws a prompt in blocks, one for each run that a message made, as `text`, `tokens` or `ids`. */
export function showPrompt(place, prompt, view) {
  const all = pieces(prompt);
  const drawn = view === "text" ? all : all.slice(0, MOST_PIECES);
  const blocks = [];
  for (const piece of drawn) {
    if (blocks.at(-1)?.message !== piece.message) blocks.push({ message: piece.message, pieces: [] });
    blocks.at(-1).pieces.push(piece);
  }
  const draw = { text: asText, tokens: asTokens, ids: asIds }[view];
  place.replaceChildren(...blocks.map((block) => blockElement(prompt, block, draw)));
  if (drawn.length < all.length) place.append(element("p", { class: "note" }, `${all.length - drawn.length} more tokens`));
}

function blockElement(prompt, block, draw) {
  const role = block.message === null ? "template" : prompt.messages[block.message];
  const name = block.message === null ? "template" : `${block.message + 1} ${role.replace("_", " ")}`;
  const count = block.pieces.reduce((sum, piece) => sum + piece.ids.length, 0);
  const head = element("h3", {}, name, element("span", { class: "count" }, ` ${number(count, "token")}`));
  return element("section", { class: "block", "data-role": role }, head, element("div", { class: "body" }, ...draw(block.pieces)));
}

function asText(run) {
  const drawn = [];
  for (const piece of run) {
    if (piece.kind !== "plain") drawn.push(element("span", { class: piece.kind }, piece.text));
    else if (typeof drawn.at(-1) === "string") drawn.push(drawn.pop() + piece.text);
    else drawn.push(piece.text);
  }
  return drawn;
}

function asTokens(run) {
  return run.map((piece) => element("span", { class: `token ${piece.kind}`, title: said(piece) }, piece.text));
}

function asIds(run) {
  return run.flatMap((piece) => [element("span", { class: piece.kind, title: said(piece) }, piece.ids.join(" ")), " "]);
}

/** What a tooltip says about a piece. */
function said(piece) {
  const name = (message) => (message === null ? "the template" : `message ${message + 1}`);
  const ids = `${piece.ids.length === 1 ? "id" : "ids"} ${piece.ids.join(", ")}`;
  if (piece.last_message === undefined) return ids;
  return `${ids}: begins in ${name(piece.message)} and ends in ${name(piece.last_message)}`;
}

/** Draws two prompts as one text: what only one of them has is marked, and long common runs are folded. */
export function showDifference(place, first, second) {
  const [a, b] = [pieces(first), pieces(second)];
  const key = (piece) => piece.ids.join();
  const runs = diff(a.map(key), b.map(key));
  const body = element("div", { class: "body difference" });
  for (const { kind, items } of runs) {
    if (kind === "same") body.append(...folded(items.map(([i]) => a[i])));
    else body.append(element(kind === "first" ? "del" : "ins", {}, ...asTokens(items.map((i) => (kind === "first" ? a : b)[i]))));
  }
  if (runs.every((run) => run.kind === "same")) body.prepend(element("p", { class: "note" }, "Both prompts are the same."));
  place.replaceChildren(body);
}

function folded(run) {
  if (run.length < 4 * CONTEXT) return asText(run);
  const inside = run.slice(CONTEXT, -CONTEXT);
  const summary = element("summary", {}, `${inside.length.toLocaleString("en")} tokens are the same`);
  const details = element("details", {}, summary, ...asText(inside));
  return [...asText(run.slice(0, CONTEXT)), details, ...asText(run.slice(-CONTEXT))];
}
