// Formats numbers and language codes for display.

const languageNames = new Intl.DisplayNames(["en"], { type: "language" });

/**
 * Returns the shortest BCP 47 form of a language code. MP4 codes have three letters, those of
 * manifests two or three.
 */
export function languageTag(code: string | null | undefined): string {
  if (!code) return "und";
  try {
    return new Intl.Locale(code).toString();
  } catch {
    return "und";
  }
}

export function languageLabel(tag: string): string {
  return tag === "und" ? "Unknown language" : (languageNames.of(tag) ?? tag);
}

/** Returns a label such as "360p · 151 kb/s"; `bandwidth` in bit/s. */
export function renditionLabel(height: number | null, bandwidth: number): string {
  const rate = bandwidth >= 1e6 ? `${(bandwidth / 1e6).toFixed(1)} Mb/s` : `${Math.round(bandwidth / 1e3)} kb/s`;
  return height ? `${height}p · ${rate}` : rate;
}

/** Returns a number of bytes with a decimal unit. */
export function bytesLabel(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1e6) return `${(bytes / 1e3).toFixed(1)} kB`;
  return `${(bytes / 1e6).toFixed(2)} MB`;
}

/** Returns milliseconds, with one decimal below 10 ms. */
export function millisecondsLabel(ms: number): string {
  return ms < 10 ? `${ms.toFixed(1)} ms` : `${Math.round(ms)} ms`;
}
