// MPDs against the schema of DASH (ISO/IEC 23009-1), and key documents against that of CPIX. The
// schemas are not in this repository. LATEMUX_SCHEMA names the folder with DASH-MPD.xsd, xlink.xsd,
// cpix.xsd and what that imports; without it, and without lxml for Python, these tests are skipped.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { runLatemux, startLatemux, startOrigin } from "../lib/origin.mjs";
import { missing, run } from "../lib/tools.mjs";

const file = (path) => fileURLToPath(new URL(path, import.meta.url));
const schema = join(process.env.LATEMUX_SCHEMA ?? file("../../../shared/schema"), "DASH-MPD.xsd");
const python = process.env.LATEMUX_PYTHON ?? file("../.venv/bin/python3");
const noSchema = existsSync(schema) ? false : "neither LATEMUX_SCHEMA nor the folder beside the repository has DASH-MPD.xsd";
const skip = noSchema || (await missing(python, "-c", "import lxml.etree")) || (await missing("ffmpeg", "-version"));

/** Prints a line for each error of the MPDs after the schema. */
const VALIDATE = `
import os, sys
from lxml import etree
class Beside(etree.Resolver):
    def resolve(self, url, _, context):
        path = os.path.join(os.path.dirname(sys.argv[1]), url.rsplit("/", 1)[-1])
        return self.resolve_filename(path, context) if os.path.exists(path) else None
parser = etree.XMLParser(load_dtd=True, resolve_entities=True, huge_tree=True, no_network=True)
parser.resolvers.add(Beside())
schema = etree.XMLSchema(etree.parse(sys.argv[1], parser))
for path in sys.argv[2:]:
    if not schema.validate(etree.parse(path)):
        print(path, *schema.error_log)
`;

const QUERIES = ["", "?mpd_segment_template=number", "?vbegin=5&vend=11", "?filter=type==%22video%22", "?text=stpp"];

let library;
let origin;
before(async () => {
  if (skip) return;
  library = await mkdtemp(join(tmpdir(), "latemux-schema-"));
  const samples = file("../../samples/library");
  const titles = ["lighthouse.mp4", "ferry.mp4", "buoy.mp4", "harbour/video-180p.mp4", "harbour/video-360p.mp4", "harbour/audio-eng.mp4"];
  await mkdir(join(library, "harbour"));
  for (const title of titles) await copyFile(join(samples, title), join(library, title));
  await writeFile(join(library, "harbour/eng.sdh.srt"), "1\n00:00:01,000 --> 00:00:08,000\nHello\n");
  // Audio with a label, and audio for the blind.
  const audio = ["-map", "0:a", "-map", "0:a", "-c", "copy", "-metadata:s:a:0", "title=Main <sound>"];
  const described = ["-disposition:a:1", "visual_impaired", join(library, "harbour/audio-more.mp4")];
  await run("ffmpeg", "-v", "error", "-i", join(library, "harbour/audio-eng.mp4"), ...audio, ...described);
  const video = '<video src="video-180p.mp4" systemBitrate="150000"><param name="trackID" value="1"/>';
  const captions = '<param name="captions" value="CC1=eng;SERVICE1=spa"/></video>';
  await writeFile(join(library, "harbour/captions.ism"), `<smil><body><switch>${video}${captions}</switch></body></smil>`);
  await runLatemux("thumbnails", join(library, "harbour/video-180p.mp4"), "--every", "2s", "--tiles", "3x2");
  origin = await startOrigin({ library });
});
after(async () => {
  await origin?.stop();
  if (library) await rm(library, { recursive: true });
});

describe("MPDs", { skip }, () => {
  it("are valid", { timeout: 120_000 }, async () => {
    const paths = [];
    for (const title of ["harbour", "harbour/captions.ism", "lighthouse.mp4", "ferry.mp4", "buoy.mp4"]) {
      for (const [place, query] of QUERIES.entries()) {
        const response = await fetch(`${origin.address}${title}/.mpd${query}`);
        assert.equal(response.status, 200);
        const path = join(library, `${title.replaceAll(/[./]/g, "-")}-${place}.xml`);
        const text = await response.text();
        // The schema must see the sets that are not for playing at normal speed.
        if (title === "harbour") assert.match(text, /guidelines\/trickmode[\s\S]*guidelines\/thumbnail_tile/);
        if (title.endsWith(".ism")) assert.match(text, /cea-608:2015[\s\S]*cea-708:2015[\s\S]*<Role/);
        if (title === "harbour" && query === "?text=stpp") assert.match(text, /stpp\.ttml\.im1t/);
        // Text that began before a clip is no part of it.
        if (title === "harbour" && !/filter|vbegin/.test(query)) {
          assert.match(text, /<Label>Main &lt;sound&gt;<[\s\S]*<Accessibility[\s\S]*value="caption"/);
        }
        await writeFile(path, text);
        paths.push(path);
      }
    }
    const { stdout } = await run(python, "-c", VALIDATE, schema, ...paths);
    assert.equal(stdout, "");
  });

  it("are refused by the schema if they are wrong", { timeout: 60_000 }, async () => {
    const text = await (await fetch(`${origin.address}harbour/.mpd`)).text();
    const path = join(library, "wrong.xml");
    await writeFile(path, text.replace("thumbnail_tile", "thumbnail tile").replace('contentType="image"', 'contentKind="image"'));
    const { stdout } = await run(python, "-c", VALIDATE, schema, path);
    assert.match(stdout, /contentKind/);
  });
});

const cpix = join(dirname(schema), "cpix.xsd");

describe("Key documents", { skip: skip || (existsSync(cpix) ? false : "there is no cpix.xsd") }, () => {
  it("are valid as they are sent to key servers, and as they are read", { timeout: 60_000 }, async () => {
    const folder = await mkdtemp(join(tmpdir(), "latemux-cpix-"));
    const documents = [];
    const data =
      "<cpix:Data><pskc:Secret><pskc:PlainValue>AAECAwQFBgcICQoLDA0ODw==</pskc:PlainValue></pskc:Secret></cpix:Data>";
    const keys = createServer(async (request, response) => {
      let body = "";
      for await (const part of request) body += part;
      const filled = body.replace(/(<cpix:ContentKey [^>]*)\/>/g, `$1>${data}</cpix:ContentKey>`);
      documents.push(body, filled);
      response.end(filled);
    });
    await new Promise((resolve) => keys.listen(0, "127.0.0.1", resolve));
    const config = join(folder, "drm.toml");
    const rule = 'titles = ["**"]\ndash = "cenc"\nhls_fmp4 = "cbcs"\nsystems = ["widevine", "playready", "fairplay"]\nfairplay.iv = "kid"';
    const server = `keys.speke = "http://127.0.0.1:${keys.address().port}/"\nkeys.contract = "video-3,audio-2"`;
    await writeFile(config, `[[drm]]\n${rule}\n${server}\n`);
    const samples = file("../../samples/library");
    const encrypting = await startLatemux(["serve", samples, "--listen", "127.0.0.1:0", "--config", config]);
    try {
      const response = await fetch(`${encrypting.address}harbour/.mpd`);
      assert.equal(response.status, 200, await response.text());
      // A request for each scheme.
      assert.equal(documents.length, 4);
      const paths = documents.map((_, place) => join(folder, `${place}.xml`));
      await Promise.all(paths.map((path, place) => writeFile(path, documents[place])));
      assert.equal((await run(python, "-c", VALIDATE, cpix, ...paths)).stdout, "");
      // The schema refuses a document without the ID of a key.
      await writeFile(paths[0], documents[0].replace(/ kid="[^"]*"/, ""));
      assert.notEqual((await run(python, "-c", VALIDATE, cpix, paths[0])).stdout, "");
    } finally {
      await encrypting.stop();
      keys.close();
      await rm(folder, { recursive: true });
    }
  });
});
