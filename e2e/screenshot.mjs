// Takes screenshots of the pages for review. `make screenshot` writes them to e2e/screenshots/.

import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { launchBrowser } from "./lib/browser.mjs";
import { runLatemux, startLatemux, startOrigin } from "./lib/origin.mjs";
import { PlayerPage } from "./lib/player-page.mjs";

const folder = fileURLToPath(new URL("screenshots", import.meta.url));
const wide = { width: 1280, height: 900 };
const shots = [
  { name: "library", query: {}, size: wide },
  { name: "playing", query: { title: "harbour", protocol: "dash" }, size: wide, plays: true },
  { name: "clip", query: { title: "harbour", protocol: "smooth", part: "vbegin=9&vend=21" }, size: wide, plays: true },
  { name: "playing-dark", query: { title: "harbour", protocol: "hls-cmaf" }, size: wide, plays: true, dark: true },
  { name: "playing-narrow", query: { title: "harbour", protocol: "hls-ts" }, size: { width: 390, height: 844 }, plays: true },
  { name: "thumbnails", query: { title: "pier", protocol: "dash" }, size: wide, plays: true, seeks: true },
  { name: "missing", query: { title: "no/such/title.mp4", protocol: "dash" }, size: wide, missing: true },
];

/** Takes pictures of a page in both colour schemes, and on a narrow screen. */
async function pictures(page, name) {
  for (const [suffix, colorScheme, size] of [["", "light", wide], ["-dark", "dark", wide], ["-narrow", "light", { width: 390, height: 844 }]]) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize(size);
    // The live page draws itself anew within a second.
    await page.waitForTimeout(1500);
    await page.screenshot({ path: `${folder}/${name}${suffix}.png`, fullPage: true });
    console.log(`${folder}/${name}${suffix}.png`);
  }
}

/** The live page of a run that watches another machine, and the report of the run. */
async function load() {
  const results = await mkdtemp(join(tmpdir(), "latemux-run-"));
  const other = await startLatemux(["load", "--host-stats", "127.0.0.1:0"]);
  const urls = ["harbour/.mpd", "lighthouse.mp4/.m3u8", "no/such/.mpd"].map((title) => origin.address + title);
  const options = ["--players", "60", "--ramp", "10s", "--buffer", "6s", "--duration", "60s", "--ui", "127.0.0.1:0"];
  const run = await startLatemux(["load", ...urls, ...options, "--out", results, "--watch-host", new URL(other.address).host]);
  const page = await browser.newPage({ viewport: wide });
  await page.goto(run.address);
  await page.waitForFunction(() => /00:2\d/.test(document.querySelector("#state").textContent), undefined, { timeout: 60_000 });
  await pictures(page, "load");
  await page.locator("body[data-state=ended]").waitFor({ timeout: 120_000 });
  await run.ended;
  await runLatemux("report", results);
  await page.goto(pathToFileURL(join(results, "report.html")).href);
  await pictures(page, "report");
  await page.close();
  await Promise.all([other.stop(), rm(results, { recursive: true })]);
}

await mkdir(folder, { recursive: true });
const [origin, browser] = await Promise.all([startOrigin(), launchBrowser()]);
try {
  for (const { name, query, size, plays = false, dark = false, missing = false, seeks = false } of shots) {
    const viewer = await PlayerPage.open(browser, origin.address, query);
    await viewer.page.setViewportSize(size);
    await viewer.page.emulateMedia({ colorScheme: dark ? "dark" : "light" });
    if (plays) {
      await viewer.ready();
      await viewer.plays(3);
      if (seeks) {
        await viewer.page.getByRole("slider", { name: "Seek" }).hover();
        await viewer.page.locator("#seek .tile").waitFor();
      }
    } else {
      await viewer.page.locator("#titles li").first().waitFor();
      if (missing) await viewer.page.getByText("The origin's response").first().waitFor();
    }
    await viewer.page.screenshot({ path: `${folder}/${name}.png`, fullPage: true });
    await viewer.close();
    console.log(`${folder}/${name}.png`);
  }
  await load();
} finally {
  await browser.close();
  await origin.stop();
}
