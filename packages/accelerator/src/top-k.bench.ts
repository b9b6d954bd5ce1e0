// How much does the filtered native scan save over the obvious one in plain JavaScript? 200,000
// rows of 64 normal values, k = 100, one query and a batch of eight; milliseconds per batch. For
// other libraries and larger tables: `npm run bench:top-k`.

import { bench, describe } from "vitest";
import type { Accelerator, Resident } from "./accelerator.ts";
import { createCpuAccelerator } from "./cpu/accelerator.ts";
import { loadNativeAddon } from "./cpu/native-addon.ts";
import { loadParts, normalValues, seededRandom } from "./cases/exactness.cases.ts";
import { createReferenceAccelerator } from "./reference/accelerator.ts";

const [rows, dim, k] = [200_000, 64, 100];
const options = { capacityBytes: 2 ** 30 };
const random = seededRandom(1);
const table = normalValues(random, rows * dim);
const vectors = normalValues(random, 8 * dim);
const { addon } = loadNativeAddon();

const loaded = async (accelerator: Accelerator): Promise<[Accelerator, Resident[]]> => [
  accelerator,
  await loadParts(accelerator, { table, dim }, 4),
];
const reference = await loaded(createReferenceAccelerator(options));
const cpu = addon === undefined ? undefined : await loaded(createCpuAccelerator(addon, options));

describe.each([1, 8])("Does the filter beat the obvious scan? 200,000 rows, batch %i", (batch) => {
  const search = async ([accelerator, residents]: [Accelerator, Resident[]]): Promise<void> => {
    await accelerator.topK({ residents, vectors: vectors.subarray(0, batch * dim), k });
  };

  bench("reference", () => search(reference), { iterations: 3, time: 0 });
  bench.skipIf(cpu === undefined)("cpu", () => search(cpu!));
});
