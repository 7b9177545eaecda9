// Titles unlike those of the sample library, in the players that once failed on them: across the
// edges of segments, over seeks, and to the end.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { serveMadeTitles } from "../lib/made-titles.mjs";
import { makeTitles, SECONDS, TONES } from "../lib/odd-titles.mjs";
import { missing } from "../lib/tools.mjs";

const noFfmpeg = await missing("ffmpeg", "-version");
const withTitle = serveMadeTitles(noFfmpeg ? undefined : makeTitles);

describe("odd titles", { skip: noFfmpeg, concurrency: 4 }, () => {
  const combinations = [
    // Frames of several durations, and times that count from the epoch.
    ["waves.mp4", "smooth", "dash.js"],
    ["waves.mp4", "smooth", "shaka 4"],
    ["recorded.mp4", "smooth", "dash.js"],
    ["recorded.mp4", "smooth", "shaka 4"],
    ["mp3.mp4", "hls-ts", "hls.js"],
    ["mp3.mp4", "hls-ts", "shaka"],
    ["mp3.mp4", "hls-ts", "browser"],
  ];
  for (const [title, protocol, player] of combinations) {
    it(`${player} plays ${title} as ${protocol}, to the end and back`, { timeout: 120_000 }, async () => {
      await withTitle(title, protocol, player, async (viewer) => {
        // Across the first edge of two segments.
        await viewer.plays(5);
        const { duration } = await viewer.state();
        // Smooth Streaming adds the longest time by which frames are reordered.
        assert.ok(Math.abs(duration - SECONDS) < 0.3, `${duration} s long`);
        for (const seconds of [11.4, 2.5, 7.8]) {
          await viewer.seek(seconds);
          await viewer.plays(1.5);
        }
        await viewer.hears(TONES.eng);
        await viewer.seek(14.5);
        await viewer.playsOut();
      });
    });
  }

  const audible = [
    ["dash", "dash.js"],
    ["dash", "shaka"],
    ["hls-ts", "hls.js"],
    ["hls-ts", "shaka"],
    ["hls-cmaf", "hls.js"],
    ["smooth", "dash.js"],
    ["smooth", "shaka 4"],
  ];
  for (const [protocol, player] of audible) {
    it(`${player} plays the language of the video by default in ${protocol}`, { timeout: 120_000 }, async () => {
      await withTitle("film", protocol, player, (viewer) => viewer.hears(TONES.eng));
    });
  }

  for (const player of ["hls.js", "shaka", "browser"]) {
    it(`${player} plays audio alone in two languages, and back from the end`, { timeout: 120_000 }, async () => {
      // Nothing tells which language is the default, so it is the first file's.
      await withTitle("songs", "hls-ts", player, async (viewer) => {
        await viewer.hears(TONES.deu);
        for (const seconds of [12.5, 2.5]) {
          await viewer.seek(seconds);
          await viewer.hears(TONES.deu);
        }
        if (player !== "browser") {
          await viewer.chooseLanguage("en");
          await viewer.hears(TONES.eng);
        }
        await viewer.seek(14.5);
        await viewer.playsOut();
      });
    });
  }
});
