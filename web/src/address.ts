// The selection that is played, as the query of a link to the page and as the URL of a manifest.

import { isPlayer, isProtocol, protocols, supported, type PlayerId, type ProtocolId } from "./protocols";

export interface Selection {
  /**
   * The title's base: a media file, a folder or a comma list, without leading or trailing slash.
   */
  readonly title: string;
  /**
   * The part of the title, as a query without `?`: `vbegin=9&vend=21`, `filter=…`. Empty for the
   * whole title.
   */
  readonly part: string;
  readonly protocol: ProtocolId;
  readonly player: PlayerId;
}

/**
 * Returns a selection that can be played: with the wanted player if it supports the protocol and
 * runs in this browser, else with another one.
 */
export function selection(
  { title, part }: Pick<Selection, "title" | "part">,
  protocol: ProtocolId,
  wanted: PlayerId | null,
): Selection {
  const able = protocols[protocol].players.filter(supported);
  const player = wanted !== null && able.includes(wanted) ? wanted : able[0];
  return { title, part, protocol, player: player ?? protocols[protocol].players[0]! };
}

/** Reads `?title=…&part=…&protocol=…&player=…`; null if no title is named. */
export function fromQuery(query: string): Selection | null {
  const fields = new URLSearchParams(query);
  const { title, part } = fromText(fields.get("title") ?? "");
  const protocol = fields.get("protocol");
  const player = fields.get("player");
  if (title === "") return null;
  const named = { title, part: fields.get("part") ?? part };
  return selection(named, isProtocol(protocol) ? protocol : "dash", isPlayer(player) ? player : null);
}

/** Returns the query of a link to a selection. The library beside it shows `folder`. */
export function toQuery({ title, part, protocol, player }: Selection, folder: string): string {
  return `?${new URLSearchParams({ ...(folder && { folder }), title, ...(part && { part }), protocol, player })}`;
}

/** Reads the folder that the library shows. */
export function folderOf(query: string): string {
  return new URLSearchParams(query).get("folder")?.replace(/^\/+|\/+$/g, "") ?? "";
}

/** Returns the query of a link to a folder, while nothing is selected. */
export function folderQuery(folder: string): string {
  return folder === "" ? "/" : `?${new URLSearchParams({ folder })}`;
}

/**
 * Reads the title's base and the selected part from pasted text: a path, a URL of this server, or a
 * manifest's URL.
 */
export function fromText(text: string): Pick<Selection, "title" | "part"> {
  let path = text.trim();
  let query = "";
  const manifest = /\/(?:[^/]*\.(?:mpd|m3u8|f4m)|manifest)(?:\?(.*))?$/i;
  if (path.startsWith(`${location.origin}/`)) {
    const url = new URL(path);
    [path, query] = [decodeURI(url.pathname), url.search.slice(1)];
  } else {
    query = manifest.exec(path)?.[1] ?? "";
  }
  // The selected protocol determines the container.
  const part = query.split("&").filter((option) => option !== "" && !/^hls_fmp4(=|$)/.test(option));
  return { title: path.replace(manifest, "").replace(/^\/+|\/+$/g, ""), part: part.join("&") };
}

/** Returns the path below which all of a title's manifests and segments are. */
export function basePath(title: string): string {
  return `/${title.split("/").map(encodeURIComponent).join("/")}`;
}

/** Returns the URL of the selection's manifest, to be copied into any player. */
export function manifestAddress(chosen: Selection): string {
  return addressOf(chosen, protocols[chosen.protocol].manifest);
}

/** Returns the URL of a title's manifest; `manifest` is the part after the title's base. */
export function addressOf({ title, part }: Pick<Selection, "title" | "part">, manifest: string): string {
  const query = part === "" ? "" : `${manifest.includes("?") ? "&" : "?"}${part}`;
  return location.origin + basePath(title) + manifest + query;
}
