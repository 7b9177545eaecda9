// Edit lists in real players: they show the frame that the edit list has at each time, from 0 to
// the end, over segment edges and after seeks.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { makeMedia, RATE, shownFrame, writeWithEdits } from "../lib/edited-media.mjs";
import { COMBINATIONS, PlayerPage } from "../lib/player-page.mjs";
import { startBeforeTests } from "../lib/running.mjs";

// What a player shows at the start, just before and after segment edges, and in the middle.
const TIMES = [6.5, 3.9, 4.1, 0.1, 11.3, 0.5, 8.2];

// Some players let a title begin with its first decode time, and Smooth Streaming presents
// everything later by a constant: by three frames at most.
const FRAMES = 3;

const combinations = [
  ...COMBINATIONS,
  { protocol: "hls-ts", player: "browser" },
  { protocol: "hls-cmaf", player: "browser" },
];

const titles = [
  { title: "at-sync-sample.mp4", what: "an edit that starts at a sync sample", start: 4, seconds: 16 },
  { title: "inside-gop.mp4", what: "an edit that starts inside a GOP", start: 4.8, seconds: 15 },
];

let folder;
const running = startBeforeTests(async () => {
  folder = await mkdtemp(join(tmpdir(), "latemux-edits-"));
  const plain = join(folder, "plain.mp4");
  await makeMedia(plain);
  for (const { title, start, seconds } of titles) {
    // The first frame is composed two frames after it is decoded.
    const media = (scale, offset) => Math.round(start * scale) + offset;
    await writeWithEdits(plain, join(folder, title), {
      vide: [[seconds, media(12_800, 1024)]],
      soun: [[seconds, media(48_000, 1024)]],
    });
  }
  return { library: folder };
});
after(() => rm(folder, { recursive: true, force: true }));

describe("edit lists", { concurrency: 4 }, () => {
  for (const { title, what, start, seconds } of titles) {
    for (const { protocol, player } of combinations) {
      it(`${what} plays as ${protocol} in ${player}`, { timeout: 120_000 }, async (t) => {
        const viewer = await PlayerPage.open(running.browser, running.origin.address, { title, protocol, player });
        try {
          if ((await viewer.page.locator("#player-choice").inputValue()) !== player) {
            t.skip("this browser has no native player for HLS");
            return;
          }
          await viewer.ready();
          await viewer.plays(1);
          assert.ok(Math.abs((await viewer.state()).duration - seconds) < 0.2, "the duration");
          for (const time of TIMES) {
            await viewer.pauseAt(time);
            const frame = await shownFrame(viewer.page);
            const expected = (start + time) * RATE;
            assert.ok(Math.abs(frame - expected) <= FRAMES, `frame ${frame}, not ${expected}, at ${time} s`);
          }
          await viewer.page.evaluate(() => document.querySelector("video").play());
          await viewer.seek(seconds - 2);
          await viewer.playsOut();
          assert.deepEqual(await viewer.errors(), []);
        } finally {
          await viewer.close();
        }
      });
    }
  }
});
