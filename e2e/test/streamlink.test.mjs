// HDS in streamlink 1.7, an independent client: manifest, bootstrap information and every fragment.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { startOrigin } from "../lib/origin.mjs";
import { missing, packets, run } from "../lib/tools.mjs";

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
