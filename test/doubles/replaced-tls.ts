// Certificates in memory that a test replaces.

import type { TlsMaterial, TlsSource } from "@winnow/cluster";

/** Gives what it was given last. */
export class ReplacedTls implements TlsSource {
  material: TlsMaterial;
  readonly #listeners = new Set<(material: TlsMaterial) => void>();

  constructor(material: TlsMaterial) {
    this.material = material;
  }

  follow(listener: (material: TlsMaterial) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** As a file that was replaced. */
  replace(material: TlsMaterial): void {
    this.material = material;
    for (const listener of this.#listeners) listener(material);
  }
}

/** What files with this certificate, and with these authorities, hold. */
export function tlsOf(
  made: { readonly cert: string; readonly key: string } | undefined,
  ca?: string,
): TlsMaterial {
  return { cert: made?.cert, key: made?.key, ca, expiresMs: undefined };
}
