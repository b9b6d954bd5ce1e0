// The flags of `winnow status` and `winnow top`.

import { systemClock } from "@winnow/core";
import { Command } from "commander";
import { REST_PORT, addClientOptions } from "../command-options.ts";
import { reportFailure } from "../process/failure-report.ts";
import { holdProcess, processVariables } from "../process/process-settings.ts";

interface RouterQuestion {
  readonly ca?: string;
  readonly keyFile?: string;
  readonly json?: true;
}

const URL_HELP = `the router (default: WINNOW_URL, else http://127.0.0.1:${REST_PORT})`;

/** The router that is meant. */
function urlOf(given: string | undefined): string {
  return given ?? processVariables["WINNOW_URL"] ?? `http://127.0.0.1:${REST_PORT}`;
}

/** `winnow status`. */
export function statusCommand(): Command {
  return addClientOptions(new Command("status"))
    .summary("show the state of a cluster and what to do")
    .description(
      "show the state of a cluster and what to do: exit code 0 ok, 1 degraded, 2 down or no answer",
    )
    .argument("[url]", URL_HELP)
    .option("--json", "the router's report unchanged")
    .action(async (given: string | undefined, { json, ...trust }: RouterQuestion) => {
      const { EXIT_CODES, clusterReport, statusText } = await import("../commands/status.ts");
      const { paint } = await import("../report/paint.ts");
      const report = await clusterReport({ ...trust, url: urlOf(given) });
      if ("error" in report) {
        reportFailure(report.error);
        process.exitCode = EXIT_CODES.down;
        return;
      }
      const text = json === true ? `${JSON.stringify(report)}\n` : statusText(report, paint);
      process.stdout.write(text);
      process.exitCode = EXIT_CODES[report.health.severity];
    });
}

/** `winnow top`. */
export function topCommand(): Command {
  return addClientOptions(new Command("top"))
    .description("show the state of a cluster live, redrawn each second; q or Ctrl-C ends it")
    .argument("[url]", URL_HELP)
    .action(async (given: string | undefined, trust: RouterQuestion) => {
      const { runTop } = await import("../commands/top.ts");
      const { RestClient } = await import("../access/rest-client.ts");
      const { endingSignal } = await import("../process/process-life.ts");
      const release = holdProcess();
      const ending = endingSignal();
      try {
        await runTop({
          client: new RestClient(trust),
          url: urlOf(given),
          clock: systemClock,
          input: process.stdin,
          output: process.stdout,
          signal: ending.signal,
        });
      } finally {
        ending.close();
        release();
      }
    });
}
