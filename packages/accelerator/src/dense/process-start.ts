// Starts the process that runs dense parts, and reports its end: the reason, and its last output.
//
// A graph may make gigabytes of an input of some bytes (Tile, Expand). On Linux the system refuses the process
// more memory than the machine or the container can spare: ONNX Runtime then fails the run, and nobody looks for a
// process to kill, which might be this one.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import type { Socket } from "node:net";
import process, { nextTick } from "node:process";
import { fileURLToPath } from "node:url";
import { entryBeside, memoryLimitBytes } from "@winnow/core";
import { FrameReader } from "./dense-frames.ts";
import type { DenseAnswer, Frame } from "./dense-frames.ts";

/** Characters of the process's last output that are kept. */
const SAID_CHARACTERS = 1024;
const SOCKET = 3;
const SHELL = "/bin/sh";
/** Memory that is left to others, if it is not more than half of all. */
const SPARED_BYTES = 512 * 2 ** 20;
/**
 * What Node and ONNX Runtime map without using it, which counts as allocated: without 580 MiB of it Node 24 and 26 do
 * not start. And for each thread its stack.
 */
const MAPPED_BYTES = (Number.parseInt(process.versions.node, 10) < 24 ? 512 : 896) * 2 ** 20;
const STACK_BYTES = 8 * 2 ** 20;

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

/** What to start. Tests start other files, with less memory. */
interface ProcessStart {
  readonly entry?: URL;
  /** Bytes that runs and models may take, about. Default: all memory but 512 MiB, or half of it. */
  readonly memoryBytes?: number;
}

/** @internal tests call it */
export function startDenseProcess(
  threads: number,
  listener: DenseProcessListener,
  {
    entry = entryBeside(import.meta.url, "dense-process"),
    memoryBytes = mostMemoryBytes(memoryLimitBytes()),
  }: ProcessStart = {},
): DenseProcess {
  const command = [process.execPath, fileURLToPath(entry), String(threads)];
  const mappedBytes = MAPPED_BYTES + threads * STACK_BYTES;
  const [file, ...args] = withMemory(command, memoryBytes + mappedBytes);
  const child = spawn(file!, args, { stdio: ["ignore", "ignore", "pipe", "pipe"] });
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
  const uncork = (): void => socket.uncork();
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
      if (hasEnded) return;
      // What is sent in one turn goes to the system at once.
      if (socket.writableCorked === 0) {
        socket.cork();
        nextTick(uncork);
      }
      for (const bytes of pieces) socket.write(bytes);
    },
    kill: () => {
      hold(true);
      child.kill("SIGKILL");
      return ended;
    },
  };
}

const mostMemoryBytes = (all: number): number => Math.max(all / 2, all - SPARED_BYTES);

/**
 * The command with a limit of its memory, where the system knows one: on Linux the limit of data holds for all memory
 * that is allocated and may be written to. It is not raised above a limit that this process has itself.
 */
function withMemory(command: readonly string[], memoryBytes: number): readonly string[] {
  if (process.platform !== "linux" || !existsSync(SHELL)) return command;
  const script = 'ulimit -d "$0" 2>/dev/null; exec "$@"';
  return [SHELL, "-c", script, String(Math.floor(memoryBytes / 1024)), ...command];
}
