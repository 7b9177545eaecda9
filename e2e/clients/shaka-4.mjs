// Smooth Streaming with Shaka Player 4, the last version that supports it, and codem-isoboxer.

export async function open(video, manifest, failed) {
  const { shaka } = window;
  shaka.polyfill.installAll();
  const player = new shaka.Player();
  player.configure({ abr: { restrictToElementSize: false } });
  player.addEventListener("error", ({ detail }) => failed(`Shaka Player: ${detail.code} ${JSON.stringify(detail.data)}`));
  await player.attach(video);
  // Without the type, the player would send a HEAD request and cancel it.
  await player.load(manifest, null, "application/vnd.ms-sstr+xml");
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
