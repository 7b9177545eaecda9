// Titles whose sound outlasts the picture, whose lowest rendition ends early, or whose picture
// stands still: they play over the edges of segments, over seeks, and to the end.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { serveMadeTitles } from "../lib/made-titles.mjs";
import { missing } from "../lib/tools.mjs";
import { makeTitles, TITLES, TONE } from "../lib/uneven-titles.mjs";

const noFfmpeg = await missing("ffmpeg", "-version");
const withTitle = serveMadeTitles(noFfmpeg ? undefined : makeTitles);

// Most players once failed on the title whose sound outlasts the picture, so it is played in all of
// them. The other titles are played in one player of each protocol, and in those that failed in
// ways of their own.
const outlasting = [
  "dash dash.js",
  "dash shaka",
  "hls-ts hls.js",
  "hls-ts shaka",
  "hls-ts browser",
  "hls-cmaf hls.js",
  "hls-cmaf shaka",
  "hls-cmaf browser",
  "smooth dash.js",
  "smooth shaka 4",
];
const onePerProtocol = ["dash dash.js", "hls-ts hls.js", "hls-cmaf shaka", "smooth shaka 4"];
const played = {
  "outlasting.mp4": outlasting,
  early: onePerProtocol,
  "slow.mp4": onePerProtocol,
  // Chromium's own player waits with TS after a seek.
  "still.mp4": [...onePerProtocol, "dash shaka", "hls-ts shaka", "hls-cmaf browser"],
  // The same code repeats its frames.
  "slides.mp4": ["dash dash.js", "hls-ts hls.js"],
};

// What these players cannot do; docs/limits.md says so. They end with the shortest track, or
// wait after a seek behind the picture.
const limits = {
  "outlasting.mp4": {
    ended: ["smooth dash.js", "smooth shaka 4"],
    waits: ["dash dash.js", "hls-ts browser", "hls-cmaf browser"],
  },
  early: { ended: ["smooth shaka 4"] },
};

describe("uneven titles", { skip: noFfmpeg, concurrency: 4 }, () => {
  for (const { title, picture, sound, shortest } of TITLES) {
    for (const combination of played[title]) {
      const protocol = combination.split(" ", 1)[0];
      const player = combination.slice(protocol.length + 1);
      const has = (limit) => limits[title]?.[limit]?.includes(combination) ?? false;
      const end = has("ended") ? shortest : sound;
      const isUneven = shortest < sound && !has("waits") && !has("ended");
      const behind = isUneven ? [sound - 4.6, 2.5, sound - 8.6] : [];
      it(`${player} plays ${title} as ${protocol}, to the end and back`, { timeout: 120_000 }, async (t) => {
        await withTitle(title, protocol, player, async (viewer) => {
          if (player === "browser" && (await viewer.page.locator("#player-choice").inputValue()) !== player) {
            t.skip("this browser has no native player for HLS");
            return;
          }
          await viewer.passes(0.5);
          const { duration } = await viewer.state();
          // Shaka Player 4 counts the last fragment of a shorter stream as long as the others.
          assert.ok(Math.abs(duration - end) < (has("ended") ? 1.1 : 0.3), `${duration} s long`);
          // Over an edge near the end of the picture, over the first one, to where there is no
          // picture, and back. Edges are at multiples of 4 s, and 0.6 s after most of these times.
          for (const seconds of [Math.min(picture, end) - 4.6, 3.4, ...behind]) {
            await viewer.seek(seconds);
            await viewer.passes(0.8);
            await viewer.hears(TONE);
          }
          if (!has("waits")) {
            await viewer.seek(end - 2);
            await viewer.playsOut();
          }
        });
      });
    }
  }
});
