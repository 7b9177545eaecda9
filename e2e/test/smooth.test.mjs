// Smooth Streaming in a player that the player page does not have, on a page of these tests.
// players.test.mjs tests the players of the player page.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { launchBrowser } from "../lib/browser.mjs";
import { startOrigin } from "../lib/origin.mjs";
import { PlayerPage } from "../lib/player-page.mjs";
import { TITLE, watch } from "../lib/viewing.mjs";

const own = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));

const client = "shaka-4.mjs";
const scripts = {
  "iso_boxer.js": "node_modules/codem-isoboxer/dist/iso_boxer.min.js",
  "shaka.js": "node_modules/shaka-player/dist/shaka-player.compiled.js",
};

let origin;
let browser;
before(async () => {
  [origin, browser] = await Promise.all([startOrigin(), launchBrowser()]);
});
after(async () => {
  await browser?.close();
  await origin?.stop();
});

async function open(title) {
  const files = { "player.html": own("clients/player.html"), [client]: own(`clients/${client}`) };
  for (const [script, path] of Object.entries(scripts)) files[script] = own(path);
  const query = new URLSearchParams({ manifest: `/${title}/Manifest`, client: `./${client}` });
  for (const script of Object.keys(scripts)) query.append("script", script);
  const viewer = await PlayerPage.openOwn(browser, origin.address, "player.html", query, files);
  // Audio and video do not begin at the same time. A player may seek to the later one, and cancel
  // its requests.
  viewer.record.action();
  return viewer;
}

describe("Smooth Streaming in Shaka Player 4", { concurrency: 2 }, () => {
  it("plays, seeks and switches", { timeout: 180_000 }, async (t) => {
    const viewer = await open(TITLE.title);
    try {
      await watch(viewer);
    } finally {
      const { requests, cancelled } = viewer.record;
      t.diagnostic(`${requests} requests, ${cancelled.length} cancelled by a seek or switch`);
      await viewer.close();
    }
    assert.deepEqual(viewer.record.faults, []);
  });

  for (const title of ["lighthouse.mp4", "ferry.mp4"]) {
    it(`plays ${title} to the end`, { timeout: 120_000 }, async () => {
      const viewer = await open(title);
      try {
        await viewer.ready();
        await viewer.plays(1);
        await viewer.seek(20.5);
        await viewer.playsOut();
        assert.deepEqual(await viewer.errors(), []);
      } finally {
        await viewer.close();
      }
      assert.deepEqual(viewer.record.faults, []);
    });
  }
});
