// Requests of the page itself, and the origin's errors in words.

/** A request that the origin refused, or did not answer. The message is for people. */
export class RequestError extends Error {}

/**
 * Requests an address of the origin.
 *
 * @throws RequestError with the sentence and the reason that the origin states.
 */
export async function request(address: string, signal: AbortSignal | null = null): Promise<Response> {
  const response = await fetch(address, { signal }).catch((error: unknown) => {
    throw new RequestError(`The origin cannot be reached: ${error instanceof Error ? error.message : String(error)}`);
  });
  if (response.ok) return response;
  throw new RequestError(`The origin's response: ${response.status}${explanation(await response.text())}`);
}

/** Returns the explanation in the body of an error, which is JSON unless a proxy has sent it. */
function explanation(body: string): string {
  try {
    const { reason, detail } = JSON.parse(body) as { reason: string; detail: string };
    return `, ${detail} (${reason})`;
  } catch {
    return "";
  }
}
