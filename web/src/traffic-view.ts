// The table of downloads and its sums.

import { bytesLabel, millisecondsLabel } from "./labels";
import type { Download } from "./traffic";

/** Rows kept on the page: enough to read back through, few enough to stay quick. */
const ROWS = 150;

export class TrafficView {
  readonly #rows: HTMLTableSectionElement;
  readonly #sums: HTMLElement;
  #base = "";
  #requests = 0;
  #bytes = 0;
  #refused = 0;

  constructor(root: HTMLElement) {
    this.#rows = root.querySelector("tbody")!;
    this.#sums = root.querySelector("[data-sums]")!;
  }

  /** Starts anew; names in the table are shown from `base` (a path) on. */
  reset(base: string): void {
    this.#base = base;
    this.#requests = this.#bytes = this.#refused = 0;
    this.#rows.replaceChildren();
    this.#showSums();
  }

  add(download: Download): void {
    this.#requests += 1;
    this.#bytes += download.bytes;
    if (download.status >= 400) this.#refused += 1;
    this.#rows.prepend(this.#row(download));
    while (this.#rows.rows.length > ROWS) this.#rows.rows[ROWS]!.remove();
    this.#showSums();
  }

  #row(download: Download): HTMLTableRowElement {
    const { url, kind, status, bytes, firstByte, total, fromCache } = download;
    const row = document.createElement("tr");
    row.dataset.status = String(status);
    row.dataset.kind = kind;
    const name = url.pathname.slice(this.#base.length + 1) + url.search;
    const cells = [
      kind,
      name,
      status === 0 ? "stopped" : fromCache ? `${status} cached` : String(status),
      bytesLabel(bytes),
      millisecondsLabel(firstByte),
      millisecondsLabel(total),
    ].map((text) => {
      const cell = document.createElement("td");
      cell.textContent = text;
      return cell;
    });
    cells[1]!.title = url.href;
    row.append(...cells);
    return row;
  }

  #showSums(): void {
    const refused = this.#refused === 0 ? "" : ` · ${this.#refused} refused`;
    this.#sums.textContent = `${this.#requests} requests · ${bytesLabel(this.#bytes)}${refused}`;
    this.#sums.dataset.requests = String(this.#requests);
  }
}
