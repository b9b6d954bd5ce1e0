// What a process is told of its flags before the cluster needs what they name.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { silentLogger } from "@winnow/core";
import { expect, test, vi } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { openCluster } from "./cluster-access.ts";

test("a state directory that cannot be written is told at the start, not with the first order", async () => {
  const directory = mkdtempSync(path.join(tmpdir(), "winnow-access-"));
  const stateDir = path.join(directory, "taken");
  writeFileSync(stateDir, "");
  const warn = vi.fn();
  const log = { ...silentLogger, warn };
  const options = { cluster: "shop", members: "w0@127.0.0.1:1", acceptUnsigned: false, stateDir };
  const environment = { clock: new ManualClock(), random: () => 0.5, log };

  const cluster = await openCluster(options, environment);
  cluster.openOrders("worker-order-w0");

  const message = expect.stringContaining("Cannot write the state file");
  await vi.waitFor(() => expect(warn).toHaveBeenCalledWith("no state can be kept", { message }));
  await cluster.close();
  rmSync(directory, { recursive: true });
});
