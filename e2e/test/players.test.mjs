// Each player with each protocol it reads: plays, seeks back and forth, switches rendition and language.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { launchBrowser } from "../lib/browser.mjs";
import { startOrigin } from "../lib/origin.mjs";
import { PlayerPage } from "../lib/player-page.mjs";

// samples/README.md: what the title holds, and which tone each language is.
const TITLE = { title: "harbour", heights: [360, 234, 180], duration: 48, tones: { en: 440, fr: 660 } };

// Forth to where the rest of the title gets buffered, and back out of all that is buffered.
const SEEKS = [33.3, 5, 21];

const combinations = [
  { protocol: "dash", player: "dash.js" },
  { protocol: "dash", player: "shaka" },
  { protocol: "hls-ts", player: "hls.js" },
  { protocol: "hls-cmaf", player: "hls.js" },
  // Shaka Player 5.2 loses its place where sound is muxed into the video's segments under an EXT-X-MEDIA without URI
  // (RFC 8216, 4.3.4.2.1), once it has buffered to the end and then seeks out of its buffer: the update of the empty
  // audio state ends the stream again before the video's buffer has been cleared. So it stays clear of the end here.
  { protocol: "hls-ts", player: "shaka", seeks: [24, 5, 12] },
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
  for (const { protocol, player, seeks = SEEKS } of combinations) {
    it(`${player} plays ${protocol}`, { timeout: 180_000 }, async (t) => {
      const viewer = await PlayerPage.open(browser, origin.address, { title: TITLE.title, protocol, player });
      try {
        await watch(viewer, seeks);
      } finally {
        const { requests, cancelled } = viewer.record;
        t.diagnostic(`${player} ${protocol}: ${requests} requests, ${cancelled.length} cancelled by a seek or switch`);
        await viewer.close();
      }
      assert.deepEqual(viewer.record.faults, []);
    });
  }
});

async function watch(viewer, seeks) {
  await viewer.ready();
  await viewer.plays(2);
  assert.ok(Math.abs((await viewer.state()).duration - TITLE.duration) < 0.1, "the title's length");

  assert.deepEqual(await viewer.heights(), TITLE.heights);
  for (const height of [180, 360, 234]) {
    await viewer.chooseHeight(height);
    await viewer.plays(1);
  }

  for (const seconds of seeks) {
    await viewer.seek(seconds);
    await viewer.plays(1.5);
  }

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
