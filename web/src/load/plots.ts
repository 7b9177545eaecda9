// The plots: lines drawn by uPlot. All plots over time share one pointer, and so do all
// distributions.

import uPlot from "uplot";
import type { Distribution, Host, LiveSample, ReportRun, Sample } from "./data";
import { bitRate, bytes, clock, count, plain, time } from "./numbers";

const HEIGHT = 190;
/** The number of line colours in load.css. */
const COLOURS = 12;
/** Tells lines apart that have the same colour, because a plot has more lines than colours. */
const DASHES = [[], [6, 4], [2, 3]];

type Value = number | null;

/** The look of a line. Its data are given separately. */
interface Line {
  name: string;
  isDashed?: boolean;
}

interface Plan {
  name: string;
  unit: string;
  label: (value: number) => string;
  /** The upper end of the scale is at least this. */
  least: number;
  /** The upper end of the scale, whatever the data. */
  most?: number;
}

/** The horizontal axis of a plot. */
interface Axis {
  /** Returns the index of the values that the legend shows while nothing is pointed at. */
  rest: (length: number) => number;
  /** Plots of the same key share one pointer. */
  key: string;
  name: string;
  label: (value: number) => string;
  scale: uPlot.Scale;
  axis: uPlot.Axis;
}

const OVER_TIME: Axis = {
  rest: (length) => length - 1,
  key: "time",
  name: "time",
  label: clock,
  scale: { time: false },
  axis: { incrs: [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200] },
};

/** Points of a distribution per power of ten; `crates/load/src/report/html.rs` has the same. */
const POINTS_PER_NINE = 20;

/** 0 %, 90 %, 99 %, … at equal distances. The value of a share is 1 / (1 - share). */
const BY_SHARE: Axis = {
  rest: (length) => Math.min(length - 1, 2 * POINTS_PER_NINE),
  key: "share",
  name: "share",
  label: (value) => `${Number((100 - 100 / value).toFixed(Math.max(0, Math.floor(Math.log10(value)))))} %`,
  scale: { time: false, distr: 3, log: 10, range: (_, least, most) => [least, most] },
  axis: {
    splits: (_, __, least, most) => Array.from({ length: Math.floor(Math.log10(most)) + 1 }, (_, nines) => 10 ** nines).filter((x) => x >= least),
    filter: (_, splits) => splits,
  },
};

const whole = (value: number) => (Number.isInteger(value) ? count(value) : value.toFixed(1));
const percent = (value: number) => `${(value * 100).toFixed(value < 0.1 && value > 0 ? 1 : 0)} %`;
const micros = (value: number) => plain(time(value));
const perSecond = (of: (sample: Sample) => number) => (sample: Sample) => of(sample) / sample.took;

const THROUGHPUT: Plan = { name: "Throughput", unit: "of response bodies", label: (v) => plain(bitRate(v)), least: 8000 };
const LATENCY: Plan = { name: "Latency", unit: "of the requests that ended in a second", label: micros, least: 100 };
const REQUESTS: Plan = { name: "Requests", unit: "per second", label: whole, least: 1 };
const PLAYERS: Plan = { name: "Players", unit: "playing, and stalls that began in a second", label: whole, least: 1 };

/** A line over the seconds of a run. */
interface TimeLine<S> extends Line {
  of: (sample: S) => Value;
}

interface TimePlan<S> extends Plan {
  lines: TimeLine<S>[];
}

/** The plots of one run. */
const service = (latency: TimeLine<Sample>[]): TimePlan<Sample>[] => [
  { ...THROUGHPUT, lines: [{ name: "received", of: perSecond((s) => s.bytes * 8) }] },
  { ...LATENCY, lines: latency },
  {
    ...REQUESTS,
    lines: [
      { name: "all", of: perSecond((s) => s.requests) },
      { name: "failed", of: perSecond((s) => s.errors), isDashed: true },
    ],
  },
  {
    ...PLAYERS,
    lines: [
      { name: "playing", of: (s) => s.players },
      { name: "stalls", of: (s) => s.stalls, isDashed: true },
    ],
  },
];

const QUANTILES = (["p50", "p90", "p99"] as const).map((part) => ({ name: part, of: (s: Sample) => s.latency?.[part] ?? null }));
const MEAN = { name: "mean", of: (s: Sample) => s.latency?.mean ?? null };

/** The plots of the watched machines and of the generator. */
function machines(hosts: Host[]): TimePlan<LiveSample>[] {
  const each = (of: (sample: LiveSample, host: number) => Value | undefined, suffix = "", isDashed = false): TimeLine<LiveSample>[] =>
    hosts.map(({ name }, host) => ({ name: name + suffix, of: (s) => of(s, host) ?? null, isDashed }));
  const generator = (of: (sample: LiveSample) => Value) => ({ name: "load generator", of, isDashed: true });
  return [
    {
      name: "Processors",
      unit: "share of all cores",
      label: percent,
      least: 1,
      most: 1,
      lines: [...each((s, host) => s.hosts[host]?.cpu), generator((s) => s.cpu)],
    },
    {
      name: "Memory",
      unit: "in use",
      label: (v) => plain(bytes(v)),
      least: 1e6,
      lines: [...each((s, host) => s.hosts[host]?.memory), generator((s) => s.memory)],
    },
    {
      name: "Network",
      unit: "of each machine",
      label: (v) => plain(bitRate(v * 8)),
      least: 1000,
      lines: [
        ...each((s, host) => s.hosts[host]?.received, " received"),
        ...each((s, host) => s.hosts[host]?.sent, " sent", true),
        { name: `${hosts[0]?.name ?? ""} to itself`, of: (s) => s.hosts[0]?.loopback ?? null },
      ],
    },
  ];
}

class Plot {
  readonly #plan: Plan;
  readonly #axis: Axis;
  readonly #lines: Line[];
  readonly #figure = document.createElement("figure");
  #drawn: uPlot | undefined;

  constructor(plan: Plan, axis: Axis, lines: Line[], root: HTMLElement) {
    this.#plan = plan;
    this.#axis = axis;
    this.#lines = lines;
    const caption = document.createElement("figcaption");
    const unit = document.createElement("small");
    unit.textContent = plan.unit;
    caption.append(`${plan.name} `, unit);
    this.#figure.append(caption);
    // Room for the colour, the longest name and a value.
    const longest = Math.max(axis.name.length, ...lines.map(({ name }) => name.length));
    this.#figure.style.setProperty("--legend-column", `${longest + 14}ch`);
    root.append(this.#figure);
  }

  get #width(): number {
    const { paddingLeft, paddingRight } = getComputedStyle(this.#figure);
    return Math.max(200, this.#figure.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight));
  }

  #dash(place: number): number[] {
    const isDashed = this.#lines[place]?.isDashed ?? false;
    return DASHES[(Math.floor(Math.max(0, place) / COLOURS) + Number(isDashed)) % DASHES.length]!;
  }

  /** Draws everything anew, in the current colours of the page. */
  #draw(data: uPlot.AlignedData): void {
    this.#drawn?.destroy();
    const { label, least, most } = this.#plan;
    const horizontal = this.#axis;
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
        cursor: { sync: { key: horizontal.key }, drag: { x: false, y: false }, points: { size: 6 } },
        // A border of a marker without height, which is dashed if the line is.
        legend: { live: true, markers: { width: 2, fill: "transparent", dash: (_, place) => (this.#dash(place - 1).length > 0 ? "dashed" : "solid") } },
        hooks: { ready: [() => this.#rest()] },
        scales: {
          x: horizontal.scale,
          y: { range: (_, __, top) => [0, most ?? Math.max(least, (top ?? 0) * 1.08)] },
        },
        axes: [
          axis({ size: 28, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : horizontal.label(tick))), ...horizontal.axis }),
          axis({ size: 78, values: (_, ticks) => ticks.map(label) }),
        ],
        series: [
          { label: horizontal.name, value: (_, value) => (value === null ? "–" : horizontal.label(value)) },
          ...this.#lines.map(
            ({ name }, place): uPlot.Series => ({
              label: name,
              stroke: colour(`line-${(place % COLOURS) + 1}`),
              width: 2,
              dash: this.#dash(place),
              points: { show: false },
              value: (_, value) => (value === null ? "–" : label(value)),
            }),
          ),
        ],
      },
      data,
      this.#figure,
    );
  }

  /** Lets the legend show values while nothing is pointed at. */
  #rest(): void {
    const index = this.#axis.rest(this.#drawn?.data[0].length ?? 0);
    if (index >= 0) this.#drawn?.setLegend({ idx: index });
  }

  show(data: uPlot.AlignedData): void {
    if (!this.#drawn) return this.#draw(data);
    this.#drawn.setData(data);
    if ((this.#drawn.cursor.left ?? -1) < 0) this.#rest();
  }

  redraw(): void {
    if (this.#drawn) this.#draw(this.#drawn.data);
  }

  resize(): void {
    this.#drawn?.setSize({ width: this.#width, height: HEIGHT });
  }

  remove(): void {
    this.#drawn?.destroy();
    this.#figure.remove();
  }
}

/** Plots that follow the page's width and colours. */
class PlotGroup {
  protected plots: Plot[] = [];

  constructor(root: HTMLElement) {
    new ResizeObserver(() => this.plots.forEach((plot) => plot.resize())).observe(root);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.plots.forEach((plot) => plot.redraw()));
  }
}

/** Plots over the seconds of a run, one line for each value of a sample. */
class TimePlots<S extends Sample> extends PlotGroup {
  readonly #root: HTMLElement;
  #plans: TimePlan<S>[] = [];

  constructor(root: HTMLElement) {
    super(root);
    this.#root = root;
  }

  setPlans(plans: TimePlan<S>[]): void {
    this.plots.forEach((plot) => plot.remove());
    this.#plans = plans;
    this.plots = plans.map((plan) => new Plot(plan, OVER_TIME, plan.lines, this.#root));
  }

  show(samples: S[]): void {
    const at = samples.map((sample) => sample.at);
    this.plots.forEach((plot, index) => plot.show([at, ...this.#plans[index]!.lines.map(({ of }) => samples.map(of))]));
  }
}

/** The plots of a run in progress. */
export class LivePlots {
  readonly #service: TimePlots<LiveSample>;
  readonly #machines: TimePlots<LiveSample>;
  #names: string | undefined;

  constructor(service_: HTMLElement, machines_: HTMLElement) {
    this.#service = new TimePlots(service_);
    this.#service.setPlans(service(QUANTILES));
    this.#machines = new TimePlots(machines_);
  }

  show(samples: LiveSample[], hosts: Host[]): void {
    const names = hosts.map(({ name }) => name).join("\n");
    if (names !== this.#names) {
      this.#names = names;
      this.#machines.setPlans(machines(hosts));
    }
    this.#service.show(samples);
    this.#machines.show(samples);
  }
}

/**
 * The second of several runs at once: the samples of all of them, or `undefined` for a run that was
 * over.
 */
interface JointSample extends Sample {
  runs: (Sample | undefined)[];
}

/** Plots that compare runs: one line for each run, and a dashed one for what went wrong in it. */
const comparison = (names: string[]): TimePlan<JointSample>[] => {
  const lines = (of: (sample: Sample) => Value, suffix = "", isDashed = false): TimeLine<JointSample>[] =>
    names.map((name, run) => ({
      name: name + suffix,
      of: ({ runs }) => (runs[run] ? of(runs[run]) : null),
      isDashed,
    }));
  return [
    { ...THROUGHPUT, lines: lines(perSecond((s) => s.bytes * 8)) },
    { ...LATENCY, unit: "mean of the requests that ended in a second", lines: lines(MEAN.of) },
    { ...REQUESTS, lines: [...lines(perSecond((s) => s.requests)), ...lines(perSecond((s) => s.errors), ", failed", true)] },
    { ...PLAYERS, lines: [...lines((s) => s.players), ...lines((s) => s.stalls, ", stalls", true)] },
  ];
};

/** The seconds of all runs, aligned at their starts. */
function joint(runs: ReportRun[]): JointSample[] {
  const longest = runs.reduce((a, b) => (b.samples.length > a.samples.length ? b : a));
  return longest.samples.map((sample, second) => ({ ...sample, runs: runs.map(({ samples }) => samples[second]) }));
}

/** Returns the names without the folders in which all of them are. */
function withoutSharedFolders(names: string[]): string[] {
  const [first = [], ...rest] = names.map((name) => name.split("/"));
  const shared = first.findIndex((folder, depth) => rest.some((other) => other[depth] !== folder));
  return shared <= 0 ? names : names.map((name) => name.split("/").slice(shared).join("/"));
}

/** The latencies of each class in several runs. A line has the name of its run. */
function byClass(runs: ReportRun[]): [name: string, distributions: Distribution[]][] {
  const classes = new Set(runs.flatMap(({ latencies }) => latencies.map(({ name }) => name)));
  return [...classes].sort().map((name) => [
    name,
    runs.map((run) => ({ name: run.name, points: run.latencies.find((one) => one.name === name)?.points ?? [] })),
  ]);
}

/** Plots of distributions: a line for each of them. */
class DistributionPlots extends PlotGroup {
  constructor(root: HTMLElement, plans: { plan: Plan; distributions: Distribution[] }[]) {
    super(root);
    for (const { plan, distributions } of plans) {
      const plot = new Plot(plan, BY_SHARE, distributions, root);
      this.plots.push(plot);
      const length = Math.max(...distributions.map(({ points }) => points.length));
      const shares = Array.from({ length }, (_, index) => 10 ** (index / POINTS_PER_NINE));
      plot.show([shares, ...distributions.map(({ points }) => shares.map((_, index) => points[index] ?? null))]);
    }
  }
}

/** The plots of a report. */
export class ReportPlots {
  readonly #samples: JointSample[];
  readonly #service: TimePlots<JointSample>;

  constructor(named: ReportRun[], service_: HTMLElement, distributions: HTMLElement) {
    const names = withoutSharedFolders(named.map(({ name }) => name));
    const runs = named.map((run, place) => ({ ...run, name: names[place]! }));
    this.#samples = joint(runs);
    this.#service = new TimePlots(service_);
    this.#service.setPlans(runs.length === 1 ? service([MEAN]) : comparison(names));
    const latency = { unit: "by share of the requests", label: micros, least: 100 };
    const startup = { name: "Start-up", unit: "by share of the players", label: micros, least: 1000 };
    const plans = [
      ...(runs.length === 1
        ? [{ plan: { name: "Latency", ...latency }, distributions: runs[0]!.latencies }]
        : byClass(runs).map(([name, distributions]) => ({ plan: { name: `Latency, ${name}`, ...latency }, distributions }))),
      { plan: startup, distributions: runs.flatMap((run) => run.startup.map((one) => (runs.length === 1 ? one : { ...one, name: run.name }))) },
    ];
    new DistributionPlots(distributions, plans.filter((one) => one.distributions.length > 0));
  }

  /** Shows the seconds after `from`. */
  show(from: number): void {
    this.#service.show(this.#samples.filter(({ at }) => at > from));
  }
}
