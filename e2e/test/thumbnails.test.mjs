// Thumbnails in players and on the player page: the tile that is shown for a time has the picture
// that the film shows then.

import assert from "node:assert/strict";
import { copyFile, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { launchBrowser, Record } from "../lib/browser.mjs";
import { runLatemux, startOrigin } from "../lib/origin.mjs";
import { PlayerPage } from "../lib/player-page.mjs";
import { missing, run } from "../lib/tools.mjs";

const noFfmpeg = await missing("ffmpeg", "-version");
const file = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));
const SHAKA_5 = file("../web/node_modules/shaka-player/dist/shaka-player.compiled.js");
const SHAKA_4 = file("node_modules/shaka-player/dist/shaka-player.compiled.js");
const HLS_JS = file("../web/node_modules/hls.js/dist/hls.min.js");
const DASH_JS = file("../web/node_modules/dashjs/dist/modern/umd/dash.all.min.js");

/** Times within tiles of 2 s, in each of the two sheets. */
const TIMES = [0.5, 3.5, 9, 12.5, 15, 21.5];

let library;
let origin;
let browser;
before(async () => {
  if (noFfmpeg) return;
  library = await mkdtemp(join(tmpdir(), "latemux-thumbnails-"));
  const folder = join(library, "film");
  await mkdir(folder);
  const film = join(folder, "video.mp4");
  // The brightness is a step higher every 2 s, when a new tile begins.
  const source = "color=black:size=320x180:rate=10:duration=23,geq=lum='16+16*floor(T/2+0.001)':cb=128:cr=128";
  const avc = ["-c:v", "libx264", "-preset", "ultrafast", "-qp", "4", "-g", "20", "-keyint_min", "20", "-sc_threshold", "0"];
  await run("ffmpeg", "-v", "error", "-f", "lavfi", "-i", source, ...avc, "-pix_fmt", "yuv420p", film);
  await runLatemux("thumbnails", film, "--every", "2s", "--tiles", "3x2");
  const single = join(library, "single");
  await mkdir(single);
  await copyFile(film, join(single, "video.mp4"));
  await runLatemux("thumbnails", join(single, "video.mp4"), "--every", "2s", "--tiles", "1x1");
  [origin, browser] = await Promise.all([startOrigin({ library }), launchBrowser()]);
});
after(async () => {
  await browser?.close();
  await origin?.stop();
  if (library) await rm(library, { recursive: true });
});

/** Opens a page with a video element and a player's code. */
async function open(script) {
  const page = await browser.newPage();
  const record = new Record(page, origin.address);
  record.action();
  await page.route("**/favicon.ico", (route) => route.fulfill({ status: 204 }));
  await page.goto(`${origin.address}api/library`);
  await page.setContent("<video muted></video>");
  await page.addScriptTag({ path: script });
  await page.evaluate(() => {
    const brightness = (source, x, y, width, height) => {
      const canvas = new OffscreenCanvas(8, 8);
      const context = canvas.getContext("2d");
      context.drawImage(source, x, y, width, height, 0, 0, 8, 8);
      const { data } = context.getImageData(0, 0, 8, 8);
      return data.reduce((sum, value, place) => (place % 4 === 3 ? sum : sum + value), 0) / (64 * 3);
    };
    const video = document.querySelector("video");
    window.brightnessOfFilm = async (time) => {
      const shown = new Promise((resolve) => video.requestVideoFrameCallback(resolve));
      video.currentTime = time;
      await shown;
      return brightness(video, 0, 0, video.videoWidth, video.videoHeight);
    };
    window.brightnessOfTile = async ({ url, x, y, width, height }) => {
      const image = new Image();
      image.src = url;
      await image.decode();
      return brightness(image, x, y, width, height);
    };
  });
  return { page, record };
}

/** Compares the film at several times with what `thumbnailAt` gives in the page. */
async function compare({ page, record }, thumbnailAt) {
  const seen = [];
  for (const time of TIMES) {
    record.action();
    const tile = await page.evaluate(thumbnailAt, time);
    assert.deepEqual([tile.width, tile.height], [160, 90], JSON.stringify(tile));
    const [film, shown] = await page.evaluate(
      async ({ time, tile }) => [await brightnessOfFilm(time), await brightnessOfTile(tile)],
      { time, tile },
    );
    // Neighbouring tiles differ by some 18 steps.
    assert.ok(Math.abs(film - shown) < 6, `at ${time} s the film has ${film}, the tile ${shown}`);
    seen.push(Math.round(shown));
  }
  assert.equal(new Set(seen).size, TIMES.length, `all of them differ: ${seen}`);
  record.action();
  await page.close();
  assert.deepEqual(record.faults, []);
}

describe("thumbnails", { skip: noFfmpeg }, () => {
  it("are shown by dash.js", { timeout: 120_000 }, async () => {
    const opened = await open(DASH_JS);
    await opened.page.evaluate((url) => {
      window.player = dashjs.MediaPlayer().create();
      player.initialize(document.querySelector("video"), url, false);
    }, `${origin.address}film/.mpd`);
    await opened.page.waitForFunction(() => document.querySelector("video").readyState >= 2);
    await compare(opened, (time) => new Promise((resolve) => player.provideThumbnail(time, (tile) => resolve({ ...tile }))));
  });

  it("are I-frames for hls.js", { timeout: 120_000 }, async () => {
    const opened = await open(HLS_JS);
    await opened.page.evaluate((url) => {
      window.hls = new Hls();
      hls.attachMedia(document.querySelector("video"));
      hls.loadSource(url);
    }, `${origin.address}single/.m3u8?hls_fmp4`);
    await opened.page.waitForFunction(() => document.querySelector("video").readyState >= 2);
    await opened.page.evaluate(() => {
      window.pictures = hls.createImageIFramePlayer();
      window.picture = new Image();
      pictures.attachImage(picture);
    });
    await compare(opened, async (time) => {
      const before = picture.src;
      pictures.loadMediaAt(time);
      for (let frame = 0; picture.src === before && frame < 300; frame++) await new Promise(requestAnimationFrame);
      await picture.decode();
      return { url: picture.src, x: 0, y: 0, width: picture.naturalWidth, height: picture.naturalHeight };
    });
  });

  for (const [name, script] of [["Shaka Player 5", SHAKA_5], ["Shaka Player 4", SHAKA_4]]) {
    for (const manifest of [".mpd", ".m3u8"]) {
      it(`are shown by ${name} from ${manifest}`, { timeout: 120_000 }, async () => {
        const opened = await open(script);
        await opened.page.evaluate(async (url) => {
          window.player = new shaka.Player();
          await player.attach(document.querySelector("video"));
          await player.load(url);
        }, `${origin.address}film/${manifest}`);
        await opened.page.waitForFunction(() => document.querySelector("video").readyState >= 2);
        await compare(opened, async (time) => {
          const [track] = player.getImageTracks();
          const { uris, positionX: x, positionY: y, width, height } = await player.getThumbnails(track.id, time);
          return { url: uris[0], x, y, width, height };
        });
      });
    }
  }

  it("are shown above the seek bar of the page", { timeout: 120_000 }, async () => {
    const viewer = await PlayerPage.open(browser, origin.address, { title: "film", protocol: "dash" });
    viewer.record.action();
    await viewer.ready();
    const { page } = viewer;
    const bar = page.getByRole("slider", { name: "Seek" });
    await bar.waitFor();
    const { x, y, width, height } = await bar.boundingBox();
    for (const second of [1, 13, 21]) {
      viewer.record.action();
      await page.mouse.move(x + (width * second) / 23, y + height / 2);
      const tile = page.locator("#seek .tile");
      await tile.waitFor();
      assert.equal(await tile.getAttribute("data-start"), String(second - (second % 2)));
      const [picture, place] = await tile.evaluate(({ style }) => [style.backgroundImage, style.backgroundPosition]);
      const number = Math.floor(second / 2);
      assert.match(picture, new RegExp(`/images/film-thumbs=\\d+-${Math.floor(number / 6) + 1}\\.jpg`));
      const [left, top] = [(number % 3) * 160, (Math.floor(number / 3) % 2) * 90];
      assert.equal(place.replaceAll("-", ""), `${left}px ${top}px`);
    }
    await page.mouse.click(x + (width * 13) / 23, y + height / 2);
    await page.waitForFunction(() => Math.abs(document.querySelector("video").currentTime - 13) < 1.5);
    await page.mouse.move(x, y - 300);
    await page.locator("#seek .preview").waitFor({ state: "hidden" });
    assert.deepEqual(await viewer.errors(), []);
    await viewer.close();
    assert.deepEqual(viewer.record.faults, []);
  });
});
