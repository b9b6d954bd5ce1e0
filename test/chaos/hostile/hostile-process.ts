// Hostile clients, in a process of their own: one attack until told to stop.

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
// What breaks inside an attack is the point of it.
process.on("uncaughtException", (error) => process.stderr.write(`attacker: ${error.message}\n`));
report({ type: "ready" });
