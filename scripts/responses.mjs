#!/usr/bin/env node
// Proves that two builds of latemux send the same responses. `record` requests everything that
// players of a server's titles would, in every protocol, and writes one line for each request;
// `compare` prints what differs.
//
//   responses.mjs record http://127.0.0.1:8080/ -o FILE
//       [--title BASE]… [--titles FILE] [--bodies FOLDER]
//   responses.mjs compare BEFORE AFTER
//
// The server must run with --nginx-vod-urls. Both recordings must be made of the very same files,
// since two runs of an encoder may differ.

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { isManifest, links } from "./responses/links.mjs";

/** Requests in flight. */
const CONCURRENCY = 8;
/** Response headers that describe the connection or the moment, not the response. */
const IGNORED_HEADERS = new Set(["date", "connection", "keep-alive", "server-timing"]);
/** Of an error only these are compared: its text, and so its length, may change. */
const ERROR_HEADERS = ["allow", "content-range", "retry-after"];
/** Path of the list of titles. */
const LIBRARY = "/api/library";
/**
 * Milliseconds for which a title with a part that cannot be read may change: nothing of it may be
 * cached until then.
 */
const SETTLING = 61_000;
/** Differences that are printed. */
const MOST_PRINTED = 100;

const FILTERS = ['type=="audio"', 'type=="video"&&MaxHeight<=200', 'type=="textstream"||systemLanguage=="fra"'];
const CLIPS = ["vbegin=3&vend=7", "vbegin=2.5", "vend=5"];

const filter = (expression) => `filter=${encodeURIComponent(expression)}`;

/**
 * Returns the paths that start a crawl of a title, whose base is percent-encoded and begins with a
 * slash.
 */
export function entryPoints(base) {
  const manifests = [".mpd", ".mpd?mpd_segment_template=number", ".m3u8", ".m3u8?hls_fmp4", "Manifest", ".f4m"];
  const queries = [...FILTERS.map(filter), ...CLIPS, `${filter(FILTERS[1])}&${CLIPS[0]}`];
  const native = manifests.flatMap((manifest) => {
    const more = manifest.includes("?") ? "&" : "?";
    return [manifest, ...queries.map((query) => `${manifest}${more}${query}`)];
  });
  native.push("x-thumbs.vtt", ".m3u8?hls_minimum_fragment_length=6", ".m3u8?hls_fmp4&hls_minimum_fragment_length=6&vbegin=3");
  const nginxVod = [
    ...["master.m3u8", "master.m3u8?hls_fmp4", "index.m3u8", "index-v1-a1.m3u8?hls_fmp4", "iframes-v1.m3u8"],
    ...["tracks/a1/master.m3u8", "clipFrom/3000/clipTo/7000/master.m3u8", `master.m3u8?${filter(FILTERS[0])}`],
  ].map((rest) => `/hls${base}/${rest}`);
  nginxVod.push(...["manifest.mpd", "clipFrom/3000/clipTo/7000/manifest.mpd"].map((rest) => `/dash${base}/${rest}`));
  nginxVod.push(...["manifest", "clipTo/7000/manifest"].map((rest) => `/mss${base}/${rest}`));
  nginxVod.push(...["manifest.f4m", "clipFrom/3000/manifest.f4m"].map((rest) => `/hds${base}/${rest}`));
  return [...native.map((rest) => `${base}/${rest}`), ...nginxVod];
}

/** Returns paths of a title that are refused. */
const refusedPaths = (base) => [
  ...["filter=type==", "filter=bitrate%3E1", "filter=type==%22cheese%22", "vbegin=9&vend=3", "vbegin=100000", "vbegin=x"].map(
    (query) => `${base}/.mpd?${query}`,
  ),
  ...[".m3u8?hls_minimum_fragment_length=x", ".m3u8?hls_minimum_fragment_length=9999", ".m3u9", "x-video=1.m3u8"].map(
    (rest) => `${base}/${rest}`,
  ),
  ...["dash/x-video=1-0.dash", "dash/x-video=1.dash", "x-video=1-0.ts", "x-video=1-1.ts"].map((rest) => `${base}/${rest}`),
  ...["seg-0-v1.ts", "seg-9999-v1.ts", "seg-1-v9.ts", "seg-1-q1.ts", "clipFrom/x/master.m3u8"].map(
    (rest) => `/hls${base}/${rest}`,
  ),
  ...["fragment-1-v1-a1.m4s", "fragment-99999-v1.m4s"].map((rest) => `/dash${base}/${rest}`),
  `${base}/QualityLevels(1)/Fragments(video=0)`,
  `${base}/x-video=1-Seg1-Frag1`,
];

/** Requests outside of any title. */
const WITHOUT_TITLE = [
  ...["/nothing.mp4/.mpd", "/nothing/.m3u8", "/nothing.ism/Manifest", "/../x/.mpd", "/%2e%2e/x/.mpd", "/a%2fb/.mpd"],
  ...["/nothing", "/hls/nothing.mp4/master.m3u8", "/hls/master.m3u8", "/healthz", "/healthz/ready", LIBRARY],
].map((path) => ({ method: "GET", path }));

/** Returns conditional and partial requests of a resource whose ETag is known. */
const probes = (path, etag) => {
  const of = (method, headers) => ({ method, path, headers });
  return [
    of("HEAD"),
    ...["bytes=0-99", "bytes=-50", "bytes=10-", "bytes=99999999999-", "bytes=0-1,5-6"].map((range) => of("GET", { range })),
    of("GET", { "if-none-match": etag }),
    of("GET", { "if-none-match": '"other"' }),
    of("GET", { "if-match": '"other"' }),
    of("GET", { "if-range": etag, range: "bytes=5-9" }),
    of("GET", { "if-range": '"other"', range: "bytes=5-9" }),
    of("GET", { "accept-encoding": "gzip" }),
  ];
};

/** Returns the name of a request: what a line of a recording begins with. */
const nameOf = ({ method, path, headers = {} }) =>
  [method, path, ...Object.entries(headers).map(([name, value]) => `[${name}: ${value}]`)].join(" ");

/** Describes a response on one line. */
export function describe({ status, headers, body, method }) {
  if (status >= 400) {
    const kept = ERROR_HEADERS.filter((name) => name in headers).map((name) => `${name}=${headers[name]}`);
    return [status, ...kept, `reason=${method === "HEAD" ? "-" : reasonOf(body)}`].join("\t");
  }
  const kept = Object.keys(headers).filter((name) => !IGNORED_HEADERS.has(name)).sort();
  const digest = createHash("sha256").update(body).digest("hex");
  return [status, ...kept.map((name) => `${name}=${headers[name]}`), `sha256=${digest}`].join("\t");
}

/** Removes the name of the storage, which version 0.1.0 states: a title may move to another. */
function hideStorage(response) {
  const library = JSON.parse(response.body.toString());
  delete library.storage;
  response.body = Buffer.from(JSON.stringify(library));
  response.headers["content-length"] = response.body.length;
}

function reasonOf(body) {
  try {
    return JSON.parse(body.toString()).reason;
  } catch {
    return "none";
  }
}

/**
 * Requests everything there is of a server's titles; resolves to the sorted lines of the recording.
 */
export async function record(server, { titles = [], bodies, wait = settled } = {}) {
  const agent = new Agent({ keepAlive: true, maxSockets: CONCURRENCY });
  const lines = new Map();
  const queue = [];
  const add = (one) => {
    const name = nameOf(one);
    if (lines.has(name)) return;
    lines.set(name, undefined);
    queue.push({ ...one, name });
  };
  /**
   * Paths to probe, and the ETags of those fetched. Which of the two is known first depends on
   * timing.
   */
  const probed = new Set();
  const etags = new Map();
  const probe = (path) => {
    if (probed.has(path) && etags.has(path)) for (const one of probes(path, etags.get(path))) add(one);
  };
  const addProbed = (path) => {
    probed.add(path);
    add({ method: "GET", path });
    probe(path);
  };
  const handle = async ({ name, ...one }) => {
    const response = await send(server, agent, one);
    if (one.path === LIBRARY) hideStorage(response);
    lines.set(name, describe({ ...response, method: one.method }));
    const { "content-type": contentType, etag } = response.headers;
    if (one.method !== "GET" || one.headers !== undefined || response.status !== 200) return;
    etags.set(one.path, etag ?? '"none"');
    probe(one.path);
    if (!isManifest(contentType)) return;
    if (bodies !== undefined) {
      writeFileSync(join(bodies, createHash("sha256").update(response.body).digest("hex")), response.body);
    }
    const found = links(one.path, contentType, response.body);
    // An init segment and a media segment stand for all others: their conditions go through the
    // same code.
    const isProbed = !one.path.includes("?") && probed.has(one.path);
    for (const [place, path] of found.entries()) {
      if (isProbed && place < 2) addProbed(path);
      else add({ method: "GET", path });
    }
  };

  const listed = await basesOf(server, agent);
  const bases = new Set([...listed, ...titles.map(encodeBase)]);
  await settle(bases, (base) => send(server, agent, { method: "GET", path: `${base}/.mpd` }), wait);
  for (const base of bases) {
    for (const path of entryPoints(base)) {
      if (path.includes("?")) add({ method: "GET", path });
      else addProbed(path);
    }
    for (const path of refusedPaths(base)) add({ method: "GET", path });
    for (const method of ["OPTIONS", "POST"]) add({ method, path: `${base}/.mpd` });
  }
  for (const one of WITHOUT_TITLE) add(one);

  const worker = async () => {
    while (queue.length > 0) await handle(queue.shift());
  };
  // A worker ends at an empty queue, although others may still add to it.
  while (queue.length > 0) await Promise.all(Array.from({ length: CONCURRENCY }, worker));
  agent.destroy();
  return [...lines].map(([name, line]) => `${name}\t${line}`).sort();
}

/**
 * Has every title loaded, and waits until none changes any more. A title that may still change says
 * so by `no-store`, so that a recording would depend on the time of its requests.
 */
async function settle(bases, request, wait) {
  let isUnsettled = false;
  for (const base of bases) {
    const { status, headers } = await request(base);
    isUnsettled ||= status === 200 && headers["cache-control"] === "no-store";
  }
  if (isUnsettled) await wait();
}

const settled = () => new Promise((resolve) => setTimeout(resolve, SETTLING));

/** Returns the paths of all titles that a server lists, in all folders. */
async function basesOf(server, agent) {
  const bases = [];
  const wanted = [LIBRARY];
  for (const path of wanted) {
    const { body } = await send(server, agent, { method: "GET", path });
    const { folder = "", folders = [], titles, next = null } = JSON.parse(body.toString());
    bases.push(...titles.map(({ dash }) => dash.replace(/\/\.mpd$/, "")));
    wanted.push(...folders.map((one) => `${LIBRARY}?${new URLSearchParams({ folder: one.folder })}`));
    if (next !== null) wanted.push(`${LIBRARY}?${new URLSearchParams({ folder, after: next })}`);
  }
  return bases;
}

/** Percent-encodes a title's base as a path. */
const encodeBase = (base) => `/${base.replace(/^\//, "").split("/").map(encodeURIComponent).join("/")}`.replaceAll("%2C", ",");

function send(server, agent, { method, path, headers }) {
  const { hostname, port } = new URL(server);
  return new Promise((resolve, reject) => {
    const sent = request({ hostname, port, method, path, headers, agent }, (response) => {
      const chunks = [];
      response.on("data", (chunk) => chunks.push(chunk));
      response.once("error", (error) => reject(new Error(`${method} ${path}: ${error.message}`)));
      response.once("end", () =>
        resolve({ status: response.statusCode, headers: response.headers, body: Buffer.concat(chunks) }),
      );
    });
    sent.once("error", (error) => reject(new Error(`${method} ${path}: ${error.message}`)));
    sent.end();
  });
}

/**
 * Compares two recordings, each a list of lines; returns what differs and how many requests both
 * have.
 */
export function compare(before, after) {
  const read = (lines) =>
    new Map(lines.filter((line) => line !== "").map((line) => {
      const [name, ...fields] = line.split("\t");
      return [name, fields];
    }));
  const [old, new_] = [read(before), read(after)];
  const differences = [];
  let compared = 0;
  for (const [name, fields] of old) {
    const others = new_.get(name);
    if (others === undefined) {
      differences.push(`only before: ${name}`);
      continue;
    }
    compared += 1;
    const gone = fields.filter((field) => !others.includes(field));
    const come = others.filter((field) => !fields.includes(field));
    if (gone.length + come.length > 0) differences.push(`${name}: ${gone.join(" ")} -> ${come.join(" ")}`);
  }
  for (const name of new_.keys()) if (!old.has(name)) differences.push(`only after: ${name}`);
  return { compared, differences };
}

async function main() {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: {
      output: { type: "string", short: "o" },
      title: { type: "string", multiple: true, default: [] },
      titles: { type: "string" },
      bodies: { type: "string" },
    },
  });
  const [command, ...operands] = positionals;
  const readLines = (path) => readFileSync(path, "utf8").split("\n").filter((line) => line !== "");
  if (command === "record" && operands.length === 1 && values.output !== undefined) {
    const titles = [...values.title, ...(values.titles === undefined ? [] : readLines(values.titles))];
    if (values.bodies !== undefined) mkdirSync(values.bodies, { recursive: true });
    const lines = await record(operands[0], { titles, bodies: values.bodies });
    writeFileSync(values.output, `${lines.join("\n")}\n`);
    const ok = lines.filter((line) => /\t2\d\d\t/.test(line)).length;
    console.log(`responses: ${lines.length} requests recorded, ${ok} of them successful`);
  } else if (command === "compare" && operands.length === 2) {
    const { compared, differences } = compare(...operands.map(readLines));
    for (const difference of differences.slice(0, MOST_PRINTED)) console.log(difference);
    if (differences.length > MOST_PRINTED) console.log(`… and ${differences.length - MOST_PRINTED} more`);
    console.log(`responses: ${compared} requests compared, ${differences.length} differences`);
    // Two empty recordings prove nothing.
    process.exitCode = differences.length === 0 && compared > 0 ? 0 : 1;
  } else {
    console.error("usage: responses.mjs record URL -o FILE [--title BASE]… [--titles FILE] [--bodies FOLDER]");
    console.error("       responses.mjs compare BEFORE AFTER");
    process.exitCode = 2;
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
