// Encrypted titles in real players: every segment is decrypted with a key that latemux serves.

import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it, test } from "node:test";
import { fileURLToPath } from "node:url";
import { launchBrowser } from "../lib/browser.mjs";
import { startLatemux } from "../lib/origin.mjs";
import { PlayerPage } from "../lib/player-page.mjs";
import { openShaka4 } from "../lib/shaka-4.mjs";
import { TITLE, watch } from "../lib/viewing.mjs";

const library = fileURLToPath(new URL("../../samples/library", import.meta.url));

const KEYS = {
  keys: [
    { kid: "8b9e5f30-3c2a-4e0f-9a52-6f5a0d0f7c11", key: "00112233445566778899aabbccddeeff", tracks: 'type=="video"' },
    { kid: "1d6f0a4e-52b7-4b8c-8f5e-2f9f6c3f4a90", key: "ffeeddccbbaa99887766554433221100", tracks: 'type=="audio"' },
  ],
};

/** The only key of a title in Smooth Streaming. */
const ONE_KEY = { keys: [{ kid: KEYS.keys[0].kid, key: KEYS.keys[0].key }] };

/** The schemes of each origin. */
const RULES = {
  whole: 'hls_ts = "aes-128"\nhls_fmp4 = "aes-128"',
  sampleAes: 'hls_ts = "sample-aes"',
  cenc: 'dash = "cenc"\nhls_fmp4 = "cenc"',
  cbcs: 'dash = "cbcs"\nhls_fmp4 = "cbcs"',
  piff: 'mss = "piff"\nsystems = ["playready", "clearkey"]',
  leadCenc: 'dash = "cenc"\nhls_fmp4 = "cenc"\nclear_lead = "10s"',
  leadCbcs: 'dash = "cbcs"\nhls_fmp4 = "cbcs"\nhls_ts = "sample-aes"\nclear_lead = "10s"',
  leadWhole: 'hls_ts = "aes-128"\nhls_fmp4 = "aes-128"\nclear_lead = "10s"',
};

const config = (keys, schemes) => `
[[drm]]
titles = ["**"]
${schemes}
serve_keys = "open"
keys.file = ${JSON.stringify(keys)}
`;

let folder;
let browser;
const origins = {};
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "latemux-keys-"));
  const start = async ([name, schemes]) => {
    const keys = join(folder, `${name}.json`);
    await writeFile(keys, JSON.stringify(name === "piff" ? ONE_KEY : KEYS));
    const path = join(folder, `${name}.toml`);
    await writeFile(path, config(keys, schemes));
    origins[name] = await startLatemux(["serve", library, "--listen", "127.0.0.1:0", "--config", path]);
  };
  [browser] = await Promise.all([launchBrowser(), ...Object.entries(RULES).map(start)]);
});
after(async () => {
  await browser?.close();
  await Promise.all(Object.values(origins).map((origin) => origin.stop()));
  if (folder) await rm(folder, { recursive: true });
});

/** What the page shows of the keys. */
const shown = (viewer) => viewer.page.locator("[data-encryption]").textContent();
const kids = KEYS.keys.map(({ kid }) => kid.replaceAll("-", ""));

describe("two keys of Clear Key", { concurrency: 3 }, () => {
  for (const scheme of ["cenc", "cbcs"]) {
    for (const { protocol, player } of [
      { protocol: "dash", player: "dash.js" },
      { protocol: "dash", player: "shaka" },
      { protocol: "hls-cmaf", player: "shaka" },
    ]) {
      it(`${player} plays, switches and seeks in ${scheme} with two keys of Clear Key (${protocol})`, async () => {
        const viewer = await PlayerPage.open(browser, origins[scheme].address, { title: TITLE.title, protocol, player });
        try {
          await watch(viewer);
          assert.equal(await shown(viewer), `Encrypted: ${scheme}, keys ${kids.join(", ")}`);
          assert.ok(await viewer.page.evaluate(() => document.querySelector("video").mediaKeys !== null), "no media keys");
        } finally {
          await viewer.close();
        }
      });
    }
  }
});

test("Shaka Player 4 plays, switches and seeks in PIFF (Smooth Streaming)", async () => {
  const query = { licence: `/${TITLE.title}/keys/clearkey`, kid: kids[0] };
  const viewer = await openShaka4(browser, origins.piff, `${TITLE.title}/Manifest`, query);
  try {
    await watch(viewer);
    assert.deepEqual(await viewer.errors(), []);
  } finally {
    await viewer.close();
  }
});

test("the page plays a title in HLS that is not served in DASH", async () => {
  const viewer = await PlayerPage.open(browser, origins.whole.address, { title: TITLE.title });
  try {
    const link = viewer.page.locator("#player [role=alert] a");
    await link.click();
    await viewer.ready();
    await viewer.plays(2);
    assert.match(await shown(viewer), /^Encrypted: AES-128, keys /);
  } finally {
    await viewer.close();
  }
});

for (const { protocol, player, rule = "whole", method = "AES-128" } of [
  { protocol: "hls-ts", player: "hls.js" },
  { protocol: "hls-ts", player: "hls.js", rule: "sampleAes", method: "SAMPLE-AES" },
  { protocol: "hls-cmaf", player: "hls.js" },
  { protocol: "hls-cmaf", player: "shaka" },
]) {
  test(`${player} plays, switches and seeks in ${method} (${protocol})`, async () => {
    const origin = origins[rule];
    const viewer = await PlayerPage.open(browser, origin.address, { title: TITLE.title, protocol, player });
    const before = origin.log().length;
    try {
      await watch(viewer);
      assert.match(await shown(viewer), new RegExp(`^Encrypted: ${method}, keys `));
      // The page looks for the MPD, which this rule refuses, and then for the playlist.
      const isExpected = (fault) => fault.includes("/.mpd") || /ERR_ABORTED.*\/\.m3u8/.test(fault);
      assert.deepEqual(viewer.record.faults.filter((fault) => !isExpected(fault)), []);
    } finally {
      await viewer.close();
    }
    const fetched = new Set(origin.log().slice(before).match(/\w{32}\.key/g));
    const files = kids.map((kid) => `${kid}.key`);
    assert.deepEqual([...fetched].sort(), files.sort(), "the keys that were fetched");
  });
}

/** The end of the clear lead in these titles, in seconds. */
const BORDER = 8;

describe("border of a clear lead", { concurrency: 3 }, () => {
  for (const { protocol, player, rule } of [
    { protocol: "dash", player: "dash.js", rule: "leadCenc" },
    { protocol: "dash", player: "shaka", rule: "leadCenc" },
    { protocol: "dash", player: "dash.js", rule: "leadCbcs" },
    { protocol: "dash", player: "shaka", rule: "leadCbcs" },
    { protocol: "hls-cmaf", player: "shaka", rule: "leadCenc" },
    { protocol: "hls-cmaf", player: "shaka", rule: "leadCbcs" },
    { protocol: "hls-ts", player: "hls.js", rule: "leadCbcs" },
    { protocol: "hls-ts", player: "hls.js", rule: "leadWhole" },
    { protocol: "hls-cmaf", player: "hls.js", rule: "leadWhole" },
  ]) {
    it(`${player} plays, switches and seeks over the border of a clear lead (${rule}, ${protocol})`, async () => {
      const viewer = await PlayerPage.open(browser, origins[rule].address, { title: TITLE.title, protocol, player });
      try {
        await viewer.ready();
        await viewer.seek(BORDER - 2);
        await viewer.plays(4);
        await viewer.seek(30);
        await viewer.plays(1);
        await viewer.seek(BORDER - 1);
        await viewer.plays(2);
        await watch(viewer);
      } finally {
        await viewer.close();
      }
    });
  }
});

/** Players that start before they have a key: all requests for keys wait until they play. */
for (const { protocol, player, rule } of [
  { protocol: "dash", player: "dash.js", rule: "leadCenc" },
  { protocol: "dash", player: "shaka", rule: "leadCbcs" },
  { protocol: "hls-ts", player: "hls.js", rule: "leadWhole" },
]) {
  test(`${player} starts without a key in a clear lead (${rule}, ${protocol})`, async () => {
    const query = { title: TITLE.title, protocol, player };
    const viewer = await PlayerPage.openWithoutKeys(browser, origins[rule].address, query);
    try {
      await viewer.ready();
      await viewer.plays(2);
      viewer.giveKeys();
      await viewer.seek(BORDER + 10);
      await viewer.plays(1);
      assert.ok(viewer.keys.asked > 0, "no key was requested");
    } finally {
      viewer.giveKeys();
      await viewer.close();
    }
  });
}

// `make demo` starts the origin in this way. The origin refuses to start without its keys.
test("the demo finds its keys and plays its encrypted title", async () => {
  const file = fileURLToPath(new URL("../../samples/demo.toml", import.meta.url));
  const demo = await startLatemux(["serve", library, "--config", file, "--listen", "127.0.0.1:0"]);
  try {
    const manifest = await (await fetch(`${demo.address}lighthouse.mp4/.mpd`)).text();
    assert.match(manifest, /<ContentProtection /);
    const viewer = await PlayerPage.open(browser, demo.address, { title: "lighthouse.mp4", protocol: "dash", player: "dash.js" });
    try {
      await viewer.ready();
      await viewer.plays(1);
      assert.deepEqual(await viewer.errors(), []);
    } finally {
      await viewer.close();
    }
  } finally {
    await demo.stop();
  }
});
