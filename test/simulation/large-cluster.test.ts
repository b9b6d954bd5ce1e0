// The run of one large cluster, with a few workers: it must work when somebody wants many.

import { expect, test } from "vitest";
import { runLargeCluster } from "./large-cluster-run.ts";

test.each(["redis", "list"] as const)(
  "a cluster by %s starts, rests, loses a worker, and answers exactly",
  async (membership) => {
    const lines: string[] = [];
    const violations = await runLargeCluster({
      workers: 5,
      partitions: 8,
      membership,
      restSeconds: 1,
      print: (line) => lines.push(line),
      cpuMs: () => 0,
    });

    expect(violations).toEqual([]);
    expect(lines.filter((line) => line.startsWith("rest"))).toHaveLength(1);
    expect(lines.join("\n")).toMatch(/replicas loaded by others: \d+/);
  },
);
