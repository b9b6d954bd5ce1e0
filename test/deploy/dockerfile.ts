// Reads deploy/Dockerfile: its stages, each with its instructions in order, continued lines joined.

import { readTracked } from "../tracked-files.ts";

/** One instruction: `COPY packages ./packages` is `COPY` with the rest of the line. */
export interface Instruction {
  readonly name: string;
  readonly text: string;
}

/** A stage, by the name after `AS`. */
export interface Stage {
  readonly name: string;
  /** What stands after `FROM`: an image, an argument, or a stage before it. */
  readonly base: string;
  readonly instructions: readonly Instruction[];
}

/** The stages of the Dockerfile; instructions before the first belong to a stage without a name. */
export function dockerStages(): Stage[] {
  const lines = readTracked("deploy/Dockerfile").split("\n");
  const text = lines.filter((line) => !line.startsWith("#")).join("\n");
  const stages: { name: string; base: string; instructions: Instruction[] }[] = [
    { name: "", base: "", instructions: [] },
  ];
  for (const line of text.replaceAll(/\\\n\s*/g, "").split("\n")) {
    const [, name, rest] = /^([A-Z]+) +(.*)$/.exec(line.trim()) ?? [];
    if (name === undefined || rest === undefined) continue;
    const [, base, stage] = name === "FROM" ? (/^(\S+) AS (\S+)$/.exec(rest) ?? []) : [];
    if (base === undefined || stage === undefined)
      stages.at(-1)!.instructions.push({ name, text: rest });
    else stages.push({ name: stage, base, instructions: [] });
  }
  return stages;
}
