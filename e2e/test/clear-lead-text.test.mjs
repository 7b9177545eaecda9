// Subtitles beside encrypted video with a clear lead: in HLS, the discontinuity behind the lead
// moves no cue.

import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { launchBrowser } from "../lib/browser.mjs";
import { holdsCues, holdsSome, seekToCues, watchText } from "../lib/cues.mjs";
import { startLatemux } from "../lib/origin.mjs";
import { PlayerPage } from "../lib/player-page.mjs";
import { cuesOf, makeTitles } from "../lib/text-titles.mjs";
import { missing } from "../lib/tools.mjs";

const noFfmpeg = await missing("ffmpeg", "-version");

describe("text beside a clear lead", { skip: noFfmpeg }, () => {
  let folder;
  let origin;
  let browser;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "latemux-lead-"));
    await makeTitles(folder);
    const keys = join(folder, "keys.json");
    const key = { kid: "8b9e5f30-3c2a-4e0f-9a52-6f5a0d0f7c11", key: "00112233445566778899aabbccddeeff" };
    await writeFile(keys, JSON.stringify({ keys: [key] }));
    const config = join(folder, "drm.toml");
    const schemes = 'dash = "cbcs"\nhls_fmp4 = "cbcs"\nhls_ts = "sample-aes"\nclear_lead = "10s"\nserve_keys = "open"';
    await writeFile(config, `[[drm]]\ntitles = ["**"]\n${schemes}\nkeys.file = ${JSON.stringify(keys)}\n`);
    [origin, browser] = await Promise.all([
      startLatemux(["serve", folder, "--listen", "127.0.0.1:0", "--config", config]),
      launchBrowser(),
    ]);
  });
  after(async () => {
    await browser?.close();
    await origin?.stop();
    if (folder) await rm(folder, { recursive: true });
  });

  for (const { form, protocol, player, delay } of [
    { form: "srt", protocol: "hls-ts", player: "hls.js", delay: 0.1 },
    { form: "wvtt", protocol: "hls-ts", player: "hls.js", delay: 0.1 },
    { form: "srt", protocol: "dash", player: "shaka", delay: 0 },
  ]) {
    it(`in ${form} has its cues in ${player}, ${protocol}`, { timeout: 120_000 }, async () => {
      const viewer = await PlayerPage.open(browser, origin.address, { title: form, protocol, player });
      try {
        await viewer.ready();
        await viewer.passes(1);
        await watchText(viewer);
        await viewer.chooseSubtitles("en");
        const cues = cuesOf(form);
        // A seek while Shaka Player fetches its first text makes it lose text.
        await holdsSome(viewer, cues.filter(([from]) => from < 10), delay);
        for (const time of [9.5, 21, 4, 43]) await seekToCues(viewer, cues, time, delay);
        await holdsCues(viewer, cues, delay);
        assert.deepEqual(await viewer.errors(), []);
      } finally {
        await viewer.close();
      }
    });
  }
});
