// Debian's Chromium, and a record of all a page did that a test may have to answer for.

import { chromium } from "playwright-core";

export function launchBrowser() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--autoplay-policy=no-user-gesture-required",
    ],
  });
}

/**
 * How long after a seek, a switch or a close a player may still cancel what it was loading. A request cancelled at
 * any other time was dropped: by the origin, or by a player that could not use the answer.
 */
const CANCEL_MS = 3_000;

/** Watches `page`, whose every request must go to `origin` (an address with a slash at its end). */
export class Record {
  #origin;
  #lastAction = -Infinity;
  requests = 0;
  /** Allowed: cancelled by the player, just after it was told to go elsewhere. */
  cancelled = [];
  faults = [];

  constructor(page, origin) {
    this.#origin = origin;
    page.on("request", (request) => {
      const url = request.url();
      if (/^(blob|data):/.test(url)) return;
      this.requests += 1;
      if (!url.startsWith(this.#origin)) this.faults.push(`request to another host: ${url}`);
    });
    page.on("response", (response) => {
      if (response.status() >= 400) this.faults.push(`HTTP ${response.status()}: ${response.url()}`);
    });
    page.on("requestfailed", (request) => {
      const url = request.url();
      if (/^(blob|data):/.test(url)) return;
      const reason = request.failure()?.errorText ?? "unknown";
      const late = performance.now() - this.#lastAction;
      if (reason === "net::ERR_ABORTED" && late < CANCEL_MS) this.cancelled.push(url);
      else this.faults.push(`request dropped (${reason}): ${url}`);
    });
    page.on("console", (message) => {
      if (message.type() === "error") this.faults.push(`console: ${message.text()} ${message.location().url ?? ""}`);
    });
    page.on("pageerror", (error) => this.faults.push(`exception: ${error.stack ?? error}`));
    page.on("crash", () => this.faults.push("the page crashed"));
  }

  /** To be called when the player is told to seek, to switch or to close. */
  action() {
    this.#lastAction = performance.now();
  }
}
