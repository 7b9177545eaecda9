// Titles that are unlike those of the sample library, made by ffmpeg.

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { run } from "./tools.mjs";

/** Length of each title. */
export const SECONDS = 16;
/** The tone of the default language, and of the other one, whose files come first by name. */
export const TONES = { eng: 440, deu: 660 };

const picture = (rate) => ["-f", "lavfi", "-i", `testsrc2=size=320x180:rate=${rate}:duration=${SECONDS}`];
const tone = (hertz) => ["-f", "lavfi", "-i", `sine=frequency=${hertz}:sample_rate=48000:duration=${SECONDS}`];
const AVC = ["-c:v", "libx264", "-preset", "veryfast", "-bf", "2", "-sc_threshold", "0", "-pix_fmt", "yuv420p"];
const GOPS = ["-g", "50", "-keyint_min", "50"];
const language = (tag) => ["-metadata:s:0", `language=${tag}`];

/**
 * Adds seconds to the decode times of a fragmented file, so that they count from the epoch.
 * `scales` are the timescales of its tracks, in the order of their IDs.
 */
async function delay(file, seconds, scales) {
  const bytes = await readFile(file);
  for (let at = bytes.indexOf("tfhd"); at >= 0; at = bytes.indexOf("tfhd", at + 4)) {
    const track = bytes.readUInt32BE(at + 8);
    // Behind its name, a tfdt has a version, flags, and the time in 64 bits.
    const time = bytes.indexOf("tfdt", at) + 8;
    bytes.writeBigUInt64BE(bytes.readBigUInt64BE(time) + BigInt(seconds * scales[track - 1]), time);
  }
  await writeFile(file, bytes);
}

/** Makes the titles in a folder. */
export async function makeTitles(folder) {
  const make = (name, ...options) => run("ffmpeg", "-v", "error", ...options.flat(), join(folder, name));
  // Every second, 8 frames a second turn into 60 or back. Each second begins with a key frame.
  const frames = "select='lt(mod(t,2),1)*not(mod(n,7))+gte(mod(t,2),1)'";
  const waves = ["-vf", frames, "-vsync", "vfr", "-force_key_frames", "expr:gte(t,n_forced*1)"];
  await make("waves.mp4", picture(60), tone(TONES.eng), AVC, waves, "-c:a", "aac");
  await make("mp3.mp4", picture(25), tone(TONES.eng), AVC, GOPS, "-c:a", "libmp3lame");
  const fragments = ["-movflags", "frag_keyframe+empty_moov+default_base_moof", "-video_track_timescale", "12800"];
  await make("recorded.mp4", picture(25), tone(TONES.eng), AVC, GOPS, "-c:a", "aac", fragments);
  await delay(join(folder, "recorded.mp4"), 1_700_000_000, [12_800, 48_000]);
  // The language of the video decides, not the name of the file.
  await Promise.all(["film", "songs"].map((title) => mkdir(join(folder, title))));
  await make("film/video.mp4", picture(25), AVC, GOPS, language("eng"));
  for (const [name, tag] of [["a-deu", "deu"], ["a-eng", "eng"]]) {
    await make(`film/${name}.mp4`, tone(TONES[tag]), "-c:a", "aac", language(tag));
    await make(`songs/${name}.mp4`, tone(TONES[tag]), "-c:a", "aac", language(tag));
  }
}
