// The live page of `latemux load --ui`: what it shows is what is measured, and it can be read.

import assert from "node:assert/strict";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
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
/** Returns the lines of each plot: name, colour as sRGB from 0 to 1, and whether it is dashed. */
const looks = (page) =>
  page.locator("figure").evaluateAll((all) =>
    all.map((figure) => ({
      name: figure.querySelector("figcaption").firstChild.textContent.trim(),
      lines: [...figure.querySelectorAll(".u-series")].slice(1).map((series) => {
        const { borderTopColor, borderTopStyle } = getComputedStyle(series.querySelector(".u-marker"));
        const colour = borderTopColor.match(/\d+/g).slice(0, 3).map((part) => part / 255);
        return { name: series.querySelector("th").textContent, colour, isDashed: borderTopStyle === "dashed" };
      }),
    })),
  );
/** Returns the difference of two colours, which is their distance in Oklab (CSS Color 4, 9.2). */
const difference = (...colours) => {
  const [one, other] = colours.map((colour) => {
    const [r, g, b] = colour.map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    const [l, m, s] = [
      Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b),
      Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b),
      Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b),
    ];
    return [
      0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
      1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
      0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
    ];
  });
  return Math.hypot(...one.map((value, axis) => value - other[axis]));
};
/** Checks that the lines of each plot can be told apart, and have different names. */
async function assertDistinct(page) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    for (const { name, lines } of await looks(page)) {
      assert.equal(new Set(lines.map((line) => line.name)).size, lines.length, `${name}: names of ${lines.map((line) => line.name)}`);
      lines.forEach((line, place) => {
        for (const other of lines.slice(0, place)) {
          const apart = difference(line.colour, other.colour) > 0.12 || (place >= 12 && line.isDashed !== other.isDashed);
          assert.ok(apart, `${colorScheme}, ${name}: ${line.name} looks like ${other.name}`);
        }
      });
    }
  }
}
/** Returns what is wider than the screen, or over another part of its plot. */
const misplaced = (page) =>
  page.evaluate(() => {
    const wide = [...document.querySelectorAll("body *")].filter((one) => !one.closest(".scroll") && one.getBoundingClientRect().right > innerWidth + 0.5);
    const over = [...document.querySelectorAll("figure")].filter((one) => {
      const [plot, legend] = [".u-wrap", ".u-legend"].map((part) => one.querySelector(part).getBoundingClientRect());
      return legend.top < plot.bottom - 0.5 || legend.bottom > one.getBoundingClientRect().bottom;
    });
    const scrolls = document.documentElement.scrollWidth > innerWidth ? [`${document.documentElement.scrollWidth} px of content`] : [];
    return [...scrolls, ...wide.map((one) => `wide: ${one.tagName} ${one.className} ${one.textContent.trim().slice(0, 40)}`), ...over.map((one) => `over: ${one.textContent}`)];
  });
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
      await assertDistinct(page);
      const machines = names.map((name) => name.slice(0, name.lastIndexOf(": ")));
      assert.deepEqual(
        shown.at(-1).lines.map((line) => line.name),
        [...machines.map((name) => `${name} received`), ...machines.map((name) => `${name} sent`), `${machines[0]} to itself`],
      );
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
  /** A run of many classes of requests, and another of the same. */
  let folder;
  let names;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "latemux-runs-"));
    names = ["baseline", "candidate_whose_folder_has_a_long_name_without_any_place_to_break_it"];
    const [first, second] = names.map((name) => join(folder, name));
    const urls = ["harbour/.mpd", "harbour/.m3u8", "harbour/.m3u8?hls_fmp4", "harbour/Manifest", "ferry.mp4/.f4m"];
    await runLatemux("load", ...urls.map((url) => origin.address + url), "--players", "10", "--duration", "3s", "--out", first);
    await cp(first, second, { recursive: true });
  });
  after(() => rm(folder, { recursive: true }));

  /** Writes the report of some of the runs, opens it and passes it to `use`. */
  async function report(runs, viewport, use) {
    await runLatemux("report", ...runs.map((name) => join(folder, name)), "--output", folder);
    const page = await browser.newPage({ viewport });
    const record = new Record(page, "file://");
    try {
      await page.goto(pathToFileURL(join(folder, "report.html")).href);
      await state(page, "ended");
      await use(page);
      assert.deepEqual(record.faults, []);
    } finally {
      await page.close();
    }
  }

  it("fits a phone if the name of a run's folder is long", async () => {
    for (const width of [1280, 360]) {
      await report(names, { width, height: 780 }, async (page) => {
        assert.deepEqual(await misplaced(page), []);
        await page.setViewportSize({ width: 360, height: 780 });
        await page.waitForFunction(() => [...document.querySelectorAll("canvas")].every((one) => one.getBoundingClientRect().width < 360));
        assert.deepEqual(await misplaced(page), []);
      });
    }
  });

  it("does not repeat colours if a plot has many lines", async () => {
    await report(names.slice(0, 1), { width: 1280, height: 900 }, async (page) => {
      const most = Math.max(...(await looks(page)).map(({ lines }) => lines.length));
      assert.ok(most >= 12, `${most} lines`);
      await assertDistinct(page);
    });
    await report(names, { width: 1280, height: 900 }, assertDistinct);
  });

  it("says when, where and by which version a run was measured", async () => {
    const { stdout } = await runLatemux("--version");
    await report(names, { width: 1280, height: 900 }, async (page) => {
      const texts = await page.locator(".origin").allTextContents();
      assert.equal(texts.length, names.length);
      for (const text of texts) {
        const [time, machine, version] = text.split(" · ");
        const passed = Date.now() - Date.parse(time.replace(" UTC", "Z").replace(" ", "T"));
        assert.ok(passed >= 0 && passed < 30 * 60_000, time);
        assert.deepEqual([machine, version], [`generated by ${hostname()}`, stdout.trim()]);
      }
    });
  });

  it("shows results of a version that did not record its name", async () => {
    const old = join(folder, "old");
    await cp(join(folder, names[0]), old, { recursive: true });
    const file = join(old, "part-0-of-1.json");
    const { machines, versions, ...before } = JSON.parse(await readFile(file, "utf8"));
    assert.deepEqual([machines, versions.length], [[hostname()], 1]);
    await writeFile(file, JSON.stringify(before));
    await report(["old"], { width: 1280, height: 900 }, async (page) => {
      assert.match(await page.locator(".origin").textContent(), /^[\d-]{10} [\d:]{5} UTC$/);
    });
  });

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
