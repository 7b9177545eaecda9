// Launches Debian's Chromium, and records the requests and errors of a page.

import { chromium } from "playwright-core";

/**
 * Launches Chromium. `executablePath` may be a program that starts it, `more` has further flags.
 */
export function launchBrowser({ executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium", more = [] } = {}) {
  return chromium.launch({
    executablePath,
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
      ...more,
    ],
  });
}

/**
 * Longest time after a seek, a switch or a close in which a player may cancel requests. A request
 * that is cancelled at any other time counts as dropped: by the origin, or by a player that could
 * not use the response.
 */
const CANCEL_MS = 3_000;

/**
 * Records what `page` does. All of its requests must go to `origin` (a URL that ends with a slash).
 */
export class Record {
  #origin;
  #lastAction = -Infinity;
  requests = 0;
  /** URLs of requests that the player cancelled just after an action, which is allowed. */
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

  /** Notes a seek, a switch or a close. Call it just before. */
  action() {
    this.#lastAction = performance.now();
  }
}
