// The plots: lines over the seconds of the run, drawn by uPlot, all with one pointer.

import uPlot from "uplot";
import { bits, bytes, clock, count, time } from "./figures";
import type { Host, Sample } from "./told";

const HEIGHT = 190;
/** Colours in load.css. */
const COLOURS = 6;

type Value = number | null;

interface Line {
  name: string;
  of: (sample: Sample) => Value;
  dashed?: boolean;
  colour?: number;
}

interface Plan {
  name: string;
  unit: string;
  lines: Line[];
  label: (value: number) => string;
  /** The least that the upper end of the scale is. */
  least: number;
  /** The scale ends there, whatever there is. */
  most?: number;
}

const spaced = ([value, unit]: [string, string]) => `${value} ${unit}`;
const whole = (value: number) => (Number.isInteger(value) ? count(value) : value.toFixed(1));
const percent = (value: number) => `${(value * 100).toFixed(value < 0.1 && value > 0 ? 1 : 0)} %`;
const rate = (value: (sample: Sample) => number) => (sample: Sample) => value(sample) / sample.took;

const SERVICE: Plan[] = [
  { name: "Throughput", unit: "of bodies", label: (v) => spaced(bits(v)), least: 1000, lines: [{ name: "received", of: rate((s) => s.bytes) }] },
  {
    name: "Latency",
    unit: "of requests that ended in a second",
    label: (v) => spaced(time(v)),
    least: 100,
    lines: (["p50", "p90", "p99"] as const).map((part) => ({ name: part, of: (s: Sample) => s.latency?.[part] ?? null })),
  },
  {
    name: "Requests",
    unit: "a second",
    label: whole,
    least: 1,
    lines: [
      { name: "ended", of: rate((s) => s.requests) },
      { name: "failed", of: rate((s) => s.errors), colour: 5 },
    ],
  },
  {
    name: "Players",
    unit: "now, and stalls that began in a second",
    label: whole,
    least: 1,
    lines: [
      { name: "playing", of: (s) => s.players },
      { name: "stalls", of: (s) => s.stalls, colour: 5 },
    ],
  },
];

/** One line for each machine, or two. */
function machines(hosts: Host[]): Plan[] {
  const each = (of: (sample: Sample, host: number) => Value | undefined, suffix = "", dashed = false): Line[] =>
    hosts.map(({ name }, host) => ({ name: name + suffix, of: (s) => of(s, host) ?? null, dashed, colour: host }));
  const own = hosts.length;
  return [
    {
      name: "Processors",
      unit: "of all cores",
      label: percent,
      least: 1,
      most: 1,
      lines: [...each((s, host) => s.hosts[host]?.cpu), { name: "this generator", of: (s) => s.cpu, dashed: true, colour: own }],
    },
    {
      name: "Memory",
      unit: "in use",
      label: (v) => spaced(bytes(v)),
      least: 1e6,
      lines: [...each((s, host) => s.hosts[host]?.memory), { name: "this generator", of: (s) => s.memory, dashed: true, colour: own }],
    },
    {
      name: "Network",
      unit: "received, sent, over the loopback",
      label: (v) => spaced(bits(v)),
      least: 1000,
      lines: [
        ...each((s, host) => s.hosts[host]?.received, " in"),
        ...each((s, host) => s.hosts[host]?.sent, " out", true),
        { name: "loopback here", of: (s) => s.hosts[0]?.loopback ?? null, colour: own },
      ],
    },
  ];
}

class Plot {
  readonly #plan: Plan;
  readonly #figure = document.createElement("figure");
  #drawn: uPlot | undefined;

  constructor(plan: Plan, root: HTMLElement) {
    this.#plan = plan;
    const caption = document.createElement("figcaption");
    const unit = document.createElement("small");
    unit.textContent = plan.unit;
    caption.append(`${plan.name} `, unit);
    this.#figure.append(caption);
    root.append(this.#figure);
  }

  get #width(): number {
    const { paddingLeft, paddingRight } = getComputedStyle(this.#figure);
    return Math.max(200, this.#figure.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight));
  }

  /** In the colours that the page has now. */
  draw(data: uPlot.AlignedData): void {
    this.#drawn?.destroy();
    const { lines, label, least, most } = this.#plan;
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
    const axis = (more: uPlot.Axis): uPlot.Axis => ({
      stroke: colour("quiet"),
      grid: { stroke: colour("grid"), width: 1 },
      ticks: { stroke: colour("grid"), width: 1, size: 4 },
      font: "12px system-ui, sans-serif",
      ...more,
    });
    this.#drawn = new uPlot(
      {
        width: this.#width,
        height: HEIGHT,
        cursor: { sync: { key: "load" }, drag: { x: false, y: false }, points: { size: 6 } },
        legend: { live: true },
        scales: {
          x: { time: false },
          y: { range: (_, __, top) => [0, most ?? Math.max(least, (top ?? 0) * 1.08)] },
        },
        axes: [
          axis({ size: 28, values: (_, ticks) => ticks.map(clock), incrs: [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200] }),
          axis({ size: 78, values: (_, ticks) => ticks.map(label) }),
        ],
        series: [
          { label: "at", value: (_, value) => (value === null ? "–" : clock(value)) },
          ...lines.map(
            ({ name, dashed, colour: place }, index): uPlot.Series => ({
              label: name,
              stroke: colour(`line-${((place ?? index) % COLOURS) + 1}`),
              width: 2,
              ...(dashed ? { dash: [6, 4] } : {}),
              points: { show: false },
              value: (_, value) => (value === null ? "–" : label(value)),
            }),
          ),
        ],
      },
      data,
      this.#figure,
    );
    const last = data[0].length - 1;
    if (last >= 0) this.#drawn.setLegend({ idx: last });
  }

  show(samples: Sample[]): void {
    const data: uPlot.AlignedData = [samples.map((s) => s.at), ...this.#plan.lines.map((line) => samples.map(line.of))];
    if (!this.#drawn) return this.draw(data);
    this.#drawn.setData(data);
    // Where nobody points, the legend tells the last second.
    if ((this.#drawn.cursor.left ?? -1) < 0 && samples.length > 0) this.#drawn.setLegend({ idx: samples.length - 1 });
  }

  redraw(): void {
    if (this.#drawn) this.draw(this.#drawn.data);
  }

  resize(): void {
    this.#drawn?.setSize({ width: this.#width, height: HEIGHT });
  }

  remove(): void {
    this.#drawn?.destroy();
    this.#figure.remove();
  }
}

/** All plots of the page. */
export class Plots {
  readonly #service: Plot[];
  readonly #machinesRoot: HTMLElement;
  #machines: Plot[] = [];
  #names = "";

  constructor(service: HTMLElement, root: HTMLElement) {
    this.#service = SERVICE.map((plan) => new Plot(plan, service));
    this.#machinesRoot = root;
    new ResizeObserver(() => this.#all.forEach((plot) => plot.resize())).observe(service);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#all.forEach((plot) => plot.redraw()));
  }

  get #all(): Plot[] {
    return [...this.#service, ...this.#machines];
  }

  show(samples: Sample[], hosts: Host[]): void {
    const names = hosts.map(({ name }) => name).join("\n");
    if (names !== this.#names) {
      this.#names = names;
      this.#machines.forEach((plot) => plot.remove());
      this.#machines = machines(hosts).map((plan) => new Plot(plan, this.#machinesRoot));
    }
    this.#all.forEach((plot) => plot.show(samples));
  }
}
