// Finds the URLs that a player of a manifest would request: playlists, init segments and media
// segments. The readers here share no code with latemux, and follow each format's standard only as
// far as latemux writes it.

/** The start of URLs that a player does not fetch by HTTP, such as `skd:` and `data:` of keys. */
const OTHER_SCHEME = /^(?!https?:)[a-z][a-z0-9+.-]*:/i;

/**
 * Returns the URLs in a manifest, resolved against its own; none for a body that is no manifest.
 */
export function links(url, contentType, body) {
  const read = READERS.find(({ type }) => type.test(contentType ?? ""))?.read;
  if (read === undefined) return [];
  const found = read(body.toString("utf8")).filter((link) => !OTHER_SCHEME.test(link));
  return [...new Set(found.map((link) => resolve(link, url)))];
}

/** Returns true if a Content-Type is that of a manifest. */
export const isManifest = (contentType) => READERS.some(({ type }) => type.test(contentType ?? ""));

/** Resolves a link against the path and query of the manifest that holds it. */
function resolve(link, url) {
  const { pathname, search } = new URL(link, new URL(url, "http://server.invalid"));
  return pathname + search;
}

const READERS = [
  { type: /dash\+xml/, read: dash },
  { type: /mpegurl/, read: hls },
  { type: /ms-sstr\+xml/, read: smooth },
  { type: /f4m/, read: hds },
];

/**
 * Reads an MPD (ISO/IEC 23009-1 §5.3.9): templates with a timeline, by time or by number. Those of
 * pictures have no init segment.
 */
function dash(text) {
  const found = [];
  for (const set of elements(parseXml(text), "AdaptationSet")) {
    for (const representation of elements(set, "Representation")) {
      const template = child(representation, "SegmentTemplate") ?? child(set, "SegmentTemplate");
      if (template === undefined) continue;
      const fill = (pattern, values) => pattern.replace(/\$(\w+)\$/g, (all, name) => values[name] ?? all);
      const RepresentationID = representation.attributes.id;
      const { initialization } = template.attributes;
      if (initialization !== undefined) found.push(fill(initialization, { RepresentationID }));
      let number = Number(template.attributes.startNumber ?? 1);
      for (const time of timeline(elements(template, "S"), "r", (repeat) => Number(repeat ?? 0) + 1)) {
        found.push(fill(template.attributes.media, { RepresentationID, Time: time, Number: number }));
        number += 1;
      }
    }
  }
  return found;
}

/** Reads a multivariant or media playlist (RFC 8216): its URI lines and URI attributes. */
function hls(text) {
  const lines = text.split(/\r?\n/);
  const uris = lines.filter((line) => line !== "" && !line.startsWith("#"));
  const attributes = [...text.matchAll(/^#.*\bURI="([^"]*)"/gm)].map(([, uri]) => uri);
  return [...attributes, ...uris];
}

/** Reads a Smooth Streaming client manifest ([MS-SSTR] §2.2.2). */
function smooth(text) {
  const found = [];
  for (const stream of elements(parseXml(text), "StreamIndex")) {
    const times = [...timeline(elements(stream, "c"), "r", (repeat) => Number(repeat ?? 1))];
    for (const level of elements(stream, "QualityLevel")) {
      const url = stream.attributes.Url.replace("{bitrate}", level.attributes.Bitrate);
      found.push(...times.map((time) => url.replace("{start time}", time)));
    }
  }
  return found;
}

/** Reads an F4M manifest with inline bootstrap information. */
function hds(text) {
  const root = parseXml(text);
  const bootstraps = new Map(
    elements(root, "bootstrapInfo").map(({ attributes, content }) => [attributes.id, Buffer.from(content, "base64")]),
  );
  return elements(root, "media").flatMap(({ attributes: { url, bootstrapInfoId } }) => {
    const bootstrap = url.replace(/(\?.*)?$/, ".abst$1");
    return [bootstrap, ...fragmentNumbers(bootstraps.get(bootstrapInfoId)).map((number) => `${url}Seg1-Frag${number}`)];
  });
}

/**
 * Reads the numbers of all fragments from an `abst` box with one segment run (Adobe F4V 10.1
 * §2.11.2).
 */
function fragmentNumbers(abst) {
  const runs = abst.indexOf("afrt") + 4;
  // Version and flags, the timescale, the quality entries (none) and the count of entries come
  // first.
  const first = abst.readUInt32BE(runs + 13);
  // Version and flags, the quality entries (none), the count of entries and the first segment come
  // first.
  const last = abst.readUInt32BE(abst.indexOf("asrt") + 4 + 13);
  return Array.from({ length: Math.max(last - first + 1, 0) }, (_, place) => first + place);
}

/**
 * Yields the start of each segment of a timeline of `t`, `d` and a repeat count. Times can exceed
 * 2^53.
 */
function* timeline(entries, repeat, count) {
  let time = 0n;
  for (const [place, { attributes }] of entries.entries()) {
    if (attributes.t !== undefined) time = BigInt(attributes.t);
    const duration = BigInt(attributes.d ?? BigInt(entries[place + 1]?.attributes.t ?? time) - time);
    for (let left = count(attributes[repeat]); left > 0; left -= 1) {
      yield String(time);
      time += duration;
    }
  }
}

/** Parses XML without CDATA into a tree of `{name, attributes, children, content}`. */
export function parseXml(text) {
  const root = { name: "", attributes: {}, children: [], content: "" };
  const open = [root];
  for (const [, close, name, attributes, empty, content] of text.matchAll(
    /<(?:[?!][^>]*|(\/?)([\w:.-]+)((?:\s+[\w:.-]+="[^"]*")*)\s*(\/?))>([^<]*)/g,
  )) {
    if (close === "/") open.pop();
    else if (name !== undefined) {
      const element = { name, attributes: {}, children: [], content: unescape(content).trim() };
      for (const [, key, value] of attributes.matchAll(/([\w:.-]+)="([^"]*)"/g)) element.attributes[key] = unescape(value);
      open.at(-1).children.push(element);
      if (empty !== "/") open.push(element);
    }
  }
  return root;
}

const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };
const unescape = (text) => text.replace(/&(\w+);/g, (all, name) => ENTITIES[name] ?? all);

const child = (element, name) => element.children.find((one) => one.name === name);

/** Returns all descendants of a name, in document order. */
function elements(element, name) {
  return element.children.flatMap((one) => (one.name === name ? [one, ...elements(one, name)] : elements(one, name)));
}
