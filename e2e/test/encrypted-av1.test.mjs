// Encrypted AV1 with several tiles, of which some have less than a block, in real players.

import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { launchBrowser } from "../lib/browser.mjs";
import { startLatemux } from "../lib/origin.mjs";
import { PlayerPage } from "../lib/player-page.mjs";
import { missing, run } from "../lib/tools.mjs";

const SECONDS = 16;
const KEYS = { keys: [{ kid: "8b9e5f30-3c2a-4e0f-9a52-6f5a0d0f7c11", key: "00112233445566778899aabbccddeeff" }] };
const noFfmpeg = await missing("ffmpeg", "-version");

let folder;
let browser;
const origins = {};
before(async () => {
  if (noFfmpeg) return;
  folder = await mkdtemp(join(tmpdir(), "latemux-av1-"));
  const library = join(folder, "library");
  const file = join(library, "tiles.mp4");
  await run("mkdir", library);
  await run(
    "ffmpeg",
    ...["-v", "error", "-nostdin", "-f", "lavfi", "-i", `testsrc2=size=320x192:rate=25:duration=${SECONDS}`],
    ...["-f", "lavfi", "-i", `sine=frequency=440:sample_rate=48000:duration=${SECONDS}`],
    ...["-c:v", "libaom-av1", "-cpu-used", "8", "-lag-in-frames", "12", "-g", "50", "-b:v", "120k"],
    ...["-tile-columns", "1", "-tile-rows", "1", "-c:a", "aac", file],
  );
  const keys = join(folder, "keys.json");
  await writeFile(keys, JSON.stringify(KEYS));
  const start = async (scheme) => {
    const path = join(folder, `${scheme}.toml`);
    const rule = `dash = "${scheme}"\nhls_fmp4 = "${scheme}"\nserve_keys = "open"`;
    await writeFile(path, `[[drm]]\ntitles = ["**"]\n${rule}\nkeys.file = ${JSON.stringify(keys)}\n`);
    origins[scheme] = await startLatemux(["serve", library, "--listen", "127.0.0.1:0", "--config", path]);
  };
  [browser] = await Promise.all([launchBrowser(), ...["cenc", "cbcs"].map(start)]);
});
after(async () => {
  await browser?.close();
  await Promise.all(Object.values(origins).map((origin) => origin.stop()));
  if (folder) await rm(folder, { recursive: true, force: true });
});

describe("encrypted AV1", { skip: noFfmpeg, concurrency: 2 }, () => {
  for (const scheme of ["cenc", "cbcs"]) {
    for (const { protocol, player } of [
      { protocol: "dash", player: "dash.js" },
      { protocol: "dash", player: "shaka" },
      { protocol: "hls-cmaf", player: "shaka" },
    ]) {
      it(`${player} plays and seeks in ${scheme} (${protocol})`, async () => {
        const viewer = await PlayerPage.open(browser, origins[scheme].address, { title: "tiles.mp4", protocol, player });
        try {
          await viewer.ready();
          await viewer.plays(2);
          for (const seconds of [11.3, 3]) {
            await viewer.seek(seconds);
            await viewer.plays(1.5);
          }
          assert.ok(await viewer.page.evaluate(() => document.querySelector("video").mediaKeys !== null), "no media keys");
          assert.ok(await viewer.page.evaluate(() => document.querySelector("video").videoWidth === 320), "no picture");
          assert.deepEqual(await viewer.errors(), []);
        } finally {
          await viewer.close();
        }
      });
    }
  }
});
