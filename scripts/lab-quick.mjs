// `make lab-quick`: measures the cells of lab/quick once, kills runs in between, and checks
// counts of requests, bytes and connections. Times are not checked, except that a link is not
// faster than its rate.
//
// The expected counts follow from the design of each set-up. Some of them were understood only
// after a first run: the reads of an index, and one more range of a title without a cache.

import { execFile, spawn, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Most bytes that nginx writes before a response it keeps: its key and the response's head. */
const HEAD = 1024;

/** Requests that index a title again: the server manifest, and the file. */
const INDEX_READS = { fmp4: 1 + 5, "mp4-index": 1 + 2 };

/** Bytes that may be read in vain to find the index of a file: blocks of 64 KiB. */
const SPARE = 5 * 65536;

/** Bytes that the origin reads at the start of a media file whose index is kept elsewhere. */
const CHECK = 16384;

/**
 * Most bytes that muxed segments read more than once, as a part of the media: the samples of video
 * and audio of neighbouring segments overlap in the file.
 */
const OVERLAP = 0.1;

/**
 * Bytes per second of the links in edge.toml, bucket.toml and slow.toml, and the bytes that pass at
 * once after a pause.
 */
const RATE = 100e6 / 8;
const SLOW_RATE = 8e6 / 8;
const BURST = 128 * 1024;

/** Largest deviation of bytes from those that the cost model states. */
const TOLERANCE = 0.02;

/**
 * The same of bytes to the client. A format adds 0.5 % (DASH) to 6 % (TS) to the samples of the
 * title. With a wider bound, a model without most of that would pass.
 */
const SENT_TOLERANCE = 0.005;

/**
 * How far the number of requests to storage may be from that of one connection, if there are
 * several: requests at the same time for the same title share reads, and a segment of which two
 * requests are in flight may be read in other parts.
 */
const SHARED = [0.75, 1.25];

/** Copies of the title in titles.toml. */
const COPIES = 7;

/** Runs of the player in player.toml. */
const PLAYS = 2;

/** Requests with which each run begins: the manifest, and the init segments of video and audio. */
const FIRST_REQUESTS = 3;

/** Records before the run is killed. */
const BEFORE_KILL = 5;

/** Most seconds that the whole check may take. */
const MOST_SECONDS = 240;

/**
 * Controls that are broken on purpose: a file of the library with a change, the cell that is then
 * measured, and the assertion that it must fail.
 */
const BROKEN = [
  { file: "lab/setups/cdn-nocache.toml", right: 'mode = "off"', wrong: 'mode = "segments"', experiment: "edge", setup: "cdn-nocache", complaint: "bytes in caches" },
  { file: "lab/quick/slow.toml", right: 'rate = "8Mbit/s"', wrong: 'rtt = "0ms"', experiment: "slow", setup: "n-single", complaint: "rate of the link" },
  { file: "lab/setups/a.toml", right: "ipp-new-connections", wrong: "ipp", experiment: "back-ends", setup: "a", complaint: "connections to storage" },
];

/**
 * @typedef {object} Title
 * @property {Record<string, number>} segments Number of segments by format.
 * @property {Record<string, number>} bytes Bytes of all segments by format.
 * @property {number} ism Bytes of the server manifest.
 * @property {number} media Bytes of the media file.
 * @property {number} index Bytes of the index MP4.
 */

/**
 * Returns what is expected of a cell, by the name of the assertion: the least and the most value.
 * @param {string} experiment @param {Record<string, string>} point @param {Title} title
 * @param {object} measured
 * @returns {Record<string, [number, number, number]>} Value, least, most.
 */
export function expectations(experiment, point, title, measured) {
  const { setup, format, before = "none" } = point;
  const isSeveral = connectionsOf(point) > 1;
  const { requests, bytes, storage_requests: reads, storage_bytes: read, storage_connections: connections, cached } = measured;
  const copies = experiment === "titles" ? COPIES : 1;
  const segments = title.segments[format] * copies;
  const served = title.bytes[format] * copies;
  const stored = title.ism + title.media;
  const exactly = (value, expected) => [value, expected, expected];
  const [fewer, more] = isSeveral ? SHARED : [1, 1];
  const about = (value, expected) => [value, fewer * expected, more * expected];
  const kept = (sum, entries) => [cached, sum, sum + entries * HEAD];
  // An origin keeps the media that it has read, without what only its index needs.
  const inOrigin = (sum) => [cached, sum - title.media / 100, sum + SPARE];
  const expected = {
    failures: exactly(measured.failures, 0),
    "requests of the client": exactly(requests, segments),
    "bytes to the client": exactly(bytes, served),
  };
  const add = (all) => Object.assign(expected, all);
  // As all bytes to the client are known, the bounds of the efficiency are those of the bytes read.
  const efficiency = (least, most) => ({ "efficiency": [bytes / read, served / (more * most), served / (fewer * least)] });
  const isMuxed = format === "hls" || format === "hds";
  // Video and audio are interleaved: segments of one of them together read the whole file.
  const passes = isMuxed ? 1 : 2;
  if (experiment === "far") return expected;
  if (experiment === "back-ends") {
    // Media is read once for each segment, and each read of a file whose index is kept elsewhere
    // begins with a check of its start.
    const keepsIsm = setup.endsWith("-ism");
    const keepsMeta = "bde".includes(setup) || setup.endsWith("-meta");
    const keepsIndex = setup === "n-index";
    const each = keepsIndex ? 1 : keepsMeta ? 2 : keepsIsm ? 3 : 4;
    const held = keepsMeta ? title.ism + title.index : keepsIsm ? title.ism : 0;
    const eachIndex = keepsIndex ? 0 : title.ism + title.index + CHECK - held;
    const opensNew = "ab".includes(setup) || setup === "ipp-new";
    add({
      "requests to storage": about(reads, each * segments),
      "bytes in caches": kept(held, held === 0 ? 0 : 3),
      "connections to storage": opensNew ? exactly(connections, reads) : [connections, 1, isSeveral ? 20 : 10],
      ...efficiency(segments * eachIndex + 0.98 * passes * title.media, segments * eachIndex + (passes + OVERLAP) * title.media),
    });
    // The cost model does not cover connections that share reads.
    if (isSeveral) return expected;
    add({
      "requests to storage by the cost model": exactly(reads, measured.model_requests),
      ...Object.fromEntries(Object.entries(byModel(measured)).map(([name, ratio]) => [name, around(name, ratio)])),
    });
    return expected;
  }
  if (experiment === "titles") {
    const inTurn = setup === "two-origins-round-robin";
    const { indexes, ranges, whole } = readings(title, format, inTurn);
    // The ranges of a title differ in size.
    const part = (whole / (title.segments.hls - 1)) * title.media;
    const least = part * (inTurn ? 1 - OVERLAP : 0.99);
    const most = part * (inTurn ? 1 + OVERLAP : 1) + indexes * (title.ism + SPARE);
    add({
      "requests to storage": about(reads, indexes * INDEX_READS.fmp4 + ranges),
      "bytes from storage": [read, fewer * least, more * most],
      "bytes in caches": [cached, fewer * least, more * most],
      ...efficiency(least, most),
    });
    return expected;
  }
  if (experiment === "player") {
    const { startups } = measured;
    delete expected["requests of the client"];
    add({
      "start-up delays": exactly(startups.length, PLAYS),
      "shortest start-up delay": [Math.min(...startups), 1, Infinity],
      "requests of players": [requests, PLAYS * (FIRST_REQUESTS + 2), Infinity],
      "bytes to the client": [bytes, 1, PLAYS * served * 1.1],
      // Two requests at the same time share the reads of an index. A browser that kept responses
      // from one run to the next would not make these requests.
      "requests to storage": setup === "ipp" ? [reads, 3 * requests, Infinity] : exactly(reads, 0),
    });
    return expected;
  }
  const keepsRanges = setup === "lt-single" || setup === "lt-double";
  const keepsMedia = setup.startsWith("n-") || setup === "two-origins-hash";
  if (experiment === "warm") {
    if (before === "same" || keepsMedia) add({ "requests to storage": exactly(reads, 0), "bytes from storage": exactly(read, 0) });
    // Audio is cut elsewhere than in muxed segments: one range at the end is new.
    else if (keepsRanges) add({ "requests to storage": exactly(reads, 1) });
    // Requests for the same title at the same time share reads.
    else add({ "requests to storage": [reads, segments, (INDEX_READS.fmp4 + 1) * segments] });
    return expected;
  }
  const muxed = title.segments.hls;
  const link = measured.link_bytes;
  const rate = experiment === "slow" ? SLOW_RATE : RATE;
  const carried = setup.startsWith("cdn") || setup === "n-client" ? served : read;
  add({
    "bytes on the link": [link, carried, carried * 1.1 + requests * HEAD],
    "rate of the link": [measured.seconds, (link - BURST) / rate - 0.02, Infinity],
  });
  if (["cdn", "cdn-nocache", "ipp", "lt-nocache"].includes(setup)) {
    const all = (INDEX_READS.fmp4 + 1) * segments;
    // With the same title for all connections, an origin shares reads among them.
    const isShared = isSeveral && setup === "cdn";
    add({
      "requests to storage": isShared ? [reads, segments, more * all] : about(reads, all),
      "bytes in caches": setup === "cdn" ? kept(served, segments) : exactly(cached, 0),
      "efficiency": [bytes / read, 0, isShared ? 1.1 : 0.7 / fewer],
    });
  } else if (setup === "lt-drop" || setup === "lt-blocks") {
    const entries = setup === "lt-drop" ? 2 : 1 + Math.ceil(title.media / 2 ** 20);
    add({
      "requests to storage": exactly(reads, entries),
      "bytes from storage": exactly(read, stored),
      "bytes in caches": kept(stored, entries),
      ...efficiency(stored, stored),
    });
  } else if (keepsRanges) {
    // Each fragment of the file holds video and audio, so their segments are the same ranges.
    add({
      "requests to storage": about(reads, INDEX_READS.fmp4 + muxed + (isMuxed ? 0 : 1)),
      "bytes in caches": setup === "lt-single" ? kept(read, reads) : kept(read + served, reads + segments),
      // The last segment of audio also covers the short fragment at the end of the file, so its
      // range is another one than that of the video.
      ...efficiency(title.media - title.media / 100, stored + SPARE + OVERLAP * title.media + (isMuxed ? 0 : title.media / (muxed - 1))),
    });
  } else {
    add({
      // The last segment of audio lies in the range of the last one of video.
      "requests to storage": about(reads, INDEX_READS.fmp4 + muxed - 1),
      "bytes from storage": [read, title.media - title.media / 100, stored + SPARE],
      "bytes in caches": inOrigin(setup === "n-double" ? title.media + served : title.media),
      "efficiency": [bytes / read, 0.9, 1.1],
    });
  }
  return expected;
}

/** Returns the number of connections of a cell's load. */
function connectionsOf(point) {
  return Number(point.connections ?? 1);
}

/** Returns measured bytes divided by those of the cost model, by the name of the assertion. */
export function byModel({ bytes, storage_bytes: read, model_bytes: stated, model_efficiency: efficiency }) {
  return {
    "bytes from storage / cost model": read / stated,
    "bytes to the client / cost model": bytes / (efficiency * stated),
    "efficiency / cost model": bytes / read / efficiency,
  };
}

/** Returns a ratio to the cost model with its bounds. */
function around(name, ratio) {
  const tolerance = name.startsWith("bytes to the client") ? SENT_TOLERANCE : TOLERANCE;
  return [ratio, 1 - tolerance, 1 + tolerance];
}

/**
 * Returns a line for each format that states the ratios of all its cells to the cost model.
 * @param {object[]} all Records.
 */
export function modelErrors(all) {
  const isCovered = ({ experiment, point, measured }) => experiment === "back-ends" && connectionsOf(point) === 1 && measured;
  const covered = all.filter(isCovered);
  const formats = [...new Set(covered.map((record) => record.point.format))].sort();
  return formats.map((format) => {
    const ratios = covered.filter((record) => record.point.format === format).map((record) => byModel(record.measured));
    const range = (name) => {
      const values = ratios.map((ratio) => ratio[name]);
      return `${name} ${Math.min(...values).toFixed(3)} to ${Math.max(...values).toFixed(3)}`;
    };
    return `${format}, ${ratios.length} set-ups: ${Object.keys(ratios[0]).map(range).join(", ")}`;
  });
}

/**
 * Returns what origins with caches of their own read for one connection that requests all segments
 * of all copies: the indexes of titles, and ranges, of which some are those of a whole segment. An
 * origin reads the index of each of its titles once, and each range once. The ranges are those of
 * the muxed segments: a pair of segments of video and audio lies in one of them. The last one,
 * which is short, also lies in the range before it. If origins take turns, every other request goes
 * to the second one, else all requests for a title go to the same one.
 * @param {Title} title @param {string} format @param {boolean} inTurn
 */
export function readings(title, format, inTurn) {
  const perRange = format === "hls" || format === "hds" ? 1 : 2;
  const last = title.segments.hls - 1;
  const read = new Map();
  let ranges = 0;
  requests(title.segments[format]).forEach(([copy, segment], number) => {
    const key = `${inTurn ? number % 2 : 0} ${copy}`;
    const own = read.get(key) ?? read.set(key, new Set()).get(key);
    const range = Math.floor(segment / perRange);
    if (own.has(range) || (range === last && own.has(last - 1))) return;
    own.add(range);
    ranges += 1;
  });
  const whole = [...read.values()].reduce((sum, own) => sum + own.size - (own.has(last) ? 1 : 0), 0);
  return { indexes: read.size, ranges, whole };
}

/** Returns the copy and the segment of each request: each segment is that of the next copy. */
function requests(segments) {
  const passes = Array.from({ length: COPIES }, (_, pass) => pass);
  return passes.flatMap((pass) => Array.from({ length: segments }, (_, segment) => [(pass + segment) % COPIES, segment]));
}

/**
 * Returns a complaint for each assertion that a record fails.
 * @param {object} record @param {Title} title
 */
export function complaints(record, title) {
  const cell = `${record.experiment} ${Object.entries(record.point).map(([axis, value]) => `${axis}=${value}`).join(" ")}`;
  if (!record.measured) return [`${cell}: failed: ${record.error}`];
  const found = Object.entries(expectations(record.experiment, record.point, title, record.measured));
  return found
    .filter(([, [value, least, most]]) => !(value >= least && value <= most))
    .map(([name, [value, least, most]]) => `${cell}: ${name}: ${value}, not ${least === most ? least : `${least} to ${most}`}`);
}

/**
 * Reads the title of a layout, whose paths of each format lie beside its files.
 * @returns {Title}
 */
function title(content, layout) {
  const folder = join(content, "quick", layout);
  const size = (name) => (existsSync(join(folder, name)) ? statSync(join(folder, name)).size : 0);
  const formats = ["dash", "smooth", "hls", "hds"].map((name) => [name, JSON.parse(readFileSync(join(folder, `${name}.json`), "utf8"))]);
  return {
    segments: Object.fromEntries(formats.map(([name, paths]) => [name, paths.segments.length])),
    bytes: Object.fromEntries(formats.map(([name, paths]) => [name, paths.bytes])),
    ism: size("film.ism"),
    media: size("video-0.mp4"),
    index: size("video-0.index.mp4"),
  };
}

/** Reads all whole lines of a run. */
function records(out) {
  const path = join(out, "cells.jsonl");
  if (!existsSync(path)) return [];
  return readFileSync(path, "utf8").split("\n").slice(0, -1).map((line) => JSON.parse(line));
}

/** Returns the processes that mention a folder, or whose working directory is in it. */
function processes(out) {
  const text = (id) => {
    try {
      return `${readFileSync(`/proc/${id}/cmdline`, "utf8").replaceAll("\0", " ")} in ${readlinkSync(`/proc/${id}/cwd`)}`;
    } catch {
      return "";
    }
  };
  const own = String(process.pid);
  return readdirSync("/proc").filter((id) => /^\d+$/.test(id) && id !== own && text(id).includes(out)).map(text);
}

/** Waits until something is true; fails after a minute. */
async function until(what, isTrue) {
  for (let turns = 0; !isTrue(); turns += 1) {
    if (turns > 1200) throw new Error(`lab-quick: not within a minute: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Runs a program to its end. */
function finish(program, flags, options = {}) {
  return new Promise((resolve) => {
    const all = { ...options, maxBuffer: 1 << 26 };
    execFile(program, flags, all, (error, stdout, stderr) => resolve({ status: error ? error.code : 0, stdout, stderr }));
  });
}

/** Starts a run, kills it after some records, and lets another one measure the rest. */
async function killed(binary, flags, out) {
  const first = spawn(binary, flags, { stdio: "ignore" });
  await until("some records", () => records(out).length >= BEFORE_KILL || first.exitCode !== null);
  first.kill("SIGKILL");
  await until("the end of all processes of a killed run", () => processes(out).length === 0);
  const before = records(out);
  const second = await finish(binary, flags);
  const after = records(out);
  const failures = [];
  if (second.status !== 0) failures.push(`the run failed: ${second.stderr.trim()}`);
  if (JSON.stringify(after.slice(0, before.length)) !== JSON.stringify(before)) failures.push("the run measured cells again that it had already measured");
  const left = processes(out);
  if (left.length > 0) failures.push(`processes are left: ${left.join("; ")}`);
  if (existsSync(join(out, "work"))) failures.push("the folder of the last cell is left");
  return { output: second.stdout, all: after, failures };
}

/**
 * Measures the start-up of a real player, after a run that was killed and one that was interrupted
 * while the browser played. Returns complaints.
 */
async function players(binary, net, content, more = []) {
  const folder = mkdtempSync(join(tmpdir(), "latemux-lab-quick-"));
  const [out, temporary] = [join(folder, "run"), join(folder, "temporary")];
  mkdirSync(temporary);
  const flags = ["lab", "run", join(root, "lab/quick/player.toml"), "--out", out, "--content", content, "--net", net, "--retries", "0", ...more];
  const options = { env: { ...process.env, TMPDIR: temporary } };
  try {
    for (const signal of ["SIGKILL", "SIGINT"]) {
      const run = spawn(binary, flags, { ...options, stdio: ["ignore", "pipe", "ignore"] });
      let output = "";
      run.stdout.on("data", (data) => (output += data));
      const ended = () => run.exitCode !== null || run.signalCode !== null;
      await until("a browser", () => ended() || processes(out).some((command) => command.includes("type=renderer")));
      if (ended()) {
        const [, reason] = output.match(/skipped: (the player .*)/) ?? [];
        if (!reason) return [`${net}: the run of the player ended too early: ${output}`];
        console.log(`lab-quick: SKIPPED: ${net}: ${reason}`);
        return [];
      }
      run.kill(signal);
      await until(`the end of all processes after ${signal}`, () => ended() && processes(out).length === 0);
    }
    const { status, stderr } = await finish(binary, flags, options);
    const failures = status === 0 ? [] : [`the run failed: ${stderr.trim()}`];
    const all = records(out);
    const cells = more.length > 0 ? 1 : 2;
    if (all.length !== cells) failures.push(`${all.length} cells were measured, not ${cells}`);
    for (const record of all) failures.push(...complaints(record, title(content, "fmp4")));
    failures.push(...processes(out).map((command) => `a process is left: ${command}`));
    failures.push(...[...readdirSync(temporary), ...readdirSync(out).filter((name) => name === "work")].map((name) => `a file is left: ${name}`));
    console.log(`lab-quick: ${net}: ${all.length} cells with a player, ${failures.length} complaints`);
    return failures.map((failure) => `${net}: ${failure}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Measures all cells in one way to make hosts, and returns complaints. */
async function check(binary, net, content, experiments, cells, more = []) {
  const out = mkdtempSync(join(tmpdir(), "latemux-lab-quick-"));
  const files = experiments.map((name) => join(root, "lab/quick", `${name}.toml`));
  try {
    const flags = ["lab", "run", ...files, "--out", out, "--content", content, "--net", net, "--retries", "0", ...more];
    const { output, all, failures } = await killed(binary, flags, out);
    if (all.length !== cells) failures.push(`${all.length} cells were measured, not ${cells}`);
    const titles = { "back-ends": title(content, "mp4-index") };
    for (const record of all) failures.push(...complaints(record, titles[record.experiment] ?? title(content, "fmp4")));
    const skips = output.split("\n").filter((line) => line.includes("skipped: the parameter 'loss' of 'wan' needs simulated hosts (--net hosts)"));
    if (skips.length !== (net === "loopback" && experiments.includes("far") ? 1 : 0)) failures.push(`${skips.length} cells were skipped because of loss`);
    console.log(`lab-quick: ${net}: ${all.length} cells, ${failures.length} complaints`);
    modelErrors(all).forEach((line) => console.log(`lab-quick: ${net}: ${line}`));
    return failures.map((failure) => `${net}: ${failure}`);
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
}

/**
 * Measures one cell with a file of the library changed, in its own folder.
 * @returns {Promise<{ out: string, found: string[] }>} The folder of the run, and its complaints.
 */
async function measureOne(binary, net, content, folder, name, { file, right, wrong, experiment, setup }) {
  const library = join(folder, name);
  for (const copied of ["lab/setups", "lab/titles", "lab/quick", "examples/setups"]) {
    cpSync(join(root, copied), join(library, copied), { recursive: true });
  }
  if (file) {
    const text = readFileSync(join(library, file), "utf8");
    if (!text.includes(right)) throw new Error(`lab-quick: ${file} has no ${right}`);
    writeFileSync(join(library, file), text.replace(right, wrong));
  }
  const out = join(library, "run");
  const cell = ["--only", `setup=${setup}`, "--only", "format=hls", "--only", "connections=1"];
  const run = join(library, "lab/quick", `${experiment}.toml`);
  const { status, stderr } = await finish(binary, ["lab", "run", run, "--out", out, "--content", content, "--net", net, "--retries", "0", ...cell]);
  const all = records(out);
  if (status !== 0 || all.length !== 1) return { out, found: [`the run failed: ${stderr.trim()}`] };
  return { out, found: complaints(all[0], title(content, experiment === "back-ends" ? "mp4-index" : "fmp4")) };
}

/**
 * Breaks controls on purpose, and merges two runs of a cell that is not broken. Returns a complaint
 * for each broken control without the complaint that it must have.
 */
export async function controls(binary, net, content) {
  const folder = mkdtempSync(join(tmpdir(), "latemux-lab-quick-"));
  try {
    const failures = [];
    for (const broken of BROKEN) {
      const { found } = await measureOne(binary, net, content, folder, `broken-${broken.setup}`, broken);
      if (!found.some((complaint) => complaint.includes(`: ${broken.complaint}: `))) {
        failures.push(`${broken.file} was broken, and '${broken.complaint}' is no complaint: ${found.join("; ")}`);
      }
    }
    const runs = [];
    for (const name of ["one", "other"]) runs.push(await measureOne(binary, net, content, folder, name, { experiment: "back-ends", setup: "a" }));
    failures.push(...runs.flatMap(({ found }) => found));
    const { status, stderr } = await finish(binary, ["lab", "report", ...runs.map(({ out }) => out)]);
    const summary = status === 0 ? readFileSync(join(runs[0].out, "summary.csv"), "utf8") : stderr;
    if (!summary.includes("connections=1 format=hls setup=a,2,0,")) failures.push(`two runs were not merged: ${summary}`);
    console.log(`lab-quick: ${net}: ${BROKEN.length} broken controls and a merge, ${failures.length} complaints`);
    return failures.map((failure) => `${net}: ${failure}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Runs checks one after the other, and returns the complaints of all. */
async function oneByOne(checks) {
  const failures = [];
  for (const check of checks) failures.push(...(await check()));
  return failures;
}

async function main() {
  const began = performance.now();
  const binary = process.env.LATEMUX_BIN;
  const content = process.env.LAB_CONTENT;
  if (!binary || !content) throw new Error("lab-quick: LATEMUX_BIN and LAB_CONTENT must be set");
  // In namespaces of its own, a user may open the device of simulated lines only if it may outside.
  const open = 'test -r /dev/net/tun && test -w /dev/net/tun';
  const canMakeHosts =
    spawnSync("unshare", ["--map-root-user", "--net", "--mount", "--pid", "--fork", "sh", "-c", open]).status === 0;
  const withPlayer = (net, more) => players(binary, net, content, more);
  const measured = (net, experiments, cells, more) => check(binary, net, content, experiments, cells, more);
  if (!canMakeHosts) console.log("lab-quick: SKIPPED: hosts: network namespaces cannot be made");
  const net = canMakeHosts ? "hosts" : "loopback";
  const axes = (all) => Object.entries(all).flatMap(([axis, value]) => ["--only", `${axis}=${value}`]);
  const [one, several] = [axes({ connections: 1 }), axes({ connections: 10, format: "dash" })];
  // Much of a measurement is waiting, so three run at a time. Without hosts, all cells are measured
  // over the loopback, else some of them.
  const found = await Promise.all([
    oneByOne([
      () => measured(net, ["edge", "slow", "far"], canMakeHosts ? 46 : 45, one),
      () => controls(binary, net, content),
      ...(canMakeHosts ? [() => withPlayer("hosts")] : []),
      () => withPlayer("loopback", canMakeHosts ? axes({ setup: "n-single" }) : []),
    ]),
    oneByOne([
      () => measured(net, ["back-ends"], 52, one),
      ...(canMakeHosts ? [() => measured("loopback", ["back-ends", "titles", "far"], 16, [...one, ...axes({ format: "dash" })])] : []),
    ]),
    oneByOne([
      () => measured(net, ["titles", "bucket", "warm"], 26, one),
      () => measured(net, ["edge", "back-ends", "titles", "bucket", "warm"], 40, several),
    ]),
  ]);
  const failures = found.flat();
  const seconds = (performance.now() - began) / 1000;
  console.log(`lab-quick: ${seconds.toFixed(0)} s`);
  if (seconds > MOST_SECONDS) failures.push(`it took ${seconds.toFixed(0)} s, more than ${MOST_SECONDS} s`);
  failures.forEach((failure) => console.error(`lab-quick: ${failure}`));
  process.exitCode = failures.length === 0 ? 0 : 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
