// Fast forward in Shaka Player, which plays the set of I-frames of a DASH manifest.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { Record } from "../lib/browser.mjs";
import { startBeforeTests } from "../lib/running.mjs";

const SHAKA = fileURLToPath(new URL("../node_modules/shaka-player/dist/shaka-player.compiled.js", import.meta.url));

const running = startBeforeTests();

describe("trick play", () => {
  it("fetches I-frames alone, and plays them at eight times the speed", { timeout: 120_000 }, async () => {
    const page = await running.browser.newPage();
    const record = new Record(page, running.origin.address);
    record.action();
    const fetched = [];
    page.on("response", (response) => fetched.push(response.url()));
    await page.route("**/favicon.ico", (route) => route.fulfill({ status: 204 }));
    await page.goto(`${running.origin.address}api/library`);
    await page.setContent("<video muted></video>");
    await page.addScriptTag({ path: SHAKA });
    await page.evaluate(async (url) => {
      window.player = new shaka.Player();
      const video = document.querySelector("video");
      await player.attach(video);
      player.configure("streaming.bufferingGoal", 4);
      await player.load(url);
      await video.play();
    }, `${running.origin.address}harbour/.mpd`);
    await page.waitForFunction(() => document.querySelector("video").currentTime > 1);
    record.action();
    await page.evaluate(() => player.trickPlay(8));
    await page.waitForFunction(() => document.querySelector("video").currentTime > 30, null, { timeout: 60_000 });
    const frames = fetched.filter((url) => /\/keyframes\/.*\.dash$/.test(url));
    assert.ok(frames.length > 5, `${frames.length} I-frames of ${fetched.length} responses`);
    record.action();
    await page.evaluate(() => player.cancelTrickPlay());
    const at = await page.evaluate(() => document.querySelector("video").currentTime);
    await page.waitForFunction((at) => document.querySelector("video").currentTime > at + 1, at);
    record.action();
    await page.close();
    assert.deepEqual(record.faults, []);
  });
});
