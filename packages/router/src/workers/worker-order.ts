// The order in which people are shown workers: w2 before w10.

const COLLATOR = new Intl.Collator("en", { numeric: true });

/** Compares workers by their ids: numbers within them by value, equal ones by their characters. */
export function byWorkerId(a: { readonly id: string }, b: { readonly id: string }): number {
  return COLLATOR.compare(a.id, b.id) || (a.id < b.id ? -1 : 1);
}
