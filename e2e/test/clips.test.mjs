// A part of a title in real players: it is as long as it says, starts and ends where it says, and holds both languages' sound.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { launchBrowser } from "../lib/browser.mjs";
import { startOrigin } from "../lib/origin.mjs";
import { PlayerPage } from "../lib/player-page.mjs";
import { TITLE } from "../lib/viewing.mjs";

// Cut at the key frames around it: harbour has one every two seconds.
const PART = "vbegin=9&vend=21";
const SECONDS = 14;
// A tenth of a second of a sound frame and of Smooth Streaming's constant.
const OFF = 0.1;

const combinations = [
  { protocol: "dash", player: "dash.js" },
  { protocol: "dash", player: "shaka" },
  { protocol: "hls-ts", player: "hls.js" },
  { protocol: "hls-cmaf", player: "hls.js" },
  { protocol: "hls-cmaf", player: "shaka" },
  { protocol: "smooth", player: "dash.js" },
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

describe("a clip", { concurrency: 2 }, () => {
  for (const { protocol, player } of combinations) {
    it(`plays as ${protocol} in ${player}, from its beginning to its end`, { timeout: 120_000 }, async () => {
      const viewer = await PlayerPage.open(browser, origin.address, {
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
        // Smooth Streaming counts from the start of the title: what is left out before stays left out.
        const from = protocol === "smooth" ? duration - SECONDS : 0;
        assert.ok(Math.abs(duration - from - SECONDS) < OFF, `${duration} s long`);
        await viewer.seek(from + 5.5);
        await viewer.hears(TITLE.tones.en);
        await viewer.seek(from + 11);
        await viewer.playsOut();
        assert.deepEqual(await viewer.errors(), []);
      } finally {
        await viewer.close();
      }
      assert.deepEqual(viewer.record.faults, []);
    });
  }

  it("keeps its part when the address of its manifest is pasted, and when the protocol is switched", async () => {
    const viewer = await PlayerPage.open(browser, origin.address, {});
    try {
      const { page } = viewer;
      await page.getByLabel("Another title").fill(`${origin.address}harbour/.m3u8?hls_fmp4&${PART}`);
      await page.getByRole("button", { name: "Open" }).click();
      await viewer.opened("dash", "dash.js");
      const part = () => new URL(page.url()).searchParams.get("part");
      assert.equal(part(), PART);
      viewer.record.action();
      await page.locator('input[value="hls-cmaf"]').check({ force: true });
      await viewer.opened("hls-cmaf", "hls.js");
      assert.equal(part(), PART);
      assert.match(await page.locator("#manifest").inputValue(), /\/harbour\/\.m3u8\?hls_fmp4&vbegin=9&vend=21$/);
      assert.ok(Math.abs((await viewer.state()).duration - SECONDS) < OFF);
    } finally {
      await viewer.close();
    }
    assert.deepEqual(viewer.record.faults, []);
  });
});
