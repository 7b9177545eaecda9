// Smooth Streaming in GStreamer, which takes a fragment's time in the manifest for the decode time of its first sample.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { startOrigin } from "../lib/origin.mjs";
import { missing, run } from "../lib/tools.mjs";

const skip =
  (await missing("gst-launch-1.0", "--version")) ||
  (await missing("gst-inspect-1.0", "--exists", "mssdemux")) ||
  (await missing("gst-inspect-1.0", "--exists", "avdec_h264"));

/** Nanoseconds of `H:MM:SS.NNNNNNNNN`. */
function nanoseconds(time) {
  const [hours, minutes, seconds] = time.split(":");
  return (Number(hours) * 60 + Number(minutes)) * 60e9 + Math.round(Number(seconds) * 1e9);
}

let origin;
before(async () => {
  if (!skip) origin = await startOrigin();
});
after(() => origin?.stop());

/** When each decoded buffer of one stream is presented, in ns; the other stream is decoded too. */
async function decoded(title, stream, other) {
  const { stdout, stderr } = await run(
    "gst-launch-1.0",
    ...["-v", "souphttpsrc", `location=${origin.address}${title}/Manifest`, "!", "mssdemux", "name=demux"],
    ...[`demux.${stream}`, "!", "queue", "!", "decodebin", "!", "identity", "silent=false", "!", "fakesink"],
    ...[`demux.${other}`, "!", "queue", "!", "decodebin", "!", "fakesink"],
  );
  assert.doesNotMatch(stderr, /error|warning|critical/i, stderr);
  return [...stdout.matchAll(/chain .*? pts: ([\d:.]+)/g)].map(([, time]) => nanoseconds(time));
}

describe("GStreamer", { skip }, () => {
  for (const title of ["lighthouse.mp4", "ferry.mp4"]) {
    it(`decodes every picture of ${title} at its time`, async () => {
      const times = await decoded(title, "video_00", "audio_00");
      assert.equal(times.length, 24 * 25);
      // Later than 0 by the time that one B-frame needs to be decoded ahead, and that by which it lies ahead of sound.
      assert.ok(times[0] >= 0 && times[0] <= 80e6, `begins at ${times[0]} ns`);
      times.forEach((time, i) => assert.ok(Math.abs(time - times[0] - i * 40e6) < 1e3, `picture ${i} at ${time} ns`));
    });

    it(`decodes the sound of ${title} without a gap`, async () => {
      const times = await decoded(title, "audio_00", "video_00");
      const steps = times.slice(1).map((time, i) => time - times[i]);
      assert.ok(times.length > 1000 && steps.every((step) => step > 0 && step < 22e6), String(Math.max(...steps)));
    });
  }
});
