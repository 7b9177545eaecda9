// What `make tidy` checks of the tree: the rules of CONTRIBUTING.md that no compiler checks. Each
// rule takes what it needs and returns its complaints, each with a file and a line, so that
// tidy.test.mjs can show that it is able to fail. `tidy.mjs FOLDER` checks another tree.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { commentWidths, docOpeners, errorSections } from "./tidy/comments.mjs";
import { edges, manifests } from "./tidy/crates.mjs";
import { codePaths, foreignWords, linkedPages, links, mapLength, markdownWidths, namedTests } from "./tidy/documents.mjs";
import { folders } from "./tidy/folders.mjs";
import { names, sizes } from "./tidy/sizes.mjs";

/** @typedef {{path: string, text: string}} File Path relative to the repository's root. */

const root = resolve(process.argv[2] ?? fileURLToPath(new URL("..", import.meta.url)));

const RULES = {
  "file size": ({ files }) => sizes(files),
  "file name": ({ files }) => names(files),
  "foreign word": ({ files }) => foreignWords(files),
  "broken link": ({ files }) => links(files, (path) => existsSync(join(root, path))),
  "code path": ({ files }) => codePaths(files),
  "length of the map": ({ files }) => mapLength(files),
  "missing page": ({ files }) => linkedPages(files),
  "named test": ({ files }) => namedTests(files),
  "Markdown width": ({ files }) => markdownWidths(files),
  "comment width": ({ files }) => commentWidths(files),
  "doc comment opener": ({ files }) => docOpeners(files),
  "errors section": ({ files }) => errorSections(files),
  "folder import": ({ files }) => folders(files),
  "crate manifest": ({ files }) => manifests(files),
  "crate import": ({ metadata }) => edges(metadata),
};

/** Returns the text files that git tracks, or would. */
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

const tree = { files: tracked(), metadata: cargoMetadata() };
let total = 0;
for (const [name, rule] of Object.entries(RULES)) {
  const complaints = rule(tree);
  for (const complaint of complaints) console.error(`${complaint} [${name}]`);
  if (complaints.length > 0) console.log(`tidy: ${complaints.length} × ${name}`);
  total += complaints.length;
}
console.log(`tidy: ${tree.files.length} files, ${total} complaints`);
process.exitCode = total === 0 ? 0 : 1;
