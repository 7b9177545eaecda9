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
 * that nothing went wrong. A title may be given with a query, such as `film?vbegin=4`. Without a
 * `makeTitles`, nothing is prepared.
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
      if (cancelsAtStart(title, protocol)) viewer.record.action();
      await actions(viewer);
      assert.deepEqual(await viewer.errors(), []);
    } finally {
      await viewer.close();
    }
    const isCancelled = (fault) => player === "browser" && fault.includes("net::ERR_ABORTED");
    assert.deepEqual(viewer.record.faults.filter((fault) => !isCancelled(fault)), []);
  };
}

/** Manifests of the protocols in Shaka Player 4, and their media types. */
const MANIFESTS = {
  smooth: ["Manifest", "application/vnd.ms-sstr+xml"],
  dash: [".mpd", "application/dash+xml"],
  "hls-ts": [".m3u8", "application/vnd.apple.mpegurl"],
  "hls-cmaf": [".m3u8?hls_fmp4", "application/vnd.apple.mpegurl"],
};

/** Audio and video do not begin at the same time. Players may seek, and cancel their requests. */
const cancelsAtStart = (titleAndQuery, protocol) => protocol === "smooth" || titleAndQuery.includes("?");

async function open(browser, origin, titleAndQuery, protocol, player) {
  const [title, part] = titleAndQuery.split("?");
  if (player === "shaka 4") {
    const [manifest, type] = MANIFESTS[protocol];
    const query = part && `${manifest.includes("?") ? "&" : "?"}${part}`;
    return openShaka4(browser, origin, `${title}/${manifest}${query ?? ""}`, { type });
  }
  const viewer = await PlayerPage.open(browser, origin.address, { title, ...(part && { part }), protocol, player });
  if (cancelsAtStart(titleAndQuery, protocol)) viewer.record.action();
  return viewer;
}
