// Titles unlike those of the sample library, in the players that once failed on them: across the
// edges of segments, over seeks, and to the end.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { launchBrowser } from "../lib/browser.mjs";
import { makeTitles, SECONDS, TONES } from "../lib/odd-titles.mjs";
import { startOrigin } from "../lib/origin.mjs";
import { PlayerPage } from "../lib/player-page.mjs";
import { openShaka4 } from "../lib/shaka-4.mjs";
import { missing } from "../lib/tools.mjs";

const noFfmpeg = await missing("ffmpeg", "-version");

let library;
let origin;
let browser;
before(async () => {
  if (noFfmpeg) return;
  library = await mkdtemp(join(tmpdir(), "latemux-odd-"));
  await makeTitles(library);
  [origin, browser] = await Promise.all([startOrigin({ library }), launchBrowser()]);
});
after(async () => {
  await browser?.close();
  await origin?.stop();
  if (library) await rm(library, { recursive: true });
});

async function open(title, protocol, player) {
  if (player === "shaka 4") return openShaka4(browser, origin, `${title}/Manifest`);
  const viewer = await PlayerPage.open(browser, origin.address, { title, protocol, player });
  if (protocol === "smooth") viewer.record.action();
  return viewer;
}

/** Opens a title, does `actions`, and checks that nothing went wrong. */
async function withTitle(title, protocol, player, actions) {
  const viewer = await open(title, protocol, player);
  try {
    await viewer.ready();
    await actions(viewer);
    assert.deepEqual(await viewer.errors(), []);
  } finally {
    await viewer.close();
  }
  const isCancelled = (fault) => player === "browser" && fault.includes("net::ERR_ABORTED");
  assert.deepEqual(viewer.record.faults.filter((fault) => !isCancelled(fault)), []);
}

describe("odd titles", { skip: noFfmpeg, concurrency: 2 }, () => {
  const combinations = [
    // Frames of several durations, and times that count from the epoch.
    ["waves.mp4", "smooth", "dash.js"],
    ["waves.mp4", "smooth", "shaka 4"],
    ["recorded.mp4", "smooth", "dash.js"],
    ["recorded.mp4", "smooth", "shaka 4"],
    ["mp3.mp4", "hls-ts", "hls.js"],
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
