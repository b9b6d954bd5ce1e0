// A process of ONNX Runtime on virtual time: runs take what the test says, and end it where it says so.

import type { Clock } from "@winnow/core";
import { FrameReader, tensorFrame } from "../dense-frames.ts";
import type { DenseAnswer, DenseRequest } from "../dense-frames.ts";
import type { DenseProcess, DenseProcessListener, StartDenseProcess } from "../process-start.ts";

/** What a request does: takes so many ms, is refused, or ends the process. */
export type Scripted = number | { readonly refused: string } | "ends";

/** Starts scripted processes, and counts them. */
export class ScriptedProcesses {
  /** What was asked of processes so far, one line each. */
  readonly asked: string[] = [];
  started = 0;
  readonly #clock: Clock;
  readonly #script: (request: DenseRequest, process: number) => Scripted;

  constructor(clock: Clock, script: (request: DenseRequest, process: number) => Scripted) {
    this.#clock = clock;
    this.#script = script;
  }

  readonly start: StartDenseProcess = (_threads, listener): DenseProcess => {
    this.started += 1;
    return this.#process(listener, this.started);
  };

  #process(listener: DenseProcessListener, number: number): DenseProcess {
    const reader = new FrameReader<DenseRequest>();
    const waiting: DenseRequest[] = [];
    let hasEnded = false;
    let isBusy = false;
    const end = (how: string): void => {
      if (hasEnded) return;
      hasEnded = true;
      listener.onEnd(how);
    };
    const answer = (header: DenseAnswer, ms = 0): void => {
      if (hasEnded) return;
      for (const frame of new FrameReader<DenseAnswer>().read(tensorFrame(header, [], ms))) {
        listener.onAnswer(frame);
      }
    };
    const serve = (): void => {
      const request = waiting[0];
      if (request === undefined || isBusy || hasEnded) return;
      isBusy = true;
      this.asked.push(`${number} ${request.kind} ${request.model}`);
      const does = this.#script(request, number);
      const ms = typeof does === "number" ? does : 0;
      this.#clock.setTimer(ms, () => {
        if (does === "ends") return end("ended with SIGSEGV");
        waiting.shift();
        isBusy = false;
        if (typeof does === "object") answer({ kind: "failed", message: does.refused }, ms);
        else answer({ kind: "done", outputs: [] }, ms);
        serve();
      });
    };
    this.#clock.setTimer(0, () => answer({ kind: "ready" }));
    return {
      send: (...pieces) => {
        for (const { header } of pieces.flatMap((piece) => reader.read(piece))) {
          waiting.push(header);
          serve();
        }
      },
      hold: () => undefined,
      kill: async () => end("ended with SIGKILL"),
    };
  }
}
