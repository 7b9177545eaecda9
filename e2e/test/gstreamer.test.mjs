// Smooth Streaming in GStreamer, which uses a fragment's time in the manifest as the decode time of
// its first sample.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { startOrigin } from "../lib/origin.mjs";
import { missing, run } from "../lib/tools.mjs";

const skip =
  (await missing("gst-launch-1.0", "--version")) ||
  (await missing("gst-inspect-1.0", "--exists", "mssdemux")) ||
  (await missing("gst-inspect-1.0", "--exists", "avdec_h264"));

/** Returns the nanoseconds of `H:MM:SS.NNNNNNNNN`. */
function nanoseconds(time) {
  const [hours, minutes, seconds] = time.split(":");
  return (Number(hours) * 60 + Number(minutes)) * 60e9 + Math.round(Number(seconds) * 1e9);
}

let origin;
before(async () => {
  if (!skip) origin = await startOrigin();
});
after(() => origin?.stop());

/**
 * Returns the presentation time of each decoded buffer of one stream, in ns. The other stream is
 * decoded too.
 */
async function decoded(title, stream, other, query = "") {
  const { stdout, stderr } = await run(
    "gst-launch-1.0",
    ...["-v", "souphttpsrc", `location=${origin.address}${title}/Manifest${query}`, "!", "mssdemux", "name=demux"],
    ...[`demux.${stream}`, "!", "queue", "!", "decodebin", "!", "identity", "silent=false", "!", "fakesink"],
    ...[`demux.${other}`, "!", "queue", "!", "decodebin", "!", "fakesink"],
  );
  assert.doesNotMatch(stderr, /error|warning|critical/i, stderr);
  return [...stdout.matchAll(/chain .*? pts: ([\d:.]+)/g)].map(([, time]) => nanoseconds(time));
}

describe("GStreamer", { skip }, () => {
  for (const title of ["lighthouse.mp4", "ferry.mp4"]) {
    it(`decodes every video frame of ${title} at its time`, async () => {
      const times = await decoded(title, "video_00", "audio_00");
      assert.equal(times.length, 24 * 25);
      // The start is later than 0 by the reordering delay of one B-frame, and by the offset between
      // video and audio.
      assert.ok(times[0] >= 0 && times[0] <= 80e6, `begins at ${times[0]} ns`);
      times.forEach((time, i) => assert.ok(Math.abs(time - times[0] - i * 40e6) < 1e3, `frame ${i} at ${time} ns`));
    });

    it(`decodes a clip of ${title} and nothing else`, async () => {
      const query = "?vbegin=5.5&vend=13.2";
      const [video, audio] = await Promise.all([
        decoded(title, "video_00", "audio_00", query),
        decoded(title, "audio_00", "video_00", query),
      ]);
      const whole = await decoded(title, "video_00", "audio_00");
      // The clip has all frames between the sync samples around it, and begins as the whole title
      // does, or later by less than the frame of audio that it begins with.
      const seconds = video.length / 25;
      assert.ok(seconds >= 7.7 && seconds <= 7.7 + 8, `${video.length} frames`);
      const later = video[0] - whole[0];
      assert.ok(later >= -1e3 && later < 22e6, `begins at ${video[0]} ns`);
      video.forEach((time, i) => assert.ok(Math.abs(time - whole[i] - later) < 1e3, `frame ${i} at ${time} ns`));
      assert.ok(Math.abs(audio[0] - video[0]) < 100e6, `${audio[0]} and ${video[0]} ns`);
      assert.ok(Math.abs(audio.at(-1) - video.at(-1)) < 150e6, `${audio.at(-1)} and ${video.at(-1)} ns`);
    });

    it(`decodes the audio of ${title} without a gap`, async () => {
      const times = await decoded(title, "audio_00", "video_00");
      const steps = times.slice(1).map((time, i) => time - times[i]);
      assert.ok(times.length > 1000 && steps.every((step) => step > 0 && step < 22e6), String(Math.max(...steps)));
    });
  }
});
