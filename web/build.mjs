// Bundles two pages, each into a folder of its own: index.html, and everything else under _/, each
// with a hash of its content in its name. The origin serves dist/ at /, and `latemux load --ui`
// serves dist-load/. `latemux report` fills in dist-load/report.html.

import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdir, readFile, readdir, rm, stat, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));

/** Packages whose code is only in the page of a load run. */
const OF_LOAD = ["uplot"];

await bundle("dist", "src/index.html", ["src/main.ts", "src/page.css"], (name) => !OF_LOAD.includes(name));
await bundle("dist-load", "src/load/index.html", ["src/load/load.ts", "src/load/load.css"], (name) => OF_LOAD.includes(name));

await writeReport(join(here, "dist-load"));

/**
 * Writes the page of a load run as one file. The element #report is for the data of the runs; a
 * policy allows no other script than the page's own, so that text from a server under test cannot
 * become one. The file also holds the licences of the code in it.
 */
async function writeReport(dist) {
  let text = await readFile(join(dist, "index.html"), "utf8");
  const hash = (inline) => `'sha256-${createHash("sha256").update(inline).digest("base64")}'`;
  const read = (path) => readFile(join(dist, path), "utf8");
  const [link, stylePath] = text.match(/<link rel="stylesheet" href="([^"]+)" \/>/);
  const [tag, scriptPath] = text.match(/<script type="module" src="([^"]+)"><\/script>/);
  const style = await read(stylePath);
  const script = (await read(scriptPath)).replaceAll("</script", "<\\/script");
  const policy = `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; img-src data:; base-uri 'none'; form-action 'none'`;
  const parts = [
    `<meta http-equiv="Content-Security-Policy" content="${policy}" />`,
    `<style>${style}</style>`,
    '<script type="application/json" id="report">{{data}}</script>',
    `<script type="module">${script}</script>`,
    `<script type="text/plain" id="licences">\n${await read("_/licences.txt")}</script>`,
  ];
  text = text.replace(tag, "").replace(link, () => parts.join("\n    "));
  await writeFile(join(dist, "report.html"), text);
}

async function bundle(folder, page, entryPoints, isIn) {
  const dist = join(here, folder);
  const assets = join(dist, "_");
  await rm(dist, { recursive: true, force: true });
  await mkdir(assets, { recursive: true });

  const { metafile } = await build({
    absWorkingDir: here,
    entryPoints,
    outdir: assets,
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    bundle: true,
    splitting: true,
    format: "esm",
    target: "es2022",
    minify: true,
    legalComments: "none", // gathered whole in licences.txt
    metafile: true,
    logLevel: "warning",
  });

  let text = await readFile(join(here, page), "utf8");
  for (const [output, { entryPoint }] of Object.entries(metafile.outputs)) {
    if (!entryPoint) continue;
    const name = basename(entryPoint).replace(/\.ts$/, ".js");
    text = text.replace(`{{${name}}}`, `_/${basename(output)}`);
  }
  if (text.includes("{{")) throw new Error(`${page} names an asset that was not built`);
  await writeFile(join(dist, "index.html"), text);

  await writeFile(join(assets, "licences.txt"), await licences(isIn));

  let total = 0;
  for (const name of await readdir(assets)) total += (await stat(join(assets, name))).size;
  console.log(`web/${folder}: ${(await readdir(assets)).length + 1} files, ${(total / 1e6).toFixed(2)} MB`);
}

/**
 * The licence of every package whose code may be in the bundle: all that is installed but the
 * build's own tools, and of these what `isIn`.
 */
async function licences(isIn) {
  const lock = JSON.parse(await readFile(join(here, "package-lock.json"), "utf8"));
  const tools = /node_modules\/(@?esbuild|@?typescript)(\/|$)/;
  const texts = [];
  for (const [path, { version, license }] of Object.entries(lock.packages)) {
    if (path === "" || tools.test(path) || !isIn(path.replace(/^.*node_modules\//, ""))) continue;
    const files = await readdir(join(here, path)).catch(() => []);
    const file = files.find((one) => /^licen[cs]e(\.(md|txt))?$/i.test(one));
    const text = file ? await readFile(join(here, path, file), "utf8") : `Licence: ${license}\n`;
    texts.push(`${path.replace(/^.*node_modules\//, "")} ${version} (${license})\n\n${text}`);
  }
  return texts.join(`\n${"-".repeat(100)}\n\n`);
}
