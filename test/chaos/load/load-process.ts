// The load as a process of its own, so that neither the harness nor its faults delay it: requests at
// fixed arrival times, whatever became of those before, each checked. It answers to its parent by
// messages (`load-generator.ts`).
//
// Before the routers stands a balancer, as a Kubernetes service is one: it sends to routers whose
// `/readyz` says 200, in turn (`router-choice.ts`), and a request that no router took (connection refused,
// stream refused) goes to the other one. A request whose connection breaks under it is sent again only
// where a scenario says that clients do so, and is counted.

import { AnswerOracle } from "../answers/answer-oracle.ts";
import type { PublishedVersion } from "../answers/answer-check.ts";
import { GrpcDoor } from "./grpc-door.ts";
import type { LoadOrder, LoadReport } from "./load-generator.ts";
import { type Question, drawQuestions } from "./load-questions.ts";
import { type LoadWindow, LoadWindows } from "./load-windows.ts";
import { RestDoor, type SendOutcome } from "./rest-door.ts";
import { type RouterReadiness, chosenRouter } from "./router-choice.ts";

/** Between two looks for requests that are due, at most: the rate may change meanwhile. */
const TICK_MS_MAX = 20;
const SWEEP_MS = 200;
const PROGRESS_MS = 1000;
/** Between two looks at whether a router is ready. */
const READY_LOOK_MS = 200;
/** A router that does not say for so long whether it is ready is silent. */
const READY_MS_MAX = 1000;
const READY_QUESTION = Buffer.from("GET /readyz HTTP/1.1\r\nhost: winnow\r\n\r\n");
/** Requests due that may be sent in one turn of the loop. */
const SENT_AT_ONCE_MAX = 64;

interface RouterDoors {
  readonly rest: RestDoor;
  readonly grpc: GrpcDoor;
  /** Whether the last probe that was answered said so; false since a connection was refused. */
  isReady: boolean;
  /** When a probe of readiness began that has no answer yet. */
  lookedMs: number | undefined;
}

interface PendingRequest {
  readonly question: Question;
  readonly window: LoadWindow;
  readonly dueMs: number;
  tries: number;
  /** The router that was asked last, and what was known of it then: for the report. */
  asked: string;
  isResent: boolean;
  cancel: () => void;
}

class LoadProcess {
  readonly #oracle = new AnswerOracle();
  readonly #windows = new LoadWindows();
  readonly #pending = new Set<PendingRequest>();
  readonly #order: Extract<LoadOrder, { type: "start" }>;
  readonly #routers: readonly RouterDoors[];
  #published: readonly PublishedVersion[];
  #questions: readonly Question[];
  #perSecond: number;
  #nextMs = performance.now();
  #asked = 0;
  #isStopped = false;

  constructor(order: Extract<LoadOrder, { type: "start" }>) {
    this.#order = order;
    this.#perSecond = order.perSecond;
    this.#published = order.published;
    this.#questions = this.#draw(order);
    this.#routers = order.routers.map(({ rest, grpc }) => ({
      rest: new RestDoor(rest),
      grpc: new GrpcDoor(grpc),
      isReady: true,
      lookedMs: undefined,
    }));
    this.#windows.open("warm-up", performance.now());
    this.#tick();
    setInterval(() => this.#sweep(), SWEEP_MS);
    setInterval(() => this.#tell(), PROGRESS_MS);
    setInterval(() => this.#lookForReadiness(), READY_LOOK_MS);
  }

  take(order: LoadOrder): void {
    const nowMs = performance.now();
    if (order.type === "window") this.#windows.open(order.name, nowMs);
    if (order.type === "inject") this.#windows.inject(order.name, nowMs);
    if (order.type === "rate") {
      this.#perSecond = order.perSecond;
      this.#nextMs = nowMs;
    }
    if (order.type === "burst") {
      const singles = this.#questions.filter(({ kind }) => kind === "retrieval");
      for (let count = 0; count < order.count; count += 1) {
        this.#ask(nowMs, singles[count % singles.length]!);
      }
    }
    if (order.type === "published") {
      this.#published = order.published;
      this.#questions = this.#draw({ ...this.#order, ...order });
    }
    if (order.type === "stop") void this.#stop();
  }

  #draw(order: Pick<Extract<LoadOrder, { type: "start" }>, "seed" | "published" | "pins">) {
    return drawQuestions({ ...order, oracle: this.#oracle });
  }

  #tick(): void {
    const nowMs = performance.now();
    let sent = 0;
    while (
      !this.#isStopped &&
      this.#perSecond > 0 &&
      this.#nextMs <= nowMs &&
      sent < SENT_AT_ONCE_MAX
    ) {
      this.#ask(this.#nextMs, this.#questions[this.#asked % this.#questions.length]!);
      this.#nextMs += 1000 / this.#perSecond;
      sent += 1;
    }
    const isBehind = sent === SENT_AT_ONCE_MAX;
    const untilNextMs = Math.max(1, Math.ceil(this.#nextMs - performance.now()));
    const waitMs = this.#perSecond > 0 ? Math.min(untilNextMs, TICK_MS_MAX) : TICK_MS_MAX;
    if (isBehind) setImmediate(() => this.#tick());
    else setTimeout(() => this.#tick(), waitMs);
  }

  #ask(dueMs: number, question: Question): void {
    this.#asked += 1;
    const window = this.#windows.current!;
    const cancel = (): void => undefined;
    const request = { question, window, dueMs, tries: 0, asked: "", isResent: false, cancel };
    this.#pending.add(request);
    this.#windows.sent(dueMs, performance.now());
    this.#send(request, this.#asked % this.#routers.length);
  }

  #send(request: PendingRequest, wanted: number): void {
    const nowMs = performance.now();
    const readiness = this.#routers.map((router) => readinessOf(router, nowMs));
    const place = chosenRouter(readiness, wanted);
    const router = this.#routers[place]!;
    request.tries += 1;
    request.asked = `router${place}, ${readiness[place]}`;
    const { door, bytes } = request.question;
    request.cancel = router[door].send(bytes, (outcome) => this.#note(request, outcome, place));
  }

  #note(request: PendingRequest, outcome: SendOutcome, place: number): void {
    if (!this.#pending.has(request)) return;
    if (outcome.kind === "reply") {
      return this.#finish(request, request.question.judge(outcome.reply, this.#published));
    }
    const next = (place + 1) % this.#routers.length;
    const isUntouched = outcome.kind === "refused connection";
    if (isUntouched) this.#routers[place]!.isReady = false;
    const mayResend = isUntouched || (this.#order.resends && !request.isResent);
    if (!mayResend || request.tries > this.#routers.length) {
      return this.#finish(request, { class: "failed", text: `${outcome.kind}: ${outcome.text}` });
    }
    if (!isUntouched) request.isResent = true;
    this.#send(request, next);
  }

  #finish(request: PendingRequest, verdict: ReturnType<Question["judge"]>): void {
    this.#pending.delete(request);
    const { question, window, dueMs, isResent, asked } = request;
    const endMs = performance.now();
    const text = `${verdict.text ?? ""} (${asked})`;
    this.#windows.finish({ ...verdict, text, kind: question.kind, window, dueMs, endMs, isResent });
  }

  #lookForReadiness(): void {
    for (const router of this.#routers) {
      if (router.lookedMs !== undefined) continue;
      router.lookedMs = performance.now();
      router.rest.send(READY_QUESTION, (outcome) => {
        router.lookedMs = undefined;
        router.isReady = outcome.kind === "reply" && outcome.reply.status === 200;
      });
    }
  }

  /** A request without an answer long after its deadline counts as hanging. */
  #sweep(): void {
    const nowMs = performance.now();
    for (const request of this.#pending) {
      if (nowMs - request.dueMs < this.#order.requestMsMax) continue;
      request.cancel();
      this.#finish(request, { class: "failed", text: "hung: no answer and no error" });
    }
  }

  async #stop(): Promise<void> {
    this.#isStopped = true;
    this.#windows.close(performance.now());
    while (this.#pending.size > 0) {
      await new Promise((resolve) => {
        setTimeout(resolve, 20);
      });
    }
    for (const { rest, grpc } of this.#routers) {
      rest.close();
      grpc.close();
    }
    report({ type: "figures", figures: this.#windows.figures() });
    setTimeout(() => process.disconnect(), 100);
  }

  #tell(): void {
    if (this.#isStopped) return;
    const { counts, latenciesMs } = this.#windows.current!;
    report({ type: "progress", counts, requests: latenciesMs.length, pending: this.#pending.size });
  }
}

function readinessOf({ isReady, lookedMs }: RouterDoors, nowMs: number): RouterReadiness {
  if (!isReady) return "unready";
  return lookedMs !== undefined && nowMs - lookedMs > READY_MS_MAX ? "silent" : "ready";
}

function report(message: LoadReport): void {
  process.send?.(message);
}

let running: LoadProcess | undefined;
process.on("message", (order: LoadOrder) => {
  if (order.type === "start") running = new LoadProcess(order);
  else running?.take(order);
});
process.on("disconnect", () => process.exit(0));
report({ type: "ready" });
