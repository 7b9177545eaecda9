// The script with which the lab plays titles, lab/player/play.mjs.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, readlink, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { startOrigin } from "../lib/origin.mjs";

const script = fileURLToPath(new URL("../../lab/player/play.mjs", import.meta.url));
let origin;
let folder;

before(async () => {
  origin = await startOrigin();
  // Longer than the path of a socket may be.
  folder = join(await mkdtemp(join(tmpdir(), "latemux-player-")), "x".repeat(100));
  await mkdir(folder);
});
after(async () => {
  await origin?.stop();
  if (folder) await rm(join(folder, ".."), { recursive: true, force: true });
});

/** Starts the script. `ended` resolves to its status and its errors. */
function start(flags, environment = {}) {
  const child = spawn(process.execPath, [script, ...flags], {
    stdio: ["ignore", "ignore", "pipe"],
    env: { ...process.env, TMPDIR: folder, ...environment },
  });
  let errors = "";
  child.stderr.on("data", (text) => (errors += text));
  const ended = new Promise((resolve) => child.once("close", (status, signal) => resolve({ status, signal, errors })));
  return { child, ended };
}

/** Returns the flags with which a title is played. */
function played(title, ...more) {
  const out = join(folder, "..", "played.json");
  return ["--manifest", `${origin.address}${title}/.mpd`, "--runs", "2", "--out", out, ...more];
}

/** Returns the processes of the browser, which are in the folder for temporary files. */
async function browser() {
  const own = async (id) => ({ id: Number(id), folder: await readlink(`/proc/${id}/cwd`).catch(() => "") });
  const all = await Promise.all((await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(own));
  return all.filter((one) => one.folder.startsWith(folder)).map(({ id }) => id);
}

/** Waits until something is true. The test's time limit ends the wait. */
async function until(isTrue) {
  while (!(await isTrue())) await new Promise((next) => setTimeout(next, 20));
}

test("each run has a start-up delay, and requests the title anew", { timeout: 60_000 }, async () => {
  const { status, errors } = await start(played("ferry.mp4", "--warm-up")).ended;
  assert.deepEqual([status, errors], [0, ""]);
  const results = JSON.parse(await readFile(join(folder, "..", "played.json"), "utf8"));
  assert.match(results.player, /^dash\.js \d+\.\d+\.\d+ in Chromium \d+\./);
  assert.equal(results.startups.length, 2);
  assert.ok(results.startups.every((delay) => delay > 0), String(results.startups));
  assert.equal(results.failures, 0);
  assert.ok(results.bytes > 0 && results.latency > 0 && results.seconds > 0, JSON.stringify(results));
  // The origin got them twice, and once more before.
  const manifests = origin.log().match(/path=\/ferry\.mp4\/\.mpd /g);
  assert.equal(manifests.length, 3);
  assert.deepEqual(await readdir(folder), []);
});

// Chromium does not decode HEVC, and dash.js then plays the sound alone.
test("a title of which no frame is shown fails after a time limit", { timeout: 60_000 }, async () => {
  assert.deepEqual(await start(played("buoy.mp4", "--limit", "2")).ended, {
    status: 1,
    signal: null,
    errors: "no frame was shown within 2 s\n",
  });
});

test("a title that does not exist fails with the error of the player", { timeout: 60_000 }, async () => {
  const { status, errors } = await start(played("none.mp4")).ended;
  assert.equal(status, 1);
  assert.match(errors, /^dash\.js: .*none\.mp4\/\.mpd is not available\n$/);
});

test("a browser that ends by itself is an error", { timeout: 60_000 }, async () => {
  const requests = () => origin.log().split("path=/buoy.mp4/.mpd ").length;
  const before = requests();
  const { ended } = start(played("buoy.mp4"));
  await until(() => requests() > before);
  // The first process is the browser, which starts the others.
  process.kill(Math.min(...(await browser())), "SIGKILL");
  assert.deepEqual(await ended, { status: 1, signal: null, errors: "Chromium ended by itself\n" });
});

test("a script that is killed leaves no process", { timeout: 60_000 }, async () => {
  for (const signal of ["SIGKILL", "SIGINT"]) {
    const { child, ended } = start(played("buoy.mp4"));
    await until(async () => (await browser()).length > 3);
    child.kill(signal);
    await ended;
    await until(async () => (await browser()).length === 0);
  }
});

test("a browser that is missing or does not start is an error", { timeout: 60_000 }, async () => {
  const { status, errors } = await start(["--check"], { CHROMIUM: "/no/chromium" }).ended;
  assert.deepEqual([status, errors], [1, "/no/chromium is not installed\n"]);
  assert.deepEqual(await start(["--check"]).ended, { status: 0, signal: null, errors: "" });
  const broken = await start(played("ferry.mp4"), { CHROMIUM: "/bin/false" }).ended;
  assert.deepEqual([broken.status, broken.errors], [1, "Chromium did not start\n"]);
});
