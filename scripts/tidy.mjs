// What `make tidy` checks of the tree: rules of CONTRIBUTING.md that no compiler knows.
// Each check takes what it needs and returns its complaints, so that tidy.test.mjs can show each one to be able to fail.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Lines of a source file without its tests: 600 is a question, 800 a no. */
const LINES_ASKED = 600;
const LINES_REFUSED = 800;

/** @typedef {{path: string, text: string}} File Path relative to the repository's root. */

const isTest = (path) => /(^|\/)(tests?|benches|fuzz|e2e)\/|(_tests?|\/tests?)\.rs$|\.test\.mjs$/.test(path);

/** @param {File[]} files */
export function sizes(files) {
  const complaints = [];
  for (const { path, text } of files) {
    if (!/\.(rs|ts|mjs|css|sh)$/.test(path) || isTest(path)) continue;
    const [code] = text.split(/^#\[cfg\(test\)\]\nmod /m);
    const lines = code.split("\n").length - 1;
    if (lines > LINES_REFUSED) complaints.push(`${path}: ${lines} lines without tests, more than ${LINES_REFUSED}`);
    else if (lines > LINES_ASKED) console.log(`tidy: ${path} has ${lines} lines without tests: can it be split?`);
  }
  return complaints;
}

/** Names that say nothing about what lives there. @param {File[]} files */
export function names(files) {
  const empty = /(^|\/)(utils?|common|helpers?|misc|types|stuff|shared)(\.(rs|ts|mjs)|\/)/;
  const complaints = files
    .filter(({ path }) => empty.test(path))
    .map(({ path }) => `${path}: a name that does not say what lives there`);
  for (const { path, text } of files) {
    if (!path.endsWith(".rs")) continue;
    const module = text.match(/^\s*(?:pub(?:\([a-z]+\))? )?mod (utils?|common|helpers?|misc|types)\b/m);
    if (module) complaints.push(`${path}: a module called ${module[1]} does not say what lives there`);
  }
  return complaints;
}

/** Which crate of the workspace may use which; "dev" is for tests only. */
const all = ["storage", "cache", "isobmff", "index", "packager", "origin"];
const EDGES = {
  storage: [],
  cache: ["storage"],
  isobmff: [],
  index: ["isobmff"],
  packager: ["isobmff", "index"],
  origin: all,
  // The client shares no manifest code with the packager: a mistake in both would pass unseen.
  client: ["isobmff"],
  load: ["client"],
  capture: ["client", "isobmff"],
  cli: [...all, "client", "load", "capture"],
  instructions: ["isobmff", "index", "packager"],
  testmedia: [...all, "client"],
};
const FOR_TESTS = ["testmedia"];
/** Crates without I/O, clock or chance, and what would bring those in. */
const PURE = ["isobmff", "index", "packager"];
const IMPURE = ["tokio", "hyper", "mio", "socket2", "rand", "getrandom", "async-std", "object_store", "reqwest"];

/** Dependencies point one way. @param {object} metadata What `cargo metadata` prints. */
export function edges(metadata) {
  const complaints = [];
  const folder = (one) => one.manifest_path.replaceAll("\\", "/").split("/").at(-2);
  const members = new Map(
    metadata.packages.filter((one) => metadata.workspace_members.includes(one.id)).map((one) => [one.name, folder(one)]),
  );
  for (const one of metadata.packages) {
    const from = members.get(one.name);
    if (from === undefined) continue;
    if (!(from in EDGES)) {
      complaints.push(`crates/${from}: say in scripts/tidy.mjs and crates/README.md which crates it may use`);
      continue;
    }
    for (const { name, kind } of one.dependencies) {
      const to = members.get(name);
      if (to === undefined || to === from || EDGES[from].includes(to)) continue;
      if (kind === "dev" && (FOR_TESTS.includes(to) || EDGES.cli.includes(to))) continue;
      complaints.push(`crates/${from} must not use ${to}`);
    }
  }
  return complaints.concat(purity(metadata, members));
}

function purity(metadata, members) {
  const packages = new Map(metadata.packages.map((one) => [one.id, one]));
  const nodes = new Map(metadata.resolve.nodes.map((one) => [one.id, one]));
  const complaints = [];
  for (const [id, one] of packages) {
    if (!PURE.includes(members.get(one.name))) continue;
    const seen = new Set();
    const visit = (at) => {
      if (seen.has(at)) return;
      seen.add(at);
      for (const { pkg, dep_kinds: kinds } of nodes.get(at)?.deps ?? []) if (kinds.some((k) => k.kind === null)) visit(pkg);
    };
    visit(id);
    for (const used of seen) {
      const { name } = packages.get(used);
      if (IMPURE.includes(name)) complaints.push(`crates/${members.get(one.name)} is pure, yet it brings in ${name}`);
    }
  }
  return complaints;
}

/**
 * Words that belong to the machine someone worked on, not to the project. Written in pieces, so that this file does
 * not hold what it looks for.
 */
const FOREIGN = [
  ["/wo", "rk/"],
  ["/ro", "ot/"],
  ["/ho", "me/[a-z]+/"],
  ["registry\\.npm", "js\\.org"],
  ["registry\\.yarn", "pkg\\.com"],
  ["(?:static|index)\\.cra", "tes\\.io"],
  ["proxy\\.gol", "ang\\.org"],
  ["deb\\.deb", "ian\\.org"],
  ["(?:files\\.python", "hosted|pypi)\\.org"],
].map((pieces) => new RegExp(pieces.join(""), "i"));

/** @param {File[]} files */
export function foreignWords(files) {
  const complaints = [];
  for (const { path, text } of files) {
    for (const [place, line] of text.split("\n").entries()) {
      const found = FOREIGN.map((word) => line.match(word)).find(Boolean);
      // A path below another folder ("crates/work/x") is not an absolute one.
      if (!found || /[\w.)}-]/.test(line[found.index - 1] ?? "")) continue;
      complaints.push(`${path}:${place + 1}: "${found[0]}" belongs to a machine, not to the project`);
    }
  }
  return complaints;
}

/** Relative links in Markdown lead somewhere. @param {File[]} files @param {(path: string) => boolean} exists */
export function links(files, exists) {
  const complaints = [];
  for (const { path, text } of files) {
    if (!path.endsWith(".md")) continue;
    for (const [, target] of text.matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)) {
      if (/^[a-z]+:/i.test(target)) continue;
      if (!exists(normalize(join(dirname(path), target)))) complaints.push(`${path}: a link to ${target}, which is not there`);
    }
  }
  return complaints;
}

/** Files that git keeps, or would, with text in them. */
function tracked() {
  const list = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], { cwd: root });
  return list
    .toString()
    .split("\0")
    .filter((path) => path !== "" && existsSync(join(root, path)))
    .map((path) => ({ path, text: readFileSync(join(root, path), "utf8") }))
    .filter(({ text }) => !text.includes("\0"));
}

function cargoMetadata() {
  const arguments_ = ["metadata", "--format-version", "1", "--locked"];
  return JSON.parse(execFileSync("cargo", arguments_, { cwd: root, maxBuffer: 1 << 28, stdio: ["ignore", "pipe", "inherit"] }));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const files = tracked();
  const complaints = [
    ...sizes(files),
    ...names(files),
    ...foreignWords(files),
    ...links(files, (path) => existsSync(join(root, path))),
    ...edges(cargoMetadata()),
  ];
  for (const complaint of complaints) console.error(`tidy: ${complaint}`);
  console.log(`tidy: ${files.length} files, ${complaints.length} complaints`);
  process.exitCode = complaints.length === 0 ? 0 : 1;
}
