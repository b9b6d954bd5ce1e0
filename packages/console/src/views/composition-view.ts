// The models that a model asks: the stages of a pipeline as a chain, the arms of an experiment with their
// fractions of the requests. They come from the model's metadata.

import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Composition, compositionOf } from "../composition.ts";
import type { RouterClient } from "../router-client.ts";
import { percentText } from "../words.ts";
import { h } from "./element.ts";

/** The parts that a composition is read with; it is read again if another version answers. */
export interface CompositionProps {
  readonly client: RouterClient;
  readonly model: string;
  readonly version: number | undefined;
}

/** The drawing; empty for a model that asks no other. */
export function CompositionView({ client, model, version }: CompositionProps): VNode {
  const [composition, setComposition] = useState<Composition | undefined>();
  useEffect(() => {
    let isCurrent = true;
    const read = async (): Promise<void> => {
      const answer = await client.metadata(model);
      if (isCurrent && answer.kind === "answered") setComposition(compositionOf(answer.value));
    };
    void read();
    return () => {
      isCurrent = false;
    };
  }, [model, version]);
  if (composition === undefined) return h("span", {});
  if (composition.kind === "pipeline") {
    // Retrievals run in parallel; the stages after them run in sequence.
    const stages = composition.stages.map(({ stage, does }) => {
      const tone = stage === "retrieve" ? "chain-stage beside-others" : "chain-stage";
      return h("li", { class: tone }, h("strong", {}, stage), h("span", {}, does));
    });
    return h("ol", { class: "chain", "aria-label": `Stages of ${model}` }, ...stages);
  }
  const arms = composition.arms.map(({ name, fraction, asks }) =>
    h(
      "li",
      { class: "arm" },
      h("strong", {}, name),
      h(
        "span",
        { class: "arm-track", "aria-hidden": "true" },
        h("span", { class: "arm-fill", style: { width: `${100 * fraction}%` } }),
      ),
      h("span", {}, `${percentText(fraction)} to ${asks}`),
    ),
  );
  return h("ul", { class: "arms", "aria-label": `Arms of ${model}` }, ...arms);
}
