// The command `tidy.mjs` applies every rule to a tree, and fails if one of them complains.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, describe, it } from "node:test";
import { fileURLToPath } from "node:url";

const command = fileURLToPath(new URL("tidy.mjs", import.meta.url));
const long = "word ".repeat(30);

/** A workspace of one crate, with which no rule finds fault. */
const GOOD = {
  "Cargo.toml": `[workspace]
members = ["crates/text"]
resolver = "3"

[workspace.package]
version = "0.1.0"
edition = "2024"
rust-version = "1.85"
license = "MIT"
publish = false
readme = "README.md"

[workspace.lints.rust]
missing_docs = "warn"
`,
  "Cargo.lock": 'version = 4\n\n[[package]]\nname = "latemux-text"\nversion = "0.1.0"\n',
  "crates/text/Cargo.toml": `[package]
name = "latemux-text"
description = "A crate."
keywords = ["a"]
categories = ["parsing"]
version.workspace = true
edition.workspace = true
rust-version.workspace = true
license.workspace = true
publish.workspace = true
readme.workspace = true

[lints]
workspace = true
`,
  "crates/text/src/lib.rs": "//! Reads text.\n",
  "README.md": "[keys](docs/configuration.md)\n",
  "docs/configuration.md": "# Configuration\n",
};

/** For each rule: a file that breaks it, or replaces one above by one that does. */
const BAD = {
  "file size": ["crates/text/src/long.rs", "// x\n".repeat(801)],
  "file name": ["crates/text/src/utils.rs", ""],
  "foreign word": ["notes.txt", `see ${["/ro", "ot/x"].join("")}\n`],
  "broken link": ["docs/a.md", "[a](b.md)\n"],
  "code path": ["ARCHITECTURE.md", "| `text/src/none.rs` |\n"],
  "length of the map": ["GLOSSARY.md", "word\n".repeat(4000)],
  "missing page": ["README.md", "No link.\n"],
  "named test": ["docs/faults.md", "| Fault | `waits::for_nothing` |\n"],
  "Markdown width": ["docs/a.md", `${long}\n`],
  "comment width": ["a.sh", `# ${long}\n`],
  "doc comment opener": ["crates/text/src/lib.rs", "//! What it is.\n"],
  "errors section": ["crates/text/src/lib.rs", "//! Reads.\n//!\n//! # Errors\n//! As above.\n"],
  "folder import": ["crates/cache/src/memory/a.rs", "use crate::disk::Disk;\n"],
  "crate manifest": ["Cargo.toml", GOOD["Cargo.toml"].replace('missing_docs = "warn"\n', "")],
  "crate import": ["crates/text/Cargo.toml", `${GOOD["crates/text/Cargo.toml"]}\n[dependencies]\nlatemux-index = { path = "../index" }\n`],
};

/** What the rules on imports need beside their bad file. */
const BESIDE = {
  "folder import": { "crates/cache/src/disk.rs": "pub struct Disk;\n", "crates/cache/src/lib.rs": "" },
  "crate import": {
    "Cargo.toml": GOOD["Cargo.toml"].replace('members = ["crates/text"]', 'members = ["crates/text", "crates/index"]'),
    "Cargo.lock":
      'version = 4\n\n[[package]]\nname = "latemux-index"\nversion = "0.1.0"\n\n' +
      '[[package]]\nname = "latemux-text"\nversion = "0.1.0"\ndependencies = [\n "latemux-index",\n]\n',
    "crates/index/Cargo.toml": GOOD["crates/text/Cargo.toml"].replace("latemux-text", "latemux-index"),
    "crates/index/src/lib.rs": "//! Reads an index.\n",
  },
};

describe("the command", () => {
  const trees = [];
  after(() => trees.forEach((tree) => rmSync(tree, { recursive: true })));

  /** Runs the command on a new tree with these files, of which git tracks the first. */
  const run = (files) => {
    const tree = mkdtempSync(join(tmpdir(), "latemux-tidy-"));
    trees.push(tree);
    execFileSync("git", ["init", "-q", tree]);
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(tree, path)), { recursive: true });
      writeFileSync(join(tree, path), text);
    }
    execFileSync("git", ["add", Object.keys(files)[0]], { cwd: tree });
    const { status, stdout, stderr } = spawnSync("node", [command, tree], { encoding: "utf8" });
    const rules = [...stderr.matchAll(/\[([\w ]+)\]$/gm)].map(([, rule]) => rule);
    return { status, stdout, stderr, rules: [...new Set(rules)] };
  };

  it("finds no fault with a good tree", () => {
    const { status, stdout, stderr } = run(GOOD);
    assert.equal(status, 0, stderr);
    assert.match(stdout, /^tidy: 6 files, 0 complaints$/m);
  });

  it("is tested with each of its rules", () => {
    const rules = [...readFileSync(command, "utf8").matchAll(/^ {2}"([^"]+)": \(/gm)].map(([, rule]) => rule);
    assert.deepEqual(Object.keys(BAD), rules);
  });

  for (const [rule, [path, text]] of Object.entries(BAD)) {
    it(`fails for: ${rule}`, () => {
      const { status, stdout, stderr, rules } = run({ ...GOOD, ...BESIDE[rule], [path]: text });
      assert.equal(status, 1, stderr);
      assert.deepEqual(rules, [rule], stderr);
      assert.match(stdout, new RegExp(`^tidy: \\d+ × ${rule}$`, "m"));
    });
  }
});
