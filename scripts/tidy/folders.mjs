// Imports between the folders of a crate, and between the files of a folder.

import { isTest } from "./sizes.mjs";
import { uses } from "./modules.mjs";

/**
 * For each crate that is divided into folders: the folders that each folder may use. A file at the
 * root of `src/` is listed like a folder. `lib` is the root itself, `*` is everything.
 */
const FOLDERS = {
  origin: {
    lib: ["*"],
    app: ["*"],
    serve: ["*"],
    admin: ["*"],
    api: ["*"],
    offline: ["*"],
    key_delivery: ["*"],
    http: ["config", "error", "observe", "read", "route", "title"],
    read: ["config", "error", "observe", "title"],
    title: ["config", "error", "keys", "observe", "route"],
    keys: ["config", "error"],
    route: ["config", "error", "observe"],
    observe: ["config", "error", "health"],
    health: [],
    error: ["config"],
    config: [],
  },
  index: {
    lib: ["*"],
    title: ["error", "grid", "media", "table"],
    persist: ["error", "grid", "locate", "media", "table"],
    locate: ["error", "media", "table"],
    grid: ["error", "media", "table"],
    media: ["error", "table"],
    table: ["error"],
    error: [],
  },
  cache: {
    lib: ["*"],
    cache: ["*"],
    range_cache: ["counters", "fetch", "lib", "memory", "store"],
    fetch: ["counters", "disk", "lib", "memory", "store"],
    store: ["config", "counters", "disk", "memory"],
    records: ["config", "disk", "memory"],
    segments: ["memory"],
    disk: ["config", "counters", "memory"],
    memory: ["config", "counters"],
    counters: [],
    config: [],
  },
};
/** Most files of one folder, or of `src/` itself, that may import each other in a circle. */
const MOST_IN_CYCLE = 3;
/**
 * Folders of a crate that may import each other in a circle. In `packager`, sealing a plan needs
 * the plan, and making it needs to know that it will be sealed.
 */
const CIRCLES = { packager: ["manifest", "peak", "plan", "protection", "sizes"] };

/**
 * Refuses imports against the table, and cycles in any crate.
 * @param {File[]} files
 */
export function folders(files, table = FOLDERS, circles = CIRCLES) {
  const crates = new Set(files.map(({ path }) => path.match(/^crates\/([^/]+)\/src\//)?.[1]).filter(Boolean));
  return [...crates].flatMap((crate) => {
    const source = files.filter(({ path }) => path.startsWith(`crates/${crate}/src/`) && !isTest(path));
    const all = uses(source);
    const against = crate in table ? edges(crate, all, table[crate]) : [];
    return [...new Set([...against, ...cycles(crate, all, circles[crate] ?? [])])];
  });
}

const folderOf = (module) => module[0] ?? "lib";

function edges(crate, all, table) {
  const complaints = [];
  const unknown = new Set();
  for (const { path, line, from, to } of all) {
    const [folder, other] = [folderOf(from), folderOf(to)];
    if (folder === other) continue;
    if (!(folder in table)) {
      if (!unknown.has(folder)) complaints.push(`${path}:1: scripts/tidy/folders.mjs does not list what ${crate}'s ${folder} may use`);
      unknown.add(folder);
    } else if (!table[folder].includes(other) && !table[folder].includes("*")) {
      complaints.push(`${path}:${line}: ${folder} must not use ${other}`);
    }
  }
  return complaints;
}

function cycles(crate, all, circle) {
  const complaints = [];
  const between = all.filter(({ from, to }) => folderOf(from) !== folderOf(to));
  for (const cycle of components(between, ({ from }) => folderOf(from), ({ to }) => folderOf(to))) {
    const hasFolder = all.some(({ from, to }) => [from, to].some((one) => one.length > 1 && cycle.includes(one[0])));
    if (!hasFolder && cycle.length <= MOST_IN_CYCLE) continue;
    if (cycle.every((folder) => circle.includes(folder))) continue;
    const inCycle = between.filter(({ from, to }) => cycle.includes(folderOf(from)) && cycle.includes(folderOf(to)));
    complaints.push(
      `crates/${crate}/src/lib.rs:1: an import cycle of the folders ${cycle.join(", ")}`,
      ...inCycle.map(({ path, line, to }) => `${path}:${line}:   part of the cycle, uses ${to.join("::") || "lib"}`),
    );
  }
  for (const folder of new Set(all.map(({ from }) => folderOf(from)))) {
    const inside = all.filter(({ from, to }) => folderOf(from) === folder && folderOf(to) === folder);
    const name = (module) => module.join("::");
    for (const cycle of components(inside, ({ from }) => name(from), ({ to }) => name(to))) {
      if (cycle.length <= MOST_IN_CYCLE) continue;
      const { path } = inside.find(({ from }) => cycle.includes(name(from)));
      complaints.push(`${path}:1: an import cycle of ${cycle.length} files: ${cycle.join(", ")}`);
    }
  }
  return complaints;
}

/** Returns the strongly connected components with more than one node (Tarjan). */
export function components(edges, from, to) {
  const next = new Map();
  for (const edge of edges) {
    if (!next.has(from(edge))) next.set(from(edge), new Set());
    next.get(from(edge)).add(to(edge));
  }
  const [index, low, stack, found] = [new Map(), new Map(), [], []];
  const visit = (node) => {
    index.set(node, index.size);
    low.set(node, index.get(node));
    stack.push(node);
    for (const other of next.get(node) ?? []) {
      if (!index.has(other)) visit(other);
      if (stack.includes(other)) low.set(node, Math.min(low.get(node), low.get(other)));
    }
    if (low.get(node) !== index.get(node)) return;
    const component = stack.splice(stack.indexOf(node));
    if (component.length > 1) found.push(component.sort());
  };
  for (const node of next.keys()) if (!index.has(node)) visit(node);
  return found;
}
