// Makes MP4s with edit lists. Each frame of the video shows its own number, so that a test sees
// which frame of the media a player shows.

import { readFile, writeFile } from "node:fs/promises";
import { run } from "./tools.mjs";

/** Frames per second. A GOP has 50 frames. */
export const RATE = 25;

/** Seconds of the media, before any edit. */
export const MEDIA_SECONDS = 20;

const BITS = 10;
const BIT_WIDTH = 32;

/** Makes the media without edits: AVC with B-frames and AAC, `moov` last. */
export function makeMedia(file, options = []) {
  const bit = `mod(floor(N/pow(2\\,floor(X/${BIT_WIDTH})))\\,2)`;
  const video = `nullsrc=size=${BITS * BIT_WIDTH}x64:rate=${RATE}:duration=${MEDIA_SECONDS},format=gray,geq=lum=16+219*${bit}`;
  const audio = `sine=frequency=440:sample_rate=48000:duration=${MEDIA_SECONDS}`;
  return run(
    "ffmpeg",
    ...["-v", "error", "-nostdin", "-y", "-f", "lavfi", "-i", video, "-f", "lavfi", "-i", audio],
    ...["-c:v", "libx264", "-preset", "veryfast", "-bf", "2", "-b_strategy", "0", "-g", "50", "-keyint_min", "50"],
    ...["-sc_threshold", "0", "-pix_fmt", "yuv420p", "-crf", "20", "-c:a", "aac", "-b:a", "64k"],
    ...["-video_track_timescale", "12800", ...options, file],
  );
}

/** Returns the number of the frame that the page's video element shows. */
export const shownFrame = (page) =>
  page.evaluate(
    ([bits, width]) => {
      const video = document.querySelector("video");
      const canvas = new OffscreenCanvas(video.videoWidth, video.videoHeight);
      const context = canvas.getContext("2d");
      context.drawImage(video, 0, 0);
      const scale = video.videoWidth / (bits * width);
      let frame = 0;
      for (let bit = 0; bit < bits; bit++) {
        const [level] = context.getImageData(Math.round((bit + 0.5) * width * scale), canvas.height / 2, 1, 1).data;
        if (level > 127) frame |= 1 << bit;
      }
      return frame;
    },
    [BITS, BIT_WIDTH],
  );

/**
 * Writes a copy of an MP4 whose `moov` is last, with another edit list for each kind of track.
 * `edits` maps `vide` and `soun` to lists of edits: `[seconds]` for an empty edit, or
 * `[seconds, media time in track ticks]`.
 */
export async function writeWithEdits(source, target, edits) {
  const file = await readFile(source);
  const top = boxes(file);
  const last = top.at(-1);
  if (last.type !== "moov") throw new Error(`${source}: moov is not last`);
  const moov = withEdits(last.payload, edits, movieTimescale(last.payload));
  await writeFile(target, Buffer.concat([file.subarray(0, last.at), box("moov", moov)]));
}

function boxes(bytes) {
  const found = [];
  for (let at = 0; at < bytes.length; ) {
    const size = bytes.readUInt32BE(at);
    found.push({ at, type: bytes.toString("latin1", at + 4, at + 8), payload: bytes.subarray(at + 8, at + size) });
    at += size;
  }
  return found;
}

export function box(type, ...payload) {
  const header = Buffer.alloc(8);
  header.writeUInt32BE(8 + payload.reduce((sum, part) => sum + part.length, 0));
  header.write(type, 4, "latin1");
  return Buffer.concat([header, ...payload]);
}

const movieTimescale = (moov) =>
  boxes(moov)
    .find(({ type }) => type === "mvhd")
    .payload.readUInt32BE(12);

function withEdits(moov, edits, timescale) {
  const written = boxes(moov).map(({ type, payload }) => {
    if (type !== "trak") return box(type, payload);
    const children = boxes(payload);
    const media = boxes(children.find((child) => child.type === "mdia").payload);
    const handler = media.find((child) => child.type === "hdlr").payload.toString("latin1", 8, 12);
    const list = edits[handler] && editList(edits[handler], timescale);
    const kept = children.filter((child) => child.type !== "edts").map((child) => box(child.type, child.payload));
    // `tkhd` comes first.
    return box(type, kept[0], ...(list ? [list] : []), ...kept.slice(1));
  });
  return Buffer.concat(written);
}

function editList(edits, timescale) {
  const entries = edits.map(([seconds, mediaTime = -1]) => {
    const entry = Buffer.alloc(12);
    entry.writeUInt32BE(Math.round(seconds * timescale));
    entry.writeInt32BE(mediaTime, 4);
    entry.writeUInt32BE(0x1_0000, 8);
    return entry;
  });
  const header = Buffer.alloc(8);
  header.writeUInt32BE(entries.length, 4);
  return box("edts", box("elst", header, ...entries));
}
