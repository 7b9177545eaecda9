// Titles whose tracks are not of one length, and still pictures, made by ffmpeg.

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { run } from "./tools.mjs";

/** The frequency of the sound, in hertz. */
export const TONE = 440;

/** Each title, and for how many seconds it has a picture, sound, and its shortest track. */
export const TITLES = [
  { title: "outlasting.mp4", picture: 12, sound: 32, shortest: 12 },
  { title: "early", picture: 24, sound: 24, shortest: 15 },
  { title: "slow.mp4", picture: 68, sound: 68, shortest: 68 },
  { title: "still.mp4", picture: 68, sound: 68, shortest: 68 },
  { title: "slides.mp4", picture: 68, sound: 68, shortest: 68 },
];

const AVC = ["-c:v", "libx264", "-preset", "veryfast", "-sc_threshold", "0", "-pix_fmt", "yuv420p"];
const GOPS = ["-bf", "2", "-g", "50", "-keyint_min", "50"];
const AAC = ["-c:a", "aac", "-b:a", "64k"];

const picture = (height, rate, seconds) => [
  ...["-f", "lavfi", "-i", `testsrc2=size=${(height * 16) / 9}x${height}:rate=${rate}:duration=${seconds}`],
];
const tone = (seconds) => ["-f", "lavfi", "-i", `sine=frequency=${TONE}:sample_rate=48000:duration=${seconds}`];

/** Makes the titles in a folder. */
export async function makeTitles(folder) {
  const make = (name, ...options) => run("ffmpeg", "-v", "error", ...options.flat(), join(folder, name));
  await make("outlasting.mp4", picture(180, 25, 12), tone(32), AVC, GOPS, AAC);
  // One frame, one key frame every 17 s, and one frame a second.
  await make("still.mp4", picture(180, "1/68", 68), tone(68), AVC, "-bf", "0", AAC);
  await make("slides.mp4", picture(180, "1/17", 68), tone(68), AVC, "-bf", "0", "-g", "1", AAC);
  await make("slow.mp4", picture(180, "1", 68), tone(68), AVC, "-bf", "0", AAC);
  // The lowest of three renditions ends early.
  await mkdir(join(folder, "early"));
  const rates = ["100k", "400k", "1000k"];
  for (const [index, height] of [90, 180, 360].entries()) {
    const seconds = index === 0 ? 15 : 24;
    await make(`early/film-${height}.mp4`, picture(height, 25, seconds), AVC, GOPS, "-b:v", rates[index]);
  }
  await make("early/film-sound.mp4", tone(24), AAC);
}
