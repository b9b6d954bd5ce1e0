// Free TCP ports of this machine, found by asking the operating system for them all at once.

import { type Server, createServer } from "node:net";
import { WinnowError, hostPort } from "@winnow/core";

/** Ports that were free a moment ago, all different. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(Array.from({ length: count }, () => listen(0, "127.0.0.1")));
  const ports = servers.map((server) => (server.address() as { port: number }).port);
  await Promise.all(servers.map((server) => closed(server)));
  return ports;
}

/** Checks that a port is free. @throws WinnowError UNAVAILABLE naming the flag to change. */
export async function assertPortFree(port: number, host: string, flag: string): Promise<void> {
  if (port === 0) return;
  try {
    await closed(await listen(port, host));
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "";
    const isPort = ["EADDRINUSE", "EACCES"].includes(code);
    const remedy = isPort ? `another port with ${flag}` : "another address with --host";
    const text = `Cannot listen on ${hostPort(host, port)} (${code}); choose ${remedy}`;
    throw new WinnowError("UNAVAILABLE", text, { cause: error });
  }
}

function listen(port: number, host: string): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(port, host, () => resolve(server));
  });
}

function closed(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
  });
}
