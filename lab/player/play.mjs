// The function `player` of the lab: plays a title with dash.js in Chromium several times, and
// measures how long it takes until the first frame is shown.
//
//   play.mjs --check
//   play.mjs --manifest URL --runs N --out FILE [--warm-up] [--limit SECONDS]
//
// `--check` fails if something is not installed. `--warm-up` plays the title once before the
// measured runs, because a browser is slower when it plays for the first time. Each run has a
// browser context of its own, so it has no cached response, cookie or open connection. The page and
// dash.js come from a server in this process, so they do not pass the links of the set-up. An error
// is the last line of the output, and the status is then 1.

import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url));
const BROWSER = path("../../e2e/lib/browser.mjs");
const LAUNCHER = path("chromium.sh");
const DASH_JS = path("../../web/node_modules/dashjs/");
const SCRIPT = `${DASH_JS}dist/modern/umd/dash.all.min.js`;

const PAGE = `<!doctype html>
<html lang="en">
  <title>A player</title>
  <video muted width="640" height="360"></video>
  <script src="/dash.js"></script>
</html>
`;

/** Second of the title at which each run ends. Stalls are counted until then. */
const PLAYED = 1;

/** Longest time in seconds until the first frame, and then until `PLAYED` is reached. */
const LIMIT = 30;

/** Returns what is not installed, or nothing. */
async function missing() {
  const chromium = process.env.CHROMIUM ?? "/usr/bin/chromium";
  if (!existsSync(chromium)) return `${chromium} is not installed`;
  if (!existsSync(SCRIPT)) return "dash.js is not installed in web/node_modules";
  return import(BROWSER).then(() => undefined, () => "playwright-core is not installed in e2e/node_modules");
}

/** Serves the page and dash.js at a free port of this host. Returns the address of the page. */
async function serve() {
  const script = await readFile(SCRIPT);
  const server = createServer(({ url }, response) => {
    const [type, body] = url === "/dash.js" ? ["text/javascript", script] : ["text/html", url === "/" ? PAGE : ""];
    response.writeHead(200, { "content-type": type }).end(body);
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return `http://127.0.0.1:${server.address().port}/`;
}

/** In the page: starts the player. Returns the milliseconds until the first frame is shown. */
function start(manifest) {
  return new Promise((shown, failed) => {
    const video = document.querySelector("video");
    const { MediaPlayer } = window.dashjs;
    const player = MediaPlayer().create();
    player.initialize(video, null, true);
    // On-demand titles need no clock synchronisation, and a simulated host cannot reach time
    // servers.
    player.updateSettings({ debug: { logLevel: 0 }, streaming: { utcSynchronization: { enabled: false } } });
    player.on(MediaPlayer.events.ERROR, ({ error }) => failed(new Error(`dash.js: ${error.message ?? error}`)));
    window.lab = { player, stalls: 0 };
    const started = performance.now();
    video.requestVideoFrameCallback((_, frame) => {
      video.addEventListener("waiting", () => (window.lab.stalls += 1));
      shown(frame.expectedDisplayTime - started);
    });
    player.attachSource(manifest);
  });
}

/** In the page: waits until the player has played on. Returns its stalls and requests. */
async function playOn(seconds) {
  const video = document.querySelector("video");
  while (video.currentTime < seconds) await new Promise((next) => video.requestVideoFrameCallback(next));
  const { player, stalls } = window.lab;
  const metrics = player.getDashMetrics();
  const all = ["stream", "video", "audio"].flatMap((type) => metrics.getHttpRequests(type));
  const ended = all.filter((request) => request._tfinish);
  const sum = (value) => ended.reduce((total, request) => total + value(request), 0);
  return {
    stalls,
    requests: ended.length,
    failures: ended.filter(({ responsecode }) => responsecode >= 400).length,
    bytes: sum(({ trace }) => trace.reduce((total, { b }) => total + b[0], 0)),
    waited: sum(({ trequest, _tfinish }) => _tfinish - trequest),
  };
}

/** Plays the title once. */
async function run(browser, page, manifest, within) {
  const began = performance.now();
  const context = await browser.newContext();
  const tab = await context.newPage();
  const errors = [];
  tab.on("pageerror", (error) => errors.push(error));
  await within(tab.goto(page), "the page of the player was not loaded");
  if (errors.length > 0) throw errors[0];
  const startup = await within(tab.evaluate(start, manifest), "no frame was shown");
  const played = await within(tab.evaluate(playOn, PLAYED), `${PLAYED} s of the title were not played`);
  await context.close();
  return { startup, ...played, seconds: (performance.now() - began) / 1000 };
}

/** Plays the title several times, and returns all results. */
async function play(manifest, runs, hasWarmUp, limit) {
  const { launchBrowser } = await import(BROWSER);
  const browser = await launchBrowser({ executablePath: LAUNCHER, more: ["--no-proxy-server"] }).catch((error) => {
    throw new Error("Chromium did not start", { cause: error });
  });
  const within = (promise, what) => {
    promise.catch(() => {});
    let timer;
    const late = new Promise((_, failed) => {
      timer = setTimeout(() => failed(new Error(`${what} within ${limit} s`)), limit * 1000);
    });
    return Promise.race([promise, late]).finally(() => clearTimeout(timer));
  };
  try {
    const page = await serve();
    if (hasWarmUp) await run(browser, page, manifest, within);
    const began = Date.now() / 1000;
    const results = [];
    while (results.length < runs) results.push(await run(browser, page, manifest, within));
    const { version } = JSON.parse(await readFile(`${DASH_JS}package.json`, "utf8"));
    const sum = (name) => results.reduce((total, result) => total + result[name], 0);
    return {
      began,
      player: `dash.js ${version} in Chromium ${browser.version()}`,
      startups: results.map(({ startup }) => Math.round(startup * 10) / 10),
      stalls: sum("stalls"),
      requests: sum("requests"),
      failures: sum("failures"),
      bytes: sum("bytes"),
      latency: sum("waited") / sum("requests"),
      seconds: sum("seconds"),
    };
  } catch (error) {
    if (!browser.isConnected()) throw new Error("Chromium ended by itself", { cause: error });
    throw error;
  } finally {
    await browser.close();
  }
}

async function main() {
  const text = { type: "string" };
  const options = { check: { type: "boolean" }, "warm-up": { type: "boolean" }, manifest: text, runs: text, out: text, limit: text };
  const { values } = parseArgs({ options });
  const lacking = await missing();
  if (lacking) throw new Error(lacking);
  if (values.check) return;
  const results = await play(values.manifest, Number(values.runs), values["warm-up"], Number(values.limit ?? LIMIT));
  await writeFile(values.out, JSON.stringify(results));
}

try {
  await main();
  process.exit(0);
} catch (error) {
  // Messages of Playwright have several lines, and begin with the name of a function.
  const [line] = error.message.split("\n");
  console.error(line.replace(/^\w+\.\w+: (Error: )?/, ""));
  process.exit(1);
}
