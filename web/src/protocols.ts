// Which protocols the page offers, and which players read each.

import type { OpenSession } from "./session";

export type ProtocolId = "dash" | "hls-ts" | "hls-cmaf" | "smooth";
export type PlayerId = "dash.js" | "hls.js" | "shaka" | "browser";

interface Protocol {
  readonly label: string;
  readonly detail: string;
  /** What follows the title's address in the manifest's. */
  readonly manifest: string;
  /** The first is taken where none is asked for. */
  readonly players: readonly PlayerId[];
}

export const protocols: Readonly<Record<ProtocolId, Protocol>> = {
  dash: { label: "DASH", detail: "CMAF segments", manifest: "/.mpd", players: ["dash.js", "shaka"] },
  "hls-ts": { label: "HLS", detail: "TS segments", manifest: "/.m3u8", players: ["hls.js", "shaka", "browser"] },
  "hls-cmaf": {
    label: "HLS",
    detail: "CMAF segments",
    manifest: "/.m3u8?hls_fmp4",
    players: ["hls.js", "shaka", "browser"],
  },
  smooth: { label: "Smooth", detail: "ISM fragments", manifest: "/Manifest", players: ["dash.js"] },
};

/** What no player in a browser reads, to be opened elsewhere. */
export const elsewhere: readonly Pick<Protocol, "label" | "detail" | "manifest">[] = [
  { label: "HDS", detail: "F4F fragments", manifest: "/.f4m" },
];

interface Player {
  readonly label: string;
  /** Loaded when first asked for: the page itself stays small. */
  readonly load: () => Promise<OpenSession>;
}

export const players: Readonly<Record<PlayerId, Player>> = {
  "dash.js": { label: "dash.js", load: async () => (await import("./players/dash-js")).open },
  "hls.js": { label: "hls.js", load: async () => (await import("./players/hls-js")).open },
  shaka: { label: "Shaka Player", load: async () => (await import("./players/shaka")).open },
  browser: { label: "The browser itself", load: async () => (await import("./players/browser")).open },
};

/** Whether this browser can play with `player` at all. */
export function supported(player: PlayerId): boolean {
  if (player === "browser") return document.createElement("video").canPlayType("application/vnd.apple.mpegurl") !== "";
  return "MediaSource" in window || "ManagedMediaSource" in window;
}

export const isProtocol = (text: string | null): text is ProtocolId => text !== null && Object.hasOwn(protocols, text);

export const isPlayer = (text: string | null): text is PlayerId => text !== null && Object.hasOwn(players, text);
