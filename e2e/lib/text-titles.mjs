// Titles with the same subtitles in every form in which text is stored: samples of MP4, and files.

import { copyFile, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { box } from "./edited-media.mjs";
import { run } from "./tools.mjs";

const harbour = fileURLToPath(new URL("../../samples/library/harbour", import.meta.url));
const VIDEO = "video-180p.mp4";

/** Times in seconds, and text. The fourth cue is shown within the third, which segments cut. */
const CUES = [
  [0.5, 3.25, "Casting off"],
  [3.25, 6.125, "Half ahead & steady"],
  [7.04, 13.501, "Wind < 5 knots & fog"],
  [9.2, 12.999, "Horn: two blasts"],
  [20, 28, "Under way\nat last"],
  [44, 47.9, "Home"],
];

/** The forms of text, which are the names of the titles. */
export const STORED = ["wvtt", "stpp", "tx3g"];
export const FILES = ["vtt", "srt", "ttml", "dfxp"];

/** Returns the cues of a title. 3GPP text has no two cues at one time. */
export const cuesOf = (form) => (form === "tx3g" ? CUES.filter((_, place) => place !== 3) : CUES);

const stamp = (seconds, point) => new Date(seconds * 1000).toISOString().slice(11, 23).replace(".", point);
const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

const subRip = (cues) =>
  cues.map(([from, to, text], place) => `${place + 1}\n${stamp(from, ",")} --> ${stamp(to, ",")}\n${text}\n`).join("\n");

const ttml = (namespace, cues, time) => {
  const paragraph = ([from, to, text]) =>
    `<p begin="${time(from)}" end="${time(to)}">${escaped(text).replaceAll("\n", "<br/>")}</p>`;
  return `<tt xmlns="${namespace}"><body><div>${cues.map(paragraph).join("")}</div></body></tt>`;
};
const TTML = "http://www.w3.org/ns/ttml";

/** Returns a file of text. */
function fileOf(form) {
  switch (form) {
    case "vtt":
      return `WEBVTT\n\n${CUES.map(([from, to, text]) => `${stamp(from, ".")} --> ${stamp(to, ".")}\n${escaped(text)}\n`).join("\n")}`;
    case "srt":
      return subRip(CUES);
    case "ttml":
      return ttml(TTML, CUES, (seconds) => `${seconds}s`);
    default:
      return ttml("http://www.w3.org/2006/10/ttaf1", CUES, (seconds) => stamp(seconds, "."));
  }
}

const number = (value, bytes = 4) => {
  const buffer = Buffer.alloc(bytes);
  buffer.writeUIntBE(value, 0, bytes);
  return buffer;
};
const full = (type, ...payload) => box(type, number(0), ...payload);

const utf8 = (text) => Buffer.from(text, "utf8");

/** Returns samples of WebVTT (ISO/IEC 14496-30 §7.4) as pairs of milliseconds and bytes. */
function webVttSamples() {
  const changes = [...new Set([0, ...CUES.flatMap(([from, to]) => [from, to])])].sort((a, b) => a - b);
  return changes.slice(0, -1).map((start, place) => {
    const end = changes[place + 1];
    const cues = CUES.flatMap(([from, to, text], source) => {
      if (from > start || to < end) return [];
      const source_id = from < start || to > end ? [box("vsid", number(source + 1))] : [];
      return [box("vttc", ...source_id, box("payl", utf8(escaped(text))))];
    });
    return [Math.round(end * 1000) - Math.round(start * 1000), cues.length > 0 ? Buffer.concat(cues) : box("vtte")];
  });
}

/** Returns samples of TTML (ISO/IEC 14496-30 §5). The second and third share a cue. */
function ttmlSamples() {
  const STARTS = [0, 6.125, 10.5, 20, 28, 47.9];
  return STARTS.slice(0, -1).map((start, place) => {
    const end = STARTS[place + 1];
    const shown = CUES.filter(([from, to]) => from < end && to > start);
    const cues = shown.map(([from, to, text]) => [Math.max(from, start), Math.min(to, end), text]);
    return [Math.round((end - start) * 1000), utf8(ttml(TTML, cues, (seconds) => `${seconds}s`))];
  });
}

/** Returns an MP4 with one track of text, in English, of pairs of milliseconds and bytes. */
function textInMp4(samples, handlerType, mediaTypeHeader, entry) {
  const media = Buffer.concat(samples.map(([, bytes]) => bytes));
  const duration = samples.reduce((sum, [length]) => sum + length, 0);
  const matrix = [0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000].map((entry) => number(entry));
  // The times of creation and change, and reserved fields, are 0.
  const header = full("mvhd", number(0), number(0), number(1000), number(duration), number(0x10000), Buffer.alloc(12), ...matrix, Buffer.alloc(24), number(2));
  const track = box("tkhd", number(7), number(0), number(0), number(1), number(0), number(duration), Buffer.alloc(16), ...matrix, Buffer.alloc(8));
  const english = [..."eng"].reduce((code, letter) => code * 32 + letter.charCodeAt(0) - 0x60, 0);
  const mediaHeader = full("mdhd", number(0), number(0), number(1000), number(duration), number(english, 2), number(0, 2));
  const handler = full("hdlr", number(0), Buffer.from(handlerType), Buffer.alloc(13));
  const data = box("dinf", full("dref", number(1), box("url ", number(1))));
  const file = box("ftyp", Buffer.from("iso6"), number(0), Buffer.from("iso6"));
  const tables = [
    full("stsd", number(1), entry),
    full("stts", number(samples.length), ...samples.flatMap(([length]) => [number(1), number(length)])),
    full("stsc", number(1), number(1), number(samples.length), number(1)),
    full("stsz", number(0), number(samples.length), ...samples.map(([, bytes]) => number(bytes.length))),
    full("stco", number(1), number(file.length + 8)),
  ];
  const information = box("minf", full(mediaTypeHeader), data, box("stbl", ...tables));
  const movie = box("moov", header, box("trak", track, box("mdia", mediaHeader, handler, information)));
  return Buffer.concat([file, box("mdat", media), movie]);
}

const textEntry = (type, ...rest) => box(type, Buffer.alloc(6), number(1, 2), ...rest);

/** Makes a title for each form in a folder. */
export async function makeTitles(folder) {
  for (const form of [...STORED, ...FILES]) {
    const title = join(folder, form);
    await mkdir(title);
    for (const file of ["audio-eng.mp4", VIDEO]) await copyFile(join(harbour, file), join(title, file));
    if (FILES.includes(form)) await writeFile(join(title, `${form}.eng.${form}`), fileOf(form));
  }
  const webVtt = textInMp4(webVttSamples(), "text", "nmhd", textEntry("wvtt", box("vttC", utf8("WEBVTT"))));
  await writeFile(join(folder, "wvtt", "text.mp4"), webVtt);
  // Empty schema locations and media types follow the namespace.
  const stpp = textInMp4(ttmlSamples(), "subt", "sthd", textEntry("stpp", utf8(`${TTML}\0\0\0`)));
  await writeFile(join(folder, "stpp", "text.mp4"), stpp);
  const source = join(folder, "tx3g.srt");
  await writeFile(source, subRip(cuesOf("tx3g")));
  const options = ["-c:s", "mov_text", "-metadata:s:s:0", "language=eng"];
  await run("ffmpeg", "-v", "error", "-i", source, ...options, join(folder, "tx3g", "text.mp4"));
}
