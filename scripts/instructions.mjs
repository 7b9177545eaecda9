// `make bench-instructions`: how many instructions the pure crates need, beside the figures in bench/instructions.json.
// It fails where one has grown by more than 5 %; `UPDATE=1` writes the new figures. Instructions, not time: a busy machine counts the same.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const kept = `${root}bench/instructions.json`;

/** Hundredths of itself by which a figure may grow at most. */
const MOST = 5;

/** @typedef {Record<string, number>} Figures Instructions by name. */

/** What gungraun prints with --output-format=json: a line for each figure. @param {string} text @returns {Figures} */
export function figures(text) {
  const found = {};
  for (const line of text.split("\n")) {
    if (!line.startsWith("{")) continue;
    const { function_name: work, id, profiles } = JSON.parse(line);
    const { new: count } = profiles[0].data.total.metrics.Ir.values;
    found[id === undefined ? work : `${work}.${id}`] = count;
  }
  return found;
}

/**
 * The table, and what is wrong with it.
 * @param {Figures} before As kept. @param {Figures} now As counted.
 */
export function compare(before, now) {
  const lines = [];
  const complaints = [];
  const wishes = [];
  for (const [name, count] of Object.entries(now)) {
    const was = before[name];
    const change = was === undefined ? undefined : count / was - 1;
    const percent = change === undefined ? "new" : `${change < 0 ? "" : "+"}${(change * 100).toFixed(2)} %`;
    lines.push(`${name.padEnd(44)} ${String(was ?? "").padStart(10)} ${String(count).padStart(10)} ${percent.padStart(10)}`);
    if (change === undefined) complaints.push(`${name}: no figure is kept of it`);
    else if (count * 100 > was * (100 + MOST)) complaints.push(`${name}: ${percent}, more than ${MOST} %`);
    else if (count * 100 < was * (100 - MOST)) wishes.push(`${name}: ${percent}`);
  }
  for (const name of Object.keys(before)) if (!(name in now)) complaints.push(`${name}: kept, but not counted`);
  return { lines, complaints, wishes };
}

function said(command, ...arguments_) {
  return execFileSync(command, arguments_, { cwd: root, encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "inherit"] });
}

function main() {
  const rustc = said("rustc", "-vV");
  const [, release] = rustc.match(/^release: (.*)$/m);
  const [, host] = rustc.match(/^host: (.*)$/m);
  const bench = ["bench", "--locked", "--quiet", "-p", "latemux-instructions", "--", "--output-format=json"];
  const now = figures(said("cargo", ...bench));
  const all = existsSync(kept) ? JSON.parse(readFileSync(kept, "utf8")) : {};
  const before = all[host];
  const { lines, complaints, wishes } = compare(before?.instructions ?? {}, now);
  console.log(`${"instructions".padEnd(44)} ${"kept".padStart(10)} ${"now".padStart(10)} ${"change".padStart(10)}`);
  for (const line of lines) console.log(line);
  if (process.env.UPDATE) {
    writeFileSync(kept, `${JSON.stringify({ ...all, [host]: { rustc: release, instructions: now } }, null, 2)}\n`);
    console.log("bench/instructions.json has these now");
    return;
  }
  if (before === undefined) {
    console.log(`no figures are kept for ${host}: nothing was compared`);
    return;
  }
  if (before.rustc !== release) console.log(`the kept figures are of rustc ${before.rustc}, these of ${release}`);
  for (const wish of wishes) console.log(`${wish}: keep it, with make bench-instructions UPDATE=1`);
  for (const complaint of complaints) console.error(`instructions: ${complaint}`);
  if (complaints.length > 0) console.error("instructions: where it is meant, make bench-instructions UPDATE=1");
  console.log(`instructions: ${lines.length} figures, ${complaints.length} complaints`);
  process.exitCode = complaints.length === 0 ? 0 : 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main();
