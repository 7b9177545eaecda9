// Dependencies between the crates of the workspace, and what each of their manifests states.

import { isTest } from "./sizes.mjs";

const all = ["quantity", "storage", "cache", "isobmff", "index", "protect", "text", "packager", "origin"];

/** The crates that each crate may use. Tests may also use what `FOR_TESTS` and `cli` name. */
const EDGES = {
  quantity: [],
  storage: ["quantity"],
  cache: ["quantity", "storage"],
  isobmff: [],
  index: ["isobmff"],
  protect: ["isobmff"],
  text: [],
  packager: ["isobmff", "index", "protect", "text"],
  origin: all,
  // The readers of `client` share no code with the packager: a mistake in both would pass unseen.
  streams: [],
  client: ["isobmff", "streams"],
  load: ["client", "streams"],
  capture: ["client", "isobmff"],
  link: [],
  lab: ["quantity", "streams", "load", "link"],
  cli: [...all, "streams", "client", "load", "capture", "lab", "link"],
  instructions: ["isobmff", "index", "text", "packager"],
  testmedia: [...all, "client", "link"],
};
const FOR_TESTS = ["testmedia"];

/** Crates without I/O, clock or chance, and the packages that would bring those in. */
const PURE = ["isobmff", "index", "protect", "text", "packager", "streams"];
const IMPURE = ["tokio", "hyper", "mio", "socket2", "rand", "getrandom", "async-std", "object_store", "reqwest"];

/**
 * Refuses dependencies that the table does not allow.
 * @param {object} metadata Output of `cargo metadata`.
 */
export function edges(metadata) {
  const complaints = [];
  const folder = (one) => one.manifest_path.replaceAll("\\", "/").split("/").at(-2);
  const members = new Map(
    metadata.packages.filter((one) => metadata.workspace_members.includes(one.id)).map((one) => [one.name, folder(one)]),
  );
  for (const one of metadata.packages) {
    const from = members.get(one.name);
    if (from === undefined) continue;
    const manifest = `crates/${from}/Cargo.toml:1`;
    if (!(from in EDGES)) {
      complaints.push(`${manifest}: scripts/tidy/crates.mjs and crates/README.md do not list the crates it may use`);
      continue;
    }
    for (const { name, kind } of one.dependencies) {
      const to = members.get(name);
      if (to === undefined || to === from || EDGES[from].includes(to)) continue;
      if (kind === "dev" && (FOR_TESTS.includes(to) || EDGES.cli.includes(to))) continue;
      complaints.push(`${manifest}: ${from} must not use ${to}`);
    }
  }
  return complaints.concat(purity(metadata, members));
}

/** Refuses packages with I/O, clocks or chance below the pure crates, at any distance. */
function purity(metadata, members) {
  const packages = new Map(metadata.packages.map((one) => [one.id, one]));
  const nodes = new Map(metadata.resolve.nodes.map((one) => [one.id, one]));
  const complaints = [];
  for (const [id, one] of packages) {
    const crate = members.get(one.name);
    if (!PURE.includes(crate)) continue;
    const seen = new Set();
    const visit = (at) => {
      if (seen.has(at)) return;
      seen.add(at);
      for (const { pkg, dep_kinds: kinds } of nodes.get(at)?.deps ?? []) {
        if (kinds.some((k) => k.kind === null)) visit(pkg);
      }
    };
    visit(id);
    for (const used of seen) {
      const { name } = packages.get(used);
      if (IMPURE.includes(name)) complaints.push(`crates/${crate}/Cargo.toml:1: ${crate} is pure, but depends on ${name}`);
    }
  }
  return complaints;
}

/** Lines that every crate's manifest needs; the lints refuse public items without documentation. */
const INHERITED = ["version", "edition", "rust-version", "license", "publish"];
const STATED = ["description", "keywords", "categories", "readme"];

/**
 * Refuses a toolchain newer than `rust-version`: every test run must prove that the stated version
 * suffices.
 */
function toolchain(text, files) {
  const channel = text.match(/^channel = "(\d+\.\d+)/m)?.[1];
  const stated = files.find(({ path }) => path === "Cargo.toml")?.text.match(/^rust-version = "(\d+\.\d+)/m)?.[1];
  return channel === stated ? [] : [`rust-toolchain.toml:1: the channel ${channel} is not Cargo.toml's rust-version ${stated}`];
}

/** Refuses manifests that lack metadata or do not inherit the lints. @param {File[]} files */
export function manifests(files) {
  const complaints = [];
  for (const { path, text } of files) {
    if (path === "rust-toolchain.toml") complaints.push(...toolchain(text, files));
    if (path === "Cargo.toml" && !/^missing_docs = "(warn|deny)"$/m.test(text)) {
      complaints.push(`${path}:1: the workspace lints must contain missing_docs`);
    }
    if (/^crates\/.*\.rs$/.test(path) && !isTest(path)) {
      for (const [place, line] of text.split("\n").entries()) {
        if (/^\s*#!?\[(allow|expect)\([^)]*missing_docs/.test(line)) {
          complaints.push(`${path}:${place + 1}: every public item has a doc comment`);
        }
      }
    }
    if (!/^crates\/[^/]+\/Cargo\.toml$/.test(path)) continue;
    if (!/^\[lints\]\nworkspace = true$/m.test(text)) complaints.push(`${path}:1: the workspace lints are not inherited`);
    for (const key of INHERITED) {
      const inherits = new RegExp(`^${key}(\\.workspace = true| = \\{ workspace = true \\})$`, "m");
      if (!inherits.test(text)) complaints.push(`${path}:1: ${key} is not inherited from the workspace`);
    }
    for (const key of STATED) {
      if (!new RegExp(`^${key}(\\.workspace)? = `, "m").test(text)) complaints.push(`${path}:1: ${key} is missing`);
    }
  }
  return complaints;
}
