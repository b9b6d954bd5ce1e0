// One request of an experiment: the arm of each instance, the models of these arms asked side by side, one
// answer in the order of the instances. An arm answers with the version that its name meant when the request
// arrived. An arm that cannot answer fails the request unless the file names a fallback: no other arm ever
// answers without being marked as a degradation.

import { WinnowError, excerpt, toWinnowError } from "@winnow/core";
import type { Clock, Experiment, VersionKey } from "@winnow/core";
import { checkInstances, instancesOf } from "../limits/request-limits.ts";
import type { RequestLimits } from "../limits/request-limits.ts";
import { inTurns } from "../turns/turns.ts";
import type { PinnedModel, Prediction, PredictRequest } from "../predictor.ts";
import type { ArmRecord } from "../router-observer.ts";
import { armsOfRequest } from "./arm-keys.ts";
import { isSameSignature } from "./arm-signatures.ts";
import { armsText } from "./arms-text.ts";
import { instancesByArm, joinedAnswer, requestFor } from "./arm-split.ts";
import type { PartAnswer, Positions } from "./arm-split.ts";

/** The pinned model of an arm, and whether all its partitions have replicas; or why it cannot answer. */
export type ArmPin<Pinned extends PinnedModel> =
  | { readonly pinned: Pinned; readonly isWhole: boolean }
  | { readonly error: WinnowError };

/** A request of an experiment, and how the models of its arms are asked. */
export interface ExperimentRun<Pinned extends PinnedModel> {
  readonly experiment: Experiment;
  readonly version: VersionKey;
  readonly request: PredictRequest;
  /** By position of the arm. */
  readonly arms: readonly ArmPin<Pinned>[];
  readonly ask: (pinned: Pinned, request: PredictRequest) => Promise<Prediction>;
  readonly clock: Clock;
  readonly limits: Pick<RequestLimits, "instancesMax">;
  readonly onArm: (record: ArmRecord) => void;
}

/** Asks the arms and joins their answers. @throws WinnowError as the models do, or naming the arm that cannot answer */
export async function runExperiment<Pinned extends PinnedModel>(
  run: ExperimentRun<Pinned>,
): Promise<Prediction> {
  const { request, version, limits } = run;
  const instances = instancesOf(request.signature, request.inputs);
  checkInstances(instances, limits, request.inputs);
  const salted = { ...run.experiment, salt: run.experiment.salt ?? version.model };
  const { arms, isFallback } = answeringArms(
    run,
    await inTurns(armsOfRequest(salted, request, instances), request.context.signal),
  );
  const byArm = instancesByArm(arms);
  const answer =
    byArm.size === 1
      ? await askArm(run, arms[0]!, { request, instances })
      : await askArms(run, byArm, instances);
  const { degradations = [], members = [] } = answer;
  return {
    ...answer,
    version,
    members,
    arms: armsText(arms.map((arm) => run.experiment.arms[arm]!.name)),
    degradations: isFallback
      ? [...degradations, { stage: "arm", reason: "unavailable" }]
      : degradations,
  };
}

/**
 * The arm that answers each instance: the fallback, in place of those that cannot. @throws WinnowError naming one that
 * cannot
 */
function answeringArms<Pinned extends PinnedModel>(
  run: ExperimentRun<Pinned>,
  chosen: readonly number[],
): { readonly arms: readonly number[]; readonly isFallback: boolean } {
  const { arms, fallback } = run.experiment;
  const { allowPartial = false } = run.request;
  const canAnswer = (arm: number): boolean => {
    const pin = run.arms[arm]!;
    return "pinned" in pin && (pin.isWhole || allowPartial);
  };
  if (chosen.every((arm) => canAnswer(arm))) return { arms: chosen, isFallback: false };
  const other = arms.findIndex(({ name }) => name === fallback);
  if (other >= 0 && canAnswer(other)) {
    return { arms: chosen.map((arm) => (canAnswer(arm) ? arm : other)), isFallback: true };
  }
  for (const arm of new Set(chosen)) refuseAbsent(run, arm, chosen);
  // An arm that has lost replicas may get them back while the request waits.
  return { arms: chosen, isFallback: false };
}

/** Refuses an arm whose model does not exist. @throws WinnowError naming it */
function refuseAbsent<Pinned extends PinnedModel>(
  run: ExperimentRun<Pinned>,
  arm: number,
  chosen: readonly number[],
): void {
  const pin = run.arms[arm]!;
  if (!("error" in pin)) return;
  const { code, message } = pin.error;
  const instances = chosen.filter((each) => each === arm).length;
  noteArm(run, arm, { code, instances, elapsedMs: 0 });
  const { name } = run.experiment.arms[arm]!;
  const text = `Arm ${name} of experiment ${excerpt(run.version.model)} cannot answer`;
  throw new WinnowError(code, `${text}: ${message}`, { cause: pin.error });
}

/** Asks all arms. It settles only after every arm has ended, because the models stay pinned until then. */
async function askArms<Pinned extends PinnedModel>(
  run: ExperimentRun<Pinned>,
  byArm: ReadonlyMap<number, Positions>,
  instances: number,
): Promise<Prediction> {
  const { signal } = run.request.context;
  const asked: { arm: number; positions: Positions; request: PredictRequest }[] = [];
  for (const [arm, positions] of byArm) {
    const request = await inTurns(requestFor(run.request, positions, instances), signal);
    asked.push({ arm, positions, request });
  }
  const outcomes = await Promise.allSettled(
    asked.map(async ({ arm, positions, request }): Promise<PartAnswer> => {
      const part = { request, instances: positions.length };
      return { positions, prediction: await askArm(run, arm, part) };
    }),
  );
  const parts = outcomes.map((outcome) => {
    if (outcome.status === "rejected") throw outcome.reason;
    return outcome.value;
  });
  return await inTurns(joinedAnswer(run.version, parts), signal);
}

/** The answer of one arm. The version that gave it stands first among its members. */
async function askArm<Pinned extends PinnedModel>(
  run: ExperimentRun<Pinned>,
  arm: number,
  { request, instances }: { readonly request: PredictRequest; readonly instances: number },
): Promise<Prediction> {
  const pin = run.arms[arm]!;
  if ("error" in pin) throw pin.error;
  const startMs = run.clock.nowMs();
  const note = (code: string): void =>
    noteArm(run, arm, { code, instances, elapsedMs: run.clock.nowMs() - startMs });
  try {
    const { signatures } = pin.pinned.program;
    const signature = signatures.find((each) => isSameSignature(each, request.signature));
    if (signature === undefined) throw new RangeError("an arm without the common signature");
    const prediction = await run.ask(pin.pinned, { ...request, signature });
    note("OK");
    const { version, members = [] } = prediction;
    return { ...prediction, members: [version, ...members] };
  } catch (error) {
    note(toWinnowError(error).code);
    throw error;
  }
}

function noteArm<Pinned extends PinnedModel>(
  { experiment, version, onArm }: ExperimentRun<Pinned>,
  arm: number,
  outcome: Pick<ArmRecord, "code" | "instances" | "elapsedMs">,
): void {
  onArm({ model: version.model, arm: experiment.arms[arm]!.name, ...outcome });
}
