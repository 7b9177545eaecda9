// Clips in real players: the duration, the start, the end and the audio are those that the URL
// selects.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { COMBINATIONS, PlayerPage } from "../lib/player-page.mjs";
import { startBeforeTests } from "../lib/running.mjs";
import { TITLE } from "../lib/viewing.mjs";

// The clip is cut at the sync samples around it. harbour has one every two seconds.
const PART = "vbegin=9&vend=21";
const SECONDS = 14;
// Covers an audio frame, and the constant by which Smooth Streaming presents a title later.
const TOLERANCE = 0.1;

const running = startBeforeTests();

describe("a clip", { concurrency: 4 }, () => {
  for (const { protocol, player } of COMBINATIONS) {
    it(`plays as ${protocol} in ${player}, from its beginning to its end`, { timeout: 120_000 }, async () => {
      const viewer = await PlayerPage.open(running.browser, running.origin.address, {
        title: TITLE.title,
        part: PART,
        protocol,
        player,
      });
      if (protocol === "smooth") viewer.record.action();
      try {
        await viewer.ready();
        await viewer.plays(1);
        const { duration } = await viewer.state();
        assert.ok(Math.abs(duration - SECONDS) < TOLERANCE, `${duration} s long`);
        await viewer.seek(5.5);
        await viewer.hears(TITLE.tones.en);
        await viewer.seek(11);
        await viewer.playsOut();
        assert.deepEqual(await viewer.errors(), []);
      } finally {
        await viewer.close();
      }
      assert.deepEqual(viewer.record.faults, []);
    });
  }

  it("stays selected when the URL of its manifest is pasted, and when the protocol is switched", async () => {
    const viewer = await PlayerPage.open(running.browser, running.origin.address, {});
    try {
      const { page } = viewer;
      await page.getByLabel("Another title").fill(`${running.origin.address}harbour/.m3u8?hls_fmp4&${PART}`);
      viewer.record.action();
      await page.getByRole("button", { name: "Open" }).click();
      // The page may still be opening the first title of the library, by the same player.
      const part = () => new URL(page.url()).searchParams.get("part");
      await page.waitForURL((url) => url.searchParams.get("part") === PART);
      await viewer.opened("dash", "dash.js");
      assert.equal(part(), PART);
      viewer.record.action();
      await page.locator('input[value="hls-cmaf"]').check({ force: true });
      await viewer.opened("hls-cmaf", "hls.js");
      assert.equal(part(), PART);
      assert.match(await page.locator("#manifest").inputValue(), /\/harbour\/\.m3u8\?hls_fmp4&vbegin=9&vend=21$/);
      assert.ok(Math.abs((await viewer.state()).duration - SECONDS) < TOLERANCE);
    } finally {
      await viewer.close();
    }
    assert.deepEqual(viewer.record.faults, []);
  });
});
