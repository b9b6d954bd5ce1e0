// Many pieces of work, a few at a time.

/** Runs `work` on every item, at most `atOnce` at a time. The first failure is thrown. */
export function runBounded<Item>(
  items: readonly Item[],
  atOnce: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  return items.length === 1 ? work(items[0]!) : runLanes(items, atOnce, work);
}

async function runLanes<Item>(
  items: readonly Item[],
  atOnce: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
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
