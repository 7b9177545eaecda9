// The encryption of a title, as its manifest states it.

import { manifestAddress, type Selection } from "./address";
import { request } from "./origin";
import type { ProtocolId } from "./protocols";

/** Returns the address of the origin's licences of Clear Key, which lie beside a manifest. */
export const clearKeyAddress = (manifest: string): string => new URL("keys/clearkey", manifest).href;

/** Returns scheme and key IDs in words, or null for a manifest of clear media. */
export function encryptionIn(manifest: string, protocol: ProtocolId): string | null {
  const all = (pattern: RegExp) => new Set([...manifest.matchAll(pattern)].map((match) => match[1]!.replaceAll("-", "")));
  const names: Record<string, string> = { "AES-128": "AES-128", "SAMPLE-AES": protocol === "hls-ts" ? "SAMPLE-AES" : "cbcs", "SAMPLE-AES-CTR": "cenc" };
  const schemes = [
    ...all(/mp4protection:2011" value="(\w+)"/g),
    ...[...manifest.matchAll(/#EXT-X-(?:SESSION-)?KEY:METHOD=([A-Z0-9-]+)/g)].map((match) => names[match[1]!] ?? match[1]!),
  ];
  if (schemes.length === 0) return null;
  const keys = new Set([
    ...all(/default_KID="([0-9a-f-]{36})"/g),
    ...all(/KEYID=0x([0-9a-f]{32})/g),
    ...all(/keys\/([0-9a-f]{32})\.key/g),
  ]);
  const ids = keys.size === 0 ? "" : `, key${keys.size === 1 ? "" : "s"} ${[...keys].join(", ")}`;
  return `Encrypted: ${[...new Set(schemes)].join(", ")}${ids}`;
}

/** Reads scheme and key IDs of a selection. Null if it is clear or its manifest cannot be read. */
export async function readEncryption(chosen: Selection, signal: AbortSignal): Promise<string | null> {
  try {
    const response = await request(manifestAddress(chosen), signal);
    return encryptionIn(await response.text(), chosen.protocol);
  } catch {
    return null;
  }
}
