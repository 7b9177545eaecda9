// What is played, as a link to the page says it and as the origin's URL table does.

import { isPlayer, isProtocol, protocols, supported, type PlayerId, type ProtocolId } from "./protocols";

export interface Selection {
  /** The title's base: a media file, a folder or a comma list, without leading or trailing slash. */
  readonly title: string;
  readonly protocol: ProtocolId;
  readonly player: PlayerId;
}

/** The nearest selection that can be played: a player that reads the protocol, in a browser that runs it. */
export function selection(title: string, protocol: ProtocolId, wanted: PlayerId | null): Selection {
  const able = protocols[protocol].players.filter(supported);
  const player = wanted !== null && able.includes(wanted) ? wanted : able[0];
  return { title, protocol, player: player ?? protocols[protocol].players[0]! };
}

/** Reads `?title=…&protocol=…&player=…`; null where no title is named. */
export function fromQuery(query: string): Selection | null {
  const fields = new URLSearchParams(query);
  const title = titleFromText(fields.get("title") ?? "");
  const protocol = fields.get("protocol");
  const player = fields.get("player");
  if (title === "") return null;
  return selection(title, isProtocol(protocol) ? protocol : "dash", isPlayer(player) ? player : null);
}

export function toQuery({ title, protocol, player }: Selection): string {
  return `?${new URLSearchParams({ title, protocol, player })}`;
}

/** Takes what people paste (a path, a URL of this server, or a manifest's address) down to the title's base. */
export function titleFromText(text: string): string {
  let path = text.trim();
  if (path.startsWith(`${location.origin}/`)) path = decodeURI(new URL(path).pathname);
  return path
    .replace(/\/([^/]*\.(mpd|m3u8|f4m)|manifest)(\?.*)?$/i, "")
    .replace(/^\/+|\/+$/g, "");
}

/** Where all of a title's manifests and segments lie, as a path. */
export function basePath(title: string): string {
  return `/${title.split("/").map(encodeURIComponent).join("/")}`;
}

/** The manifest's full address, to be copied into any player. */
export function manifestAddress({ title, protocol }: Selection): string {
  return addressOf(title, protocols[protocol].manifest);
}

/** The full address of a manifest that a title has, by what follows the title's own. */
export function addressOf(title: string, manifest: string): string {
  return location.origin + basePath(title) + manifest;
}
