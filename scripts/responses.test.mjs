// responses.mjs follows the links of every kind of manifest, and its comparison fails where a
// response differs.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { links } from "./responses/links.mjs";
import { compare, describe as describeResponse, record } from "./responses.mjs";

const script = fileURLToPath(new URL("responses.mjs", import.meta.url));

const MPD = `<?xml version="1.0"?><MPD><Period><AdaptationSet>
  <SegmentTemplate initialization="dash/x-$RepresentationID$.dash" media="dash/x-$RepresentationID$-$Time$.dash?a=1&amp;b=2">
    <SegmentTimeline><S t="10" d="4" r="1"/><S d="2"/></SegmentTimeline></SegmentTemplate>
  <Representation id="v=1"/></AdaptationSet></Period></MPD>`;
const MPD_BY_NUMBER = `<MPD><Period><AdaptationSet><Representation id="a">
  <SegmentTemplate startNumber="3" initialization="i-$RepresentationID$" media="$Number$.m4s">
    <SegmentTimeline><S t="0" d="4" r="1"/></SegmentTimeline></SegmentTemplate>
  </Representation></AdaptationSet></Period></MPD>`;
const MPD_OF_PICTURES = `<MPD><Period><AdaptationSet><SegmentTemplate startNumber="1" media="images/x-$RepresentationID$-$Number$.jpg">
  <SegmentTimeline><S t="0" d="9" r="1"/></SegmentTimeline></SegmentTemplate><Representation id="thumbs=1"/></AdaptationSet></Period></MPD>`;
const HLS = `#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,URI="a.m3u8"\n#EXT-X-STREAM-INF:BANDWIDTH=1\nv.m3u8?x=1\n`;
const SMOOTH = `<SmoothStreamingMedia><StreamIndex Url="QualityLevels({bitrate})/Fragments(video={start time})">
  <QualityLevel Bitrate="7"/><QualityLevel Bitrate="9"/><c t="5" d="10"/><c d="3"/></StreamIndex></SmoothStreamingMedia>`;

/** Bootstrap information of fragments `first` to `last`. */
function abst(first, last) {
  const u32 = (...values) => Buffer.concat(values.map((value) => Buffer.from([0, 0, 0, value])));
  const asrt = Buffer.concat([u32(29), Buffer.from("asrt"), u32(0), Buffer.from([0]), u32(1, 1, last)]);
  const run = [u32(0), u32(100), Buffer.from([0]), u32(2), u32(first), Buffer.alloc(8), u32(4)];
  return Buffer.concat([Buffer.from("abst...."), asrt, Buffer.from([1]), u32(50), Buffer.from("afrt"), ...run]).toString("base64");
}
const HDS = `<manifest><bootstrapInfo profile="named" id="b1">${abst(2, 4)}</bootstrapInfo>
  <media bootstrapInfoId="b1" url="x-video=1-"><metadata>AA==</metadata></media></manifest>`;

describe("links", () => {
  const of = (type, body, url = "/t/.m") => links(url, type, Buffer.from(body));

  it("of an MPD with times", () => {
    const segment = (time) => `/t/dash/x-v=1-${time}.dash?a=1&b=2`;
    assert.deepEqual(of("application/dash+xml", MPD), ["/t/dash/x-v=1.dash", segment(10), segment(14), segment(18)]);
  });

  it("of an MPD with numbers", () => {
    assert.deepEqual(of("application/dash+xml", MPD_BY_NUMBER), ["/t/i-a", "/t/3.m4s", "/t/4.m4s"]);
  });

  it("of an MPD with pictures, which have no init segment", () => {
    assert.deepEqual(of("application/dash+xml", MPD_OF_PICTURES), ["/t/images/x-thumbs=1-1.jpg", "/t/images/x-thumbs=1-2.jpg"]);
  });

  it("of a playlist with keys, without those of other schemes", () => {
    const keys = ["skd://1", "data:text/plain;base64,AA==", "keys/1.key"].map((uri) => `#EXT-X-KEY:METHOD=SAMPLE-AES,URI="${uri}"`);
    const playlist = ["#EXTM3U", ...keys, "#EXTINF:4,", "v-1.ts"].join("\n");
    assert.deepEqual(of("application/vnd.apple.mpegurl", playlist), ["/t/keys/1.key", "/t/v-1.ts"]);
  });

  it("of a playlist, in lines and in attributes", () => {
    assert.deepEqual(of("application/vnd.apple.mpegurl", HLS, "/t/k/.m3u8"), ["/t/k/a.m3u8", "/t/k/v.m3u8?x=1"]);
  });

  it("of a Smooth Streaming manifest, for each quality level", () => {
    const of7and9 = [7, 9].flatMap((rate) => [5, 15].map((time) => `/t/QualityLevels(${rate})/Fragments(video=${time})`));
    assert.deepEqual(of("application/vnd.ms-sstr+xml", SMOOTH), of7and9);
  });

  it("of an F4M manifest, with the bootstrap information", () => {
    const fragments = [2, 3, 4].map((number) => `/t/x-video=1-Seg1-Frag${number}`);
    assert.deepEqual(of("application/f4m+xml", HDS), ["/t/x-video=1-.abst", ...fragments]);
  });

  it("of media: none", () => {
    assert.deepEqual(of("video/mp4", "x.m4s"), []);
  });
});

describe("a recorded response", () => {
  const response = { status: 200, headers: { etag: '"a"', date: "now" }, body: Buffer.from("x"), method: "GET" };
  const error = (text, status = 404) => ({ status, headers: {}, body: Buffer.from(text), method: "GET" });

  it("changes with its body, its headers and its status, but not with the date", () => {
    const line = describeResponse(response);
    assert.notEqual(describeResponse({ ...response, body: Buffer.from("y") }), line);
    assert.notEqual(describeResponse({ ...response, headers: { etag: '"b"' } }), line);
    assert.notEqual(describeResponse({ ...response, status: 206 }), line);
    assert.equal(describeResponse({ ...response, headers: { etag: '"a"', date: "later" } }), line);
  });

  it("of an error changes with the status and the reason, but not with the text", () => {
    const line = describeResponse(error('{"reason":"no_such_track","message":"a"}'));
    assert.equal(describeResponse(error('{"reason":"no_such_track","message":"b"}')), line);
    assert.notEqual(describeResponse(error('{"reason":"no_such_title","message":"a"}')), line);
    assert.notEqual(describeResponse(error('{"reason":"no_such_track","message":"a"}', 410)), line);
  });
});

describe("a comparison", () => {
  const before = ["GET /a\t200\tsha256=1", "GET /b\t200\tsha256=2"];

  it("finds no difference between equal recordings", () => {
    assert.deepEqual(compare(before, [...before]), { compared: 2, differences: [] });
  });

  it("finds changed, missing and added responses", () => {
    const after_ = ["GET /a\t200\tsha256=9", "GET /c\t200\tsha256=2"];
    const { compared, differences } = compare(before, after_);
    assert.equal(compared, 1);
    assert.deepEqual(differences, ["GET /a: sha256=1 -> sha256=9", "only before: GET /b", "only after: GET /c"]);
  });

  describe("on the command line", () => {
    const folder = mkdtempSync(join(tmpdir(), "responses-"));
    after(() => rmSync(folder, { recursive: true }));
    const exitCode = (one, other) => {
      for (const [name, lines] of [["one", one], ["other", other]]) writeFileSync(join(folder, name), `${lines.join("\n")}\n`);
      return spawnSync(process.execPath, [script, "compare", join(folder, "one"), join(folder, "other")]).status;
    };

    it("succeeds for equal recordings and fails for others", () => {
      assert.equal(exitCode(before, before), 0);
      assert.equal(exitCode(before, [before[0], "GET /b\t200\tsha256=3"]), 1);
      assert.equal(exitCode(before, before.slice(1)), 1);
    });

    it("fails if nothing was recorded", () => {
      assert.equal(exitCode([], []), 1);
    });
  });
});

/** Returns a page of a library with a title in a folder, on the second page of that folder. */
function libraryPage(storage, search) {
  const query = new URLSearchParams(search);
  const titles = query.get("after") === "more" ? [{ dash: "/film/.mpd" }] : [];
  const page = { storage, folder: query.get("folder") ?? "", folders: [], titles, next: null };
  if (!query.has("folder")) page.folders.push({ folder: "a b", name: "a b" });
  else if (!query.has("after")) page.next = "more";
  return JSON.stringify(page);
}

describe("a recording", () => {
  it("begins once no title may change any more", async () => {
    let isSettled = false;
    const server = createServer((request, response) => {
      const isLibrary = request.url.startsWith("/api/library");
      response.setHeader("content-type", isLibrary ? "application/json" : "text/plain");
      response.setHeader("cache-control", isSettled ? "max-age=60" : "no-store");
      response.end(isLibrary ? '{"titles":[{"dash":"/film/.mpd"}]}' : "text");
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    try {
      const wait = async () => void (isSettled = true);
      const lines = await record(`http://127.0.0.1:${server.address().port}/`, { wait });
      assert.ok(lines.length > 10);
      assert.deepEqual(lines.filter((line) => line.includes("no-store")), []);
    } finally {
      server.close();
    }
  });

  it("holds every segment of every manifest, sorted, and is the same each time", async () => {
    let storage = "here";
    const server = createServer((request, response) => {
      const { pathname, search } = new URL(request.url, "http://x");
      const reply = (type, body) => {
        response.setHeader("content-type", type);
        response.setHeader("etag", '"e"');
        response.end(body);
      };
      if (pathname === "/api/library") reply("application/json", libraryPage(storage, search));
      else if (/^\/(film|extra%20one)\/\.mpd$/.test(pathname) && search === "") reply("application/dash+xml", MPD);
      else if (pathname.endsWith(".dash")) reply("video/mp4", pathname);
      else {
        response.statusCode = 404;
        response.end('{"reason":"no_such_url"}');
      }
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    try {
      const url = `http://127.0.0.1:${server.address().port}/`;
      const [one, other] = [await record(url, { titles: ["extra one"] }), await record(url, { titles: ["extra one"] })];
      assert.deepEqual(one, other);
      assert.deepEqual(one, [...one].sort());
      for (const base of ["/film", "/extra%20one"]) {
        for (const time of [10, 14, 18]) {
          assert.ok(one.some((line) => line.startsWith(`GET ${base}/dash/x-v=1-${time}.dash?a=1&b=2\t200`)), `${base} ${time}`);
        }
        assert.ok(one.some((line) => line.startsWith(`HEAD ${base}/dash/x-v=1.dash\t200`)), "an init segment is probed");
      }
      assert.ok(one.some((line) => line.includes("\t404\treason=no_such_url")));
      storage = "elsewhere";
      assert.deepEqual(await record(url, { titles: ["extra one"] }), one, "the storage's name does not count");
    } finally {
      server.close();
    }
  });
});
