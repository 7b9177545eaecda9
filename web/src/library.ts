// The list of titles, from the origin's own answer.

export interface Title {
  /** What follows the origin in the title's addresses. */
  readonly base: string;
  readonly name: string;
}

export interface Library {
  /** What the origin serves from, in words. */
  readonly storage: string;
  readonly titles: readonly Title[];
}

export async function loadLibrary(): Promise<Library> {
  const answer = await fetch("/api/library");
  if (!answer.ok) throw new Error(`the origin answered ${answer.status} for /api/library`);
  return (await answer.json()) as Library;
}

/** Fills `list` with one link per title; `href` makes a link's target. */
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

/** Marks the title that plays, for eyes and for screen readers. */
export function markCurrent(list: HTMLElement, base: string | null): void {
  for (const link of list.querySelectorAll("a")) {
    if (link.dataset.title === base) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}
