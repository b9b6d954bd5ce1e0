// Many pieces of work, a few at a time.

/** Runs `work` on every item, at most `atOnce` at a time. The first failure is thrown. */
export async function runBounded<Item>(
  items: readonly Item[],
  atOnce: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  if (items.length === 1) return await work(items[0]!);
  let next = 0;
  let failed = false;
  const lane = async (): Promise<void> => {
    while (next < items.length && !failed) {
      const item = items[next]!;
      next += 1;
      try {
        await work(item);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  const lanes = Math.min(items.length, Math.max(1, atOnce));
  await Promise.all(Array.from({ length: lanes }, lane));
}
