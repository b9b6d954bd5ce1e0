// Versions of an object store on a disk that has no room for them: nothing is half there, the room is given back, and the
// error says how much is missing where.

import { readdirSync, statfsSync } from "node:fs";
import { afterAll, describe, expect, test } from "vitest";
import { NEEDS_SMALL_DISK, SMALL_DISK_BYTES, smallDisk } from "../../../../test/small-disk.ts";
import { ObjectMirror } from "./object-mirror.ts";
import type { ByteRange, StoredObject } from "./object-store.ts";

const URL = "s3://models/movies/1";
const KEY = "movies/1";
const disk = smallDisk();
const folder = disk?.folder ?? "";
afterAll(() => disk?.remove());

const freeBytes = (): number => statfsSync(folder).bavail * statfsSync(folder).bsize;

/** Opens a version of these files, whose pieces `read` gives. */
function opened(
  files: Readonly<Record<string, number>>,
  read = async ({ start, end }: ByteRange): Promise<Uint8Array> => new Uint8Array(end - start),
) {
  const objects = Object.entries(files).map(([name, bytes]): StoredObject => {
    return { key: `${KEY}/${name}`, bytes, etag: "e" };
  });
  const store = {
    folders: async () => [],
    objects: async () => objects,
    read: (_bucket: unknown, _object: unknown, range: ByteRange) => read(range),
  };
  const remote = { add: () => undefined, delete: () => undefined };
  const mirror = new ObjectMirror({ store, files: remote, parent: folder });
  return mirror.open(URL).finally(() => mirror.close());
}

describe.skipIf(disk === undefined)(`a full disk ${NEEDS_SMALL_DISK}`, () => {
  test("takes no part of a file for the file, though a part of the last write fits", async () => {
    await expect(opened({ "saved_model.pb": SMALL_DISK_BYTES + 1 })).rejects.toMatchObject({
      code: "RESOURCE_EXHAUSTED",
      message: expect.stringMatching(
        new RegExp(
          `^Cannot copy ${URL} here: the disk is full in ${folder}: 1048577 bytes are needed, 10\\d{5} bytes are free; name a folder with more room in TMPDIR$`,
        ),
      ) as string,
    });
    expect(readdirSync(folder)).toEqual([]);
    expect(freeBytes()).toBe(SMALL_DISK_BYTES);
  });

  test("gets its room back at once from the files that were read beside the one that failed", async () => {
    const piece = 2 ** 22;
    const reads: number[] = [];
    const read = async ({ start, end }: ByteRange): Promise<Uint8Array> => {
      reads.push(start);
      await new Promise(setImmediate);
      return new Uint8Array(end - start);
    };

    await expect(
      opened(
        { "saved_model.pb": 2 * piece, "assets/a": 100 * piece, "assets/b": 100 * piece },
        read,
      ),
    ).rejects.toThrow("the disk is full");

    expect(reads.length).toBeLessThan(9);
    expect(freeBytes()).toBe(SMALL_DISK_BYTES);
  });

  test("that others have filled is told with the room that there is", async () => {
    disk!.fill();

    await expect(opened({ "saved_model.pb": 1000 })).rejects.toThrow(
      /1000 bytes are needed, 0 bytes are free/,
    );
  });
});
