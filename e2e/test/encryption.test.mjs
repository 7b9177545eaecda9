// Encrypted titles in real players: every segment is decrypted with a key that latemux serves.

import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { launchBrowser } from "../lib/browser.mjs";
import { startLatemux } from "../lib/origin.mjs";
import { PlayerPage } from "../lib/player-page.mjs";
import { TITLE, watch } from "../lib/viewing.mjs";

const library = fileURLToPath(new URL("../../samples/library", import.meta.url));

const KEYS = {
  keys: [
    { kid: "8b9e5f30-3c2a-4e0f-9a52-6f5a0d0f7c11", key: "00112233445566778899aabbccddeeff", tracks: 'type=="video"' },
    { kid: "1d6f0a4e-52b7-4b8c-8f5e-2f9f6c3f4a90", key: "ffeeddccbbaa99887766554433221100", tracks: 'type=="audio"' },
  ],
};

const rule = (keys) => `
[[drm]]
titles = ["**"]
hls_ts = "aes-128"
hls_fmp4 = "aes-128"
serve_keys = "open"
keys.file = ${JSON.stringify(keys)}
`;

let folder;
let origin;
let browser;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "latemux-keys-"));
  const [keys, config] = [join(folder, "keys.json"), join(folder, "drm.toml")];
  await Promise.all([writeFile(keys, JSON.stringify(KEYS)), writeFile(config, rule(keys))]);
  const arguments_ = ["serve", library, "--listen", "127.0.0.1:0", "--config", config];
  [origin, browser] = await Promise.all([startLatemux(arguments_), launchBrowser()]);
});
after(async () => {
  await browser?.close();
  await origin?.stop();
  if (folder) await rm(folder, { recursive: true });
});

for (const { protocol, player } of [
  { protocol: "hls-ts", player: "hls.js" },
  { protocol: "hls-cmaf", player: "hls.js" },
  { protocol: "hls-cmaf", player: "shaka" },
]) {
  test(`${player} plays, switches and seeks in AES-128 (${protocol})`, async () => {
    const viewer = await PlayerPage.open(browser, origin.address, { title: TITLE.title, protocol, player });
    const before = origin.log().length;
    try {
      await watch(viewer);
      // The page looks for the MPD, which this rule refuses, and then for the playlist.
      const isExpected = (fault) => fault.includes("/.mpd") || /ERR_ABORTED.*\/\.m3u8/.test(fault);
      assert.deepEqual(viewer.record.faults.filter((fault) => !isExpected(fault)), []);
    } finally {
      await viewer.close();
    }
    const fetched = new Set(origin.log().slice(before).match(/\w{32}\.key/g));
    const kids = KEYS.keys.map(({ kid }) => `${kid.replaceAll("-", "")}.key`);
    assert.deepEqual([...fetched].sort(), kids.sort(), "the keys that were fetched");
  });
}
