// A router, asked by one job: the version that answers first is asked by its number from then on, so that a swap in
// between leaves no file of two versions.

import { WinnowError } from "@winnow/core";
import type { RestAnswer } from "../access/rest-client.ts";
import { type Asking, askPredictions, codeOf, errorText, failuresOf } from "../predict/asking.ts";
import { type PredictQuestion, askedMembers, predictUrl } from "../predict/predict-request.ts";
import { type Reply, replyOf, replyOfFault } from "./reply.ts";

/** Asks for the predictions of one job. */
export class PinnedRouter {
  readonly #asking: Asking;
  readonly #question: PredictQuestion;
  /** What each body has behind its instances. */
  readonly #bodyEnd: string;
  readonly #onPinned: (version: number) => void;
  #version: number | undefined;
  #hasAnswered = false;
  #degraded = 0;

  /** `question` has the version of a job that goes on. @throws WinnowError INVALID_ARGUMENT for options that are no JSON */
  constructor(asking: Asking, question: PredictQuestion, onPinned: (version: number) => void) {
    this.#asking = asking;
    this.#question = question;
    this.#version = question.version;
    this.#onPinned = onPinned;
    this.#bodyEnd = `${["]", ...askedMembers(question)].join(",")}}`;
  }

  /** The version of all predictions; `undefined` before the first, and for a server that does not say. */
  get version(): number | undefined {
    return this.#version;
  }

  /** Whether batches may be asked for at the same time: they have the same version. */
  get isSettled(): boolean {
    return this.#version !== undefined || this.#hasAnswered;
  }

  /** Requests whose answers lack a stage of a pipeline. */
  get degraded(): number {
    return this.#degraded;
  }

  /** Asks once. @throws Error that is no fault of router or connection */
  async ask(instances: readonly string[]): Promise<Reply> {
    const version = this.#version;
    const url = predictUrl({ ...this.#question, version });
    const body = `{"instances":[${instances.join(",")}${this.#bodyEnd}`;
    let answer: RestAnswer;
    try {
      answer = await askPredictions(this.#asking, url, body);
    } catch (error) {
      this.#asking.signal?.throwIfAborted();
      return replyOfFault(error);
    }
    if (answer.status === 404) return { kind: "final", error: await this.#notFound(answer) };
    const reply = replyOf(answer, instances.length);
    return reply.kind === "predictions" ? this.#checked(reply, answer) : reply;
  }

  #checked(reply: Reply, answer: RestAnswer): Reply {
    const told = answer.header("x-winnow-model-version") ?? "";
    if (answer.header("x-winnow-degraded") !== undefined) this.#degraded += 1;
    this.#hasAnswered = true;
    if (!/^\d{1,15}$/.test(told)) return reply;
    if (this.#version === undefined) {
      this.#version = Number(told);
      this.#onPinned(this.#version);
    }
    if (Number(told) === this.#version) return reply;
    const text = `Version ${told} answered where version ${this.#version} was asked`;
    return { kind: "final", error: new WinnowError("DATA_LOSS", text) };
  }

  async #notFound(answer: RestAnswer): Promise<WinnowError> {
    const { model } = this.#question;
    const why = await failuresOf(this.#asking, this.#question);
    const lines = [errorText(answer), ...why];
    if (this.#version !== undefined) {
      lines.push(
        `All of the output has version ${this.#version} of "${model}". Serve that version again (model_version_policy { specific { versions: ${this.#version} } }) and go on with --resume, or begin again with --overwrite.`,
      );
    }
    return new WinnowError(codeOf(answer), lines.join("\n"));
  }
}
