// Each player with each protocol it reads: plays, seeks back and forth, switches rendition and language.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { launchBrowser } from "../lib/browser.mjs";
import { startOrigin } from "../lib/origin.mjs";
import { PlayerPage } from "../lib/player-page.mjs";

// samples/README.md: what the title holds, and which tone each language is.
const TITLE = { title: "harbour", heights: [360, 234, 180], duration: 48, tones: { en: 440, fr: 660 } };

const combinations = [
  { protocol: "dash", player: "dash.js" },
  { protocol: "dash", player: "shaka" },
  { protocol: "hls-ts", player: "hls.js" },
  { protocol: "hls-cmaf", player: "hls.js" },
  { protocol: "hls-ts", player: "shaka" },
  { protocol: "hls-cmaf", player: "shaka" },
];

let origin;
let browser;
before(async () => {
  [origin, browser] = await Promise.all([startOrigin(), launchBrowser()]);
});
after(async () => {
  await browser?.close();
  await origin?.stop();
});

describe("players", { concurrency: 2 }, () => {
  for (const { protocol, player } of combinations) {
    it(`${player} plays ${protocol}`, { timeout: 180_000 }, async (t) => {
      const viewer = await PlayerPage.open(browser, origin.address, { title: TITLE.title, protocol, player });
      try {
        await watch(viewer);
      } finally {
        const { requests, cancelled } = viewer.record;
        t.diagnostic(`${player} ${protocol}: ${requests} requests, ${cancelled.length} cancelled by a seek or switch`);
        await viewer.close();
      }
      assert.deepEqual(viewer.record.faults, []);
    });
  }
});

async function watch(viewer) {
  await viewer.ready();
  await viewer.plays(2);
  assert.ok(Math.abs((await viewer.state()).duration - TITLE.duration) < 0.1, "the title's length");

  assert.deepEqual(await viewer.heights(), TITLE.heights);
  for (const height of [180, 360, 234]) {
    await viewer.chooseHeight(height);
    await viewer.plays(1);
  }

  await viewer.seek(33.3);
  await viewer.plays(1.5);
  await viewer.seek(5);
  await viewer.plays(1.5);
  await viewer.seek(21);
  await viewer.plays(1);

  assert.deepEqual((await viewer.languages()).sort(), ["en", "fr"]);
  for (const tag of ["en", "fr", "en"]) {
    await viewer.chooseLanguage(tag);
    await viewer.hears(TITLE.tones[tag]);
    await viewer.plays(1);
  }

  await viewer.seek(45);
  await viewer.playsOut();
  assert.deepEqual(await viewer.errors(), []);
}
