// The folders and titles that the origin lists, one folder at a time.

import { request } from "./origin";

export interface Title {
  /** The base of the title's URLs, decoded, without a leading slash. */
  readonly base: string;
  readonly name: string;
  readonly kind: "file" | "folder" | "manifest";
  /** The number of files of a folder that is one title. */
  readonly files: number;
}

export interface Folder {
  /** The path of the folder, without a leading slash. */
  readonly folder: string;
  readonly name: string;
}

/** A page of a folder's contents. */
export interface Page {
  readonly folder: string;
  /** False if the storage cannot be listed; its titles can be played, but not found. */
  readonly listable: boolean;
  readonly folders: readonly Folder[];
  readonly titles: readonly Title[];
  /** The token of the next page, or null if this page is the last. */
  readonly next: string | null;
}

/** Requests a page of a folder: the first one, or the one that a token stands for. */
export async function loadPage(folder: string, after: string | null, signal: AbortSignal): Promise<Page> {
  const query = new URLSearchParams({ ...(folder !== "" && { folder }), ...(after !== null && { after }) });
  return (await (await request(`/api/library?${query}`, signal)).json()) as Page;
}

/** Returns the targets of links. */
export interface Links {
  folder(path: string): string;
  title(base: string): string;
}

/** Adds one link for each entry of a page to `list`. Returns the first one. */
export function addEntries(list: HTMLElement, { folders, titles }: Page, links: Links): HTMLAnchorElement | null {
  const first = list.children.length;
  for (const { folder, name } of folders) {
    const link = entry(list, links.folder(folder), name, "folder");
    link.dataset.folder = folder;
  }
  for (const { base, name, kind, files } of titles) {
    const file = base.slice(base.lastIndexOf("/") + 1);
    const detail = kind === "folder" ? `${files} ${files === 1 ? "file" : "files"}` : file === name ? "" : file;
    const link = entry(list, links.title(base), name, detail);
    link.dataset.title = base;
  }
  return list.children[first]?.querySelector("a") ?? null;
}

function entry(list: HTMLElement, href: string, name: string, detail: string): HTMLAnchorElement {
  const link = document.createElement("a");
  link.href = href;
  link.textContent = name;
  link.dataset.text = `${name} ${detail}`.toLowerCase();
  if (detail !== "") {
    const small = document.createElement("small");
    small.textContent = detail;
    link.append(" ", small);
  }
  const item = document.createElement("li");
  item.append(link);
  list.append(item);
  return link;
}

/** Shows the path to `folder`. All but the last of its folders are links. The root has no path. */
export function showTrail(trail: HTMLElement, folder: string, href: (path: string) => string): void {
  const names = folder === "" ? [] : folder.split("/");
  const steps = ["Library", ...names].map((name, depth) => {
    const path = names.slice(0, depth).join("/");
    const step = document.createElement(depth === names.length ? "span" : "a");
    step.textContent = name;
    if (step instanceof HTMLAnchorElement) {
      step.href = href(path);
      step.dataset.folder = path;
    } else {
      step.setAttribute("aria-current", "location");
    }
    const item = document.createElement("li");
    item.append(step);
    return item;
  });
  trail.replaceChildren(...steps);
  trail.hidden = names.length === 0;
}

/** Shows the entries whose text contains every word. Returns the number of them. */
export function filterEntries(list: HTMLElement, words: string): number {
  const wanted = words.toLowerCase().split(/\s+/);
  let shown = 0;
  for (const item of list.querySelectorAll("li")) {
    const text = item.querySelector("a")!.dataset.text!;
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
    if (base !== null && link.dataset.title === base) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}
