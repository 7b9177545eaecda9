// Smooth Streaming in real players. The origin's page has none that reads it, so these tests bring pages of their own.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { launchBrowser } from "../lib/browser.mjs";
import { startOrigin } from "../lib/origin.mjs";
import { PlayerPage } from "../lib/player-page.mjs";
import { TITLE, watch } from "../lib/viewing.mjs";

const own = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));

const players = {
  "dash.js": {
    client: "dash-mss.mjs",
    scripts: {
      "dash.js": "node_modules/dashjs/dist/modern/umd/dash.all.min.js",
      "dash.mss.js": "node_modules/dashjs/dist/modern/umd/dash.mss.min.js",
    },
  },
  "Shaka Player 4": {
    client: "shaka-4.mjs",
    scripts: {
      "iso_boxer.js": "node_modules/codem-isoboxer/dist/iso_boxer.min.js",
      "shaka.js": "node_modules/shaka-player/dist/shaka-player.compiled.js",
    },
  },
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

async function open(name, title) {
  const { client, scripts } = players[name];
  const files = { "player.html": own("clients/player.html"), [client]: own(`clients/${client}`) };
  for (const [script, path] of Object.entries(scripts)) files[script] = own(path);
  const query = new URLSearchParams({ manifest: `/${title}/Manifest`, client: `./${client}` });
  for (const script of Object.keys(scripts)) query.append("script", script);
  const viewer = await PlayerPage.openOwn(browser, origin.address, "player.html", query, files);
  // Sound and picture do not begin at the same instant. dash.js begins with the later one: it seeks there, and cancels what
  // it was loading.
  viewer.record.action();
  return viewer;
}

describe("Smooth Streaming", { concurrency: 2 }, () => {
  for (const name of Object.keys(players)) {
    it(`${name} plays, seeks and switches`, { timeout: 180_000 }, async (t) => {
      const viewer = await open(name, TITLE.title);
      try {
        await watch(viewer);
      } finally {
        const { requests, cancelled } = viewer.record;
        t.diagnostic(`${name}: ${requests} requests, ${cancelled.length} cancelled by a seek or switch`);
        await viewer.close();
      }
      assert.deepEqual(viewer.record.faults, []);
    });

    for (const title of ["lighthouse.mp4", "ferry.mp4"]) {
      it(`${name} plays ${title} out`, { timeout: 120_000 }, async () => {
        const viewer = await open(name, title);
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
  }
});
