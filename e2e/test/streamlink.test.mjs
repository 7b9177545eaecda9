// HDS in streamlink 1.7, an independent client: manifest, bootstrap information and every fragment,
// of the sample library and of titles on which players of other protocols once failed.

import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { makeMedia, writeWithEdits } from "../lib/edited-media.mjs";
import { makeTitles as makeOddTitles } from "../lib/odd-titles.mjs";
import { startOrigin } from "../lib/origin.mjs";
import { makeCameraFile } from "../lib/quicktime.mjs";
import { missing, packets, run } from "../lib/tools.mjs";
import { makeTitles as makeUnevenTitles } from "../lib/uneven-titles.mjs";

const own = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));
const python = own(".venv/bin/python");
const client = own("clients/streamlink-hds.py");
const library = own("../samples/library");

const importable = "import inspect; inspect.getargspec = inspect.getfullargspec; import streamlink";
const skip = (await missing(python, "-c", importable)) || (await missing("ffprobe", "-version"));

let origin;
let folder;
before(async () => {
  if (skip) return;
  [origin, folder] = await Promise.all([startOrigin(), mkdtemp(join(tmpdir(), "latemux-hds-"))]);
});
after(async () => {
  await origin?.stop();
  if (folder) await rm(folder, { recursive: true });
});

describe("streamlink", { skip }, () => {
  it("fetches every packet of every rendition", async () => {
    const { stdout } = await run(python, client, `${origin.address}harbour/.f4m`, folder);
    const qualities = stdout.trim().split("\n");
    const heights = ["180p", "234p", "360p"];
    assert.deepEqual(qualities.filter((one) => one.endsWith("p")), heights);
    const english = await packets(`${library}/harbour/audio-eng.mp4`, "a");
    for (const height of heights) {
      const file = join(folder, `${height}.flv`);
      assert.deepEqual(await packets(file, "v"), await packets(`${library}/harbour/video-${height}.mp4`, "v"));
      assert.deepEqual(await packets(file, "a"), english);
    }
    // The stream named by its bit rate is the audio of the other language.
    const [other] = qualities.filter((one) => one.endsWith("k"));
    assert.deepEqual(await packets(join(folder, `${other}.flv`), "a"), await packets(`${library}/harbour/audio-fra.mp4`, "a"));
  });

  it("fetches a title whose fragments are only indexed by sidx", async () => {
    await run(python, client, `${origin.address}ferry.mp4/.f4m`, folder);
    for (const kind of ["v", "a"]) {
      assert.deepEqual(await packets(join(folder, "234p.flv"), kind), await packets(`${library}/ferry.mp4`, kind));
    }
  });
});

/** Returns the decode times of a file's packets of a kind, in seconds, by ffprobe. */
async function decodeTimes(file, kind) {
  const { stdout } = await run(
    "ffprobe",
    ...["-v", "error", "-select_streams", kind, "-show_entries", "packet=dts_time", "-of", "csv=p=0", file],
  );
  return stdout.match(/^-?[\d.]+/gm).map(Number);
}

describe("streamlink, titles unlike those of the library,", { skip }, () => {
  let titles;
  let made;
  let camera;
  before(async () => {
    if (skip) return;
    titles = await mkdtemp(join(tmpdir(), "latemux-hds-titles-"));
    await Promise.all([makeOddTitles(titles), makeUnevenTitles(titles)]);
    camera = await makeCameraFile(titles);
    const plain = join(titles, "plain.mp4");
    await makeMedia(plain);
    for (const [name, start] of [["at-sync-sample.mp4", 4], ["inside-gop.mp4", 4.8]]) {
      const media = (scale) => Math.round(start * scale) + 1024;
      await writeWithEdits(plain, join(titles, name), {
        vide: [[20 - start, media(12_800)]],
        soun: [[20 - start, media(48_000)]],
      });
    }
    made = await startOrigin({ library: titles });
  });
  after(async () => {
    await made?.stop();
    if (titles) await rm(titles, { recursive: true });
  });

  /** Fetches a title, and returns the file of a quality. */
  const fetched = async (title, quality) => {
    const into = join(titles, "fetched", title);
    await mkdir(into, { recursive: true });
    await run(python, client, `${made.address}${title}/.f4m`, into);
    return join(into, `${quality}.flv`);
  };

  // Title, quality, and the files of its picture and its sound.
  const whole = [
    ["outlasting.mp4", "180p", "outlasting.mp4", "outlasting.mp4"],
    ["early", "90p", "early/film-90.mp4", "early/film-sound.mp4"],
    ["slow.mp4", "180p", "slow.mp4", "slow.mp4"],
    ["waves.mp4", "180p", "waves.mp4", "waves.mp4"],
    ["recorded.mp4", "180p", "recorded.mp4", "recorded.mp4"],
    ["mp3.mp4", "180p", "mp3.mp4", "mp3.mp4"],
    ["film", "180p", "film/video.mp4", "film/a-eng.mp4"],
  ];
  for (const [title, quality, picture, sound] of whole) {
    it(`fetches every packet of ${title}, at times that ascend from the start`, { timeout: 120_000 }, async () => {
      const file = await fetched(title, quality);
      for (const [kind, source] of [["v", picture], ["a", sound]]) {
        assert.deepEqual(await packets(file, kind), await packets(join(titles, source), kind), kind);
        const times = await decodeTimes(file, kind);
        assert.ok(times.every((time, index) => index === 0 || time >= times[index - 1]), `${kind}: ${times}`);
        assert.ok(times[0] < 0.2, `${kind} begins at ${times[0]} s`);
      }
    });
  }

  it("fetches the frame of a still picture every second", { timeout: 120_000 }, async () => {
    const file = await fetched("still.mp4", "180p");
    const [frame] = await packets(join(titles, "still.mp4"), "v");
    assert.deepEqual(await packets(file, "v"), Array(68).fill(frame));
    assert.deepEqual(await packets(file, "a"), await packets(join(titles, "still.mp4"), "a"));
  });

  it("fetches the file of a camera", { timeout: 120_000 }, async () => {
    const file = await fetched(camera.title, `${camera.width}p`);
    for (const kind of ["v", "a"]) {
      assert.deepEqual(await packets(file, kind), await packets(join(titles, camera.title), kind));
    }
  });

  for (const [title, from] of [["at-sync-sample.mp4", 4], ["inside-gop.mp4", 4]]) {
    it(`fetches ${title} from its first sync sample on`, { timeout: 120_000 }, async () => {
      const file = await fetched(title, "64p");
      // A GOP has 50 frames, and a second 25.
      const all = await packets(join(titles, "plain.mp4"), "v");
      assert.deepEqual(await packets(file, "v"), all.slice(from * 25));
      const sound = await packets(file, "a");
      const theirs = (await packets(join(titles, "plain.mp4"), "a")).slice(-sound.length);
      assert.deepEqual(sound, theirs);
    });
  }
});
