// The parts of the page that belong to one run: tiles, notes, tables and failures.

import type { Host, LiveData, LiveSample, PlayerRow, Quantiles, ReportRun, Sums } from "./data";
import { NONE, bitRate, bytes, count, plain, time, type Shown } from "./numbers";

function element<Name extends keyof HTMLElementTagNameMap>(name: Name, text = "", kind = ""): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

interface Tile {
  name: string;
  value: Shown;
  isBad?: boolean;
}

/** The tiles that are the same while a run lasts and afterwards. */
const sums = ({ totals }: Sums): Tile[] => [
  { name: "Stalls", value: [count(totals.stalls), "in all"], isBad: totals.stalls > 0 },
  { name: "Failed requests", value: [count(totals.errors), `of ${count(totals.requests)}`], isBad: totals.errors > 0 },
  { name: "Received", value: bytes(totals.bytes) },
];

function startup({ viewers }: Sums): Tile {
  const values = viewers.find(({ name }) => name === "Start-up")?.values;
  return { name: "Start-up, p99", value: values ? time(values.p99) : NONE };
}

/** The last second of a run that is in progress. */
export function liveTiles(data: LiveData, last: LiveSample | undefined): Tile[] {
  return [
    { name: "Throughput", value: last ? bitRate((last.bytes * 8) / last.took) : NONE },
    { name: "Requests", value: [last ? count(Math.round(last.requests / last.took)) : "–", "/s"] },
    { name: "Latency, p99", value: last?.latency?.p99 === undefined ? NONE : time(last.latency.p99) },
    { name: "Players", value: [count(data.players.playing), `of ${count(data.players.came)}`] },
    ...sums(data),
    startup(data),
  ];
}

/** A whole run. */
export function reportTiles(run: ReportRun): Tile[] {
  return [
    { name: "Throughput", value: bitRate((run.totals.bytes * 8) / run.took) },
    { name: "Requests", value: [count(Math.round(run.totals.requests / run.took)), "/s"] },
    { name: "Latency, p99", value: run.latency ? time(run.latency.p99) : NONE },
    { name: "Players", value: [count(run.players.came), "in all"] },
    ...sums(run),
    startup(run),
  ];
}

/** Values of a row in its unit. A score is stored as (1 + score) × 1000. */
function inUnit(unit: PlayerRow["unit"], value: number): string {
  if (unit === "score") return (value / 1000 - 1).toFixed(2);
  return plain(unit === "time" ? time(value) : bitRate(value));
}

const COLUMNS = ["p50", "p90", "p99", "max"] as const;
const values = (of: Quantiles | null, text: (value: number) => string) => COLUMNS.map((part) => (of ? text(of[part]) : "–"));

function row(cells: string[], isBad = false): HTMLTableRowElement {
  const made = element("tr", "", isBad ? "bad" : "");
  made.append(...cells.map((text) => element("td", text)));
  return made;
}

/** One run on the page. */
export class RunView {
  readonly #overview: HTMLElement;
  readonly #details: HTMLElement;

  /** Adds a run to the page. `name` tells it from other runs; it is empty if there is only one. */
  constructor(name: string) {
    const clone = (id: string, root: string) => {
      const template = document.querySelector<HTMLTemplateElement>(`#${id}-template`)!;
      const made = template.content.firstElementChild!.cloneNode(true) as HTMLElement;
      document.querySelector(`#${root}`)!.append(made);
      return made;
    };
    this.#overview = clone("overview", "overviews");
    this.#details = clone("details", "details");
    this.#find(".name").textContent = name;
    this.#details.querySelectorAll("h2").forEach((heading) => name && heading.append(` – ${name}`));
    for (const region of this.#details.querySelectorAll<HTMLElement>("[role=region]")) {
      const heading = region.previousElementSibling!;
      region.setAttribute("aria-label", heading.textContent ?? "");
    }
  }

  #find(selector: string): HTMLElement {
    return (this.#overview.querySelector(selector) ?? this.#details.querySelector(selector)) as HTMLElement;
  }

  show(data: Sums, tiles: Tile[]): void {
    const { urls = "", ...rest } = data.plan;
    const options = Object.entries(rest).filter(([, value]) => value !== "-");
    const shard = data.shard === "0/1" || data.shard === "" ? "" : ` · shard ${data.shard}`;
    this.#find(".plan").textContent = `${urls}${options.map(([name, value]) => ` · ${name} ${value}`).join("")}${shard}`;
    this.#find(".notes").replaceChildren(...data.notes.map((note) => element("li", note)));
    this.#find(".figures").replaceChildren(
      ...tiles.map(({ name, value: [value, unit], isBad = false }) => {
        const tile = element("div", "", isBad ? "bad" : "");
        const shown = element("dd", `${value} `);
        shown.append(element("small", unit));
        tile.append(element("dt", name), shown);
        return tile;
      }),
    );
    this.#find(".classes tbody").replaceChildren(
      ...data.classes.map(({ class: name, count: all, failed, bytes: size, latency }) =>
        row([name, count(all), count(failed), plain(bytes(size)), ...values(latency, (value) => plain(time(value)))], failed > 0),
      ),
    );
    this.#find(".viewers tbody").replaceChildren(
      ...data.viewers.map(({ name, unit, count: all, values: of }) => row([name, count(all), ...values(of, (value) => inUnit(unit, value))])),
    );
    this.#find(".viewers-part").hidden = data.players.came === 0;
    this.#find(".failures").replaceChildren(
      ...data.failures.map(({ reason, count: all, example }) => element("li", `${reason} ${count(all)} × – ${example}`)),
    );
  }

  /** Shows a sentence about the machine that generated the load. */
  setGenerator(text: string): void {
    this.#find(".generator").textContent = text;
  }
}

/** Shows the machines that are watched. */
export function showHosts(root: HTMLElement, hosts: Host[]): void {
  root.replaceChildren(
    ...hosts.map(({ name, cores, memory, error }) =>
      error === null
        ? element("li", `${name}: ${cores} cores, ${plain(bytes(memory))}`)
        : element("li", `${name}: ${error}`, "bad"),
    ),
  );
}
