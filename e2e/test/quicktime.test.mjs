// A file of a camera: QuickTime's sample entries, and a picture that is turned. Browsers refused
// the first, and showed the second on its side.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { PlayerPage } from "../lib/player-page.mjs";
import { makeCameraFile } from "../lib/quicktime.mjs";
import { startBeforeTests } from "../lib/running.mjs";

const combinations = [
  { protocol: "dash", player: "dash.js", upright: true },
  { protocol: "dash", player: "shaka", upright: true },
  { protocol: "hls-cmaf", player: "hls.js", upright: true },
  { protocol: "hls-cmaf", player: "shaka", upright: true },
  // These have no field for the rotation.
  { protocol: "hls-ts", player: "hls.js", upright: false },
  { protocol: "smooth", player: "dash.js", upright: false },
];

let folder;
let film;
const running = startBeforeTests(async () => {
  folder = await mkdtemp(join(tmpdir(), "latemux-quicktime-"));
  film = await makeCameraFile(folder);
  return { library: folder };
});
after(() => rm(folder, { recursive: true, force: true }));

describe("a file of a camera", { concurrency: 4 }, () => {
  for (const { protocol, player, upright } of combinations) {
    it(`plays as ${protocol} in ${player}${upright ? ", upright" : ""}`, { timeout: 180_000 }, async () => {
      const viewer = await PlayerPage.open(running.browser, running.origin.address, { title: film.title, protocol, player });
      if (protocol === "smooth") viewer.record.action();
      try {
        await viewer.ready();
        // Over the edge of the first segment.
        await viewer.plays(5);
        for (const seconds of [17.3, 2.5, 11]) {
          await viewer.seek(seconds);
          await viewer.plays(2);
        }
        const shown = await viewer.page.evaluate(() => {
          const { videoWidth, videoHeight } = document.querySelector("video");
          return [videoWidth, videoHeight];
        });
        assert.deepEqual(shown, upright ? [film.width, film.height] : [film.height, film.width]);
        await viewer.hears(440);
        await viewer.seek(film.seconds - 3);
        await viewer.playsOut();
        assert.deepEqual(await viewer.errors(), []);
      } finally {
        await viewer.close();
      }
      assert.deepEqual(viewer.record.faults, []);
    });
  }
});
