// Starts the process that runs dense parts, and reports its end: the reason, and its last output.

import { spawn } from "node:child_process";
import type { Socket } from "node:net";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { entryBeside } from "@winnow/core";
import { FrameReader } from "./dense-frames.ts";
import type { DenseAnswer, Frame } from "./dense-frames.ts";

/** Characters of the process's last output that are kept. */
const SAID_CHARACTERS = 1024;
const SOCKET = 3;

/** Callbacks for a process. */
export interface DenseProcessListener {
  /** Called in the order of the requests. */
  readonly onAnswer: (answer: Frame<DenseAnswer>) => void;
  /** Called once, after the last answer: "ended with SIGFPE", and the last output. */
  readonly onEnd: (how: string) => void;
}

/** A process that was started. */
export interface DenseProcess {
  /** Sends a frame, in one piece or several. */
  send(...pieces: readonly Uint8Array[]): void;
  /** Sets whether the socket keeps this process alive; at first it does not. */
  hold(isHeld: boolean): void;
  /** Kills the process at once; resolves when it has ended. */
  kill(): Promise<void>;
}

/** Starts a process whose runs use this many threads. Tests pass their own, to watch it. */
export type StartDenseProcess = (threads: number, listener: DenseProcessListener) => DenseProcess;

/** @internal tests call it */
export function startDenseProcess(
  threads: number,
  listener: DenseProcessListener,
  entry: URL = entryBeside(import.meta.url, "dense-process"),
): DenseProcess {
  const child = spawn(process.execPath, [fileURLToPath(entry), String(threads)], {
    stdio: ["ignore", "ignore", "pipe", "pipe"],
  });
  const socket = child.stdio[SOCKET] as Socket;
  const stderr = child.stderr as Socket;
  const reader = new FrameReader<DenseAnswer>();
  let said = "";
  let hasEnded = false;
  const ended = new Promise<void>((resolve) => {
    const end = (what: string): void => {
      if (hasEnded) return;
      hasEnded = true;
      const words = said.trim().replaceAll(/\s+/g, " ");
      listener.onEnd(words === "" ? what : `${what}: ${words}`);
      resolve();
    };
    child.once("error", (error) => end(`did not start (${error.message})`));
    child.once("close", (code, signal) => end(`ended with ${signal ?? `exit code ${code}`}`));
  });
  stderr.setEncoding("utf8");
  stderr.on("data", (text: string) => (said = (said + text).slice(-SAID_CHARACTERS)));
  socket.on("data", (piece: Uint8Array) => {
    try {
      for (const answer of reader.read(piece)) listener.onAnswer(answer);
    } catch (error) {
      said += String(error);
      child.kill("SIGKILL");
    }
  });
  socket.on("error", () => undefined); // A process that ended: "close" tells of it.
  let wasHeld = true;
  const hold = (isHeld: boolean): void => {
    if (isHeld === wasHeld) return;
    wasHeld = isHeld;
    for (const each of [child, socket, stderr]) {
      if (isHeld) each.ref();
      else each.unref();
    }
  };
  hold(false);
  return {
    hold,
    send: (...pieces) => {
      for (const bytes of pieces) if (!hasEnded) socket.write(bytes);
    },
    kill: () => {
      hold(true);
      child.kill("SIGKILL");
      return ended;
    },
  };
}
