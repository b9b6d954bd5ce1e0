// The order in which people are shown workers: w2 before w10.

const COLLATOR = new Intl.Collator("en", { numeric: true });

/** Compares workers by their ids. */
export function byWorkerId(a: { readonly id: string }, b: { readonly id: string }): number {
  return compareWorkerIds(a.id, b.id);
}

/** Compares ids of workers: numbers within them by value, equal ones by their characters. */
export function compareWorkerIds(a: string, b: string): number {
  return COLLATOR.compare(a, b) || (a < b ? -1 : 1);
}
