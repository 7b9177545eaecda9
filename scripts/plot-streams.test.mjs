import assert from "node:assert/strict";
import { test } from "node:test";
import { panels, points, refined, table } from "./plot-streams.mjs";
import { drawing, end } from "./plots/drawing.mjs";

const HEADER =
  "congestion,rate_kbit_s,rtt_ms,queue_ms,loss_permille,chunk_bytes,streams,gap_ms,competing,round,goodput_kbit_s,model_kbit_s,ratio,timeouts,duplicated_bytes,fairness";
const CSV = [
  HEADER,
  "reno,8192,100,200,0,160000,5,210,0,1,6000,6337,0.95,0,0,",
  "reno,8192,100,200,0,160000,5,210,0,2,7000,6337,1.10,0,0,",
  "reno,8192,100,200,0,160000,5,210,0,3,6500,6337,1.03,0,0,",
  "reno,8192,0,200,0,160000,5,210,0,1,7800,8192,0.95,0,0,",
  "reno,8192,100,200,0,16000000,1,0,0,1,7700,8192,0.94,0,0,",
  "reno,8192,100,200,0,160000,5,0,2,1,5000,8000,0.62,0,0,4.40",
].join("\n");

test("a point is the median of its rounds and spans them", () => {
  const where = { loss_permille: "0", streams: "5", gap_ms: "210", competing: "0" };
  const found = points(table(CSV), "rtt_ms", where, "goodput_kbit_s").map(({ refined: _, ...point }) => point);
  assert.deepEqual(found, [
    { x: 0, low: 7800, median: 7800, high: 7800, model: 8192 },
    { x: 100, low: 6000, median: 6500, high: 7000, model: 6337 },
  ]);
});

test("the refined model is that of the crate", () => {
  // The same numbers are in crates/streams/src/model/refined.rs and crates/cli/src/model.rs.
  const [row] = table(CSV);
  assert.equal(Math.round(refined({ ...row, streams: "2" }) * 125), 612657);
  assert.equal(Math.round(refined(row) * 125), 910370);
  const [points] = panels(table(CSV)).map((panel) => panel.series.map((series) => series.points));
  assert.equal(points[0].find((point) => point.x === 100)?.refined?.toFixed(3), "7.283");
});

test("the refined model is drawn only where no packet is lost", () => {
  const lossy = table(CSV.replaceAll(",200,0,160000", ",200,10,160000"));
  const drawn = panels(lossy).flatMap((panel) => panel.series.flatMap((series) => series.points));
  assert.ok(drawn.length > 0 && drawn.every((point) => point.refined === null));
});

test("plain downloads are no points, and fairness has no model", () => {
  const drawn = panels(table(CSV));
  const chunks = drawn.find((panel) => panel.title.includes("chunk"));
  assert.deepEqual(chunks?.series[0].points.map((point) => point.x), [160]);
  const fairness = drawn.find((panel) => panel.title.startsWith("Fairness"));
  assert.deepEqual(fairness?.series[0].points, [{ x: 2, low: 4.4, median: 4.4, high: 4.4, model: null, refined: null }]);
});

test("points stand where their values are", () => {
  assert.deepEqual([0, 0.07, 1, 3, 8.2, 99].map(end), [1, 0.08, 1, 4, 10, 100]);
  const point = { x: 10, low: 1, median: 2, high: 4, model: 4, refined: null };
  const svg = drawing("a < b", [{ title: "t", series: [{ name: "n", points: [{ ...point, x: 0, median: 0 }, point] }] }]);
  // The axis ends at 4, at the upper edge of the panel, and 2 is in the middle of it.
  assert.match(svg, /V30\.0/);
  assert.match(svg, /cx="380\.0" cy="107\.0"/);
  assert.match(svg, /a &lt; b/);
});
