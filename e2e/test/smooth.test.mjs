// Smooth Streaming in a player that the player page does not have. players.test.mjs tests the
// players of the player page.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { startBeforeTests } from "../lib/running.mjs";
import { openShaka4 } from "../lib/shaka-4.mjs";
import { TITLE, watch } from "../lib/viewing.mjs";

const running = startBeforeTests();

const open = (title, query = "") => openShaka4(running.browser, running.origin, `${title}/Manifest${query}`);

describe("Smooth Streaming in Shaka Player 4", { concurrency: 4 }, () => {
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

  it("plays a clip from its beginning to its end", { timeout: 120_000 }, async () => {
    const viewer = await open(TITLE.title, "?vbegin=9&vend=21");
    try {
      await viewer.ready();
      await viewer.plays(1);
      const { duration } = await viewer.state();
      assert.ok(Math.abs(duration - 14) < 0.1, `${duration} s long`);
      for (const seconds of [9, 3.5]) {
        await viewer.seek(seconds);
        await viewer.plays(1);
      }
      await viewer.seek(11);
      await viewer.playsOut();
      assert.deepEqual(await viewer.errors(), []);
    } finally {
      await viewer.close();
    }
    assert.deepEqual(viewer.record.faults, []);
  });
});
