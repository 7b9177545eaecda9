// `node scripts/plot-streams.mjs CSV FOLDER` draws what `make bench-streams ROWS=full` measured,
// beside the models: one SVG for each congestion control and bandwidth. A point is the median of
// the rounds, and its bar spans them all. A dashed line is the published model, and a dotted line
// the refined one, which has no loss.

import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { drawing } from "./plots/drawing.mjs";

/** @typedef {Record<string, string>} Row A measurement by column. */
/** @typedef {{model: number, refined: number}} Models The rates of both models in kbit/s. */
/** @typedef {{x: number, low: number, median: number, high: number} & Models} Point */

/** The published set, from which a panel varies one parameter. */
const PUBLISHED = { rtt_ms: "100", loss_permille: "0", chunk_bytes: "160000", streams: "5", gap_ms: "210", competing: "0" };

const LOSSES = [
  { name: "no loss", loss_permille: "0" },
  { name: "0.1 %", loss_permille: "1" },
  { name: "1 %", loss_permille: "10" },
  { name: "2 %", loss_permille: "20" },
];

/** The panels of a drawing. */
const PANELS = [
  { title: "Goodput by round-trip time (ms)", by: "rtt_ms", series: LOSSES },
  { title: "Goodput by number of streams", by: "streams", series: LOSSES },
  { title: "Goodput by size of a chunk (kB)", by: "chunk_bytes", unit: 1000, series: LOSSES },
  { title: "Goodput by gap (ms)", by: "gap_ms", series: LOSSES },
  {
    title: "Fairness ratio by number of plain downloads",
    by: "competing",
    fairness: true,
    series: [
      { name: "gap 0", gap_ms: "0" },
      { name: "gap 210 ms", gap_ms: "210" },
    ],
  },
  {
    title: "Fairness ratio beside 2 downloads, by number of streams",
    by: "streams",
    fairness: true,
    series: [{ name: "gap 0", gap_ms: "0", competing: "2" }],
  },
];

/**
 * Reads a table with a header, without quotes.
 * @param {string} text
 * @returns {Row[]}
 */
export function table(text) {
  const [header, ...lines] = text.trim().split("\n").map((line) => line.trim().split(","));
  return lines.map((cells) => Object.fromEntries(header.map((name, index) => [name, cells[index] ?? ""])));
}

/**
 * Returns the rate in kbit/s that the refined model predicts for a row
 * (crates/streams/src/model/refined.rs).
 * @param {Row} row
 */
export function refined(row) {
  const bandwidth = Number(row.rate_kbit_s) * 125;
  const rtt = Number(row.rtt_ms) / 1000;
  const streams = Number(row.streams);
  const chunk = Number(row.chunk_bytes);
  const window = (bandwidth * (Number(row.queue_ms) / 1000 + rtt)) / streams;
  const away = Math.max(chunk / window, 1) * rtt + Number(row.gap_ms) / 1000;
  const load = (away * bandwidth) / chunk;
  let idle = 1;
  for (let count = 1; count <= streams; count++) idle = (load * idle) / (count + load * idle);
  return (bandwidth * (1 - idle)) / 125;
}

/**
 * Returns the points of a series: its rows, grouped by one column.
 * @param {Row[]} rows
 * @param {string} by The column that varies.
 * @param {Record<string, string>} where The values of the other columns.
 * @param {string} value The column of the values.
 * @returns {Point[]}
 */
export function points(rows, by, where, value) {
  /** @type {Map<number, {values: number[]} & Models>} */
  const groups = new Map();
  for (const row of rows) {
    const fits = Object.entries(where).every(([name, wanted]) => name === by || row[name] === wanted);
    if (!fits || row[value] === "") continue;
    const x = Number(row[by]);
    const group = groups.get(x) ?? { values: [], model: Number(row.model_kbit_s), refined: refined(row) };
    group.values.push(Number(row[value]));
    groups.set(x, group);
  }
  const sorted = [...groups].sort(([one], [other]) => one - other);
  return sorted.map(([x, { values, ...models }]) => {
    values.sort((one, other) => one - other);
    const median = values[Math.floor(values.length / 2)];
    return { x, low: values[0], median, high: values[values.length - 1], ...models };
  });
}

/**
 * Returns the panels of one congestion control and bandwidth.
 * @param {Row[]} rows
 */
export function panels(rows) {
  return PANELS.map(({ title, by, unit = 1, fairness = false, series }) => ({
    title,
    series: series.map(({ name, ...own }) => {
      // A chunk of 16 MB is a plain download, which is not a point of a series of streams.
      const streams = rows.filter((row) => row.chunk_bytes !== "16000000");
      const where = { ...PUBLISHED, ...own };
      const found = points(streams, by, where, fairness ? "fairness" : "goodput_kbit_s");
      const scale = fairness ? 1 : 1 / 1000;
      const scaled = found.map((point) => ({
        x: point.x / unit,
        low: point.low * scale,
        median: point.median * scale,
        high: point.high * scale,
        model: fairness ? null : point.model * scale,
        refined: fairness || where.loss_permille !== "0" ? null : point.refined * scale,
      }));
      return { name, points: scaled };
    }),
  }));
}

function main() {
  const [csv, folder] = process.argv.slice(2);
  if (folder === undefined) throw new Error("usage: node scripts/plot-streams.mjs CSV FOLDER");
  const rows = table(readFileSync(csv, "utf8"));
  const lines = new Set(rows.map((row) => `${row.congestion},${row.rate_kbit_s}`));
  for (const line of lines) {
    const [congestion, rate] = line.split(",");
    const chosen = rows.filter((row) => row.congestion === congestion && row.rate_kbit_s === rate);
    const title =
      `${rate} kbit/s, TCP ${congestion}. Points: median of three rounds. Dashed: published model. ` +
      "Dotted: refined model. Goodput in Mbit/s";
    writeFileSync(`${folder}/${congestion}-${rate}.svg`, drawing(title, panels(chosen)));
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main();
