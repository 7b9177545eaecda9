// Numbers as people read them, the tiles and the tables.

import type { Latency, Sample, Told } from "./told";

/** Three digits that say something, and a unit. */
function scaled(value: number, units: readonly string[]): [string, string] {
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return [value.toFixed(value >= 100 || (unit === 0 && Number.isInteger(value)) ? 0 : value >= 10 ? 1 : 2), units[unit]!];
}

export const bits = (bytesPerSecond: number) => scaled(bytesPerSecond * 8, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]);
export const bytes = (value: number) => scaled(value, ["B", "kB", "MB", "GB", "TB", "PB"]);
export const time = (microseconds: number) => scaled(microseconds, ["µs", "ms", "s"]);
export const count = (value: number) => value.toLocaleString("en");
const plain = ([value, unit]: [string, string]) => `${value} ${unit}`;

export function clock(seconds: number): string {
  const whole = Math.round(seconds);
  const two = (value: number) => String(value).padStart(2, "0");
  const minutes = `${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
  return whole < 3600 ? minutes : `${Math.floor(whole / 3600)}:${minutes}`;
}

function element<Name extends keyof HTMLElementTagNameMap>(name: Name, text = "", kind = ""): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

/** The last second, and what there is since the start. */
export function showFigures(root: HTMLElement, told: Told, last: Sample | undefined): void {
  const p99 = last?.latency ? time(last.latency.p99) : (["–", ""] as const);
  const tiles: [string, string, string, boolean][] = [
    ["Throughput", ...(last ? bits(last.bytes / last.took) : (["–", ""] as [string, string])), false],
    ["Requests", last ? count(Math.round(last.requests / last.took)) : "–", "a second", false],
    ["Latency, p99", p99[0], p99[1], false],
    ["Players", count(told.players.playing), `of ${count(told.players.came)}`, false],
    ["Stalls", count(told.totals.stalls), "in all", told.totals.stalls > 0],
    ["Failed requests", count(told.totals.errors), `of ${count(told.totals.requests)}`, told.totals.errors > 0],
    ["Received", ...bytes(told.totals.bytes), false],
    ["Start-up, p99", ...(told.startup ? time(told.startup.p99) : (["–", ""] as [string, string])), false],
  ];
  root.replaceChildren(
    ...tiles.map(([name, value, unit, bad]) => {
      const tile = element("div", "", bad ? "bad" : "");
      const shown = element("dd", `${value} `);
      shown.append(element("small", unit));
      tile.append(element("dt", name), shown);
      return tile;
    }),
  );
}

export function showTables(told: Told): void {
  const place = <T extends HTMLElement>(selector: string) => document.querySelector<T>(selector)!;
  const latency = (of: Latency | null, part: keyof Latency) => (of ? plain(time(of[part])) : "–");
  place("#classes tbody").replaceChildren(
    ...told.classes.map(({ class: name, count: all, failed, bytes: size, latency: of }) => {
      const row = element("tr", "", failed > 0 ? "bad" : "");
      const parts = (["p50", "p90", "p99", "max"] as const).map((part) => latency(of, part));
      row.append(...[name, count(all), count(failed), plain(bytes(size)), ...parts].map((text) => element("td", text)));
      return row;
    }),
  );
  place("#failures").replaceChildren(
    ...told.failures.map(({ reason, count: all, example }) => element("li", `${reason} ${count(all)} × – ${example}`)),
  );
  place("#notes").replaceChildren(...told.notes.map((note) => element("li", note)));
  place("#hosts").replaceChildren(
    ...told.hosts.map(({ name, cores, memory, error }) =>
      error === null
        ? element("li", `${name}: ${cores} cores, ${plain(bytes(memory))}`)
        : element("li", `${name}: ${error}`, "bad"),
    ),
  );
  const { urls = "", ...rest } = told.plan;
  const options = Object.entries(rest).filter(([, value]) => value !== "-");
  const shard = told.shard === "0/1" || told.shard === "" ? "" : ` · shard ${told.shard}`;
  place("#plan").textContent = `${urls}${options.map(([name, value]) => ` · ${name} ${value}`).join("")}${shard}`;
}
