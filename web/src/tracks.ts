// The tracks of a title, and why some of them cannot be played on the page.

import { addressOf, type Selection } from "./address";
import { encryptionIn } from "./encryption";
import { languageLabel, languageTag, renditionLabel } from "./labels";
import { request } from "./origin";
import { protocols, type PlayerId, type ProtocolId } from "./protocols";

export interface Track {
  readonly kind: "video" | "audio";
  /** The codec as RFC 6381 states it. */
  readonly codec: string;
  /** What tells the track from others of its kind: "360p · 151 kb/s", "English". */
  readonly label: string;
}

/** What the DASH manifest of a title states. */
export interface Contents {
  readonly tracks: readonly Track[];
  /** Scheme and key IDs of its DASH segments in words, or null if they are clear. */
  readonly encryption: string | null;
  /** True if there are pictures for a seek bar. */
  readonly hasThumbnails: boolean;
}

/** A sentence about tracks that cannot be played. */
export interface Obstacle {
  readonly message: string;
  /** True if it bars all video, or all tracks of a title without video. */
  readonly isFatal: boolean;
}

/** Codec families: how their strings begin, their name, and what a decoder decodes at least. */
const FAMILIES: readonly (readonly [begin: RegExp, name: string, least: string])[] = [
  [/^avc[1-4]/, "AVC", "avc1.42E00A"],
  [/^(hvc1|hev1)/, "HEVC", "hvc1.1.6.L30.90"],
  [/^(dvh1|dvhe|dva1|dvav)/, "Dolby Vision", "dvh1.05.01"],
  [/^av01/, "AV1", "av01.0.00M.08"],
  [/^vp0?9/, "VP9", "vp09.00.10.08"],
  [/^mp4a\.(40\.34|6[9b])/i, "MP3", "mp4a.6B"],
  [/^mp4a\.(40|6[678])/, "AAC", "mp4a.40.2"],
  [/^(dts|mp4a\.a9)/i, "DTS", "dtsc"],
  [/^ac-3/, "AC-3", "ac-3"],
  [/^ec-3/, "E-AC-3", "ec-3"],
  [/^ac-4/, "AC-4", "ac-4.02.01.00"],
  [/^opus/i, "Opus", "opus"],
  [/^flac/i, "FLAC", "flac"],
];

/**
 * Reads the video and audio tracks of a title, and how they are encrypted, from its DASH manifest,
 * which carries every codec.
 *
 * @throws RequestError if the origin refuses the title.
 */
export async function readTracks(title: Pick<Selection, "title" | "part">, signal?: AbortSignal): Promise<Contents> {
  const text = await (await request(addressOf(title, protocols.dash.manifest), signal)).text();
  const manifest = new DOMParser().parseFromString(text, "application/xml");
  const tracks = [...manifest.querySelectorAll("Representation")].flatMap((representation): Track[] => {
    const set = representation.parentElement!;
    // Sets of I-frames repeat the video.
    if (set.querySelector(":scope > EssentialProperty[schemeIdUri$=trickmode]")) return [];
    const stated = (name: string) => representation.getAttribute(name) ?? set.getAttribute(name) ?? "";
    const kind = stated("mimeType").split("/")[0];
    const codec = stated("codecs");
    const bandwidth = Number(stated("bandwidth"));
    if (kind === "video") return [{ kind, codec, label: renditionLabel(Number(stated("height")) || null, bandwidth) }];
    return kind === "audio" ? [{ kind, codec, label: languageLabel(languageTag(set.getAttribute("lang"))) }] : [];
  });
  const hasThumbnails = manifest.querySelector("AdaptationSet[contentType=image]") !== null;
  return { tracks, encryption: encryptionIn(text, "dash"), hasThumbnails };
}

/** Returns the type of the media that a player hands to the browser. */
function mediaType(kind: Track["kind"], codec: string, protocol: ProtocolId, player: PlayerId): string {
  // hls.js and Shaka Player take MP3 out of TS as it is, and make MP4 of all else.
  const isPlainMp3 = protocol === "hls-ts" && player !== "browser" && /^mp4a\.(40\.34|6[9b])/i.test(codec);
  return isPlainMp3 ? "audio/mpeg" : `${kind}/mp4; codecs="${codec}"`;
}

/** Returns true if this browser decodes media of a type for a player. */
function decodes(type: string, player: PlayerId): boolean {
  if (player === "browser") return document.createElement("video").canPlayType(type) !== "";
  const source = window.MediaSource ?? (window as { ManagedMediaSource?: typeof MediaSource }).ManagedMediaSource;
  return source?.isTypeSupported(type) ?? false;
}

/** Returns why a track cannot be played, or null if it can. */
function reason({ kind, codec }: Track, protocol: ProtocolId, player: PlayerId): string | null {
  const [, name, least] = FAMILIES.find(([begin]) => begin.test(codec)) ?? [null, codec, codec];
  if (!decodes(mediaType(kind, codec, protocol, player), player)) {
    return decodes(mediaType(kind, least, protocol, player), player)
      ? `this browser decodes ${name}, but not this profile or level (${codec})`
      : `this browser does not decode ${name} (${codec})`;
  }
  const { label, detail, codecs } = protocols[protocol];
  return codecs?.test(codec) === false ? `the players on this page do not play ${name} in ${label} (${detail})` : null;
}

/** Returns what cannot be played of a title: nothing, or a sentence for each kind and reason. */
export function obstacles(tracks: readonly Track[], protocol: ProtocolId, player: PlayerId): Obstacle[] {
  return (["video", "audio"] as const).flatMap((kind) => {
    const ofKind = tracks.filter((track) => track.kind === kind);
    const labels = new Map<string, Set<string>>();
    let barred = 0;
    for (const track of ofKind) {
      const why = reason(track, protocol, player);
      if (why === null) continue;
      barred += 1;
      labels.set(why, (labels.get(why) ?? new Set()).add(track.label));
    }
    const isWhole = barred === ofKind.length;
    const isFatal = isWhole && (kind === "video" || ofKind.length === tracks.length);
    return [...labels].map(([why, names]) => {
      const which = isWhole ? "" : ` (${[...names].join(", ")})`;
      return { isFatal, message: `The ${kind}${which} cannot be played here: ${why}.` };
    });
  });
}
