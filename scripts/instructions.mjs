// `make bench-instructions`: counts the instructions that the pure crates need, and compares them
// with the figures in bench/instructions.json. It fails if a figure has grown by more than 5 %;
// `UPDATE=1` writes the new figures. Unlike times, the counts are the same on a busy machine.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const keptPath = `${root}bench/instructions.json`;

/** Most growth of a figure, in percent. */
const MOST_PERCENT = 5;

/** @typedef {Record<string, number>} Figures Instructions by name. */

/**
 * Reads gungraun's output with --output-format=json, one line for each figure.
 * @param {string} text
 * @returns {Figures}
 */
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
 * Returns the lines of the table, the complaints, and the figures that fell and should be kept.
 * @param {Figures} before As kept in the file. @param {Figures} now As counted.
 */
export function compare(before, now) {
  const lines = [];
  const complaints = [];
  const improvements = [];
  for (const [name, count] of Object.entries(now)) {
    const was = before[name];
    const change = was === undefined ? undefined : count / was - 1;
    const percent = change === undefined ? "new" : `${change < 0 ? "" : "+"}${(change * 100).toFixed(2)} %`;
    lines.push(`${name.padEnd(44)} ${String(was ?? "").padStart(10)} ${String(count).padStart(10)} ${percent.padStart(10)}`);
    if (change === undefined) complaints.push(`${name}: the file has no figure`);
    else if (count * 100 > was * (100 + MOST_PERCENT)) complaints.push(`${name}: ${percent}, more than ${MOST_PERCENT} %`);
    else if (count * 100 < was * (100 - MOST_PERCENT)) improvements.push(`${name}: ${percent}`);
  }
  for (const name of Object.keys(before)) if (!(name in now)) complaints.push(`${name}: in the file, but not counted`);
  return { lines, complaints, improvements };
}

/** Runs a command and returns its output. */
function output(command, ...arguments_) {
  return execFileSync(command, arguments_, { cwd: root, encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "inherit"] });
}

function main() {
  const rustc = output("rustc", "-vV");
  const [, release] = rustc.match(/^release: (.*)$/m);
  const [, host] = rustc.match(/^host: (.*)$/m);
  const bench = ["bench", "--locked", "--quiet", "-p", "latemux-instructions", "--", "--output-format=json"];
  const now = figures(output("cargo", ...bench));
  const all = existsSync(keptPath) ? JSON.parse(readFileSync(keptPath, "utf8")) : {};
  const before = all[host];
  const { lines, complaints, improvements } = compare(before?.instructions ?? {}, now);
  console.log(`${"instructions".padEnd(44)} ${"kept".padStart(10)} ${"now".padStart(10)} ${"change".padStart(10)}`);
  for (const line of lines) console.log(line);
  if (process.env.UPDATE) {
    writeFileSync(keptPath, `${JSON.stringify({ ...all, [host]: { rustc: release, instructions: now } }, null, 2)}\n`);
    console.log("these figures were written to bench/instructions.json");
    return;
  }
  if (before === undefined) {
    console.log(`bench/instructions.json has no figures for ${host}: nothing was compared`);
    return;
  }
  if (before.rustc !== release) console.log(`the figures in the file are from rustc ${before.rustc}, these from ${release}`);
  for (const one of improvements) console.log(`${one}: keep this figure with make bench-instructions UPDATE=1`);
  for (const complaint of complaints) console.error(`instructions: ${complaint}`);
  if (complaints.length > 0) console.error("instructions: if this is intended, run make bench-instructions UPDATE=1");
  console.log(`instructions: ${lines.length} figures, ${complaints.length} complaints`);
  process.exitCode = complaints.length === 0 ? 0 : 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main();
