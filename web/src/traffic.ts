// What the player downloads, as the browser itself measured it (Resource Timing, level 2): the same figures for every
// player, and nothing a player could forget to tell.

export type Kind = "manifest" | "init" | "segment" | "other";

export interface Download {
  readonly url: URL;
  readonly kind: Kind;
  /** HTTP status; 0 where no whole answer came, because the player gave up or the network failed. */
  readonly status: number;
  /** Body bytes as sent, so compressed where the origin compressed. */
  readonly bytes: number;
  /** Milliseconds from request to first byte of the answer, and to its last. */
  readonly firstByte: number;
  readonly total: number;
  readonly fromCache: boolean;
}

function kindOf(url: URL): Kind {
  const name = url.pathname.slice(url.pathname.lastIndexOf("/") + 1);
  if (/(^manifest|\.(mpd|m3u8))$/i.test(name)) return "manifest";
  if (/-\d+\.(ts|m4s|dash|aac)$|^Fragments\(/.test(name)) return "segment";
  if (/\.(dash|m4s|mp4)$/.test(name)) return "init";
  return "other";
}

function download(entry: PerformanceResourceTiming): Download {
  const answered = entry.responseStart > 0;
  return {
    url: new URL(entry.name),
    kind: kindOf(new URL(entry.name)),
    status: entry.responseStatus,
    bytes: entry.encodedBodySize,
    firstByte: answered ? entry.responseStart - entry.requestStart : 0,
    total: entry.responseEnd - (answered ? entry.requestStart : entry.startTime),
    fromCache: answered && entry.transferSize === 0,
  };
}

/** Calls `seen` for each finished download under `base` (a path) until the returned function is called. */
export function watchTraffic(base: string, seen: (download: Download) => void): () => void {
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries() as PerformanceResourceTiming[]) {
      const one = download(entry);
      if (one.url.origin === location.origin && one.url.pathname.startsWith(`${base}/`)) seen(one);
    }
    // The observer needs no copy kept; a long play would fill the browser's buffer.
    performance.clearResourceTimings();
  });
  observer.observe({ type: "resource" });
  return () => observer.disconnect();
}
