// Markdown pages: their width, their links, and the pages that must be there. Words that belong to
// no page or file.

import { dirname, join, normalize } from "node:path";

const MOST_COLUMNS = 120;

/**
 * Refuses lines of Markdown that are too long, outside tables and code blocks.
 * @param {File[]} files
 */
export function markdownWidths(files) {
  const complaints = [];
  for (const { path, text } of files) {
    if (!path.endsWith(".md")) continue;
    let fence;
    for (const [place, line] of text.split("\n").entries()) {
      const mark = line.match(/^\s*(```+|~~~+)/)?.[1];
      if (mark !== undefined && (fence === undefined || mark.startsWith(fence))) fence = fence === undefined ? mark : undefined;
      const columns = [...line].length;
      if (fence !== undefined || columns <= MOST_COLUMNS || /^\s*\|/.test(line)) continue;
      // A URL cannot be wrapped.
      if (line.trim().split(/\s+/).length === 1) continue;
      complaints.push(`${path}:${place + 1}: ${columns} columns, more than ${MOST_COLUMNS}`);
    }
  }
  return complaints;
}

/**
 * Refuses relative links in Markdown that lead nowhere.
 * @param {File[]} files
 * @param {(path: string) => boolean} exists
 */
export function links(files, exists) {
  const complaints = [];
  for (const { path, text } of files) {
    if (!path.endsWith(".md")) continue;
    for (const [place, line] of text.split("\n").entries()) {
      for (const [, target] of line.matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)) {
        if (/^[a-z]+:/i.test(target) || exists(normalize(join(dirname(path), target)))) continue;
        complaints.push(`${path}:${place + 1}: a link to ${target}, which does not exist`);
      }
    }
  }
  return complaints;
}

/**
 * Pages that README.md must lead to. A Rust test holds the first against the configuration's types.
 */
const LINKED = ["docs/configuration.md"];

/**
 * Refuses a tree without the pages above, or a README that does not link them.
 * @param {File[]} files
 */
export function linkedPages(files) {
  const complaints = [];
  const readme = files.find(({ path }) => path === "README.md")?.text ?? "";
  for (const page of LINKED) {
    if (!files.some(({ path }) => path === page)) complaints.push(`${page}:1: the page does not exist`);
    if (!readme.includes(`](${page}`)) complaints.push(`README.md:1: no link to ${page}`);
  }
  return complaints;
}

/** The pages whose tables name a test in each row, as `file::test` or as a file of tests. */
const WITH_TESTS = ["docs/faults.md", "SECURITY.md"];

/**
 * Refuses names of tests that do not exist. An ellipsis stands for the rest of a name.
 * @param {File[]} files
 */
export function namedTests(files) {
  const lines = WITH_TESTS.flatMap((page) => {
    const text = files.find(({ path }) => path === page)?.text ?? "";
    return text.split("\n").map((line, place) => [`${page}:${place + 1}`, line]);
  });
  const rust = files.filter(({ path }) => path.endsWith(".rs"));
  const isTest = (name) => {
    const [pattern, rest] = name.endsWith("…") ? [name.slice(0, -1), "\\w*"] : [name, ""];
    const declared = new RegExp(`\\b(fn|mod) ${pattern}${rest}\\b`);
    return rust.some(({ path, text }) => path.endsWith(`/${name}.rs`) || declared.test(text));
  };
  const complaints = [];
  for (const [place, line] of lines) {
    // In a table, everything in the last column is a test; elsewhere, everything with a path is.
    const [, cell] = line.match(/^\|.*\|([^|]*)\|\s*$/) ?? [];
    const pattern = cell === undefined ? /`(?:[\w…]+::)+(\w+…?)`/g : /`(?:[\w…]+::)*(\w+…?)`/g;
    for (const [, name] of (cell ?? line).matchAll(pattern)) {
      if (!isTest(name)) complaints.push(`${place}: no test is called ${name}`);
    }
  }
  return complaints;
}

/** The page whose tables lead to files and folders of the crates. */
const MAP = "ARCHITECTURE.md";

/**
 * Refuses paths in the tables of the architecture that lead nowhere. A path counts from `crates/`,
 * or from the folder, or the folder above it, of a path before it in its row.
 * @param {File[]} files
 */
export function codePaths(files) {
  const paths = files.map(({ path }) => path).filter((path) => path.startsWith("crates/"));
  const exists = (path) => paths.some((one) => (path.endsWith("/") ? one.startsWith(path) : one === path));
  const complaints = [];
  for (const [place, line] of (files.find(({ path }) => path === MAP)?.text ?? "").split("\n").entries()) {
    const folders = new Set(["crates/"]);
    for (const [, path] of line.startsWith("|") ? line.matchAll(/`([\w/-]+(?:\/|\.rs))`/g) : []) {
      const found = [...folders].reverse().map((folder) => folder + path).find(exists);
      if (found === undefined) {
        complaints.push(`${MAP}:${place + 1}: ${path} does not exist`);
        continue;
      }
      const folder = found.slice(0, found.lastIndexOf("/") + 1);
      folders.add(folder.replace(/[^/]+\/$/, "")).add(folder);
    }
  }
  return complaints;
}

/**
 * Characters that fill four printed pages of A4 with 10 pt and margins of 15 mm, in these two pages
 * with their many tables.
 */
const MOST_CHARACTERS = 12_400;

/** Refuses an architecture and a glossary that exceed four printed pages. @param {File[]} files */
export function mapLength(files) {
  const pages = [MAP, "GLOSSARY.md"].map((page) => files.find(({ path }) => path === page)?.text ?? "");
  const characters = [...pages.join("")].length;
  if (characters <= MOST_CHARACTERS) return [];
  return [`${MAP}:1: with the glossary it has ${characters} characters, more than ${MOST_CHARACTERS} (four printed pages)`];
}

/**
 * Words that belong to the machine somebody worked on, not to the project. They are written in
 * pieces, so that this file does not contain what it refuses.
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

/** Refuses absolute paths and package mirrors of one machine. @param {File[]} files */
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
