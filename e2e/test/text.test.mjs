// Timed text over the video: the cues that players hold are those of the source, in each form in
// which text is stored, after seeks, over the edges of segments, and in clips.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { drewNothingElse, holdsCues, holdsSome, seekToCues, watchText } from "../lib/cues.mjs";
import { serveMadeTitles } from "../lib/made-titles.mjs";
import { COMBINATIONS } from "../lib/player-page.mjs";
import { cuesOf, FILES, makeTitles, STORED } from "../lib/text-titles.mjs";
import { missing } from "../lib/tools.mjs";

const noFfmpeg = await missing("ffmpeg", "-version");
const withTitle = serveMadeTitles(noFfmpeg ? undefined : makeTitles);

/** Longest time in seconds by which all frames and cues of a title are shown later. */
const DELAY = 0.1;
const latest = (protocol, player) => (player === "hls.js" || protocol === "smooth" ? DELAY : 0);

/** Chooses the only subtitles in Shaka Player 4, whose page has no menu of them. */
const chooseInShaka4 = (viewer) =>
  viewer.page.evaluate(() => {
    const player = document.querySelector("video").shaka4;
    player.selectTextTrack(player.getTextTracks()[0]);
    player.setTextTrackVisibility(true);
    return player.getTextTracks().map(({ language, codecs }) => [language, codecs]);
  });

/** True if dash.js draws the text itself, and the browser does not. */
const isDrawn = (form, protocol, query) => protocol === "smooth" || form === "stpp" || query.includes("text=stpp");

/** Watches a title, seeks to and fro, and compares the cues that are held meanwhile. */
async function watch(form, { protocol, player }, query = "") {
  const cues = cuesOf(form);
  await withTitle(`${form}${query}`, protocol, player, async (viewer) => {
    await viewer.passes(1);
    await watchText(viewer);
    if (player === "shaka 4") await chooseInShaka4(viewer);
    else await viewer.chooseSubtitles("en");
    const drawn = player === "dash.js" && isDrawn(form, protocol, query);
    const delay = latest(protocol, player);
    // A seek while Shaka Player fetches its first text makes it lose text, and dash.js does not
    // request text that a seek has skipped.
    await holdsSome(viewer, cues.filter(([from]) => from < 10), delay);
    for (const time of [9.5, 21, 4, 43]) await seekToCues(viewer, cues, time, delay, drawn && time < 40);
    await holdsCues(viewer, cues, delay);
    if (drawn) await drewNothingElse(viewer, cues);
  });
}

describe("timed text", { skip: noFfmpeg, concurrency: 4 }, () => {
  // All files are kept as the same cues, so one of them is watched in all players.
  for (const form of [...STORED, ...FILES]) {
    for (const combination of COMBINATIONS) {
      const { protocol, player } = combination;
      const isOther = FILES.includes(form) && form !== "srt";
      if (isOther && (player === "shaka" || protocol === "hls-cmaf")) continue;
      it(`in ${form} has its cues in ${player}, ${protocol}`, { timeout: 120_000 }, () => watch(form, combination));
    }
  }

  for (const form of ["tx3g", "srt"]) {
    for (const player of ["dash.js", "shaka"]) {
      it(`in ${form} has its cues in ${player} as TTML in DASH`, { timeout: 120_000 }, () =>
        watch(form, { protocol: "dash", player }, "?text=stpp"));
    }
  }

  for (const form of [...STORED, "srt"]) {
    for (const protocol of ["dash", "hls-ts"]) {
      it(`in ${form} has its cues in Shaka Player 4, ${protocol}`, { timeout: 120_000 }, () =>
        watch(form, { protocol, player: "shaka 4" }));
    }
  }

  // The clip begins at 4 s and ends at 24 s. Cues that began before it are no part of it, and the
  // last one is held to its end.
  for (const form of [...STORED, "srt"]) {
    const cues = cuesOf(form)
      .filter(([from]) => from >= 4 && from < 24)
      .map(([from, to, text]) => [from - 4, to - 4, text]);
    for (const { protocol, player } of COMBINATIONS) {
      it(`in ${form} has its cues in a clip in ${player}, ${protocol}`, { timeout: 120_000 }, () =>
        withTitle(`${form}?vbegin=4&vend=24`, protocol, player, async (viewer) => {
          await viewer.passes(1);
          await watchText(viewer);
          await viewer.chooseSubtitles("en");
          const delay = latest(protocol, player);
          await holdsSome(viewer, cues.filter(([from]) => from < 10), delay);
          await seekToCues(viewer, cues, 16.5, delay);
          await viewer.seek(2);
          await holdsCues(viewer, cues, delay);
        }));
    }
  }

  // Shaka Player 4, the last version with Smooth Streaming, makes the init segments of text itself,
  // without the sample entry that its reader of TTML then misses (docs/limits.md).
  it("in Smooth Streaming is refused by Shaka Player 4", { timeout: 120_000 }, async () => {
    const opened = withTitle("srt", "smooth", "shaka 4", async (viewer) => {
      await viewer.passes(1);
      assert.deepEqual(await chooseInShaka4(viewer), [["en", "stpp"]]);
      await viewer.page.locator("#player [role=alert] p").first().waitFor();
      assert.deepEqual(await viewer.errors(), ["Shaka Player: 2007 []"], "INVALID_MP4_TTML");
    });
    await assert.rejects(opened, /2007/);
  });
});
