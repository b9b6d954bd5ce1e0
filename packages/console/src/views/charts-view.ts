// Six charts of the last ten minutes. uPlot draws on canvases, which screen readers cannot read, so each
// chart has its newest values as text.

import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { timeText } from "../clock.ts";
import type { Sample } from "../history.ts";
import { durationText, sizeText } from "../words.ts";
import { h, section, use } from "./element.ts";

interface Series {
  readonly name: string;
  /** A variable of the style sheet. */
  readonly colour: string;
  readonly value: (sample: Sample) => number | undefined;
}

interface ChartProps {
  readonly heading: string;
  readonly series: readonly Series[];
  readonly text: (value: number) => string;
  /** Whether round values are powers of two. */
  readonly isBinary?: boolean;
  readonly samples: readonly Sample[];
  readonly isDark: boolean;
}

const CHARTS: readonly Omit<ChartProps, "samples" | "isDark">[] = [
  {
    heading: "Requests a second",
    series: [{ name: "requests", colour: "--chart-a", value: ({ rate }) => rate }],
    text: (value) => String(Math.round(value * 10) / 10),
  },
  {
    heading: "Answer time",
    series: [
      { name: "p50", colour: "--chart-a", value: ({ p50Ms }) => p50Ms },
      { name: "p99", colour: "--chart-b", value: ({ p99Ms }) => p99Ms },
    ],
    text: durationText,
  },
  {
    heading: "Stages",
    series: [
      {
        name: "queues",
        colour: "--chart-a",
        value: ({ stages }) => sumOf(stages, "queue", "workerQueue"),
      },
      { name: "scan", colour: "--chart-b", value: ({ stages }) => sumOf(stages, "scan") },
      { name: "merge", colour: "--chart-c", value: ({ stages }) => sumOf(stages, "merge") },
      { name: "dense", colour: "--chart-d", value: ({ stages }) => sumOf(stages, "dense") },
    ],
    text: durationText,
  },
  {
    heading: "Batch sizes",
    series: [
      { name: "instances a request", colour: "--chart-a", value: ({ instances }) => instances },
      { name: "queries a scan", colour: "--chart-c", value: ({ scanned }) => scanned },
    ],
    text: (value) => String(Math.round(value * 10) / 10),
  },
  {
    heading: "Queue",
    series: [{ name: "waiting", colour: "--chart-c", value: ({ queue }) => queue }],
    text: (value) => String(Math.round(value * 10) / 10),
  },
  {
    heading: "Memory of replicas",
    series: [{ name: "all workers", colour: "--chart-d", value: ({ memoryBytes }) => memoryBytes }],
    text: sizeText,
    isBinary: true,
  },
];

/** The distances of marks on an axis in bytes. */
const BINARY_STEPS = Array.from({ length: 50 }, (_, exponent) => 2 ** exponent);

/** The sum of some stages; 0 for a stage that a request did not have. */
function sumOf(stages: Sample["stages"], ...names: readonly string[]): number | undefined {
  return stages && names.reduce((sum, name) => sum + (stages[name] ?? 0), 0);
}

/** The charts. */
export function chartsView(samples: readonly Sample[], isDark: boolean): VNode {
  const charts = CHARTS.map((chart) =>
    use(Chart, { key: chart.heading, ...chart, samples, isDark }),
  );
  return section("charts", "Live", h("div", { class: "charts" }, ...charts));
}

const HEIGHT = 130;

function Chart(props: ChartProps): VNode {
  const { heading, series, text, samples, isDark } = props;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  useEffect(() => {
    const element = place.current!;
    const made = new uPlot(optionsOf(props, element.clientWidth), dataOf(series, samples), element);
    plot.current = made;
    const watch = new ResizeObserver(() =>
      made.setSize({ width: element.clientWidth, height: HEIGHT }),
    );
    watch.observe(element);
    return () => {
      watch.disconnect();
      made.destroy();
    };
  }, [isDark]);
  useEffect(() => plot.current?.setData(dataOf(series, samples)), [samples]);
  const newest = series.map(({ name, value, colour }) => {
    const last = samples.length === 0 ? undefined : value(samples.at(-1)!);
    return h(
      "span",
      { class: `newest ${colour.slice(2)}` },
      `${name} `,
      h("strong", {}, last === undefined ? "–" : text(last)),
    );
  });
  return h(
    "figure",
    { class: "chart" },
    h("figcaption", {}, h("span", { class: "chart-heading" }, heading), ...newest),
    h("div", { ref: place, "aria-hidden": "true" }),
  );
}

function dataOf(series: readonly Series[], samples: readonly Sample[]): uPlot.AlignedData {
  return [
    samples.map(({ at }) => at),
    ...series.map(({ value }) => samples.map((sample) => value(sample) ?? null)),
  ];
}

function optionsOf({ series, text, isBinary }: ChartProps, width: number): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  const axis = {
    stroke: colour("--text-dim"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui",
  };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    scales: { y: { range: (_, _min, max) => [0, max > 0 ? max * 1.1 : 1] } },
    // Half a label of the time stands beyond the last second.
    padding: [null, 28, null, null],
    axes: [
      { ...axis, size: 28, space: 80, values: (_, seconds) => seconds.map(timeText) },
      {
        ...axis,
        size: 64,
        space: 30,
        values: (_, values) => values.map((value) => text(value)),
        ...(isBinary === true && { incrs: BINARY_STEPS }),
      },
    ],
    series: [
      {},
      ...series.map((each) => ({
        label: each.name,
        stroke: colour(each.colour),
        width: 1.5,
        points: { show: false },
        fill: series.length === 1 ? `${colour(each.colour)}22` : undefined,
      })),
    ] as uPlot.Series[],
  };
}
