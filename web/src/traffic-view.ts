// The table of downloads and their totals.

import { bytesLabel, millisecondsLabel } from "./labels";
import type { Download } from "./traffic";

/** Most rows on the page, so that it stays fast. */
const ROWS = 150;

export class TrafficView {
  readonly #rows: HTMLTableSectionElement;
  readonly #sums: HTMLElement;
  #base = "";
  #requests = 0;
  #bytes = 0;
  #failed = 0;

  constructor(root: HTMLElement) {
    this.#rows = root.querySelector("tbody")!;
    this.#sums = root.querySelector("[data-sums]")!;
  }

  /** Empties the table. It shows names relative to `base` (a path). */
  reset(base: string): void {
    this.#base = base;
    this.#requests = this.#bytes = this.#failed = 0;
    this.#rows.replaceChildren();
    this.#showSums();
  }

  add(download: Download): void {
    this.#requests += 1;
    this.#bytes += download.bytes;
    if (download.status >= 400) this.#failed += 1;
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
      status === 0 ? "cancelled" : fromCache ? `${status} cached` : String(status),
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
    const failed = this.#failed === 0 ? "" : ` · ${this.#failed} failed`;
    this.#sums.textContent = `${this.#requests} requests · ${bytesLabel(this.#bytes)}${failed}`;
    this.#sums.dataset.requests = String(this.#requests);
  }
}
