// Media as cameras and editing suites write it, made with ffmpeg.

import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "./tools.mjs";

const SECONDS = 24;

/** Boxes from the file down to the sample entry of the first track. */
const PATH = ["moov", "trak", "mdia", "minf", "stbl", "stsd", "avc1"];

/** Returns the offset of the first box of a type between two offsets. */
function find(file, type, start, end) {
  for (let at = start; at + 8 <= end; at += file.readUInt32BE(at)) {
    if (file.toString("latin1", at + 4, at + 8) === type) return at;
  }
  throw new Error(`no ${type}`);
}

/** Turns the first track by 90° clockwise, in its `tkhd` of version 0. */
function turn(file, lines) {
  const moov = find(file, "moov", 0, file.length);
  const trak = find(file, "trak", moov + 8, moov + file.readUInt32BE(moov));
  const at = find(file, "tkhd", trak + 8, trak + file.readUInt32BE(trak)) + 8 + 40;
  [0, 0x10000, 0, -0x10000, 0, 0, lines * 0x10000, 0, 0x40000000].forEach((number, n) => file.writeInt32BE(number, at + 4 * n));
}

/** Ends the video entry with four zero bytes. `moov` must lie behind the media. */
function terminated(file) {
  const offsets = [];
  let [start, end] = [0, file.length];
  for (const type of PATH) {
    const at = find(file, type, start, end);
    offsets.push(at);
    start = at + (type === "stsd" ? 16 : 8);
    end = at + file.readUInt32BE(at);
  }
  for (const at of offsets) file.writeUInt32BE(file.readUInt32BE(at) + 4, at);
  return Buffer.concat([file.subarray(0, end), Buffer.alloc(4), file.subarray(end)]);
}

/**
 * Makes `camera.mov` in a folder: AVC that is turned by 90°, in an entry with `nclc`, `fiel` and a
 * terminator, and AAC in a sound description of version 1.
 */
export async function makeCameraFile(folder) {
  const plain = join(folder, "plain.mov");
  await run(
    "ffmpeg",
    ...["-v", "error", "-y", "-f", "lavfi", "-i", `testsrc2=size=320x180:rate=25:duration=${SECONDS}`],
    ...["-f", "lavfi", "-i", `sine=frequency=440:sample_rate=48000:duration=${SECONDS}`],
    ...["-c:v", "libx264", "-preset", "ultrafast", "-g", "50", "-pix_fmt", "yuv420p", "-field_order", "progressive"],
    ...["-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709", "-c:a", "aac", plain],
  );
  const file = await readFile(plain);
  await rm(plain);
  turn(file, 180);
  for (const part of ["nclc", "wave"]) if (!file.includes(part)) throw new Error(`ffmpeg wrote no ${part}`);
  await writeFile(join(folder, "camera.mov"), terminated(file));
  return { title: "camera.mov", seconds: SECONDS, width: 180, height: 320 };
}
