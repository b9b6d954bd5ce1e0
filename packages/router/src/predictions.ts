// What answers a request, by the kind of version that it pinned: the arms of an experiment, the stages of a
// pipeline, or the program of a model. A program runs once its request is checked and admitted; if the content
// that it pinned is lost meanwhile, the whole request runs again on what took its place (S2).

import type { ArmTarget, Pipeline, SignatureProgram, VersionKey } from "@winnow/core";
import { keyLookupsOf, Outstanding, signatureOf, targetText, WinnowError } from "@winnow/core";
import { isSameVersion } from "@winnow/cluster";
import type { SeenItems } from "@winnow/cluster";
import type { Admitted } from "./admission/admission.ts";
import { checkPipelineRequest, checkRequest } from "./admission/request-check.ts";
import type { CheckedRequest } from "./admission/request-check.ts";
import { NO_CONDITIONS } from "./admission/search-cost.ts";
import type { Traffic } from "./admission/traffic.ts";
import { isSameSignature } from "./experiments/arm-signatures.ts";
import { runExperiment } from "./experiments/experiment-run.ts";
import type { ArmPin } from "./experiments/experiment-run.ts";
import type { ShadowTraffic } from "./experiments/shadow-traffic.ts";
import { ItemRows } from "./item-rows.ts";
import type { Pin, Pins } from "./pins.ts";
import type { KnownQuestion } from "./pipeline/pipeline-run.ts";
import { runPipeline } from "./pipeline/pipeline-execution.ts";
import { runOnMembers } from "./pipeline/member-run.ts";
import { withValuesAlone } from "./pipeline/request-values.ts";
import type { ModelTarget, Prediction, PredictRequest } from "./predictor.ts";
import { askingVectors, withVectors } from "./program/item-vectors.ts";
import { knownKeys } from "./program/lookup/known-keys.ts";
import type { KnownKeys } from "./program/lookup/known-keys.ts";
import { runRequest } from "./program/program-execution.ts";
import type { ProgramParts } from "./program/program-execution.ts";
import { RequestRun } from "./program/request-run.ts";
import type { RunTerms } from "./program/request-run.ts";
import type { RequestContext } from "./request-context.ts";
import type { RouterSettings } from "./router-settings.ts";
import type { ProgramStore } from "./versions/program-store.ts";
import type { Routing } from "./versions/routing.ts";
import type { Replay } from "./versions/warm-up.ts";

/** What predictions are made with. */
export interface PredictionParts {
  readonly settings: RouterSettings;
  readonly pins: Pins;
  readonly programs: ProgramStore;
  readonly routing: Routing;
  readonly traffic: Traffic;
  readonly shadows: ShadowTraffic;
  /** What users have seen; `undefined` where no store is configured. */
  readonly seenItems: SeenItems | undefined;
  /** How steps of a program ask the workers. */
  readonly query: ProgramParts;
  /** Called when a request that was admitted, or a replay, has ended. */
  readonly onEnd: () => void;
}

/** Answers the requests of a router. */
export class Predictions {
  readonly #parts: PredictionParts;
  readonly #pins: Pins;
  readonly #traffic: Traffic;
  readonly #query: ProgramParts;
  /** Signatures that have looked up other keys than the ids that they were given. */
  readonly #ownKeys = new WeakSet<SignatureProgram>();
  /** Programs that run. */
  readonly #running = new Outstanding<RequestContext>();

  constructor(parts: PredictionParts) {
    this.#parts = parts;
    this.#pins = parts.pins;
    this.#traffic = parts.traffic;
    this.#query = parts.query;
  }

  /** Programs that run. */
  get running(): number {
    return this.#running.size;
  }

  /** Answers a request on the version that it pinned. @throws WinnowError as `Predictor.predict` does */
  predict(pin: Pin, request: PredictRequest): Promise<Prediction> {
    if (request.vectors !== true) return this.#predictPinned(pin, request);
    const asked = this.#predictPinned(pin, askingVectors(request));
    return asked.then((prediction) => withVectors(prediction, request));
  }

  #predictPinned(pin: Pin, request: PredictRequest): Promise<Prediction> {
    if (pin.arms !== undefined) return this.#predictByArms(pin, pin.arms, request);
    if (pin.program.pipeline !== undefined) return this.#predictByStages(pin, request);
    if (request.explain === true) {
      const text = `Cannot apply "explain": model ${pin.model} is no pipeline`;
      return Promise.reject(new WinnowError("INVALID_ARGUMENT", text));
    }
    return this.#predictAdmitted(pin, request, { mayMove: true });
  }

  async #predictByArms(
    { program, routed }: Pin,
    arms: readonly ArmPin<Pin>[],
    request: PredictRequest,
  ): Promise<Prediction> {
    const { experiment } = program;
    if (experiment === undefined) throw new RangeError("no experiment");
    const { observer } = this.#query;
    const prediction = await runExperiment<Pin>({
      experiment,
      version: routed.key,
      request,
      arms,
      ask: (pinned, asked) => this.#predictPinned(pinned, asked),
      clock: this.#query.environment.clock,
      limits: this.#parts.settings,
      onArm: (record) => observer.arm?.(record),
    });
    const { shadow } = experiment;
    if (shadow !== undefined) {
      const ask = (asked: PredictRequest): Promise<Prediction> => this.#askShadow(shadow, asked);
      this.#parts.shadows.offer({
        model: routed.key.model,
        shadow,
        request,
        given: prediction,
        ask,
      });
    }
    return prediction;
  }

  async #askShadow(shadow: ArmTarget, request: PredictRequest): Promise<Prediction> {
    const pin = this.#pins.pinArm(shadow);
    try {
      const signature = pin.program.signatures.find((each) =>
        isSameSignature(each, request.signature),
      );
      if (signature !== undefined) return await this.#predictPinned(pin, { ...request, signature });
      const text = `${targetText(shadow)} has no signature with the same inputs and outputs`;
      throw new WinnowError("FAILED_PRECONDITION", text);
    } finally {
      pin.release();
    }
  }

  /** `mayMove`: whether a version that took the place of a lost one may answer instead. */
  async #predictAdmitted(
    pin: Pin,
    request: PredictRequest,
    { mayMove }: { readonly mayMove: boolean },
  ): Promise<Prediction> {
    const checked = checkRequest(pin.program, request, this.#parts.settings);
    const { deadlineMs } = request.context;
    // Held until the pin is released, when the answer is written.
    pin.held.push(this.#traffic.candidates.take(checked.candidates));
    const admitted = this.#traffic.admission.admit({ rows: checked.rows, deadlineMs });
    try {
      return await this.#predictOn(pin, request, { checked, admitted });
    } catch (error) {
      if (!mayMove || !(error instanceof WinnowError) || error.code !== "UNAVAILABLE") throw error;
      return await this.#predictOnSuccessor(pin, request, { admitted, error });
    } finally {
      admitted.release();
      this.#parts.onEnd();
    }
  }

  /** Runs a pipeline on one version of each of its models, which stay pinned until the request is answered. */
  async #predictByStages(pin: Pin, request: PredictRequest): Promise<Prediction> {
    const { pipeline } = pin.program;
    if (pipeline === undefined) throw new RangeError("no pipeline");
    return await this.#runStages(pipeline, pin.routed.key, request);
  }

  async #runStages(
    pipeline: Pipeline,
    version: VersionKey,
    asked: PredictRequest,
  ): Promise<Prediction> {
    const request = withValuesAlone(asked);
    checkPipelineRequest(pipeline, request, this.#parts.settings);
    return await runOnMembers<Pin, Prediction>({
      pin: async () => this.#pins.pinMembers(pipeline),
      isSame: (before, now) => isSameVersion(before.routed.key, now.routed.key),
      run: async (pinned, outlives) => {
        const answer = await runPipeline({
          pipeline,
          request,
          pinned,
          clock: this.#query.environment.clock,
          ask: (member, question) =>
            this.#predictAdmitted(this.#pins.heldBy(member), question, { mayMove: false }),
          instancesMax: this.#parts.settings.instancesMax,
          describedValuesMax: this.#parts.settings.describedValuesMax,
          limits: this.#parts.settings,
          seenItems: this.#parts.seenItems,
          check: (other, question) => checkPipelineRequest(other, question, this.#parts.settings),
          knows: (member, question) => this.#knows(this.#pins.heldBy(member), question),
          itemRows: (member, of) => this.#itemRows(this.#pins.heldBy(member), of),
          outlives,
        });
        const members = Array.from(pinned.values(), ({ routed }) => routed.key);
        return { version, ...answer, members };
      },
    });
  }

  /** Which values of an input a pinned model knows. It is due at once, and costs about nothing. */
  async #knows(
    { program, loaded, routed }: Pin,
    { signature, input, values, context }: KnownQuestion,
  ): Promise<KnownKeys> {
    const lookups = keyLookupsOf(program, signature, input);
    const asked = { signature: lookups.part, inputs: new Map([[input, values]]), context };
    const admitted = { dueMs: this.#query.environment.clock.nowMs(), answered: () => undefined };
    const terms = { conditions: NO_CONDITIONS, admitted };
    const { table } = this.#parts.routing;
    const run = new RequestRun({ loaded, version: routed.key, table }, asked, terms);
    const id = this.#running.add(run.context);
    try {
      return await knownKeys(this.#query, run, lookups);
    } finally {
      this.#running.delete(id);
    }
  }

  /** What a search may bring of the table in which a signature looks this input up. */
  #itemRows(
    { program, loaded, routed }: Pin,
    { signature, input }: { readonly signature: SignatureProgram; readonly input: string },
  ): ItemRows | undefined {
    if (this.#ownKeys.has(signature)) return undefined;
    const { vocabularies } = keyLookupsOf(program, signature, input);
    for (const vocabulary of vocabularies) {
      if (vocabulary.kind !== "table" || loaded.localTables.has(vocabulary.table)) continue;
      const { table } = vocabulary;
      const { dim } = program.tables[table]!;
      const onOtherKeys = (): void => void this.#ownKeys.add(signature);
      return new ItemRows({ version: routed.key, table }, dim, onOtherKeys);
    }
    return undefined;
  }

  #predictOn(
    { loaded, routed }: Pin,
    request: PredictRequest,
    { checked, admitted }: { readonly checked: CheckedRequest; readonly admitted: Admitted },
  ): Promise<Prediction> {
    const { k, conditions } = checked;
    return this.#run({ loaded, version: routed.key }, request, { k, conditions, admitted });
  }

  /**
   * Answers a request whose pinned content was lost with the version that its target means now, as if it had
   * arrived a moment later.
   * @throws the `error` that it ended with, if that is the same content or has other inputs; WinnowError
   * NOT_FOUND where the version that it names has been unloaded
   */
  async #predictOnSuccessor(
    pinned: Pin,
    request: PredictRequest,
    { admitted, error }: { readonly admitted: Admitted; readonly error: WinnowError },
  ): Promise<Prediction> {
    const successor = this.#pinSuccessor(pinned.target, error);
    try {
      const signature = successor.program.signatures.find((each) =>
        isSameSignature(each, request.signature),
      );
      const isSame = isSameVersion(successor.routed.key, pinned.routed.key);
      if (isSame || signature === undefined) throw error;
      const again = { ...request, signature };
      const { pipeline, experiment } = successor.program;
      if (pipeline !== undefined || experiment !== undefined) {
        return await this.#predictPinned(successor, again);
      }
      const checked = checkRequest(successor.program, again, this.#parts.settings);
      return await this.#predictOn(successor, again, { checked, admitted });
    } finally {
      successor.release();
    }
  }

  #pinSuccessor(target: ModelTarget, error: WinnowError): Pin {
    try {
      return this.#pins.pin(target);
    } catch (thrown) {
      const isGone = thrown instanceof WinnowError && thrown.code === "NOT_FOUND";
      throw isGone && target.version !== undefined ? thrown : error;
    }
  }

  /** Runs a warm-up request of a version that nobody may ask yet. */
  async replay({ version, request, context }: Replay): Promise<void> {
    const { key } = version;
    const loaded = this.#parts.programs.pin(key.fingerprint);
    if (loaded === undefined) return;
    try {
      const { pipeline, signatures } = loaded.program;
      const signature = signatureOf(request, signatures);
      if (signature === undefined) return;
      const asked = { signature, inputs: request.inputs, context };
      if (pipeline !== undefined) {
        await this.#runStages(pipeline, key, asked);
        return;
      }
      // A warm-up request is due at once, and is not counted as admitted.
      const admitted = { dueMs: this.#query.environment.clock.nowMs(), answered: () => undefined };
      await this.#run({ loaded, version: key }, asked, { conditions: NO_CONDITIONS, admitted });
    } finally {
      this.#parts.programs.release(key.fingerprint);
      this.#parts.onEnd();
    }
  }

  async #run(
    { loaded, version }: Pick<RequestRun, "loaded" | "version">,
    request: PredictRequest,
    terms: RunTerms,
  ): Promise<Prediction> {
    const { table } = this.#parts.routing;
    const run = new RequestRun({ loaded, version, table }, request, terms);
    const id = this.#running.add(run.context);
    try {
      return await runRequest(this.#query, run);
    } finally {
      this.#running.delete(id);
    }
  }

  /** Ends all that runs. */
  abort(cause: () => WinnowError): void {
    for (const context of this.#running) context.abort(cause);
  }
}
