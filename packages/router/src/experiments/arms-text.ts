// The arms of an answer as clients read them, who record which user saw which arm.

/** Bytes of names and counts; what is longer names each arm once. */
const ARMS_TEXT_MAX = 2048;

/**
 * Arms as headers tell them: `control` for all instances; `control;n=3, new;n=1` for three instances and the one
 * behind them; of many such runs each arm once, without numbers.
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
