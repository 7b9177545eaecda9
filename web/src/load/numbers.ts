// Numbers as people read them.

/** A value with three significant digits, and its unit. */
export type Shown = readonly [value: string, unit: string];

export const NONE: Shown = ["–", ""];

function scaled(value: number, units: readonly string[]): Shown {
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return [value.toFixed(value >= 100 || (unit === 0 && Number.isInteger(value)) ? 0 : value >= 10 ? 1 : 2), units[unit]!];
}

const BIT_RATES = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"];

export const bitRate = (bitsPerSecond: number) => scaled(bitsPerSecond, BIT_RATES);
export const bytes = (value: number) => scaled(value, ["B", "kB", "MB", "GB", "TB", "PB"]);
export const time = (microseconds: number) => scaled(microseconds, ["µs", "ms", "s"]);
export const count = (value: number) => value.toLocaleString("en");
export const plain = ([value, unit]: Shown) => (unit === "" ? value : `${value} ${unit}`);

/** Seconds as minutes and seconds, and hours if there are any. */
export function clock(seconds: number): string {
  const whole = Math.round(seconds);
  const two = (value: number) => String(value).padStart(2, "0");
  const minutes = `${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
  return whole < 3600 ? minutes : `${Math.floor(whole / 3600)}:${minutes}`;
}

/** Milliseconds since 1970 as a date and time that are the same wherever the page is opened. */
export const dateAndTime = (milliseconds: number) => `${new Date(milliseconds).toISOString().slice(0, 16).replace("T", " ")} UTC`;
