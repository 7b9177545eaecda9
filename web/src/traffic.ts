// The player's downloads, as the browser measured them (Resource Timing, level 2). The figures are
// complete and are measured in the same way for every player.

export type Kind = "manifest" | "init" | "segment" | "other";

export interface Download {
  readonly url: URL;
  readonly kind: Kind;
  /**
   * HTTP status; 0 if there is no complete response because the player cancelled the request or the
   * network failed.
   */
  readonly status: number;
  /** Body bytes as sent: compressed if the origin compressed them. */
  readonly bytes: number;
  /** Milliseconds from the request to the first and to the last byte of the response. */
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
  const hasResponse = entry.responseStart > 0;
  return {
    url: new URL(entry.name),
    kind: kindOf(new URL(entry.name)),
    status: entry.responseStatus,
    bytes: entry.encodedBodySize,
    firstByte: hasResponse ? entry.responseStart - entry.requestStart : 0,
    total: entry.responseEnd - (hasResponse ? entry.requestStart : entry.startTime),
    fromCache: hasResponse && entry.transferSize === 0,
  };
}

/**
 * Calls `onDownload` for each completed download below `base` (a path) until the returned function
 * is called.
 */
export function watchTraffic(base: string, onDownload: (download: Download) => void): () => void {
  // The page's own requests came before.
  const start = performance.now();
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries() as PerformanceResourceTiming[]) {
      if (entry.startTime < start) continue;
      const one = download(entry);
      if (one.url.origin === location.origin && one.url.pathname.startsWith(`${base}/`)) onDownload(one);
    }
    // The observer has its copy. Without this, long playback would fill the browser's buffer.
    performance.clearResourceTimings();
  });
  observer.observe({ type: "resource" });
  return () => observer.disconnect();
}
