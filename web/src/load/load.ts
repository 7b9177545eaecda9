// The live page of `latemux load --ui`: asks each second for what is new, and shows it. What it has stays when the run is over.

import { clock, showFigures, showTables } from "./figures";
import { Plots } from "./plots";
import type { Sample, Told } from "./told";

const PERIOD_MS = 1000;
/** A generator that is busy may take a while to answer. */
const PATIENCE_MS = 10_000;
/** As many as the generator keeps: six hours. */
const MAX_SAMPLES = 6 * 3600;

const place = <T extends HTMLElement>(id: string) => document.getElementById(id) as T;
const plots = new Plots(place("service"), place("machines"));
const shownWindow = place<HTMLFormElement>("window");
let samples: Sample[] = [];
let last: Told | undefined;
let next = 0;

function say(state: "running" | "ended" | "lost", text: string): void {
  document.body.dataset.state = state;
  if (place("state").textContent !== text) place("state").textContent = text;
}

function show(): void {
  if (!last) return;
  const newest = samples.at(-1);
  const seconds = Number(new FormData(shownWindow).get("window"));
  const from = (newest?.at ?? 0) - seconds;
  plots.show(
    samples.filter(({ at }) => at > from),
    last.hosts,
  );
  showFigures(place("figures"), last, newest);
  showTables(last);
}

async function ask(): Promise<void> {
  const response = await fetch(`live.json?from=${next}`, { signal: AbortSignal.timeout(PATIENCE_MS) });
  if (!response.ok) throw new Error(`HTTP ${response.status}`);
  const told = (await response.json()) as Told;
  if (told.next < next) {
    // Another run listens there now.
    samples = [];
    next = 0;
    return ask();
  }
  samples = samples.concat(told.samples).slice(-MAX_SAMPLES);
  next = told.next;
  last = told;
}

async function follow(): Promise<void> {
  for (;;) {
    try {
      await ask();
      const elapsed = clock(samples.at(-1)?.at ?? 0);
      if (last?.ended) say("ended", `Ended after ${elapsed}`);
      else say("running", `Running, ${elapsed}`);
      show();
      if (last?.ended) return;
    } catch {
      say("lost", last ? `No answer since ${clock(samples.at(-1)?.at ?? 0)}` : "No answer");
    }
    await new Promise((resolve) => setTimeout(resolve, PERIOD_MS));
  }
}

shownWindow.addEventListener("change", show);
void follow();
