// Titles that a test file generates for itself, served while its tests run.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before } from "node:test";
import { launchBrowser } from "./browser.mjs";
import { startOrigin } from "./origin.mjs";
import { PlayerPage } from "./player-page.mjs";
import { openShaka4 } from "./shaka-4.mjs";

/**
 * Writes titles into a folder with `makeTitles` before the tests of the calling file, and serves
 * the folder. Returns a function that opens a title, does `actions` with the viewer, and checks
 * that nothing went wrong. Without a `makeTitles`, nothing is prepared.
 */
export function serveMadeTitles(makeTitles) {
  let library;
  let origin;
  let browser;
  before(async () => {
    if (!makeTitles) return;
    library = await mkdtemp(join(tmpdir(), "latemux-titles-"));
    await makeTitles(library);
    [origin, browser] = await Promise.all([startOrigin({ library }), launchBrowser()]);
  });
  after(async () => {
    await browser?.close();
    await origin?.stop();
    if (library) await rm(library, { recursive: true });
  });

  return async (title, protocol, player, actions) => {
    const viewer = await open(browser, origin, title, protocol, player);
    try {
      await viewer.ready();
      await actions(viewer);
      assert.deepEqual(await viewer.errors(), []);
    } finally {
      await viewer.close();
    }
    const isCancelled = (fault) => player === "browser" && fault.includes("net::ERR_ABORTED");
    assert.deepEqual(viewer.record.faults.filter((fault) => !isCancelled(fault)), []);
  };
}

async function open(browser, origin, title, protocol, player) {
  if (player === "shaka 4") return openShaka4(browser, origin, `${title}/Manifest`);
  const viewer = await PlayerPage.open(browser, origin.address, { title, protocol, player });
  if (protocol === "smooth") viewer.record.action();
  return viewer;
}
