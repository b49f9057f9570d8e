// A gateway and a browser for the tests. DEEPSEEK_RECIPE_PYTHON is the Python that has the package, CHROMIUM the browser.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const root = fileURLToPath(new URL("../..", import.meta.url));
const python = process.env.DEEPSEEK_RECIPE_PYTHON ?? `${root}.venv/bin/python`;
const browserPath = process.env.CHROMIUM ?? "/usr/bin/chromium";

/** Starts a gateway on a free port. Returns `{url, stop}`. */
export async function startGateway(...options) {
  const serve = ["-m", "deepseek_recipe", "serve", "--port", "0", "--log-level", "error", ...options];
  const server = spawn(python, serve, { stdio: ["ignore", "pipe", "inherit"] });
  const stop = async () => {
    server.kill("SIGTERM");
    if (server.exitCode === null) await once(server, "exit");
  };
  for await (const line of createInterface({ input: server.stdout })) {
    const [url] = line.match(/http:\/\/\S+/) ?? [];
    if (url) return { url, stop };
  }
  throw new Error("the gateway did not start");
}

export async function startBrowser() {
  if (!existsSync(browserPath)) throw new Error(`no ${browserPath}: apt-get install chromium`);
  return chromium.launch({
    executablePath: browserPath,
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}

/** A new page with the playground, when its example is drawn. Collects what goes wrong in `page.faults`. */
export async function openPlayground(browser, url, { hash = "", ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 1000 }, ...options });
  const page = await context.newPage();
  page.faults = [];
  page.on("pageerror", (error) => page.faults.push(String(error)));
  page.on("request", (request) => request.url().startsWith(url) || page.faults.push(`asked ${request.url()}`));
  await page.goto(`${url}/playground${hash}`);
  return page;
}
