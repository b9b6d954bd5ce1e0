// One command to a Redis, below any client: the harness must reach a server that it has made unwell.

import { connect } from "node:net";

const ANSWERED_WITHIN_MS = 5000;

/** The first line, or the text, that a command is answered with. @throws Error in Redis' words */
export function redisCommand(port: number, words: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1");
    const finish = (end: () => void): void => {
      socket.destroy();
      end();
    };
    socket.setTimeout(ANSWERED_WITHIN_MS, () => finish(() => reject(new Error("no answer"))));
    socket.once("error", reject);
    const parts = words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`);
    socket.write(`*${words.length}\r\n${parts.join("")}`);
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk.toString("utf8");
      const line = /^([+\-:$])([^\r]*)\r\n/.exec(text);
      if (line === null) return;
      const [head, kind, rest] = line as unknown as [string, string, string];
      if (kind === "-") return finish(() => reject(new Error(rest)));
      if (kind !== "$") return finish(() => resolve(rest));
      const body = text.slice(head.length);
      if (Buffer.byteLength(body) >= Number(rest)) finish(() => resolve(body));
    });
  });
}
