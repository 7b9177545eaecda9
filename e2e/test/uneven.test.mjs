// Titles whose sound outlasts the picture, whose lowest rendition ends early, or whose picture
// stands still: they play over the edges of segments, over seeks, and to the end.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { serveMadeTitles } from "../lib/made-titles.mjs";
import { missing } from "../lib/tools.mjs";
import { makeTitles, TITLES, TONE } from "../lib/uneven-titles.mjs";

const noFfmpeg = await missing("ffmpeg", "-version");
const withTitle = serveMadeTitles(noFfmpeg ? undefined : makeTitles);

const combinations = [
  ["dash", "dash.js"],
  ["dash", "shaka"],
  ["hls-ts", "hls.js"],
  ["hls-ts", "shaka"],
  ["hls-ts", "browser"],
  ["hls-cmaf", "hls.js"],
  ["hls-cmaf", "shaka"],
  ["hls-cmaf", "browser"],
  ["smooth", "dash.js"],
  ["smooth", "shaka 4"],
];

// The titles in which most players once failed are played in all of them, the others in one of each
// protocol.
const inAllPlayers = ["outlasting.mp4", "still.mp4"];
const onePerProtocol = ["dash dash.js", "hls-ts hls.js", "hls-cmaf shaka", "smooth shaka 4"];

// What these players cannot do; docs/limits.md says so. They end with the shortest track, or
// wait after a seek behind the picture.
const limits = {
  "outlasting.mp4": {
    ended: ["smooth dash.js", "smooth shaka 4"],
    waits: ["dash dash.js", "hls-ts browser", "hls-cmaf browser"],
  },
  early: { ended: ["smooth shaka 4"] },
  // It waits after a seek.
  "still.mp4": { unplayed: ["hls-ts browser"] },
};

describe("uneven titles", { skip: noFfmpeg, concurrency: 2 }, () => {
  for (const { title, picture, sound, shortest } of TITLES) {
    for (const [protocol, player] of combinations) {
      const has = (limit) => limits[title]?.[limit]?.includes(`${protocol} ${player}`) ?? false;
      if (!inAllPlayers.includes(title) && !onePerProtocol.includes(`${protocol} ${player}`)) continue;
      if (has("unplayed")) continue;
      const end = has("ended") ? shortest : sound;
      const behind = has("waits") || has("ended") ? [] : [sound - 5.5, 2.5, sound - 9.5];
      it(`${player} plays ${title} as ${protocol}, to the end and back`, { timeout: 120_000 }, async (t) => {
        await withTitle(title, protocol, player, async (viewer) => {
          if (player === "browser" && (await viewer.page.locator("#player-choice").inputValue()) !== player) {
            t.skip("this browser has no native player for HLS");
            return;
          }
          // Over the first edge of two segments.
          await viewer.passes(4.5);
          const { duration } = await viewer.state();
          // Shaka Player 4 counts the last fragment of a shorter stream as long as the others.
          assert.ok(Math.abs(duration - end) < (has("ended") ? 1.1 : 0.3), `${duration} s long`);
          // Over an edge near the end of the picture, to where there is none, and back.
          for (const seconds of [Math.min(picture, end) - 5.5, 2.5, ...behind]) {
            await viewer.seek(seconds);
            await viewer.passes(2);
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
