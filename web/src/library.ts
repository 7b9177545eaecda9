// The list of titles that the origin reports.

import { request } from "./origin";

export interface Title {
  /** The base of the title's URLs, decoded, without a leading slash. */
  readonly base: string;
  readonly name: string;
}

export interface Library {
  /** False if the storage cannot be listed; its titles can be played, but not found. */
  readonly listable: boolean;
  /** True if the origin has left titles out, because there are too many. */
  readonly truncated: boolean;
  readonly titles: readonly Title[];
}

export async function loadLibrary(): Promise<Library> {
  return (await (await request("/api/library")).json()) as Library;
}

/** Fills `list` with one link for each title; `href` returns a link's target. */
export function showTitles(list: HTMLElement, titles: readonly Title[], href: (title: Title) => string): void {
  list.replaceChildren(
    ...titles.map((title) => {
      const link = document.createElement("a");
      link.href = href(title);
      link.dataset.title = title.base;
      link.dataset.name = title.name;
      link.textContent = title.name;
      if (title.base !== title.name) {
        const base = document.createElement("small");
        base.textContent = title.base;
        link.append(base);
      }
      const item = document.createElement("li");
      item.append(link);
      return item;
    }),
  );
}

/** Shows the titles whose name or base contains every word. Returns the number of them. */
export function filterTitles(list: HTMLElement, words: string): number {
  const wanted = words.toLowerCase().split(/\s+/);
  let shown = 0;
  for (const item of list.querySelectorAll("li")) {
    const link = item.querySelector("a")!;
    const text = `${link.dataset.name} ${link.dataset.title}`.toLowerCase();
    item.hidden = !wanted.every((word) => text.includes(word));
    shown += Number(!item.hidden);
  }
  return shown;
}

/** Notes beside a title why it cannot be played. */
export function markObstacle(list: HTMLElement, base: string, message: string): void {
  const link = [...list.querySelectorAll("a")].find((one) => one.dataset.title === base);
  if (!link || link.querySelector(".obstacle")) return;
  const note = document.createElement("small");
  note.className = "obstacle";
  note.textContent = message;
  link.append(note);
}

/** Marks the title that plays, visibly and for screen readers. */
export function markCurrent(list: HTMLElement, base: string | null): void {
  for (const link of list.querySelectorAll("a")) {
    if (link.dataset.title === base) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}
