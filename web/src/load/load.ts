// The page of a load run. `latemux load --ui` serves it. The page then requests new samples each
// second, and stays as it is when the run is over. `latemux report` writes the same page as one
// file, with its data in the element #report.

import type { LiveData, LiveSample, ReportData } from "./data";
import { clock } from "./numbers";
import { LivePlots, ReportPlots } from "./plots";
import { RunView, liveTiles, reportTiles, showHosts } from "./tables";

const PERIOD_MS = 1000;
/** A busy load generator may need some seconds to respond. */
const TIMEOUT_MS = 10_000;
/** The number of samples that the generator keeps: six hours. */
const MAX_SAMPLES = 6 * 3600;

const byId = <T extends HTMLElement>(id: string) => document.getElementById(id) as T;
const shownWindow = byId<HTMLFormElement>("window");
const windowSeconds = () => Number(new FormData(shownWindow).get("window"));

function setState(state: "running" | "ended" | "lost", text: string): void {
  document.body.dataset.state = state;
  if (byId("state").textContent !== text) byId("state").textContent = text;
}

class LivePage {
  readonly #plots = new LivePlots(byId("service"), byId("machines"));
  readonly #view = new RunView("");
  #samples: LiveSample[] = [];
  #data: LiveData | undefined;
  #next = 0;

  constructor() {
    byId("machines-part").hidden = false;
    shownWindow.addEventListener("change", () => this.#show());
    void this.#follow();
  }

  #show(): void {
    if (!this.#data) return;
    const newest = this.#samples.at(-1);
    const from = (newest?.at ?? 0) - windowSeconds();
    this.#plots.show(
      this.#samples.filter(({ at }) => at > from),
      this.#data.hosts,
    );
    this.#view.show(this.#data, liveTiles(this.#data, newest));
    showHosts(byId("hosts"), this.#data.hosts);
  }

  async #update(): Promise<void> {
    const response = await fetch(`live.json?from=${this.#next}`, { signal: AbortSignal.timeout(TIMEOUT_MS) });
    if (!response.ok) throw new Error(`HTTP ${response.status}`);
    const data = (await response.json()) as LiveData;
    if (data.next < this.#next) {
      // Another run listens at this address now.
      this.#samples = [];
      this.#next = 0;
      return this.#update();
    }
    this.#samples = this.#samples.concat(data.samples).slice(-MAX_SAMPLES);
    this.#next = data.next;
    this.#data = data;
  }

  async #follow(): Promise<void> {
    for (;;) {
      try {
        await this.#update();
        const elapsed = clock(this.#samples.at(-1)?.at ?? 0);
        if (this.#data?.ended) setState("ended", `Ended after ${elapsed}`);
        else setState("running", `Running for ${elapsed}`);
        this.#show();
        if (this.#data?.ended) return;
      } catch {
        setState("lost", this.#data ? `No response since ${clock(this.#samples.at(-1)?.at ?? 0)}` : "No response");
      }
      await new Promise((resolve) => setTimeout(resolve, PERIOD_MS));
    }
  }
}

function showReport({ runs }: ReportData): void {
  const longest = Math.max(0, ...runs.map(({ took }) => took));
  setState("ended", runs.length === 1 ? `Ended after ${clock(longest)}` : `${runs.length} runs, up to ${clock(longest)}`);
  document.title = `${runs.map(({ name }) => name).join(", ")} – latemux load`;
  for (const run of runs) {
    const view = new RunView(runs.length > 1 ? run.name : "");
    view.show(run, reportTiles(run));
    view.setGenerator(run.generator);
  }
  document.body.classList.add("is-report");
  byId("distributions-part").hidden = false;
  shownWindow.querySelector<HTMLInputElement>("[value=Infinity]")!.checked = true;
  const plots = new ReportPlots(runs, byId("service"), byId("distributions"));
  const show = () => plots.show(longest - windowSeconds());
  shownWindow.addEventListener("change", show);
  show();
}

const report = document.getElementById("report")?.textContent;
if (report) showReport(JSON.parse(report) as ReportData);
else new LivePage();
