// AVC with open GOPs: frames behind a sync sample refer to the GOP before. Chromium cannot decode
// them after a seek, from whatever they come; played from the start, they are decoded.

import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { launchBrowser } from "../lib/browser.mjs";
import { startOrigin } from "../lib/origin.mjs";
import { COMBINATIONS, PlayerPage } from "../lib/player-page.mjs";
import { missing, run } from "../lib/tools.mjs";

const SECONDS = 12;
const SEEK = 7.4;
const WAIT = { timeout: 30_000, polling: 50 };
const noFfmpeg = await missing("ffmpeg", "-version");

let folder;
let origin;
let browser;
before(async () => {
  if (noFfmpeg) return;
  folder = await mkdtemp(join(tmpdir(), "latemux-open-"));
  for (const [name, open] of [["open", 1], ["closed", 0]]) {
    const gops = `open-gop=${open}:keyint=50:min-keyint=50:scenecut=0`;
    await run(
      "ffmpeg",
      ...["-v", "error", "-nostdin", "-f", "lavfi", "-i", `testsrc2=size=320x180:rate=25:duration=${SECONDS}`],
      ...["-f", "lavfi", "-i", `sine=frequency=440:sample_rate=48000:duration=${SECONDS}`],
      ...["-c:v", "libx264", "-preset", "veryfast", "-bf", "2", "-pix_fmt", "yuv420p", "-x264-params", gops],
      ...["-c:a", "aac", join(folder, `${name}.mp4`)],
    );
  }
  [origin, browser] = await Promise.all([startOrigin({ library: folder }), launchBrowser()]);
});
after(async () => {
  await browser?.close();
  await origin?.stop();
  if (folder) await rm(folder, { recursive: true, force: true });
});

/** Seeks, and returns true if playback goes on from there, or false after an error. */
async function playsAfterSeek(page) {
  await page.evaluate((to) => {
    const video = document.querySelector("video");
    video.addEventListener("error", () => (window.hasFailed = true));
    video.currentTime = to;
  }, SEEK);
  const result = await page.waitForFunction(
    (to) => {
      const { error, currentTime } = document.querySelector("video");
      if (error || window.hasFailed || document.querySelector("#player [role=alert] p")) return "failed";
      return currentTime > to + 0.5 && currentTime < to + 5 && "plays";
    },
    SEEK,
    WAIT,
  );
  return (await result.jsonValue()) === "plays";
}

/** Plays a file in a video element, without a packager. */
async function playsFileAfterSeek(name) {
  const page = await browser.newPage();
  try {
    const bytes = await readFile(join(folder, name));
    await page.setContent("<video muted></video>");
    await page.evaluate(async (src) => {
      const video = document.querySelector("video");
      video.src = src;
      await video.play();
    }, `data:video/mp4;base64,${bytes.toString("base64")}`);
    return await playsAfterSeek(page);
  } finally {
    await page.close();
  }
}

describe("open GOPs", { skip: noFfmpeg, concurrency: 4 }, () => {
  for (const { protocol, player } of [...COMBINATIONS, { protocol: "hls-ts", player: "browser" }]) {
    it(`play from the start to the end as ${protocol} in ${player}`, { timeout: 120_000 }, async (t) => {
      const viewer = await PlayerPage.open(browser, origin.address, { title: "open.mp4", protocol, player });
      try {
        if ((await viewer.page.locator("#player-choice").inputValue()) !== player) {
          t.skip("this browser has no native player for HLS");
          return;
        }
        await viewer.ready();
        // Over the edges of segments.
        await viewer.plays(SECONDS - 1);
        await viewer.playsOut();
        assert.deepEqual(await viewer.errors(), []);
      } finally {
        await viewer.close();
      }
    });
  }

  it("fail after a seek, also in the file itself, or are mended", { timeout: 120_000 }, async (t) => {
    assert.ok(await playsFileAfterSeek("closed.mp4"), "closed GOPs play after a seek");
    const theirs = await playsFileAfterSeek("open.mp4");
    const ours = {};
    for (const name of ["closed.mp4", "open.mp4"]) {
      const query = { title: name, protocol: "dash", player: "dash.js" };
      const viewer = await PlayerPage.open(browser, origin.address, query);
      try {
        await viewer.ready();
        await viewer.plays(0.5);
        ours[name] = await playsAfterSeek(viewer.page);
      } finally {
        await viewer.close();
      }
    }
    t.diagnostic(`plays after a seek: ${theirs} in the file, ${ours["open.mp4"]} in DASH`);
    assert.ok(ours["closed.mp4"], "closed GOPs play after a seek");
    assert.ok(ours["open.mp4"] || !theirs, "only the file plays after a seek");
  });
});
