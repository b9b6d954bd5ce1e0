// Tests that read as transcripts: a file tells a course of events, and below each event stands what was
// decided. A person checks the file by eye once; every run plays the events again and compares.
//
//   # What happens, in a sentence: the title of the test. Further comments stand where they are.
//   > an event, in the words of the test that plays it
//   what was recorded below it, up to the next event, comment or empty line
//
// A new file holds comments and events only. TRANSCRIPTS=rewrite records all answers anew; the diff of
// the files is then what has changed in behaviour, and is to be read as such.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";

const ENDING = ".transcript.txt";
const isRewriting = process.env["TRANSCRIPTS"] === "rewrite";

/** Lets an event happen and tells what came of it, line by line. */
export type PlayEvent = (event: string) => readonly string[] | Promise<readonly string[]>;

/** One test for each transcript in `folder`; `begin` sets up the world that its events happen to. */
export function transcriptTests(folder: string, begin: () => PlayEvent): void {
  const names = readdirSync(folder).filter((name) => name.endsWith(ENDING));
  if (names.length === 0) throw new RangeError(`No file in ${folder} ends in ${ENDING}`);
  for (const name of names.toSorted()) {
    const file = path.join(folder, name);
    const recorded = readFileSync(file, "utf8");
    const title = /^# (.+)/.exec(recorded)?.[1];
    if (title === undefined) throw new RangeError(`${file} must begin with "# " and a sentence`);

    test(`${name.slice(0, -ENDING.length)}: ${title}`, async () => {
      const played = await play(recorded, begin());

      if (isRewriting) writeFileSync(file, played);
      const expected = readFileSync(file, "utf8");
      expect(played, `${file} (TRANSCRIPTS=rewrite records it anew)`).toBe(expected);
    });
  }
}

/** The transcript with what its events lead to today. */
async function play(recorded: string, playEvent: PlayEvent): Promise<string> {
  const lines: string[] = [];
  for (const line of recorded.trimEnd().split("\n")) {
    if (line.startsWith("> ")) {
      const answers = await playEvent(line.slice(2));
      lines.push(line, ...answers.map((answer) => `  ${answer.trimEnd()}`));
    } else if (line === "" || line.startsWith("#")) lines.push(line);
    else if (!line.startsWith("  ")) throw new RangeError(`Neither event nor answer: ${line}`);
  }
  return `${lines.join("\n")}\n`;
}
