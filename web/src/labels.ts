// Numbers and codes as people read them.

const languageNames = new Intl.DisplayNames(["en"], { type: "language" });

/** Shortest BCP 47 form of a language code: MP4 has three letters, manifests two or three. */
export function languageTag(code: string | null | undefined): string {
  if (!code) return "und";
  try {
    return new Intl.Locale(code).toString();
  } catch {
    return "und";
  }
}

export function languageLabel(tag: string): string {
  return tag === "und" ? "Unnamed language" : (languageNames.of(tag) ?? tag);
}

/** "360p · 151 kb/s"; `bandwidth` in bit/s. */
export function renditionLabel(height: number | null, bandwidth: number): string {
  const rate = bandwidth >= 1e6 ? `${(bandwidth / 1e6).toFixed(1)} Mb/s` : `${Math.round(bandwidth / 1e3)} kb/s`;
  return height ? `${height}p · ${rate}` : rate;
}

/** Bytes with a decimal unit. */
export function bytesLabel(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1e6) return `${(bytes / 1e3).toFixed(1)} kB`;
  return `${(bytes / 1e6).toFixed(2)} MB`;
}

/** Milliseconds, with a decimal where it says something. */
export function millisecondsLabel(ms: number): string {
  return ms < 10 ? `${ms.toFixed(1)} ms` : `${Math.round(ms)} ms`;
}
