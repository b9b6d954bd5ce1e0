// When an experiment waits for the models of its arms: until it has had all of them once; later, where no fallback
// takes the place of one that has gone.

import type { RoutedVersion, RoutingTable } from "@winnow/cluster";
import { WinnowError, fingerprint } from "@winnow/core";
import type { Experiment, Fingerprint, ModelProgram } from "@winnow/core";
import { expect, test } from "vitest";
import { waitingExperiments } from "./waiting-experiments.ts";

const FEED = fingerprint("f");

function programOf(print: Fingerprint, own: Partial<ModelProgram> = {}): ModelProgram {
  const input = { name: "user", dtype: "string", shape: [-1], value: 0, graphTensor: "" } as const;
  const signature = { name: "serving_default", methodName: "", constants: [], steps: [] };
  const signatures = [{ ...signature, inputs: [input], outputs: [] }];
  const none = { tables: [], vocabularies: [], denseModels: [] };
  return { fingerprint: print, ...none, signatures, ...own };
}

/** A table in which the experiment answers, or waits. */
function tableWith(refusal: WinnowError | undefined): Pick<RoutingTable, "models"> {
  const key = { model: "feed", version: 1, fingerprint: FEED };
  const models = new Map([["feed", { contents: [{ key, refusal }] }]]);
  return { models } as unknown as RoutingTable;
}

/** Why the experiment waits, with these models of its arms `movies`, the fallback, and `new`. */
function waitOf(
  there: readonly string[],
  { previous, fallback }: { previous?: Pick<RoutingTable, "models">; fallback?: string },
): string | undefined {
  const experiment: Experiment = {
    arms: ["movies", "new"].map((model) => ({ name: model, model, weight: 1 })),
    sticky: { by: "input", name: "user" },
    ...(fallback !== undefined && { fallback }),
  };
  const models = new Map(there.map((model) => [model, fingerprint(model)]));
  const ready = [
    [FEED, { program: programOf(FEED, { experiment, signatures: [] }) }] as const,
    ...[...models.values()].map((print) => [print, { program: programOf(print) }] as const),
  ];
  const resolve = ({ model }: { readonly model: string }): RoutedVersion => {
    const found = models.get(model);
    if (found === undefined) throw new WinnowError("NOT_FOUND", `no ${model}`);
    return { key: { model, version: 1, fingerprint: found } } as RoutedVersion;
  };
  const table = tableWith(undefined);
  return waitingExperiments({ table, previous, resolve }, ready).get(FEED)?.message;
}

const answered = tableWith(undefined);
const waited = tableWith(new WinnowError("UNAVAILABLE", "The experiment waits"));
const LACK = "The experiment waits: arms[1] (new): model new cannot answer: no new";

test("an experiment waits for the model of each arm at first, whether it has a fallback or not", () => {
  expect(waitOf(["movies", "new"], {})).toBeUndefined();
  expect(waitOf(["movies"], { fallback: "movies" })).toBe(LACK);
  expect(waitOf(["movies"], { fallback: "movies", previous: waited })).toBe(LACK);
});

test("a model that goes later is not waited for where the fallback answers for it", () => {
  expect(waitOf(["movies"], { fallback: "movies", previous: answered })).toBeUndefined();
  expect(waitOf(["movies"], { previous: answered })).toBe(LACK);
  expect(waitOf(["new"], { fallback: "movies", previous: answered })).toContain("arms[0] (movies)");
  expect(waitOf([], { fallback: "movies", previous: answered })).toContain("arms[0] (movies)");
});
