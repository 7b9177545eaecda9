// Timed text over the video: the cues that players hold are those of the source, in each form in
// which text is stored, after seeks and over the edges of segments.

import assert from "node:assert/strict";
import { copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { launchBrowser } from "../lib/browser.mjs";
import { startOrigin } from "../lib/origin.mjs";
import { PlayerPage } from "../lib/player-page.mjs";
import { missing, run } from "../lib/tools.mjs";

const noFfmpeg = await missing("ffmpeg", "-version");
const harbour = fileURLToPath(new URL("../../samples/library/harbour", import.meta.url));

/** Times in seconds, and text. The second cue lies over an edge of segments. */
const CUES = [
  [0.5, 3.25, "Casting off"],
  [3.25, 6, "Half ahead & steady"],
  [20, 28, "Under way\nat last"],
];

const stamp = (seconds, point) => new Date(seconds * 1000).toISOString().slice(11, 23).replace(".", point);
const SUBRIP = CUES.map(([from, to, text], place) => `${place + 1}\n${stamp(from, ",")} --> ${stamp(to, ",")}\n${text}\n`).join("\n");

/** Titles by the form in which they hold their text: the codec of ffmpeg. */
const FORMS = { tx3g: "mov_text", ttml: "ttml" };

let library;
let origin;
let browser;
before(async () => {
  if (noFfmpeg) return;
  library = await mkdtemp(join(tmpdir(), "latemux-text-"));
  await writeFile(join(library, "text.srt"), SUBRIP);
  for (const [form, codec] of Object.entries(FORMS)) {
    const title = join(library, form);
    await mkdir(title);
    for (const file of ["audio-eng.mp4", "video-180p.mp4"]) await copyFile(join(harbour, file), join(title, file));
    const options = ["-c:s", codec, "-metadata:s:s:0", "language=eng"];
    await run("ffmpeg", "-v", "error", "-i", join(library, "text.srt"), ...options, join(title, "text.mp4"));
  }
  [origin, browser] = await Promise.all([startOrigin({ library }), launchBrowser()]);
});
after(async () => {
  await browser?.close();
  await origin?.stop();
  if (library) await rm(library, { recursive: true });
});

/** Waits until the text tracks of the video element hold the cues, and no others. */
async function holds(viewer, want) {
  const held = () =>
    viewer.page.evaluate(() => {
      const cues = [...document.querySelector("video").textTracks].flatMap((track) => [...(track.cues ?? [])]);
      const seen = cues.map((cue) => [cue.startTime, cue.endTime, cue.text]);
      return [...new Map(seen.map((cue) => [JSON.stringify(cue), cue])).values()].sort((a, b) => a[0] - b[0]);
    });
  const plain = (text) => text.replaceAll("&amp;", "&").replaceAll("&lt;", "<");
  const equals = (cues) => {
    // The timeline of hls.js begins at the first decode time: all cues and frames are later by it.
    const shift = cues.length > 0 ? cues[0][0] - want[0][0] : 0;
    const near = (a, b) => Math.abs(a - shift - b) < 0.002;
    const same = ([from, to, text], place) => near(from, want[place][0]) && near(to, want[place][1]) && plain(text) === want[place][2];
    return cues.length === want.length && Math.abs(shift) < 0.1 && cues.every(same);
  };
  for (let tries = 0; tries < 200; tries += 1) {
    if (equals(await held())) return;
    await viewer.page.evaluate(() => new Promise((done) => setTimeout(done, 100)));
  }
  assert.deepEqual(await held(), want, "the cues that the player holds");
}

async function watch(query, actions) {
  const viewer = await PlayerPage.open(browser, origin.address, query);
  viewer.record.action();
  try {
    await viewer.ready();
    await actions(viewer);
    assert.deepEqual(await viewer.errors(), []);
  } finally {
    await viewer.close();
  }
  assert.deepEqual(viewer.record.faults, []);
}

const PLAYERS = [
  { protocol: "hls-ts", player: "hls.js" },
  { protocol: "hls-cmaf", player: "hls.js" },
  { protocol: "hls-ts", player: "shaka" },
  { protocol: "hls-cmaf", player: "shaka" },
  { protocol: "dash", player: "shaka" },
  { protocol: "dash", player: "dash.js" },
];

describe("timed text", { skip: noFfmpeg, concurrency: 2 }, () => {
  for (const form of Object.keys(FORMS)) {
    for (const { protocol, player } of PLAYERS) {
      // dash.js draws TTML itself, see below.
      if (form === "ttml" && player === "dash.js") continue;
      it(`in ${form} has its cues in ${player}, ${protocol}`, { timeout: 120_000 }, async () => {
        await watch({ title: form, protocol, player }, async (viewer) => {
          await viewer.page.locator('#subtitles option[data-tag="en"]').waitFor({ state: "attached" });
          const value = await viewer.page.locator('#subtitles option[data-tag="en"]').getAttribute("value");
          await viewer.page.locator("#subtitles").selectOption(value);
          await viewer.plays(1);
          await viewer.seek(21);
          await viewer.seek(2);
          await viewer.plays(2);
          await holds(viewer, CUES);
        });
      });
    }
  }

  for (const [form, protocol] of [["ttml", "dash"], ["ttml", "smooth"]]) {
    it(`in ${form} is drawn by dash.js in ${protocol}`, { timeout: 120_000 }, async () => {
      await watch({ title: form, protocol, player: "dash.js" }, async (viewer) => {
        await viewer.plays(1);
        await viewer.page.locator(".captions").getByText("Casting off").waitFor();
        await viewer.seek(21);
        await viewer.page.locator(".captions").getByText("Under way").waitFor();
        await viewer.seek(30);
        await viewer.page.locator(".captions").getByText("Under way").waitFor({ state: "detached" });
      });
    });
  }
});
