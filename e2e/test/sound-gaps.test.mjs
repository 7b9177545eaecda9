// Fragmented MP4 without an edit list, as ffmpeg writes it: a gap follows the first frame of sound.
// Chromium's own player of HLS then shows wrong frames after a seek if such media comes as TS,
// also as TS made by ffmpeg. Without the gap, or as CMAF, the frames are right.

import assert from "node:assert/strict";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { after, before, describe, it } from "node:test";
import { launchBrowser } from "../lib/browser.mjs";
import { makeMedia, MEDIA_SECONDS, RATE, shownFrame } from "../lib/edited-media.mjs";
import { startOrigin } from "../lib/origin.mjs";
import { missing, run } from "../lib/tools.mjs";

/** Forward to 70 % of the title, and back to 10 %; both inside GOPs. */
const SEEKS = [0.7 * MEDIA_SECONDS + 0.3, 0.1 * MEDIA_SECONDS + 0.6];
/** Largest difference of a frame that counts as right. */
const FRAMES = 2;
const WAIT = { timeout: 30_000, polling: 50 };

const noFfmpeg = await missing("ffmpeg", "-version");

let folder;
let origin;
let browser;
let reference;
before(async () => {
  if (noFfmpeg) return;
  folder = await mkdtemp(join(tmpdir(), "latemux-gaps-"));
  await makeMedia(join(folder, "even.mp4"));
  await makeMedia(join(folder, "gap.mp4"), ["-movflags", "frag_keyframe+empty_moov+default_base_moof"]);
  for (const title of ["even", "gap"]) {
    await mkdir(join(folder, `${title}-ffmpeg`));
    await run(
      "ffmpeg",
      ...["-v", "error", "-nostdin", "-i", join(folder, `${title}.mp4`), "-c", "copy", "-f", "hls", "-hls_time", "4"],
      // Each frame of sound gets a time of its own, so that the gap stays where it is.
      ...["-hls_playlist_type", "vod", "-hls_ts_options", "pes_payload_size=0", join(folder, `${title}-ffmpeg`, "index.m3u8")],
    );
  }
  [origin, browser, reference] = await Promise.all([startOrigin({ library: folder }), launchBrowser(), serve(folder)]);
});
after(async () => {
  await browser?.close();
  await origin?.stop();
  reference?.close();
  if (folder) await rm(folder, { recursive: true, force: true });
});

/** Serves the files of a folder's folders, and an empty page at `/`. */
async function serve(folder) {
  const types = { m3u8: "application/vnd.apple.mpegurl", ts: "video/mp2t" };
  const server = createServer(async (request, response) => {
    const [title, file] = request.url.slice(1).split("/");
    response.setHeader("content-type", types[file?.split(".").pop()] ?? "text/html");
    const bytes = file ? await readFile(join(folder, basename(title), basename(file))) : Buffer.alloc(0);
    const [, from, to] = request.headers.range?.match(/^bytes=(\d+)-(\d*)$/) ?? [];
    if (from === undefined) return response.end(bytes);
    const end = Math.min(Number(to || Infinity), bytes.length - 1);
    response.writeHead(206, { "content-range": `bytes ${from}-${end}/${bytes.length}`, etag: '"1"' });
    response.end(bytes.subarray(Number(from), end + 1));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { address: `http://127.0.0.1:${server.address().port}/`, close: () => server.close() };
}

/**
 * Opens a playlist in a video element and seeks. Returns by how many frames each picture is off, or
 * nothing if this browser has no player of HLS.
 */
async function errorsOf(address, playlist) {
  // The frames can be read only if page and media have one origin.
  const page = await browser.newPage();
  try {
    await page.goto(address);
    const canPlay = await page.evaluate((source) => {
      const video = document.createElement("video");
      video.muted = true;
      video.src = source;
      document.body.replaceChildren(video);
      void video.play();
      return video.canPlayType("application/vnd.apple.mpegurl") !== "";
    }, address + playlist);
    if (!canPlay) return undefined;
    await page.waitForFunction(() => document.querySelector("video").currentTime > 1, undefined, WAIT);
    const errors = [];
    for (const seconds of SEEKS) {
      await page.evaluate((to) => {
        const video = document.querySelector("video");
        video.pause();
        video.currentTime = to;
      }, seconds);
      const isShown = () => {
        const video = document.querySelector("video");
        return !video.seeking && video.readyState >= HTMLMediaElement.HAVE_CURRENT_DATA;
      };
      await page.waitForFunction(isShown, undefined, WAIT);
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
      errors.push(Math.abs((await shownFrame(page)) - seconds * RATE));
    }
    return errors;
  } finally {
    await page.close();
  }
}

describe("a gap in the sound, in Chromium's own player of HLS", { skip: noFfmpeg, concurrency: 3 }, () => {
  const areRight = (errors) => errors.every((error) => error <= FRAMES);
  for (const [title, query, container] of [["even", "", "TS without a gap"], ["gap", "?hls_fmp4", "CMAF with a gap"]]) {
    it(`shows the right frames of ${container} after seeks`, { timeout: 90_000 }, async (t) => {
      const errors = await errorsOf(origin.address, `${title}.mp4/.m3u8${query}`);
      if (!errors) return t.skip("this browser has no player of HLS");
      assert.ok(areRight(errors), `off by ${errors} frames`);
    });
  }

  it("shows the right frames of ffmpeg's TS without a gap after seeks", { timeout: 90_000 }, async (t) => {
    const errors = await errorsOf(reference.address, "even-ffmpeg/index.m3u8");
    if (!errors) return t.skip("this browser has no player of HLS");
    assert.ok(areRight(errors), `off by ${errors} frames`);
  });

  it("shows wrong frames of TS with a gap, also of ffmpeg's, or is mended", { timeout: 90_000 }, async (t) => {
    const ours = await errorsOf(origin.address, "gap.mp4/.m3u8");
    if (!ours) return t.skip("this browser has no player of HLS");
    const theirs = await errorsOf(reference.address, "gap-ffmpeg/index.m3u8");
    // Chance decides which frames are wrong, in both.
    t.diagnostic(`off by ${ours} frames, ffmpeg's by ${theirs}`);
    assert.ok(areRight(ours) || !areRight(theirs), `off by ${ours} frames, but ffmpeg's by ${theirs}`);
  });
});
