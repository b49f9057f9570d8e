// The page in a real browser, on a gateway with the replay engine.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openPlayground, startBrowser, startGateway } from "./browser.js";

let browser, gateway;

before(async () => {
  [browser, gateway] = await Promise.all([startBrowser(), startGateway()]);
});
after(async () => {
  await browser?.close();
  await gateway?.stop();
});

const chat = (content, more = {}) =>
  JSON.stringify({ model: "any", messages: [{ role: "user", content }], thinking: { type: "disabled" }, ...more });

/** The page with the example drawn. */
async function open(options) {
  const page = await openPlayground(browser, gateway.url, options);
  await page.locator("#responses li .at").first().waitFor();
  return page;
}

async function openWith(state) {
  const page = await open();
  await page.locator("#first [name=request]").fill(state.request);
  if (state.output !== undefined) await page.locator("#output").fill(state.output);
  await settled(page);
  return page;
}

/** Waits until nothing is asked any more. */
async function settled(page) {
  await page.waitForTimeout(300);
  await page.waitForLoadState("networkidle");
  await page.waitForTimeout(50);
}

const texts = (locator) => locator.allTextContents();

test("the example: blocks of messages, special tokens, counts, streams", async () => {
  const page = await open();
  const heads = await texts(page.locator("#prompt .block h3"));
  assert.match(heads.join("|"), /^template 1 token\|1 system 1 token\|/);
  assert.ok(heads.some((head) => head.startsWith("4 tool ")));
  assert.ok((await texts(page.locator("#prompt .special"))).includes("<｜begin▁of▁sentence｜>"));
  // What the user spells is text: it stands in the block, and in no special element.
  const user = page.locator("#prompt .block", { hasText: "What is the newest tag?" });
  assert.ok((await user.textContent()).includes("Text like <｜User｜> or </think>"));
  assert.deepEqual(await texts(user.locator(".special")), ["<｜User｜>"]);
  assert.match(await page.locator("#counts").textContent(), /^DeepseekV41Flash, chat_completions: \d+ tokens/);
  assert.match((await texts(page.locator("#chat_completions code"))).at(-1), /^data: \[DONE\]$/);
  assert.ok((await texts(page.locator("#messages code"))).at(-1).startsWith("event: message_stop"));
  assert.ok((await texts(page.locator("#responses code"))).at(-1).includes("response.completed"));
  assert.deepEqual(page.faults, []);
});

test("tokens and ids are those of /tokenize", async () => {
  const page = await openWith({ request: chat("Grüße 👩‍👩‍👧 <think>") });
  await page.getByRole("radio", { name: "ids" }).check();
  const shown = (await texts(page.locator("#prompt .body span"))).join(" ").split(" ").map(Number);
  const reply = await fetch(`${gateway.url}/tokenize`, { method: "POST", body: chat("Grüße 👩‍👩‍👧 <think>") });
  assert.deepEqual(shown, (await reply.json()).tokens);
  await page.getByRole("radio", { name: "tokens" }).check();
  assert.equal((await texts(page.locator("#prompt .body"))).join(""), "<｜begin▁of▁sentence｜><｜User｜>Grüße 👩‍👩‍👧 <think><｜Assistant｜></think>");
  assert.match(await page.locator("#prompt .special").first().getAttribute("title"), /^id 0$/);
});

test("the slider cuts at any token, by keyboard", async () => {
  const page = await openWith({ request: chat("Hi"), output: "One two three" });
  const slider = page.locator("#cut");
  assert.match(await page.locator("#place").textContent(), /^all 3 tokens, and the end$/);
  await slider.focus();
  await page.keyboard.press("Home");
  assert.equal(await page.locator("#place").textContent(), "0 of 3 tokens");
  assert.deepEqual(await texts(page.locator("#events li")), ["nothing yet"]);
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  assert.equal(await slider.getAttribute("aria-valuetext"), "2 of 3 tokens");
  const events = (await texts(page.locator("#events code"))).map((text) => JSON.parse(text));
  assert.equal(events.map((event) => event.text).join(""), "One two");
  assert.deepEqual(await texts(page.locator("#tokens .cut-off")), [" three", " end"]);
  assert.ok(!(await page.locator("#messages").textContent()).includes("message_stop"));
  await page.keyboard.press("End");
  assert.match(await page.locator("#messages").textContent(), /message_stop/);
});

test("a replay goes from the first token to the end", async () => {
  const page = await openWith({ request: chat("Hi"), output: "One two three" });
  await page.getByRole("button", { name: "Replay" }).press("Enter");
  await page.getByRole("button", { name: "Stop" }).waitFor();
  await page.getByRole("button", { name: "Replay" }).waitFor();
  assert.match(await page.locator("#place").textContent(), /^all 3 tokens/);
});

test("an output as ids, as a recorded line, and one that cannot be read", async () => {
  const page = await openWith({ request: chat("Hi"), output: "" });
  await page.locator("#form").selectOption("ids");
  const said = async () => {
    await settled(page);
    return (await texts(page.locator("#tokens .token"))).join("");
  };
  await page.locator("#output").fill("4117, 2");
  const listed = await said();
  await page.locator("#output").fill('{"ids": [4117, 2], "finish_reason": "stop"}');
  assert.equal(await said(), listed);
  assert.ok(listed.length > 0);
  await page.locator("#output").fill("4117, 9999999");
  await settled(page);
  assert.equal(await page.locator("#output-error").textContent(), "400 at ids[1]: ids[1]: not an id of the vocabulary");
  await page.locator("#output").fill("many");
  await settled(page);
  assert.match(await page.locator("#output-error").textContent(), /^Expected ids/);
});

test("the engine is asked", async () => {
  const page = await openWith({ request: chat("Hello, engine"), output: "" });
  await page.getByRole("button", { name: "Ask the engine" }).press("Enter");
  await page.locator("#status", { hasText: "has answered" }).waitFor({ timeout: 60000 });
  await settled(page);
  const said = (await texts(page.locator("#tokens .token"))).join("");
  assert.match(said, /^This is the replay engine.*Hello, engine/);
  assert.match(await page.locator("#place").textContent(), /and the end$/);
  await page.locator("#first [name=model]").selectOption("DeepSeek-V4-Pro");
  await settled(page);
  await page.getByRole("button", { name: "Ask the engine" }).press("Enter");
  await page.locator("#output-error", { hasText: "400 at model: the engine of this server runs the other model" }).waitFor();
});

test("a request that cannot be served says why and where, and the last prompt stays", async () => {
  const page = await open();
  const shown = await page.locator("#prompt").textContent();
  const body = page.locator("#first [name=request]");
  await body.fill(JSON.stringify({ model: "m", messages: [{ role: "user", content: [{ type: "nonsense" }] }] }));
  await page.locator("#first .error").waitFor();
  assert.match(await page.locator("#first .error").textContent(), /^400 at \S*messages\[0\]\.content\S*: .*nonsense/);
  assert.equal(await body.getAttribute("aria-invalid"), "true");
  assert.equal(await page.locator("#prompt").textContent(), shown);
  await body.fill("{");
  await page.locator("#first .error", { hasText: "line 1 column 1" }).waitFor();
  await body.fill(chat("Hi"));
  await page.locator("#first .error").waitFor({ state: "hidden" });
});

test("V4 against V4.1, and one request against another", async () => {
  const page = await openWith({ request: chat("Hi, in json", { response_format: { type: "json_object" } }) });
  await page.locator("#compare").selectOption("model");
  await page.locator("#prompt ins").first().waitFor();
  const rows = await texts(page.locator("#counts span"));
  assert.match(rows[0], /^DeepseekV41Flash/);
  assert.match(rows[1], /^DeepseekV4Pro/);

  await page.locator("#first [name=request]").fill(chat("The cat sat"));
  await page.locator("#compare").selectOption("request");
  await page.locator("#second [name=request]").fill(chat("The dog sat"));
  await page.locator("#prompt ins", { hasText: "dog" }).waitFor();
  assert.deepEqual(await texts(page.locator("#prompt del")), [" cat"]);
  assert.deepEqual(await texts(page.locator("#prompt ins")), [" dog"]);
  await page.locator("#second [name=request]").fill(chat("The cat sat"));
  await page.locator("#prompt .note", { hasText: "Both prompts are the same." }).waitFor();
  assert.deepEqual(page.faults, []);
});

test("a link carries the state", async () => {
  const page = await openWith({ request: chat("Für später"), output: "One two three" });
  await page.locator("#first [name=model]").selectOption("DeepSeek-V4-Pro");
  await page.getByRole("radio", { name: "tokens" }).check();
  await page.locator("#cut").focus();
  await page.keyboard.press("Home");
  await page.keyboard.press("ArrowRight");
  await settled(page);
  await page.getByRole("button", { name: "Copy a link to this" }).click();
  await page.locator("#status", { hasText: "link" }).waitFor();
  const hash = new URL(page.url()).hash;
  const other = await open({ hash });
  assert.equal(await other.locator("#first [name=request]").inputValue(), chat("Für später"));
  assert.equal(await other.locator("#first [name=model]").inputValue(), "DeepSeek-V4-Pro");
  assert.equal(await other.locator("#place").textContent(), "1 of 3 tokens");
  assert.ok(await other.getByRole("radio", { name: "tokens" }).isChecked());
  assert.match(await other.locator("#counts").textContent(), /^DeepseekV4Pro/);

  const broken = await open({ hash: "#nonsense" });
  assert.match(await broken.locator("#status").textContent(), /cannot be read/);
  assert.deepEqual(broken.faults, []);
});

test("text of users never becomes markup", async () => {
  const evil = '<img src=x onerror="document.title=1"><script>document.title=1</script>';
  const page = await openWith({ request: chat(evil), output: evil });
  for (const view of ["text", "tokens", "ids"]) await page.getByRole("radio", { name: view }).check();
  await page.locator("#compare").selectOption("request");
  await page.locator("#second [name=request]").fill(chat(`Other ${evil}`));
  await page.locator("#prompt ins", { hasText: "Other" }).waitFor();
  assert.equal(await page.locator("main img, main script").count(), 0);
  assert.equal(await page.title(), "Playground of deepseek-recipe");
  assert.deepEqual(page.faults, []);
});

test("everything is reached by Tab in the order of the page, named, and shows its focus", async () => {
  const page = await open();
  await page.locator("#compare").selectOption("request");
  await page.locator("#second").waitFor();
  await page.evaluate(() => document.activeElement.blur());
  const reached = [];
  for (;;) {
    await page.keyboard.press("Tab");
    const found = await page.evaluate(() => {
      const focused = document.activeElement;
      if (focused === document.body) return null;
      focused.dataset.order ??= document.querySelectorAll("[data-order]").length;
      const name =
        focused.getAttribute("aria-label") || focused.labels?.[0]?.textContent.trim() || focused.textContent.trim() ||
        document.getElementById(focused.getAttribute("aria-labelledby"))?.textContent;
      const place = [...document.querySelectorAll("*")].indexOf(focused);
      return { name, place, id: focused.id || focused.name || focused.localName, outline: getComputedStyle(focused).outlineStyle };
    });
    if (!found || (reached.length && found.place <= reached.at(-1).place)) break;
    reached.push(found);
  }
  const ids = reached.map((found) => found.id);
  for (const id of ["key", "link", "compare", "protocol", "request", "prompt", "form", "output", "play", "cut", "tokens", "events", "responses"]) {
    assert.ok(ids.includes(id), `${id} in ${ids}`);
  }
  assert.deepEqual(ids.filter((id) => id === "request").length, 2);
  for (const found of reached) {
    assert.ok(found.name, `${found.id} has a name`);
    assert.notEqual(found.outline, "none", `${found.id} shows its focus`);
  }
});

test("texts have contrast in light and in dark", async () => {
  for (const colorScheme of ["light", "dark"]) {
    const page = await open({ colorScheme });
    await page.locator("#cut").fill("40");
    const poor = await page.evaluate(() => {
      const canvas = document.createElement("canvas").getContext("2d");
      const rgb = (colour) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
      };
      const light = ([r, g, b]) => {
        const linear = (part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
        return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
      };
      const ground = (element) => {
        const colour = rgb(getComputedStyle(element).backgroundColor);
        return colour[3] === 255 ? colour : element.parentElement ? ground(element.parentElement) : [255, 255, 255, 255];
      };
      const poor = new Set();
      for (const element of document.querySelectorAll("body *")) {
        const hasText = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
        if (!hasText || element.closest("template, option, [hidden]")) continue;
        const [a, b] = [light(rgb(getComputedStyle(element).color)), light(ground(element))].sort((x, y) => y - x);
        const ratio = (a + 0.05) / (b + 0.05);
        if (ratio < 4.5) poor.add(`${element.localName}.${element.className} ${ratio.toFixed(2)}`);
      }
      return [...poor];
    });
    assert.deepEqual(poor, [], colorScheme);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true);
  }
});

test("a narrow page does not scroll sideways", async () => {
  const page = await open({ viewport: { width: 380, height: 800 } });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 380);
});

test("a gateway with keys asks for one", async () => {
  const locked = await startGateway("--api-key", "secret");
  try {
    const page = await openPlayground(browser, locked.url);
    await page.locator("#first .error", { hasText: "401" }).waitFor();
    await page.locator("#key").fill("secret");
    await page.locator("#prompt .block").first().waitFor();
    assert.ok(await page.locator("#first .error").isHidden());
    // The key is in no link.
    await page.getByRole("button", { name: "Copy a link to this" }).click();
    const state = await page.evaluate(() => location.hash);
    const other = await openPlayground(browser, locked.url, { hash: state });
    await other.locator("#first .error", { hasText: "401" }).waitFor();
  } finally {
    await locked.stop();
  }
});
