// The protocols that the page offers, and the players that support each.

import type { OpenSession } from "./session";

export type ProtocolId = "dash" | "hls-ts" | "hls-cmaf" | "smooth";
export type PlayerId = "dash.js" | "hls.js" | "shaka" | "browser";

interface Protocol {
  readonly label: string;
  readonly detail: string;
  /** The part of a manifest's URL after the title's base. */
  readonly manifest: string;
  /** The codecs that the protocol carries and its players support; all if it is absent. */
  readonly codecs?: RegExp;
  /** The players that support the protocol. The first is the default. */
  readonly players: readonly PlayerId[];
}

export const protocols: Readonly<Record<ProtocolId, Protocol>> = {
  dash: { label: "DASH", detail: "CMAF segments", manifest: "/.mpd", players: ["dash.js", "shaka"] },
  // The origin sends CMAF segments if TS cannot carry the title.
  "hls-ts": { label: "HLS", detail: "TS segments", manifest: "/.m3u8", players: ["hls.js", "shaka", "browser"] },
  "hls-cmaf": {
    label: "HLS",
    detail: "CMAF segments",
    manifest: "/.m3u8?hls_fmp4",
    players: ["hls.js", "shaka", "browser"],
  },
  smooth: {
    label: "Smooth",
    detail: "ISM fragments",
    manifest: "/Manifest",
    codecs: /^(avc|mp4a\.40)/,
    players: ["dash.js"],
  },
};

/** Protocols that no player in a browser supports. */
export const elsewhere: readonly Pick<Protocol, "label" | "detail" | "manifest">[] = [
  { label: "HDS", detail: "F4F fragments", manifest: "/.f4m" },
];

interface Player {
  readonly label: string;
  /** Loads the player's code, which keeps the page itself small. */
  readonly load: () => Promise<OpenSession>;
}

export const players: Readonly<Record<PlayerId, Player>> = {
  "dash.js": { label: "dash.js", load: async () => (await import("./players/dash-js")).open },
  "hls.js": { label: "hls.js", load: async () => (await import("./players/hls-js")).open },
  shaka: { label: "Shaka Player", load: async () => (await import("./players/shaka")).open },
  browser: { label: "Native (browser)", load: async () => (await import("./players/browser")).open },
};

/** Returns true if `player` runs in this browser. */
export function supported(player: PlayerId): boolean {
  if (player === "browser") return document.createElement("video").canPlayType("application/vnd.apple.mpegurl") !== "";
  return "MediaSource" in window || "ManagedMediaSource" in window;
}

export const isProtocol = (text: string | null): text is ProtocolId => text !== null && Object.hasOwn(protocols, text);

export const isPlayer = (text: string | null): text is PlayerId => text !== null && Object.hasOwn(players, text);
