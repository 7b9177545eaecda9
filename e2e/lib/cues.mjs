// The cues that players hold in the text tracks of the video element, and those that dash.js draws.

import assert from "node:assert/strict";

/**
 * Runs in the page. Keeps all cues that the text tracks ever hold, since some players drop cues far
 * from the current time. Also keeps the lines that the player draws itself, with the times of the
 * video.
 */
function collect() {
  const SAME = 0.002;
  const EVERY_MS = 40;
  // dash.js keeps TTML as a tree in each cue.
  const textOf = (element) => {
    if (element.kind === "br") return "\n";
    if (element.text !== undefined && element.text !== null) return element.text;
    const parts = (element.contents ?? []).map(textOf);
    return parts.filter((part) => part !== "").join(element.kind === "div" || element.kind === "body" ? "\n" : "");
  };
  const decoder = document.createElement("textarea");
  const plain = (text) => {
    decoder.innerHTML = text.replaceAll(/<\/?[a-z][^>]*>/g, "");
    return decoder.value;
  };
  const linesOf = (cue) => (cue.isd ? cue.isd.contents.map(textOf).join("\n") : plain(cue.text)).split("\n");

  const seen = new Map();
  const twice = new Set();
  const drawn = [];
  const video = document.querySelector("video");
  let last = -Infinity;
  let settled;
  setInterval(() => {
    for (const track of video.textTracks) {
      const now = new Set();
      for (const cue of track.cues ?? []) {
        for (const line of linesOf(cue)) {
          const key = JSON.stringify([cue.startTime, cue.endTime, line]);
          if (now.has(key)) twice.add(key);
          now.add(key);
          seen.set(key, [cue.startTime, cue.endTime, line]);
        }
      }
    }
    const text = document.querySelector(".captions")?.innerText ?? "";
    // After a seek, old text may be drawn until the next updates of the time.
    if (Math.abs(video.currentTime - last) > 0.5) settled = video.currentTime + 1;
    last = video.currentTime;
    const now = text.split("\n").map((line) => line.trim()).filter(Boolean);
    drawn.push([video.currentTime, now, video.currentTime > settled]);
  }, EVERY_MS);

  window.textSeen = {
    /**
     * Returns each line with the times in seconds between which its cue lasts, sorted by start. A
     * cue may be cut where a segment ends: its parts are joined here. They adjoin, or the player
     * has made the first one longer.
     */
    held() {
      const all = [...seen.values()].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
      const lines = [];
      for (const [from, to, line] of all) {
        const before = lines.findLast((one) => one[2] === line);
        if (before?.edges.some((edge) => Math.abs(edge - from) < SAME)) {
          before[1] = Math.max(before[1], to);
          before.edges.push(to);
        } else {
          lines.push(Object.assign([from, to, line], { edges: [from, to] }));
        }
      }
      return lines.map((one) => one.slice(0, 3)).sort((a, b) => a[0] - b[0] || (a[2] < b[2] ? -1 : 1));
    },
    twice: () => [...twice],
    drawn,
  };
}

/** Returns the lines of cues with their times, in the order of `textSeen.held`. */
const lined = (cues) =>
  cues
    .flatMap(([from, to, text]) => text.split("\n").map((line) => [from, to, line]))
    .sort((a, b) => a[0] - b[0] || (a[2] < b[2] ? -1 : 1));

/** Begins to watch the text of a page. Call it before the subtitles are chosen. */
export const watchText = (viewer) => viewer.page.evaluate(collect);

/**
 * Waits until the player has held these cues and no others, each once, at their times to the
 * millisecond. All of them may be later by the same time, at most `latest` seconds: by that time,
 * the player or the protocol also shows the frames later.
 */
export async function holdsCues(viewer, cues, latest = 0) {
  const want = lined(cues);
  const matches = ({ want, latest }) => {
    const TOLERANCE = 0.0015;
    const held = window.textSeen.held();
    if (held.length !== want.length) return false;
    const shift = held[0][0] - want[0][0];
    if (shift < -TOLERANCE || shift > latest + TOLERANCE) return false;
    const near = (a, b) => Math.abs(a - shift - b) < TOLERANCE;
    return held.every(([from, to, line], n) => near(from, want[n][0]) && near(to, want[n][1]) && line === want[n][2]);
  };
  try {
    await viewer.until("the player to hold the cues", matches, { want, latest });
  } catch (error) {
    assert.deepEqual(await viewer.page.evaluate(() => window.textSeen.held()), want, error.message);
    throw error;
  }
  assert.deepEqual(await viewer.page.evaluate(() => window.textSeen.twice()), [], "cues that a track holds twice");
}

/**
 * Waits until the player has held these cues, among others. Each may be up to `latest` seconds
 * later.
 */
export const holdsSome = (viewer, cues, latest = 0) =>
  viewer.until(
    `the player to hold ${JSON.stringify(cues)}`,
    ({ want, latest }) => {
      const TOLERANCE = 0.0015;
      const near = (a, b) => a > b - TOLERANCE && a < b + latest + TOLERANCE;
      const held = window.textSeen.held();
      return want.every(([from, to, line]) => held.some((one) => near(one[0], from) && near(one[1], to) && one[2] === line));
    },
    { want: lined(cues), latest },
  );

/**
 * Seeks to a time in seconds, and waits until the player has held the cues that are shown there. If
 * `isDrawn` is true, also waits until dash.js has drawn their lines after the seek. Without these
 * waits, the next seek could come before the player requests the text, and some players never
 * request text that was skipped (docs/limits.md).
 */
export async function seekToCues(viewer, cues, time, latest, isDrawn = false) {
  const shown = cues.filter(([from, to]) => from <= time && time < to);
  const first = await viewer.page.evaluate(() => window.textSeen.drawn.length);
  await viewer.seek(time);
  await holdsSome(viewer, shown, latest);
  if (!isDrawn) return;
  const lines = lined(shown).map(([, , line]) => line);
  const matches = ({ lines, time, first }) =>
    window.textSeen.drawn
      .slice(first)
      .some(([at, drawn]) => at >= time && lines.length === drawn.length && lines.every((line) => drawn.includes(line)));
  await viewer.until(`${JSON.stringify(lines)} on screen`, matches, { lines, time, first });
}

/** Checks that dash.js never drew a line while its cue was not shown. */
export async function drewNothingElse(viewer, cues) {
  /** The time of the video is updated four times a second. */
  const UPDATE = 0.4;
  const lines = lined(cues);
  const isShown = (line, time) =>
    lines.some(([from, to, text]) => text === line && time > from - UPDATE && time < to + UPDATE);
  const drawn = await viewer.page.evaluate(() => window.textSeen.drawn);
  assert.ok(drawn.length > 0);
  assert.deepEqual(drawn.filter(([time, found, isSettled]) => isSettled && found.some((line) => !isShown(line, time))), []);
}
