// How long rules may be: workers read each as part of a filter, and a graph can join one with itself again and again.

import type { GraphMaskRule } from "../../graph-value.ts";

/** Tests and connectives of a rule that becomes part of others. */
const PARTS_MAX = 64;
/** Of all masks of a search; filters of a worker have twice as many at most. */
const PARTS_OF_ALL_MAX = 200;
const DEPTH_MAX = 16;

/** Whether a rule is short enough to be part of others. */
export function isShort(rule: GraphMaskRule): boolean {
  return hasFewParts([rule], PARTS_MAX);
}

/** Whether the rules of a search are short enough. */
export function areShort(rules: readonly GraphMaskRule[]): boolean {
  return hasFewParts(rules, PARTS_OF_ALL_MAX);
}

function hasFewParts(rules: readonly GraphMaskRule[], most: number): boolean {
  let left = most;
  const parts = rules.map((rule) => ({ rule, depth: 0 }));
  for (let next = parts.pop(); next !== undefined; next = parts.pop()) {
    const { rule, depth } = next;
    left -= 1;
    if (left < 0 || depth > DEPTH_MAX) return false;
    if (rule.kind === "test") continue;
    const of = rule.kind === "not" ? [rule.of] : rule.of;
    parts.push(...of.map((each) => ({ rule: each, depth: depth + 1 })));
  }
  return true;
}
