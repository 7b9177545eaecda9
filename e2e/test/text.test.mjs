// Timed text (TTML) over the video, by dash.js on the player page.

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

const SUBTITLES = `1
00:00:00,500 --> 00:00:06,000
Casting off

2
00:00:20,000 --> 00:00:28,000
Under way
`;

let library;
let origin;
let browser;
before(async () => {
  if (noFfmpeg) return;
  library = await mkdtemp(join(tmpdir(), "latemux-text-"));
  const title = join(library, "harbour");
  await mkdir(title);
  for (const file of ["audio-eng.mp4", "video-180p.mp4"]) await copyFile(join(harbour, file), join(title, file));
  await writeFile(join(library, "text.srt"), SUBTITLES);
  const options = ["-c:s", "ttml", "-metadata:s:s:0", "language=eng"];
  await run("ffmpeg", "-v", "error", "-i", join(library, "text.srt"), ...options, join(title, "text.mp4"));
  [origin, browser] = await Promise.all([startOrigin({ library }), launchBrowser()]);
});
after(async () => {
  await browser?.close();
  await origin?.stop();
  if (library) await rm(library, { recursive: true });
});

describe("timed text", { skip: noFfmpeg, concurrency: 2 }, () => {
  for (const protocol of ["dash", "smooth"]) {
    it(`is shown by dash.js in ${protocol}`, { timeout: 120_000 }, async () => {
      const viewer = await PlayerPage.open(browser, origin.address, { title: "harbour", protocol, player: "dash.js" });
      // In Smooth Streaming, dash.js seeks to the time at which both audio and video have begun.
      viewer.record.action();
      try {
        await viewer.ready();
        await viewer.plays(1);
        await viewer.page.locator(".captions").getByText("Casting off").waitFor();
        await viewer.seek(21);
        await viewer.page.locator(".captions").getByText("Under way").waitFor();
        await viewer.seek(30);
        await viewer.page.locator(".captions").getByText("Under way").waitFor({ state: "detached" });
        assert.deepEqual(await viewer.errors(), []);
      } finally {
        await viewer.close();
      }
      assert.deepEqual(viewer.record.faults, []);
    });
  }
});
