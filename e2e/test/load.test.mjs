// The live page of `latemux load --ui`: what it shows is what is measured, and it can be read.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { pathToFileURL } from "node:url";
import { launchBrowser, Record } from "../lib/browser.mjs";
import { runLatemux, startLatemux, startOrigin } from "../lib/origin.mjs";

const WAIT = { timeout: 60_000 };
const PLAYERS = 20;

let origin;
let browser;
let otherHost;
before(async () => {
  [origin, browser, otherHost] = await Promise.all([
    startOrigin(),
    launchBrowser(),
    startLatemux(["load", "--host-stats", "127.0.0.1:0"]),
  ]);
});
after(async () => {
  await browser?.close();
  await Promise.all([origin?.stop(), otherHost?.stop()]);
});

/**
 * Starts a run with a page, opens it, hands both over, and answers for what the page did meanwhile.
 */
async function run(arguments_, use, { faults = [] } = {}) {
  const load = await startLatemux(["load", ...arguments_, "--ui", "127.0.0.1:0"]);
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  const record = new Record(page, load.address);
  try {
    await page.goto(load.address);
    await use(page, load, record);
  } finally {
    // What it was asking for just then is cancelled.
    record.action();
    await page.close();
    await load.stop();
  }
  const unexpected = record.faults.filter((fault) => !faults.some((allowed) => allowed.test(fault)));
  assert.deepEqual(unexpected, []);
}

const watching = (duration) => [
  ...["harbour/.mpd", "harbour/.m3u8"].map((manifest) => origin.address + manifest),
  ...["--players", String(PLAYERS), "--ramp", "2s", "--buffer", "6s", "--duration", duration],
];
const state = (page, wanted) => page.locator(`body[data-state=${wanted}]`).waitFor(WAIT);
/** Waits until that many seconds are on the page. */
const seconds = (page, wanted) =>
  page.waitForFunction(
    (least) => {
      const [, minutes, rest] = document.querySelector("#state").textContent.match(/(\d+):(\d+)$/) ?? [];
      return Number(minutes) * 60 + Number(rest) >= least;
    },
    wanted,
    WAIT,
  );
const figures = (page) =>
  page.locator(".figures div").evaluateAll((all) => Object.fromEntries(all.map((one) => [one.children[0].textContent, one.children[1].textContent])));
/** By plot: whether each line's colour is on its canvas, and what its legend says of it. */
const plots = (page) =>
  page.locator("figure").evaluateAll((all) =>
    all.map((figure) => {
      const canvas = figure.querySelector("canvas");
      const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
      const seen = new Set();
      for (let at = 0; at < pixels.length; at += 4) if (pixels[at + 3] === 255) seen.add(pixels.slice(at, at + 3).join());
      const lines = [...figure.querySelectorAll(".u-series")].slice(1).map((series) => {
        const stroke = getComputedStyle(series.querySelector(".u-marker")).borderTopColor;
        return {
          name: series.querySelector("th").textContent,
          drawn: seen.has(stroke.match(/\d+/g).slice(0, 3).join()),
          value: series.querySelector(".u-value").textContent,
        };
      });
      return { name: figure.querySelector("figcaption").firstChild.textContent.trim(), lines };
    }),
  );
/** The worst contrast of any text on the page with what is behind it (WCAG 2.2, 1.4.3). */
const contrast = (page) =>
  page.evaluate(() => {
    const light = (colour) => {
      const [r, g, b] = colour.match(/[\d.]+/g).slice(0, 3).map((part) => {
        const value = part / 255;
        return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    let worst = { ratio: 21 };
    for (const element of document.querySelectorAll("body *")) {
      const text = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim() !== "");
      if (!text || element.getClientRects().length === 0) continue;
      let behind = element;
      while (/rgba\(.*, 0\)/.test(getComputedStyle(behind).backgroundColor) && behind.parentElement) behind = behind.parentElement;
      const [a, b] = [light(getComputedStyle(element).color), light(getComputedStyle(behind).backgroundColor)].sort((x, y) => y - x);
      const ratio = (a + 0.05) / (b + 0.05);
      if (ratio < worst.ratio) worst = { ratio, text: element.textContent };
    }
    return worst;
  });

describe("live page of a load", { concurrency: 2 }, () => {
  it("shows the run, this machine and another, and stays when it is over", () =>
    run([...watching("8s"), "--watch-host", new URL(otherHost.address).host], async (page, load) => {
      await state(page, "running");
      await seconds(page, 5);
      assert.equal((await figures(page)).Players, `${PLAYERS} of ${PLAYERS}`);
      const shown = await plots(page);
      assert.deepEqual(
        shown.map(({ name }) => name),
        ["Throughput", "Latency", "Requests", "Players", "Processors", "Memory", "Network"],
      );
      const names = await page.locator("#hosts li").allTextContents();
      assert.equal(names.length, 2);
      for (const name of names) assert.match(name, /: \d+ cores, [\d.]+ GB$/);
      for (const { name, lines } of shown) {
        // In a second without an answer there is no latency.
        for (const line of lines) assert.match(line.value, name === "Latency" ? /\d|–/ : /\d/, `${name}, ${line.name}`);
        assert.ok(lines.some((line) => line.drawn), `${name}: no line is drawn`);
      }
      const line = (plot, place) => shown.find(({ name }) => name === plot).lines[place];
      // Both machines are one here: of their lines, one may lie on the other.
      assert.ok(line("Throughput", 0).drawn, "throughput");
      assert.ok(line("Latency", 2).drawn, "latency");
      assert.ok(line("Memory", 2).drawn, "memory of the generator");
      assert.equal(line("Players", 0).value, String(PLAYERS));

      await state(page, "ended");
      assert.equal(await load.ended, 0, load.log());
      const { Players, Received, "Failed requests": failed } = await figures(page);
      assert.equal(Players, `0 of ${PLAYERS}`);
      // The summary in the terminal, and the page's table.
      const [, all, none, megabytes] = load.said().match(/^all +(\d+) +(\d+) +([\d.]+) /m);
      assert.equal(none, "0");
      assert.equal(failed, `0 of ${Number(all).toLocaleString("en")}`);
      assert.ok(Math.abs(parseFloat(Received) - Number(megabytes)) < 0.1, `${Received} on the page, ${megabytes} MB in the terminal`);
      const rows = await page.locator(".classes tbody tr").evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
      const counts = rows.map(([name, count]) => `${name} ${count.replaceAll(",", "")}`);
      const told = [...load.said().matchAll(/^((?:dash|hls)\.\w+) +(\d+) /gm)].map(([, name, count]) => `${name} ${count}`);
      assert.deepEqual(counts, told);
      assert.ok(counts.length >= 5, counts.join());
    }));

  it("can be read in light and in dark, and on a narrow screen", () =>
    run([...watching("20s"), "--watch-host", "127.0.0.1:1"], async (page) => {
      await seconds(page, 3);
      const before = (await plots(page))[0].lines[0];
      assert.ok(before.drawn);
      for (const colorScheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme });
        await seconds(page, 4);
        const worst = await contrast(page);
        assert.ok(worst.ratio >= 4.5, `${colorScheme}: ${worst.ratio.toFixed(2)} of "${worst.text}"`);
        assert.ok((await plots(page))[0].lines[0].drawn, `${colorScheme}: drawn in the colours of the page`);
      }
      assert.match(await page.locator("#hosts .bad").textContent(), /127\.0\.0\.1:1: connection_refused/);
      await page.setViewportSize({ width: 360, height: 780 });
      await seconds(page, 6);
      const [content, screen] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(content <= screen, `${content} px of content on a screen of ${screen} px`);
      const widest = await page.locator("figure").evaluateAll((all) => Math.max(...all.map((one) => one.querySelector("canvas").getBoundingClientRect().right - one.getBoundingClientRect().right)));
      assert.ok(widest <= 0, `a plot is ${widest} px wider than its frame`);
    }));

  it("says what failed", () =>
    run([`${origin.address}no/such/title.mp4/.mpd`, "--players", "3", "--duration", "9s"], async (page) => {
      await page.getByText("status_404").waitFor(WAIT);
      assert.match(await page.locator(".failures").textContent(), /^status_404 \d+ × – http:.*title\.mp4/);
      assert.match(await page.locator(".figures .bad").textContent(), /^Failed requests\d+ of \d+/);
    }));

  it("says that the generator is gone, and keeps what it had", () =>
    run(
      watching("60s"),
      async (page, load) => {
        await seconds(page, 3);
        await load.stop("SIGKILL");
        await state(page, "lost");
        assert.match(await page.locator("#state").textContent(), /^No response since 00:\d\d$/);
        assert.ok((await plots(page))[0].lines[0].drawn);
      },
      { faults: [/live\.json/, /ERR_CONNECTION_REFUSED/] },
    ));

  it("answers no page of another site", async () => {
    const load = await startLatemux(["load", ...watching("10s"), "--ui", "127.0.0.1:0"]);
    const page = await browser.newPage();
    try {
      await page.goto(origin.address);
      const read = (url) =>
        page.evaluate((at) => fetch(at).then((response) => response.text(), (error) => `refused: ${error.message}`), url);
      assert.match(await read(`${load.address}live.json`), /^refused/);
      assert.match(await read(`${otherHost.address}host.json`), /^refused/);
    } finally {
      await page.close();
      await load.stop();
    }
  });
});

describe("report of a load", () => {
  it("opens from disk, and looks and counts like the live page", async () => {
    const folder = await mkdtemp(join(tmpdir(), "latemux-report-"));
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    const record = new Record(page, "file://");
    try {
      const load = await startLatemux(["load", ...watching("4s"), "--ui", "127.0.0.1:0", "--out", folder]);
      const live = await browser.newPage({ viewport: { width: 1280, height: 900 } });
      await live.goto(load.address);
      await state(live, "ended");
      assert.equal(await load.ended, 0, load.log());
      const { stdout } = await runLatemux("report", folder);

      const file = pathToFileURL(join(folder, "report.html")).href;
      await page.goto(file);
      await state(page, "ended");
      const look = (one) =>
        one.evaluate(() =>
          ["body", "header", ".mark", "#state", ".figures div", ".figures dd", "figure", "figcaption", ".scroll", ".classes td"].map((selector) => {
            const { color, backgroundColor, borderColor, borderRadius, font, padding } = getComputedStyle(document.querySelector(selector));
            return { selector, color, backgroundColor, borderColor, borderRadius, font, padding };
          }),
        );
      assert.deepEqual(await look(page), await look(live), "the same look");
      const rows = (one) => one.locator(".scroll tbody tr").evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
      const shown = await rows(page);
      assert.deepEqual(shown, await rows(live), "the same tables");
      const [, all] = stdout.match(/^all +(\d+) /m);
      assert.equal((await figures(page))["Failed requests"], `0 of ${Number(all).toLocaleString("en")}`);
      assert.equal((await figures(page)).Players, `${PLAYERS} in all`);
      assert.equal(await page.locator("#machines-part").isVisible(), false, "machines are not recorded");
      await live.close();

      for (const colorScheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme });
        const drawn = await plots(page);
        assert.deepEqual(
          drawn.map(({ name }) => name),
          ["Throughput", "Latency", "Requests", "Players", "Latency", "Start-up"],
        );
        for (const { name, lines } of drawn) assert.ok(lines.some((line) => line.drawn), `${colorScheme}, ${name}: no line is drawn`);
        const worst = await contrast(page);
        assert.ok(worst.ratio >= 4.5, `${colorScheme}: ${worst.ratio.toFixed(2)} of "${worst.text}"`);
      }
      const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      assert.equal(ground, "rgb(14, 21, 20)", "the dark scheme is in use");
      assert.deepEqual(record.faults, []);
      assert.equal(record.requests, 1, "the file needs no other");
    } finally {
      await page.close();
      await rm(folder, { recursive: true });
    }
  });
});
