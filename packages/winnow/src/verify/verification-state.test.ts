// The file of a verification on a full disk: the state before stays, and the next run continues there.

import { readdirSync } from "node:fs";
import path from "node:path";
import { afterAll, expect, test } from "vitest";
import { NEEDS_SMALL_DISK, smallDisk } from "../../../../test/small-disk.ts";
import { type ModelProgress, type RunIdentity, VerificationState } from "./verification-state.ts";

const disk = smallDisk();
afterAll(() => disk?.remove());

const RUN = { url: "http://127.0.0.1:8501", against: undefined, seed: 1 } as RunIdentity;

test.skipIf(disk === undefined)(
  `a state that cannot be written leaves the one before, and says what would help ${NEEDS_SMALL_DISK}`,
  () => {
    const file = path.join(disk!.folder, "state.json");
    const counts = { next: 1, missing: [], instances: 1, differences: [] };
    const first = { model: "movies", fingerprint: "f", ...counts } as unknown as ModelProgress;
    const state = new VerificationState(RUN, file);
    state.keep(first);
    disk!.fill();

    expect(() => state.keep({ ...first, model: "m".repeat(5000) })).toThrow(
      new RegExp(
        `^Cannot write ${file}: the disk is full in ${disk!.folder}: 5\\d{3} bytes are needed, 0 bytes are free; name another --state$`,
      ),
    );

    expect(readdirSync(disk!.folder)).toEqual(["filler", "state.json"]);
    expect(new VerificationState(RUN, file).progressOf("movies", "f")).toEqual(first);
  },
);
