// Each player with each protocol that it supports: plays, seeks, switches rendition and language.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { COMBINATIONS, PlayerPage } from "../lib/player-page.mjs";
import { startBeforeTests } from "../lib/running.mjs";
import { SEEKS, TITLE, watch } from "../lib/viewing.mjs";

const running = startBeforeTests();

describe("players", { concurrency: 4 }, () => {
  for (const { protocol, player } of COMBINATIONS) {
    it(`${player} plays ${protocol}`, { timeout: 180_000 }, async (t) => {
      const viewer = await PlayerPage.open(running.browser, running.origin.address, { title: TITLE.title, protocol, player });
      // Smooth Streaming has no edit lists, so audio and video do not begin at the same time.
      // dash.js seeks to the later of the two, and cancels its requests.
      if (protocol === "smooth") viewer.record.action();
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

  // With one language, audio is muxed and there is no EXT-X-MEDIA.
  it("shaka plays hls-ts with one language, to the end and back", { timeout: 120_000 }, async () => {
    const title = "harbour/,audio-eng,video-180p,video-360p,.mp4.urlset";
    const viewer = await PlayerPage.open(running.browser, running.origin.address, { title, protocol: "hls-ts", player: "shaka" });
    try {
      await viewer.ready();
      for (const seconds of SEEKS) {
        await viewer.seek(seconds);
        await viewer.plays(1.5);
      }
      await viewer.seek(45);
      await viewer.playsOut();
      assert.deepEqual(await viewer.errors(), []);
    } finally {
      await viewer.close();
    }
    assert.deepEqual(viewer.record.faults, []);
  });

  // If an EXT-X-MEDIA had no URI, Shaka Player 5 would end the title here: it would have ended the
  // stream, and the seek leaves its buffer.
  it("shaka plays hls-ts with two languages, back from where the end is buffered", { timeout: 120_000 }, async () => {
    const query = { title: TITLE.title, protocol: "hls-ts", player: "shaka" };
    const viewer = await PlayerPage.open(running.browser, running.origin.address, query);
    try {
      await viewer.ready();
      assert.deepEqual((await viewer.languages()).sort(), ["en", "fr"]);
      for (const [near, back] of [[33.3, 5], [40, 8]]) {
        await viewer.seek(near);
        await viewer.buffersToEnd();
        await viewer.seek(back);
        await viewer.plays(1.5);
        await viewer.hears(TITLE.tones.en);
      }
      assert.deepEqual(await viewer.errors(), []);
    } finally {
      await viewer.close();
    }
    assert.deepEqual(viewer.record.faults, []);
  });

  // Chromium's native player exposes no renditions and languages, so this test only plays and
  // seeks.
  for (const protocol of ["hls-ts", "hls-cmaf"]) {
    it(`the native player of the browser plays ${protocol}`, { timeout: 120_000 }, async (t) => {
      const viewer = await PlayerPage.open(running.browser, running.origin.address, { title: TITLE.title, protocol, player: "browser" });
      try {
        if ((await viewer.page.locator("#player-choice").inputValue()) !== "browser") {
          t.skip("this browser has no native player for HLS");
          return;
        }
        await viewer.ready();
        for (const seconds of SEEKS) {
          await viewer.seek(seconds);
          await viewer.plays(1.5);
        }
        await viewer.hears(TITLE.tones.en);
        await viewer.seek(45);
        await viewer.playsOut();
        assert.deepEqual(await viewer.errors(), []);
      } finally {
        await viewer.close();
      }
      // Chromium's native player cancels requests at times that a test cannot predict.
      const faults = viewer.record.faults.filter((fault) => !fault.includes("net::ERR_ABORTED"));
      assert.deepEqual(faults, []);
    });
  }
});
