// Takes screenshots of the pages for review. `make screenshot` writes them to e2e/screenshots/.

import { mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { launchBrowser } from "./lib/browser.mjs";
import { startLatemux, startOrigin } from "./lib/origin.mjs";
import { PlayerPage } from "./lib/player-page.mjs";

const folder = fileURLToPath(new URL("screenshots", import.meta.url));
const wide = { width: 1280, height: 900 };
const shots = [
  { name: "library", query: {}, size: wide },
  { name: "playing", query: { title: "harbour", protocol: "dash" }, size: wide, plays: true },
  { name: "clip", query: { title: "harbour", protocol: "smooth", part: "vbegin=9&vend=21" }, size: wide, plays: true },
  { name: "playing-dark", query: { title: "harbour", protocol: "hls-cmaf" }, size: wide, plays: true, dark: true },
  { name: "playing-narrow", query: { title: "harbour", protocol: "hls-ts" }, size: { width: 390, height: 844 }, plays: true },
  { name: "missing", query: { title: "no/such/title.mp4", protocol: "dash" }, size: wide, missing: true },
];

/** The live page of a run, with a machine beside. */
async function live() {
  const other = await startLatemux(["load", "--host-stats", "127.0.0.1:0"]);
  const urls = ["harbour/.mpd", "lighthouse.mp4/.m3u8", "no/such/.mpd"].map((title) => origin.address + title);
  const options = ["--players", "60", "--ramp", "10s", "--buffer", "6s", "--duration", "60s", "--ui", "127.0.0.1:0"];
  const load = await startLatemux(["load", ...urls, ...options, "--watch-host", new URL(other.address).host]);
  const page = await browser.newPage({ viewport: wide });
  await page.goto(load.address);
  await page.waitForFunction(() => /00:2\d/.test(document.querySelector("#state").textContent), undefined, { timeout: 60_000 });
  for (const [name, colorScheme, size] of [["load", "light", wide], ["load-dark", "dark", wide], ["load-narrow", "light", { width: 390, height: 844 }]]) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize(size);
    // Drawn anew with the next second.
    await page.waitForTimeout(1500);
    await page.screenshot({ path: `${folder}/${name}.png`, fullPage: true });
    console.log(`${folder}/${name}.png`);
  }
  await page.close();
  await Promise.all([load.stop(), other.stop()]);
}

await mkdir(folder, { recursive: true });
const [origin, browser] = await Promise.all([startOrigin(), launchBrowser()]);
try {
  for (const { name, query, size, plays = false, dark = false, missing = false } of shots) {
    const viewer = await PlayerPage.open(browser, origin.address, query);
    await viewer.page.setViewportSize(size);
    await viewer.page.emulateMedia({ colorScheme: dark ? "dark" : "light" });
    if (plays) {
      await viewer.ready();
      await viewer.plays(3);
    } else {
      await viewer.page.locator("#titles li").first().waitFor();
      if (missing) await viewer.page.getByText("The origin's response").first().waitFor();
    }
    await viewer.page.screenshot({ path: `${folder}/${name}.png`, fullPage: true });
    await viewer.close();
    console.log(`${folder}/${name}.png`);
  }
  await live();
} finally {
  await browser.close();
  await origin.stop();
}
