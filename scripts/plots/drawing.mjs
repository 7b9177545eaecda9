// Draws panels of lines as one SVG, which fits light and dark pages.

/** @typedef {{model: number | null, refined: number | null}} Models */
/** @typedef {{x: number, low: number, median: number, high: number} & Models} Point */
/** @typedef {{name: string, points: Point[]}} Series */
/** @typedef {{title: string, series: Series[]}} Panel */

const WIDTH = 400;
const HEIGHT = 230;
const LEFT = 40;
const TOP = 30;
const BELOW = 46;
const RIGHT = 12;
const COLUMNS = 2;
const HEAD = 30;

const STYLE =
  "text{font:11px sans-serif;fill:#333}.head{font-weight:bold}.grid{stroke:#ddd}.s0{color:#1f6fb2}.s1{color:#2a8f4f}" +
  ".s2{color:#c47f17}.s3{color:#b23a48}.ground{fill:#fff}@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#444}" +
  ".ground{fill:#14171a}.s0{color:#6db3f2}.s1{color:#6fcf97}.s2{color:#f2c14e}.s3{color:#f28b94}}";

/** @param {string} text */
const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");

/**
 * Returns a round number of at least `most`, at which an axis ends.
 * @param {number} most
 */
export function end(most) {
  if (most <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 4, 5, 8, 10].map((step) => step * power).find((value) => value >= most * 0.999) ?? 10 * power;
}

/**
 * Returns an SVG of panels, two in a row.
 * @param {string} title
 * @param {Panel[]} panels
 */
export function drawing(title, panels) {
  const rows = Math.ceil(panels.length / COLUMNS);
  const size = { width: WIDTH * COLUMNS, height: HEAD + HEIGHT * rows };
  const parts = panels.map((panel, index) => {
    const x = WIDTH * (index % COLUMNS);
    const y = HEAD + HEIGHT * Math.floor(index / COLUMNS);
    return `<g transform="translate(${x} ${y})">${draw(panel)}</g>`;
  });
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size.width} ${size.height}" width="${size.width}" ` +
    `height="${size.height}" role="img" aria-label="${escaped(title)}"><style>${STYLE}</style>` +
    `<rect class="ground" width="100%" height="100%"/><text class="head" x="12" y="20">${escaped(title)}</text>` +
    `${parts.join("\n")}</svg>\n`
  );
}

/** @param {Panel} panel */
function draw({ title, series }) {
  const all = series.flatMap((line) => line.points);
  const top = end(Math.max(0, ...all.map((point) => Math.max(point.high, point.model ?? 0, point.refined ?? 0))));
  const positions = [...new Set(all.map((point) => point.x))].sort((one, other) => one - other);
  const most = Math.max(1, ...positions);
  const x = (value) => LEFT + 8 + ((WIDTH - LEFT - RIGHT - 16) * value) / most;
  const y = (value) => HEIGHT - BELOW - ((HEIGHT - BELOW - TOP) * value) / top;
  const at = (value) => value.toFixed(1);
  const grid = [0, 0.25, 0.5, 0.75, 1].map((share) => {
    const height = at(y(top * share));
    return (
      `<path class="grid" d="M${LEFT} ${height}H${WIDTH - RIGHT}"/>` +
      `<text x="${LEFT - 5}" y="${height}" dy="4" text-anchor="end">${Number((top * share).toPrecision(3))}</text>`
    );
  });
  const numbers = positions.map(
    (value) => `<text x="${at(x(value))}" y="${HEIGHT - BELOW + 15}" text-anchor="middle">${value}</text>`,
  );
  const lines = series.map(({ points }, index) => {
    const path = (value) => points.map((point) => `${at(x(point.x))},${at(y(value(point)))}`).join(" ");
    const predicted = (value, dashes) =>
      points.length > 0 && points.every((point) => value(point) !== null)
        ? `<polyline stroke-dasharray="${dashes}" points="${path(value)}"/>`
        : "";
    const model = predicted((point) => point.model, "5 3") + predicted((point) => point.refined, "1 3");
    const marks = points.map(
      (point) =>
        `<path d="M${at(x(point.x))} ${at(y(point.low))}V${at(y(point.high))}"/>` +
        `<circle cx="${at(x(point.x))}" cy="${at(y(point.median))}" r="2.5" fill="currentColor"/>`,
    );
    const measured = `<polyline stroke-width="1.6" points="${path((point) => point.median)}"/>`;
    return `<g class="s${index}" stroke="currentColor" fill="none">${model}${measured}${marks.join("")}</g>`;
  });
  const legend = series.map(({ name }, index) => {
    const left = LEFT + 8 + index * 85;
    const height = HEIGHT - 10;
    return (
      `<path class="s${index}" stroke="currentColor" stroke-width="2" d="M${left} ${height - 4}h14"/>` +
      `<text x="${left + 18}" y="${height}">${escaped(name)}</text>`
    );
  });
  const head = `<text x="${LEFT}" y="16">${escaped(title)}</text>`;
  return [head, ...grid, ...numbers, ...lines, ...legend].join("");
}
