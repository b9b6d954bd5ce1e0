// Hostile clients in a separate process: one attack until it is told to stop.

import { ATTACKS } from "./hostile-attacks.ts";
import type { HostileOrder, HostileReport } from "./hostile-clients.ts";

function report(message: HostileReport): void {
  process.send?.(message);
}

let stop: (() => Promise<string>) | undefined;

process.on("message", (order: HostileOrder) => {
  if (order.type === "attack") {
    stop = ATTACKS[order.attack]!(order.targets);
    report({ type: "started" });
  } else {
    void stop?.().then((seen) => report({ type: "stopped", seen }));
  }
});
process.on("disconnect", () => process.exit(0));
// Errors inside an attack are expected.
process.on("uncaughtException", (error) => process.stderr.write(`attacker: ${error.message}\n`));
report({ type: "ready" });
