// Smooth Streaming with Shaka Player 4, the last version that supports it, and codem-isoboxer.
// `type` in the query is the media type of a manifest in another protocol.
// With a licence URL in the query, titles are decrypted by Clear Key in place of PlayReady, which
// Chromium does not have.

/** The `pssh` box by which Clear Key asks for a key, given by the 32 digits of its ID. */
const psshOf = (kid) =>
  Uint8Array.from(
    `000000347073736801000000${"1077efecc0b24d02ace33c1e52e2fb4b"}00000001${kid}00000000`.match(/../g),
    (digits) => Number.parseInt(digits, 16),
  );

export async function open(video, manifest, failed) {
  const { shaka } = window;
  shaka.polyfill.installAll();
  const player = new shaka.Player();
  player.configure({ abr: { restrictToElementSize: false } });
  const query = new URLSearchParams(location.search);
  if (query.has("licence")) {
    const [clearKey, playReady] = ["org.w3.clearkey", "com.microsoft.playready"];
    // Shaka's own setting of clear keys writes their IDs into the init segment, as no box.
    player.configure({
      drm: {
        servers: { [clearKey]: query.get("licence"), [playReady]: query.get("licence") },
        keySystemsMapping: { [playReady]: clearKey },
        initDataTransform: () => psshOf(query.get("kid")),
      },
    });
  }
  player.addEventListener("error", ({ detail }) => failed(`Shaka Player: ${detail.code} ${JSON.stringify(detail.data)}`));
  await player.attach(video);
  // Tests of text choose a track, and look at what the player holds of it.
  video.shaka4 = player;
  // Without the type, the player would send a HEAD request and cancel it.
  await player.load(manifest, null, query.get("type") ?? "application/vnd.ms-sstr+xml");
  return {
    renditions() {
      const heights = new Set(player.getVariantTracks().map(({ height }) => height));
      return [...heights].sort((a, b) => b - a).map((height) => ({ id: String(height), dataset: { height } }));
    },
    chooseRendition(id) {
      player.configure({ abr: { enabled: false } });
      const { language } = player.getVariantTracks().find(({ active }) => active);
      const chosen = player
        .getVariantTracks()
        .find((track) => String(track.height) === id && track.language === language);
      player.selectVariantTrack(chosen, true);
    },
    languages: () => player.getAudioLanguages().map((tag) => ({ id: tag, dataset: { tag } })),
    chooseLanguage: (id) => player.selectAudioLanguage(id),
  };
}
