// A process that is killed leaves its socket in the file system, and nobody could listen there again.

import { lstat, unlink } from "node:fs/promises";
import { connect } from "node:net";

/** Removes a socket that nobody listens on; anything else at that path stays as it is. */
export async function removeDeadSocket(file: string): Promise<void> {
  const facts = await lstat(file).catch(() => undefined);
  if (facts?.isSocket() === true && !(await isAnswered(file))) await unlink(file);
}

function isAnswered(file: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(file);
    const end = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.once("connect", () => end(true));
    socket.once("error", () => end(false));
  });
}
