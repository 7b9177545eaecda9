// The image, built from the binary under test, and run without rights on a file system that it
// cannot write. A player in Chromium plays from it.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { launchBrowser } from "../lib/browser.mjs";
import { Image } from "../lib/image.mjs";
import { COMBINATIONS, PlayerPage } from "../lib/player-page.mjs";

const library = fileURLToPath(new URL("../../samples/library", import.meta.url));

const image = await Image.build();

describe("the image", { skip: image.missing }, () => {
  let container;
  let browser;
  let address;
  before(async () => {
    container = await image.start(
      ["--read-only", "--network=host", "--memory=256m", "--cap-drop=ALL", "-v", `${library}:/media:ro`],
      ["serve", "/media", "--listen", "127.0.0.1:0", "--cache-memory", "64MiB"],
    );
    address = await container.url();
    [browser] = await Promise.all([launchBrowser(), container.isReady(`${address}healthz/ready`)]);
  });
  after(async () => {
    await browser?.close();
    await container?.remove();
    await image.remove();
  });

  for (const { protocol, player } of COMBINATIONS.slice(0, 4)) {
    it(`serves ${player} (${protocol})`, async () => {
      const viewer = await PlayerPage.open(browser, address, { title: "harbour", protocol, player });
      try {
        await viewer.ready();
        await viewer.plays(2);
      } finally {
        await viewer.close();
      }
      assert.deepEqual(viewer.record.faults, []);
    });
  }
});
