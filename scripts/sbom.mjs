/**
 * Prints what is in a release, as SPDX 2.3 in JSON: `node scripts/sbom.mjs TARGET…`. These are the
 * crates that are linked into the binary for these targets, and the npm packages that are bundled
 * into its web pages.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

/** Returns the packages that `root` is linked with, by the output of `cargo metadata`. */
export function linkedCrates(metadata, root) {
  const nodes = new Map(metadata.resolve.nodes.map((node) => [node.id, node]));
  const packages = new Map(metadata.packages.map((found) => [found.id, found]));
  const pending = [metadata.packages.find((found) => found.name === root).id];
  const linked = new Set();
  while (pending.length > 0) {
    const id = pending.pop();
    if (linked.has(id)) continue;
    linked.add(id);
    for (const dependency of nodes.get(id).deps) {
      // Neither tests nor build scripts are part of the binary. A procedural macro is none either.
      const isProgram = packages.get(dependency.pkg).targets.every((target) => target.kind.includes("proc-macro"));
      if (dependency.dep_kinds.some((kind) => kind.kind === null) && !isProgram) pending.push(dependency.pkg);
    }
  }
  return [...linked].map((id) => packages.get(id));
}

/** Returns the npm packages that a lock file installs and that are not only for development. */
export function bundledPackages(lock) {
  return Object.entries(lock.packages)
    .filter(([path, found]) => path.startsWith("node_modules/") && !found.dev && !found.optional)
    .map(([path, found]) => ({ name: path.replace(/^.*node_modules\//, ""), ...found }));
}

function element(name, version, license, purl) {
  return {
    name,
    SPDXID: `SPDXRef-${purl.replace(/^pkg:/, "").replace(/[^A-Za-z0-9.-]+/g, "-")}`,
    versionInfo: version,
    downloadLocation: "NOASSERTION",
    filesAnalyzed: false,
    // Older crates write "MIT/Apache-2.0".
    licenseDeclared: license?.replace(/\s*\/\s*/g, " OR ") ?? "NOASSERTION",
    externalRefs: [{ referenceCategory: "PACKAGE-MANAGER", referenceType: "purl", referenceLocator: purl }],
  };
}

/** Returns the document. `seconds` is the time of the commit, so that two builds print the same. */
export function document(crates, npm, seconds) {
  const packages = [
    ...crates.map((found) => element(found.name, found.version, found.license, `pkg:cargo/${found.name}@${found.version}`)),
    ...npm.map((found) =>
      element(found.name, found.version, found.license, `pkg:npm/${found.name.replace("@", "%40")}@${found.version}`)),
  ].sort((a, b) => (a.SPDXID < b.SPDXID ? -1 : 1));
  const root = packages.find((found) => found.name === "latemux");
  return {
    spdxVersion: "SPDX-2.3",
    dataLicense: "CC0-1.0",
    SPDXID: "SPDXRef-DOCUMENT",
    name: `latemux-${root.versionInfo}`,
    documentNamespace: `https://spdx.org/spdxdocs/latemux-${root.versionInfo}-${seconds}`,
    creationInfo: { created: new Date(seconds * 1000).toISOString().replace(".000", ""), creators: ["Tool: latemux-sbom"] },
    documentDescribes: [root.SPDXID],
    packages,
    relationships: packages
      .filter((found) => found !== root)
      .map((found) => ({
        spdxElementId: root.SPDXID, relationshipType: "DEPENDS_ON", relatedSpdxElement: found.SPDXID,
      })),
  };
}

function main(targets) {
  const crates = new Map();
  for (const target of targets) {
    const text = execFileSync("cargo", ["metadata", "--locked", "--format-version=1", `--filter-platform=${target}`], {
      maxBuffer: 1 << 28,
    });
    for (const found of linkedCrates(JSON.parse(text), "latemux")) crates.set(found.id, found);
  }
  const npm = bundledPackages(JSON.parse(readFileSync("web/package-lock.json", "utf8")));
  const seconds = Number(execFileSync("git", ["log", "-1", "--format=%ct"], { encoding: "utf8" }));
  process.stdout.write(`${JSON.stringify(document([...crates.values()], npm, seconds), null, 1)}\n`);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) main(process.argv.slice(2));
