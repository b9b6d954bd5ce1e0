// How a role's process ends. SIGTERM and Ctrl-C drain: finish what is running, accept nothing new,
// exit 0. A second signal exits at once. A process started by `winnow up` leaves Ctrl-C to its
// parent, closes without a drain on the parent's message, and never outlives the parent.

import type { Logger } from "@winnow/core";

/** What a role does when it must end. */
export interface ProcessEnd {
  /** Finish what is running, then close. */
  drain(): Promise<void>;
  /** Close now: the whole local cluster is going away. */
  close(): Promise<void>;
}

/** Exit code of a worker whose device is lost: restart it (EX_TEMPFAIL of sysexits.h). */
export const DEVICE_LOST_EXIT_CODE = 75;
/** A message from `winnow up` to its children: close now. */
export const STOP_MESSAGE = "winnow:stop";
/** A message from a child to `winnow up`: it listens. */
export const LISTENING_MESSAGE = "winnow:listening";

/** Whether `winnow up` or `winnow serve` started this process. */
export const isChildProcess = (): boolean => process.send !== undefined;

/** The channel to the process that started this one, if {@link isChildProcess}. */
export const parentChannel = {
  send: (message: object | string): void => void process.send?.(message),
  onMessage: (listener: (message: unknown) => void): void => void process.on("message", listener),
};

/** Has this process go on where its output cannot be written: the disk is full, or the reader is gone. */
export function outliveOutput(): void {
  process.stdout.removeAllListeners("error");
  process.stdout.on("error", () => undefined);
}

/**
 * Arranges the end of this process. To be called once, when the role runs. The returned function begins the
 * same end as SIGTERM.
 */
export function endOnSignals(end: ProcessEnd, log: Logger): (reason: string) => void {
  let isEnding = false;
  const finish = (name: string, how: () => Promise<void>): void => {
    if (isEnding) {
      log.warn("exit without draining", { signal: name });
      process.exit(1);
    }
    isEnding = true;
    log.info("stopping", { reason: name });
    how().then(
      () => process.exit(0),
      (error: unknown) => {
        log.error("stop failed", { error });
        process.exit(1);
      },
    );
  };
  process.on("SIGTERM", () => finish("SIGTERM", () => end.drain()));
  process.on("SIGINT", () => {
    if (!isChildProcess()) finish("SIGINT", () => end.drain());
  });
  if (isChildProcess()) {
    process.on("message", (message) => {
      if (message === STOP_MESSAGE) finish("stop", () => end.close());
    });
    process.on("disconnect", () => process.exit(1));
  }
  return (reason) => {
    if (!isEnding) finish(reason, () => end.drain());
  };
}

/** A signal that is aborted by the first SIGINT or SIGTERM; `close` leaves signals to Node again. */
export function endingSignal(): { readonly signal: AbortSignal; close(): void } {
  const ending = new AbortController();
  const end = (): void => ending.abort();
  const names = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const name of names) process.on(name, end);
  const close = (): void => {
    for (const name of names) process.off(name, end);
  };
  return { signal: ending.signal, close };
}

/** Tells `winnow up`, if it started this process, that it listens now. */
export function reportListening(): void {
  process.send?.(LISTENING_MESSAGE);
}
