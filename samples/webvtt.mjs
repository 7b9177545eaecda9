#!/usr/bin/env node
// Writes a progressive MP4 with one WebVTT track (ISO/IEC 14496-30), which ffmpeg cannot:
// `webvtt.mjs FILE SECONDS`. A cue of two seconds alternates with two seconds of silence.

import { writeFileSync } from "node:fs";

const [path, seconds] = process.argv.slice(2);
const TIMESCALE = 1000;
const CUE = 2 * TIMESCALE;

const u8 = (...values) => Buffer.from(values);
const u16 = (value) => u8(value >> 8, value & 255);
const u32 = (...values) => Buffer.concat(values.map((value) => u8(value >>> 24, (value >> 16) & 255, (value >> 8) & 255, value & 255)));
const box = (type, ...payload) => {
  const body = Buffer.concat(payload.map((part) => Buffer.from(part)));
  return Buffer.concat([u32(8 + body.length), Buffer.from(type), body]);
};
const fullBox = (type, flags, ...payload) => box(type, u32(flags), ...payload);

const count = Math.floor((Number(seconds) * TIMESCALE) / CUE);
const samples = Array.from({ length: count }, (_, n) =>
  n % 2 === 0 ? box("vttc", box("payl", `Cue ${n / 2 + 1}`)) : box("vtte"),
);
const duration = count * CUE;
const matrix = u32(0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000);

/** The movie box; `media` is the position of the first sample. */
const moov = (media) =>
  box(
    "moov",
    fullBox("mvhd", 0, u32(0, 0, TIMESCALE, duration, 0x10000), u16(0x100), Buffer.alloc(10), matrix, Buffer.alloc(24), u32(2)),
    box(
      "trak",
      fullBox("tkhd", 3, u32(0, 0, 1, 0, duration), Buffer.alloc(16), matrix, u32(0, 0)),
      box(
        "mdia",
        // The language is "eng", in three times five bits.
        fullBox("mdhd", 0, u32(0, 0, TIMESCALE, duration), u16(0x15c7), u16(0)),
        fullBox("hdlr", 0, u32(0), "text", Buffer.alloc(12), "text\0"),
        box(
          "minf",
          fullBox("nmhd", 0),
          box("dinf", fullBox("dref", 0, u32(1), fullBox("url ", 1))),
          box(
            "stbl",
            fullBox("stsd", 0, u32(1), box("wvtt", Buffer.alloc(6), u16(1), box("vttC", "WEBVTT"))),
            fullBox("stts", 0, u32(1, count, CUE)),
            fullBox("stsc", 0, u32(1, 1, count, 1)),
            fullBox("stsz", 0, u32(0, count, ...samples.map((sample) => sample.length))),
            fullBox("stco", 0, u32(1, media)),
          ),
        ),
      ),
    ),
  );

const ftyp = box("ftyp", "iso6", u32(0), "iso6", "mp41");
const head = Buffer.concat([ftyp, moov(ftyp.length + moov(0).length + 8)]);
writeFileSync(path, Buffer.concat([head, box("mdat", ...samples)]));
