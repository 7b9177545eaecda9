// The list of titles that the origin reports.

export interface Title {
  /** The base of the title's URLs, decoded, without a leading slash. */
  readonly base: string;
  readonly name: string;
}

export interface Library {
  /** A description of the origin's storage. */
  readonly storage: string;
  readonly titles: readonly Title[];
}

export async function loadLibrary(): Promise<Library> {
  const response = await fetch("/api/library");
  if (!response.ok) throw new Error(`the response to /api/library has status ${response.status}`);
  return (await response.json()) as Library;
}

/** Fills `list` with one link for each title; `href` returns a link's target. */
export function showTitles(list: HTMLElement, titles: readonly Title[], href: (title: Title) => string): void {
  list.replaceChildren(
    ...titles.map((title) => {
      const link = document.createElement("a");
      link.href = href(title);
      link.dataset.title = title.base;
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

/** Marks the title that plays, visibly and for screen readers. */
export function markCurrent(list: HTMLElement, base: string | null): void {
  for (const link of list.querySelectorAll("a")) {
    if (link.dataset.title === base) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}
