// The known name a person most likely meant, for error messages.

/** The nearest of `known` by edit distance, if it is near at all. */
export function nearestName(name: string, known: readonly string[]): string | undefined {
  if (name.length > NAME_CHARACTERS_MAX) return undefined;
  let best: string | undefined;
  let bestDistance = Math.max(2, Math.floor(name.length / 3)) + 1;
  for (const candidate of known) {
    const distance = editDistance(name, candidate);
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

const NAME_CHARACTERS_MAX = 128;

/** Single-character edits from `a` to `b` (Levenshtein 1965), row by row. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let line = 1; line <= a.length; line += 1) {
    const next = [line];
    for (let column = 1; column <= b.length; column += 1) {
      const replaced = row[column - 1]! + Number(a[line - 1] !== b[column - 1]);
      next.push(Math.min(replaced, row[column]! + 1, next[column - 1]! + 1));
    }
    row = next;
  }
  return row[b.length]!;
}
