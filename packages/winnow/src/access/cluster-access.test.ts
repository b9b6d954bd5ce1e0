// What a process is told of its flags before the cluster needs what they name.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { silentLogger } from "@winnow/core";
import { expect, test, vi } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { testAuthority } from "../../../../test/fixtures/certificates.ts";
import { ProcessTls } from "../process/process-tls.ts";
import { openCluster } from "./cluster-access.ts";

const authority = testAuthority();

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

  const message: unknown = expect.stringContaining("Cannot write the state file");
  await vi.waitFor(() => expect(warn).toHaveBeenCalledWith("no state can be kept", { message }));
  await cluster.close();
  rmSync(directory, { recursive: true });
});

test("a certificate that lacks the name of all members is told where it is", async () => {
  const directory = mkdtempSync(path.join(tmpdir(), "winnow-access-"));
  const { cert, key } = authority.issue({ names: ["other.winnow"] });
  const file = (name: string, text: string): string => {
    writeFileSync(path.join(directory, name), text);
    return path.join(directory, name);
  };
  const clusterTlsCert = file("crt", cert);
  const clusterTlsKey = file("key", key);
  const clusterTlsCa = file("ca", authority.cert);
  const warn = vi.fn();
  const log = { ...silentLogger, warn };
  const tls = new ProcessTls({ clock: new ManualClock(), random: () => 0.5, log });
  const flags = { clusterTlsCert, clusterTlsKey, clusterTlsCa };

  await tls.openCluster(flags);
  await tls.openCluster({ ...flags, clusterTlsName: "other.winnow" });
  expect(warn).not.toHaveBeenCalled();
  await tls.openCluster({ ...flags, clusterTlsName: "member.winnow" });

  expect(warn).toHaveBeenCalledWith("certificate of no member", {
    message: expect.stringContaining("lacks the DNS name member.winnow (--cluster-tls-name)"),
    names: "DNS:other.winnow",
  });
  tls.close();
  rmSync(directory, { recursive: true });
});
