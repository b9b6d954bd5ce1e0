// Makes lists less alike. Candidates keep their scores, and the result depends on the list alone, so it is
// the same on any cluster.

import type { DiversifyStage, Signal } from "@winnow/core";
import { StringColumn, WinnowError } from "@winnow/core";
import type { Candidates, ItemVectors } from "./candidates.ts";
import { chosen } from "./candidates.ts";
import { atMost, byTurns, marginallyRelevant } from "./diverse-choice.ts";
import type { Values } from "./diverse-choice.ts";
import { elementsOfText, membersOfText } from "./item-texts.ts";
import { inTurns, turnMeter } from "../turns/turns.ts";
import type { Steps } from "../turns/turns.ts";

/** Products of vector values that one stage of one request may compute: some 0.1 s of the event loop. */
const PRODUCTS_MAX = 2 ** 26;
/** Cost of reading the attributes of one candidate, in products. */
const PRODUCTS_OF_ATTRIBUTES = 2 ** 10;

/**
 * Applies a stage, in steps between which other requests run, until the signal aborts it.
 * @throws WinnowError INVALID_ARGUMENT for more vectors than can be compared; the signal's reason
 */
export async function diversified(
  candidates: Candidates,
  stage: DiversifyStage,
  signal: Signal,
): Promise<Candidates> {
  const steps =
    stage.by === "mmr"
      ? byRelevance(candidates, candidates.vectors ?? (await candidates.vectorsLater?.()), stage)
      : byAttribute(candidates, stage);
  return chosen(candidates, await inTurns(steps, signal));
}

/** Places to keep in each list. */
type ChoiceSteps = Steps<(readonly number[])[]>;

function* byAttribute(
  candidates: Candidates,
  stage: Exclude<DiversifyStage, { by: "mmr" }>,
): ChoiceSteps {
  const valuesOf = valuesReader(candidates, stage.attribute);
  const isTurnOver = turnMeter();
  const places: (readonly number[])[] = [];
  for (const { positions } of candidates.lists) {
    const values: Values[] = [];
    for (const position of positions) {
      values.push(valuesOf(position));
      if (isTurnOver(PRODUCTS_OF_ATTRIBUTES)) yield;
    }
    places.push(stage.by === "at-most" ? atMost(values, stage.count) : byTurns(values));
  }
  return places;
}

/** Gives the values of an attribute by position: none, one, or the elements of a list, as texts. */
function valuesReader({ attributes }: Candidates, attribute: string): (position: number) => Values {
  const texts = attributes?.data;
  if (!(texts instanceof StringColumn)) throw new RangeError("candidates without attributes");
  return (position) => {
    const value = membersOfText(texts.textAt(position)).get(attribute);
    if (value === undefined) throw new RangeError(`candidates without attribute ${attribute}`);
    return [...new Set(elementsOfText(value))];
  };
}

function* byRelevance(
  { lists }: Candidates,
  vectors: ItemVectors = new Map(),
  { balance, count }: Extract<DiversifyStage, { by: "mmr" }>,
): ChoiceSteps {
  const [first] = vectors.values();
  const dim = first?.length ?? 0;
  const all = lists.reduce((sum, { positions }) => {
    return sum + positions.length * Math.min(count, positions.length) * Math.max(1, dim);
  }, 0);
  if (all > PRODUCTS_MAX) {
    const text = `Cannot compare the vectors of candidates: that takes ${all} multiplications`;
    const remedy = "send fewer instances, or let the pipeline retrieve or keep fewer candidates";
    throw new WinnowError("INVALID_ARGUMENT", `${text}, at most ${PRODUCTS_MAX}; ${remedy}`);
  }
  const isTurnOver = turnMeter();
  const places: (readonly number[])[] = [];
  for (const { positions, scores } of lists) {
    const own = positions.map((position) => vectors.get(position));
    places.push(
      yield* marginallyRelevant({ scores, vectors: own }, { balance, count, isTurnOver }),
    );
  }
  return places;
}
