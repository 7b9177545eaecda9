// Players get every video segment in order of importance, and show the same frames.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PlayerPage } from "../lib/player-page.mjs";
import { startBeforeTests } from "../lib/running.mjs";
import { TITLE } from "../lib/viewing.mjs";

const running = startBeforeTests();

/** Runs in the page: adds the parameter to the URLs of video segments. */
function prioritise() {
  const ordered = (url) => (/-video=\d+-\d+\.(m4s|dash)$/.test(url) ? `${url}?order=priority` : url);
  const { open } = XMLHttpRequest.prototype;
  XMLHttpRequest.prototype.open = function (method, url, ...rest) {
    return open.call(this, method, ordered(String(url)), ...rest);
  };
  const { fetch } = window;
  window.fetch = (resource, options) => {
    if (!(resource instanceof Request)) return fetch(ordered(String(resource)), options);
    return fetch(new Request(ordered(resource.url), resource), options);
  };
}

/** Seconds of the frames to compare: all of a stretch, over the end of a segment. */
const TIMES = Array.from({ length: 20 }, (_, n) => 3.62 + n / 25);

/** Returns a hash of the picture at each of the times. */
async function pictures(page) {
  return page.evaluate(async (times) => {
    const video = document.querySelector("video");
    video.pause();
    const canvas = new OffscreenCanvas(video.videoWidth, video.videoHeight);
    const context = canvas.getContext("2d", { willReadFrequently: true });
    const found = [];
    for (const time of times) {
      const shown = new Promise((resolve) => video.requestVideoFrameCallback((_, frame) => resolve(frame)));
      video.currentTime = time;
      const frame = await shown;
      context.drawImage(video, 0, 0);
      const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
      const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
      found.push(`${frame.mediaTime.toFixed(3)} ${Array.from(hash.slice(0, 8)).join(".")}`);
    }
    return found;
  }, TIMES);
}

/** Returns true if a segment in order of importance differs from the same one in decode order. */
async function isReordered(url) {
  const body = async (at) => {
    const response = await fetch(at);
    assert.equal(response.status, 200, at);
    return Buffer.from(await response.arrayBuffer());
  };
  const [ordered, plain] = await Promise.all([body(url), body(url.replace("?order=priority", ""))]);
  return !ordered.equals(plain);
}

/** Plays a title. Returns its pictures, and the URLs of the segments in order of importance. */
async function watch({ protocol, player }, script) {
  const viewer = await PlayerPage.open(running.browser, running.origin.address, { title: TITLE.title, protocol, player }, script);
  const prioritised = [];
  viewer.page.on("request", (request) => {
    if (request.url().endsWith("?order=priority")) prioritised.push(request.url());
  });
  try {
    await viewer.ready();
    // This rendition has B-frames, unlike the one with 180 lines.
    await viewer.chooseHeight(234);
    await viewer.plays(4);
    await viewer.seek(33.3);
    await viewer.plays(1.5);
    await viewer.seek(3.4);
    await viewer.plays(0.2);
    const found = await pictures(viewer.page);
    assert.deepEqual(await viewer.errors(), []);
    return { found, prioritised };
  } finally {
    await viewer.close();
    assert.deepEqual(viewer.record.faults, []);
  }
}

describe("segments in order of importance", { concurrency: 3 }, () => {
  for (const combination of [
    { protocol: "dash", player: "dash.js" },
    { protocol: "dash", player: "shaka" },
    { protocol: "hls-cmaf", player: "hls.js" },
  ]) {
    const { protocol, player } = combination;
    it(`${player} shows the same frames of ${protocol}`, { timeout: 180_000 }, async () => {
      const plain = await watch(combination);
      const ordered = await watch(combination, prioritise);
      assert.deepEqual(plain.prioritised, []);
      assert.ok(ordered.prioritised.length >= 3, `${ordered.prioritised.length} segments`);
      // A server that ignores `order` would show the same frames, too.
      const reordered = await Promise.all(ordered.prioritised.map(isReordered));
      assert.ok(reordered.includes(true), `of ${reordered.length} segments, none has another order`);
      assert.equal(new Set(plain.found).size, TIMES.length);
      assert.deepEqual(ordered.found, plain.found);
    });
  }
});
