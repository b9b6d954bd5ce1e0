// The arms of an answer as text for clients, which record which user saw which arm.

/** Bytes of a text with names and counts; a longer one names each arm once instead. */
const ARMS_TEXT_MAX = 2048;

/**
 * Arms as headers have them: `control` if all instances have it; `control;n=3, new;n=1` for three instances
 * and the one after them; if there are many such runs, each arm once and without counts.
 */
export function armsText(names: readonly string[]): string {
  const runs: { readonly name: string; count: number }[] = [];
  for (const name of names) {
    const last = runs.at(-1);
    if (last?.name === name) last.count += 1;
    else runs.push({ name, count: 1 });
  }
  if (runs.length === 1) return runs[0]!.name;
  const text = runs.map(({ name, count }) => `${name};n=${count}`).join(", ");
  return text.length <= ARMS_TEXT_MAX ? text : [...new Set(names)].join(", ");
}
