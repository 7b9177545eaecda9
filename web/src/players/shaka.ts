// DASH and HLS with Shaka Player.

import shaka from "shaka-player/dist/shaka-player.compiled-es2021.js";
import { clearKeyAddress } from "../encryption";
import { languageLabel, languageTag, renditionLabel } from "../labels";
import type { OpenSession } from "../session";

shaka.polyfill.installAll();

export const open: OpenSession = async (video, manifest, listener) => {
  const player = new shaka.Player();
  // By default, a rendition disappears from the menu if a busy machine drops its frames.
  player.configure({ abr: { droppedFrames: false } });
  const { LICENSE } = shaka.net.NetworkingEngine.RequestType;
  // The address in the manifest is relative, and Shaka Player would take it as one of this page.
  player.getNetworkingEngine()?.registerRequestFilter((type, licence) => {
    if (type === LICENSE && !licence.uris[0]?.startsWith("data:")) licence.uris = [clearKeyAddress(manifest)];
  });
  let closed = false;

  const failed = (error: unknown) => {
    if (closed) return;
    const { code, category, data, severity } = error as shaka.util.Error;
    const name = Object.entries(shaka.util.Error.Code).find(([, value]) => value === code)?.[0] ?? String(error);
    const isNetwork = category === shaka.util.Error.Category.NETWORK;
    // The data of a network error begin with the URL and the status; the rest is the response.
    const details = (isNetwork ? data.slice(0, 2) : data).filter((one: unknown) => ["string", "number"].includes(typeof one));
    listener.failed({
      message: `Shaka Player: ${[`${name} (${category}.${code})`, ...details].join(", ")}`,
      url: isNetwork ? String(data[0]) : undefined,
      fatal: severity !== shaka.util.Error.Severity.RECOVERABLE,
    });
  };
  player.addEventListener("error", (event) => failed((event as unknown as { detail: unknown }).detail));
  for (const change of ["adaptation", "variantchanged", "trackschanged", "textchanged"]) {
    player.addEventListener(change, () => listener.changed());
  }
  await player.attach(video);
  // Not awaited, so that the session can be closed while the manifest is loading.
  player.load(manifest).then(() => closed || listener.ready(), failed);

  const automatic = (): boolean => player.getConfiguration().abr.enabled;
  return {
    renditions() {
      return player
        .getVideoTracks()
        .sort((a, b) => b.bandwidth - a.bandwidth)
        .map((track) => ({
          id: `${track.width}x${track.height}@${track.bandwidth}`,
          label: renditionLabel(track.height, track.bandwidth),
          height: track.height,
          active: track.active,
        }));
    },
    automatic,
    chooseRendition(id) {
      player.configure({ abr: { enabled: id === null } });
      const chosen = player.getVideoTracks().find((one) => `${one.width}x${one.height}@${one.bandwidth}` === id);
      // Clearing the buffer shows the choice at once.
      if (chosen) player.selectVideoTrack(chosen, true);
    },
    languages() {
      return player.getAudioTracks().map((track, index) => {
        const tag = languageTag(track.language);
        return { id: String(index), tag, label: languageLabel(tag), active: track.active };
      });
    },
    chooseLanguage(id) {
      const chosen = player.getAudioTracks()[Number(id)];
      if (chosen) player.selectAudioTrack(chosen);
    },
    subtitles() {
      return player.getTextTracks().map((track) => {
        const tag = languageTag(track.language);
        const label = track.label ?? languageLabel(tag);
        return { id: String(track.id), tag, label, active: track.active };
      });
    },
    chooseSubtitles(id) {
      player.selectTextTrack(player.getTextTracks().find((track) => String(track.id) === id) ?? null);
    },
    playing() {
      const variant = player.getVariantTracks().find((track) => track.active);
      const tracks = [
        [variant?.videoCodec, variant?.videoBandwidth],
        [variant?.audioCodec, variant?.audioBandwidth],
      ] as const;
      return tracks.flatMap(([codec, bitrate]) => (codec ? [{ codec, bitrate: bitrate ?? null }] : []));
    },
    async close() {
      closed = true;
      await player.destroy();
    },
  };
};
