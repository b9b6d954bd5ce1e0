// Lists made less alike. Candidates keep their scores; what decides is the list alone, so the outcome is the
// same on any shape of cluster.

import type { DiversifyStage } from "@winnow/core";
import { StringColumn, WinnowError } from "@winnow/core";
import type { Candidates } from "./candidates.ts";
import { chosen } from "./candidates.ts";
import { atMost, inTurns, marginallyRelevant } from "./diverse-choice.ts";
import type { Values } from "./diverse-choice.ts";
import { elementsOfText, membersOfText } from "./item-texts.ts";

/** Values of vectors that one stage of one request may multiply: some 0.1 s of the router's thread. */
const PRODUCTS_MAX = 2 ** 26;
/** The same until others have their turn. */
const PRODUCTS_AT_ONCE = 2 ** 22;

/** Applies a stage. @throws WinnowError INVALID_ARGUMENT where vectors are too many to compare */
export async function diversified(
  candidates: Candidates,
  stage: DiversifyStage,
): Promise<Candidates> {
  if (stage.by === "mmr") return await byRelevance(candidates, stage);
  const valuesOf = valuesReader(candidates, stage.attribute);
  const places = candidates.lists.map(({ positions }) => {
    const values = positions.map((position) => valuesOf(position));
    return stage.by === "at-most" ? atMost(values, stage.count) : inTurns(values);
  });
  return chosen(candidates, places);
}

/** The values of an attribute by position; none, one, or those of a list, as texts. */
function valuesReader({ attributes }: Candidates, attribute: string): (position: number) => Values {
  const texts = attributes?.data;
  if (!(texts instanceof StringColumn)) throw new RangeError("candidates without attributes");
  return (position) => {
    const value = membersOfText(texts.textAt(position)).get(attribute);
    if (value === undefined) throw new RangeError(`candidates without attribute ${attribute}`);
    return [...new Set(elementsOfText(value))];
  };
}

async function byRelevance(
  candidates: Candidates,
  { balance, count }: Extract<DiversifyStage, { by: "mmr" }>,
): Promise<Candidates> {
  const { lists, vectors = new Map<number, Float32Array>() } = candidates;
  const [first] = vectors.values();
  const dim = first?.length ?? 0;
  const products = lists.map(({ positions }) => {
    return positions.length * Math.min(count, positions.length) * dim;
  });
  const all = products.reduce((sum, each) => sum + each, 0);
  if (all > PRODUCTS_MAX) {
    const text = `Cannot compare the vectors of candidates: that takes ${all} multiplications`;
    const remedy = "send fewer instances, or let the pipeline retrieve or keep fewer candidates";
    throw new WinnowError("INVALID_ARGUMENT", `${text}, at most ${PRODUCTS_MAX}; ${remedy}`);
  }
  const places: (readonly number[])[] = [];
  let since = 0;
  for (const [instance, { positions, scores }] of lists.entries()) {
    since += products[instance]!;
    if (since > PRODUCTS_AT_ONCE) {
      since = 0;
      await new Promise((resolve) => void setImmediate(resolve));
    }
    const own = positions.map((position) => vectors.get(position));
    places.push(marginallyRelevant({ scores, vectors: own }, { balance, count }));
  }
  return chosen(candidates, places);
}
