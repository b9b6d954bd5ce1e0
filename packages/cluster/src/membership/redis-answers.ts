// What becomes of an answer that the Redis client cannot place: one that nobody asked for, or whose parts are not what
// they must be. The client throws such faults in a later turn of the event loop, where nobody can catch them, so that
// one stray answer of a proxy would end every process of the cluster; or it goes on, and gives each later command the
// answer of the one before it. Here they end the connection, and the client opens another one.

import type { DataHandledable } from "ioredis/built/DataHandler.js";

type Command = ReturnType<DataHandledable["commandQueue"]["shift"]>;

/** The parts of the client's handler of answers that are replaced. */
interface AnswerHandler {
  readonly redis: DataHandledable;
  dispatch(place: () => void): void;
  shiftCommand(): Command;
}

/** Replaces, for all connections of the client, how it places answers. */
export async function endOnStrayAnswers(): Promise<void> {
  const loaded = await import("ioredis/built/DataHandler.js");
  const handler: Pick<AnswerHandler, "dispatch" | "shiftCommand"> = {
    // What is thrown here ends the connection as an answer does that cannot be parsed.
    dispatch: (place) => place(),
    shiftCommand(this: AnswerHandler) {
      const command = this.redis.commandQueue.shift();
      if (command === undefined) throw new Error("Redis sent an answer that nobody asked for");
      return command;
    },
  };
  // A CommonJS module: Node gives its `exports` as default, vitest the default of these.
  const exported: object = loaded.default;
  const owner = "default" in exported ? exported.default : exported;
  Object.assign((owner as { readonly prototype: object }).prototype, handler);
}
