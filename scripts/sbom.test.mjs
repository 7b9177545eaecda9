import assert from "node:assert/strict";
import { test } from "node:test";
import { bundledPackages, document, linkedCrates } from "./sbom.mjs";

const crate = (name, kind = "lib") => ({
  id: `${name}#1`, name, version: "1.0.0", license: "MIT/Apache-2.0", targets: [{ kind: [kind] }],
});
const node = (name, ...deps) => ({
  id: `${name}#1`, deps: deps.map(([dep, kind]) => ({ pkg: `${dep}#1`, dep_kinds: [{ kind }] })),
});
const metadata = {
  packages: [
    crate("latemux", "bin"), crate("core"), crate("macros", "proc-macro"), crate("deep"), crate("tests"), crate("cc"),
  ],
  resolve: {
    nodes: [
      node("latemux", ["core", null], ["macros", null], ["tests", "dev"], ["cc", "build"]),
      node("core", ["deep", null]),
      node("macros"), node("deep", ["core", null]), node("tests"), node("cc"),
    ],
  },
};

test("only crates that are linked are listed", () => {
  const names = linkedCrates(metadata, "latemux").map((found) => found.name).sort();
  assert.deepEqual(names, ["core", "deep", "latemux"]);
});

test("only npm packages of the pages are listed", () => {
  const lock = {
    packages: {
      "": { name: "web" },
      "node_modules/hls.js": { version: "1.6.0", license: "Apache-2.0" },
      "node_modules/a/node_modules/@b/c": { version: "2.0.0" },
      "node_modules/vite": { version: "7.0.0", dev: true },
    },
  };
  assert.deepEqual(bundledPackages(lock).map((found) => `${found.name} ${found.version}`), ["hls.js 1.6.0", "@b/c 2.0.0"]);
});

test("the document names each package once, with a licence and an address of its registry", () => {
  const made = document(linkedCrates(metadata, "latemux"), [{ name: "@b/c", version: "2.0.0" }], 1_700_000_000);
  assert.equal(made.creationInfo.created, "2023-11-14T22:13:20Z");
  assert.equal(new Set(made.packages.map((found) => found.SPDXID)).size, 4);
  for (const found of made.packages) assert.match(found.SPDXID, /^SPDXRef-[A-Za-z0-9.-]+$/);
  const core = made.packages.find((found) => found.name === "core");
  assert.equal(core.licenseDeclared, "MIT OR Apache-2.0");
  assert.equal(made.packages.find((found) => found.name === "@b/c").externalRefs[0].referenceLocator, "pkg:npm/%40b/c@2.0.0");
  assert.deepEqual(made.relationships.map((found) => found.relatedSpdxElement).includes(core.SPDXID), true);
  assert.deepEqual(made.documentDescribes, ["SPDXRef-cargo-latemux-1.0.0"]);
});
