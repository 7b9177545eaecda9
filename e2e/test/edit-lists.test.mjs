// Edit lists in real players: they show the frame that the edit list has at each time, from 0 to
// the end, over segment edges and after seeks. Delays are kept.

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

/** Time in seconds by which the picture, the sound, or the whole title, is presented later. */
const DELAY = 3;

/** Time in seconds of the media's sound at which its tone begins. */
const TONE = 10;

// What these players do of HLS if the picture begins later than the sound; docs/limits.md says so.
// The first begins with the picture. The others play the picture earlier than its sound.
const WITHOUT_START = ["hls-cmaf hls.js"];
const APART = ["hls-ts shaka", "hls-cmaf shaka", "hls-cmaf browser"];

// Of a sound that begins later than the picture, only these players show the picture before it. The
// players of APART play the sound too early, and all others begin with the sound.
const FROM_PICTURE = ["hls-ts hls.js", "hls-ts browser"];

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
  const toneOnly = join(folder, "tone.mp4");
  await makeMedia(toneOnly, ["-af", `volume=0:enable='lt(t,${TONE})'`]);
  const late = { vide: [[DELAY], [16, 1024]], soun: [[19, 1024]] };
  await writeWithEdits(toneOnly, join(folder, "late-picture.mp4"), late);
  const lateSound = { vide: [[20, 1024]], soun: [[DELAY], [17, 1024]] };
  await writeWithEdits(toneOnly, join(folder, "late-sound.mp4"), lateSound);
  const all = { vide: [[DELAY], [20, 1024]], soun: [[DELAY], [20, 1024]] };
  await writeWithEdits(plain, join(folder, "delayed.mp4"), all);
  return { library: folder };
});
after(() => rm(folder, { recursive: true, force: true }));

/** hls.js reports that it begins where both picture and sound do. It goes on all the same. */
const isSkippedStart = (error) => /bufferSeekOverHole.* from 0 to 3\.0/.test(error);

/** Opens a title, does `actions` with the viewer, and plays the title to its end. */
async function withTitle(t, query, actions, isExpected = () => false) {
  const viewer = await PlayerPage.open(running.browser, running.origin.address, query);
  try {
    if ((await viewer.page.locator("#player-choice").inputValue()) !== query.player) {
      t.skip("this browser has no native player for HLS");
      return;
    }
    await viewer.ready(isExpected);
    await actions(viewer);
    await viewer.page.evaluate(() => document.querySelector("video").play());
    await viewer.seek((await viewer.state()).duration - 2);
    await viewer.playsOut();
    await viewer.ready(isExpected);
  } finally {
    await viewer.close();
  }
}

/** Checks that the tone begins to be heard at a time in seconds, after three seconds of silence. */
async function hearsToneFrom(viewer, seconds) {
  await viewer.page.evaluate(() => document.querySelector("video").play());
  await viewer.seek(seconds - 3);
  await viewer.hears(0);
  const heard = await viewer.page.waitForFunction(() => window.loudestTone() > 400 && document.querySelector("video").currentTime);
  const time = await heard.jsonValue();
  assert.ok(Math.abs(time - seconds) < 1, `the tone begins at ${time} s, not ${seconds} s`);
}

/** Checks that the media's frame at `start` is shown at 0, and later ones after seeks. */
async function showsFrames(viewer, times, start) {
  for (const time of times) {
    await viewer.pauseAt(time);
    const frame = await shownFrame(viewer.page);
    const expected = (start + time) * RATE;
    assert.ok(Math.abs(frame - expected) <= FRAMES, `frame ${frame}, not ${expected}, at ${time} s`);
  }
}

describe("edit lists", { concurrency: 4 }, () => {
  for (const { title, what, start, seconds } of titles) {
    for (const { protocol, player } of combinations) {
      it(`${what} plays as ${protocol} in ${player}`, { timeout: 120_000 }, (t) =>
        withTitle(t, { title, protocol, player }, async (viewer) => {
          await viewer.plays(1);
          assert.ok(Math.abs((await viewer.state()).duration - seconds) < 0.2, "the duration");
          await showsFrames(viewer, TIMES, start);
        }));
    }
  }

  for (const { protocol, player } of combinations) {
    const name = `${protocol} ${player}`;
    it(`a title that begins late plays from its first frame as ${protocol} in ${player}`, { timeout: 120_000 }, (t) =>
      withTitle(t, { title: "delayed.mp4", protocol, player }, async (viewer) => {
        await viewer.plays(1);
        await showsFrames(viewer, TIMES, 0);
      }));

    const way = APART.includes(name) ? "plays" : "keeps its distance from the sound";
    it(`a picture that begins late ${way} as ${protocol} in ${player}`, { timeout: 120_000 }, (t) =>
      withTitle(t, { title: "late-picture.mp4", protocol, player }, async (viewer) => {
        const delay = WITHOUT_START.includes(name) ? 0 : DELAY;
        await viewer.passes(DELAY + 1);
        if (APART.includes(name)) return;
        await showsFrames(viewer, [6.5, 3.9, 4.1, 11.3, 3.4, 8.2], -delay);
        await hearsToneFrom(viewer, TONE - DELAY + delay);
      }));

    const start = FROM_PICTURE.includes(name) ? "its picture" : "its sound";
    const begins = APART.includes(name) ? "plays" : `begins with ${start}`;
    it(`a title whose sound begins late ${begins} as ${protocol} in ${player}`, { timeout: 120_000 }, (t) =>
      withTitle(
        t,
        { title: "late-sound.mp4", protocol, player },
        async (viewer) => {
          await viewer.passes(1);
          const { time } = await viewer.state();
          if (!APART.includes(name)) assert.equal(time > DELAY, !FROM_PICTURE.includes(name), `${time} s is on screen`);
          await viewer.passes(DELAY + 1);
          await showsFrames(viewer, [6.5, 3.9, 4.1, 11.3, 3.4, 8.2], 0);
          if (!APART.includes(name)) await hearsToneFrom(viewer, TONE + DELAY);
        },
        isSkippedStart,
      ));
  }
});
