// What a page of metrics in Prometheus' text format says, for benchmarks: sums over series.

/** Reads a page; the function it gives sums the series of a name whose labels contain all texts. */
export async function readPage(url) {
  const text = await (await fetch(url)).text();
  const series = Array.from(
    text.matchAll(/^(\w+)(?:\{(.*)\})? (\S+)$/gm),
    ([, name, labels, value]) => ({
      name,
      labels: labels ?? "",
      value: Number(value),
    }),
  );
  return (name, ...labels) =>
    series
      .filter((each) => each.name === name && labels.every((label) => each.labels.includes(label)))
      .reduce((sum, { value }) => sum + value, 0);
}
