// Convolutions and pools over sequences and images. TensorFlow keeps channels last (NHWC) and the
// kernel as [height, width, channels, filters]; ONNX wants channels first and filters first. "SAME"
// padding puts the odd cell behind, which ONNX calls SAME_UPPER; where strides are 1 it does not
// depend on the sizes, and is written out.

import type { OnnxAttribute } from "./onnx-message.ts";
import type { Translation, Translators } from "./translation.ts";

type Attributes = Readonly<Record<string, OnnxAttribute>>;

/** Translators of convolutions and pools. */
export const convolution: Translators = {
  AvgPool: (t) => pool(t, "AveragePool"),
  Conv2D: (t) => {
    const [height = 1, width = 1, channelsOfGroup] = t.value(1).shape ?? [];
    const channels = t.value(0).shape?.at(isChannelsLast(t) ? -1 : 1) ?? -1;
    const isGrouped = channels > 0 && channelsOfGroup !== undefined && channelsOfGroup > 0;
    return convolve(t, {
      kernel: t.node("Transpose", [t.name(1)], { perm: [3, 2, 0, 1] }),
      window: kernelWindow(t, [height, width]),
      group: isGrouped ? channels / channelsOfGroup : 1,
    });
  },
  Conv2DBackpropInput: transposed,
  DepthwiseConv2dNative: (t) => {
    const [height = 1, width = 1, channels = -1, multiplier = -1] = t.value(1).shape ?? [];
    if (channels < 0 || multiplier < 0) throw t.untranslatable("needs a kernel of known size");
    const kernel = t.node("Transpose", [t.name(1)], { perm: [2, 3, 0, 1] });
    const filters = t.model.integers([channels * multiplier, 1, height, width]);
    return convolve(t, {
      kernel: t.node("Reshape", [kernel, filters]),
      window: kernelWindow(t, [height, width]),
      group: channels,
    });
  },
  MaxPool: (t) => pool(t, "MaxPool"),
};

/** A transposed convolution, which TensorFlow asks for by the size of its result: `Conv2DTranspose`. */
function transposed(t: Translation): string {
  requireFloats(t, 2);
  const [height = -1, width = -1] = t.value(1).shape ?? [];
  const window = kernelWindow(t, [height, width]);
  const axes = isChannelsLast(t) ? [1, 2] : [2, 3];
  const strides = spatial(t, "strides");
  const dilations = spatial(t, "dilations");
  const explicit = paddingOf(t, { window, strides: [1, 1], dilations })["pads"];
  const isSame = t.operation.attributes.text("padding") === "SAME";
  const parts = axes.map((axis, at) => {
    const size = t.value(0).known?.[axis] ?? -1;
    const places = t.value(2).shape?.[axis] ?? -1;
    if (size < 0 || places < 1) throw t.untranslatable("needs sizes that the graph knows");
    const reach = (places - 1) * strides[at]! + (window[at]! - 1) * dilations[at]! + 1;
    const given = Array.isArray(explicit) ? (explicit as readonly number[]) : [0, 0, 0, 0];
    const cut = isSame ? Math.max(0, reach - size) : given[at]! + given[at + 2]!;
    const before = isSame ? Math.floor(cut / 2) : given[at]!;
    return { before, after: cut - before, more: size - (reach - cut) };
  });
  const attributes = {
    kernel_shape: window,
    strides,
    dilations,
    pads: [...parts.map(({ before }) => before), ...parts.map(({ after }) => after)],
    output_padding: parts.map(({ more }) => more),
  };
  // [height, width, filters, channels] → [channels, filters, height, width]
  const kernel = t.node("Transpose", [t.name(1)], { perm: [3, 2, 0, 1] });
  return channelsFirst(t, (value) => t.node("ConvTranspose", [value, kernel], attributes), 2);
}

interface Kernel {
  /** The weights as ONNX wants them, `[filters, channels of a group, height, width]`. */
  readonly kernel: string;
  readonly window: readonly number[];
  readonly group: number;
}

function convolve(t: Translation, { kernel, window, group }: Kernel): string {
  requireFloats(t);
  if (!Number.isInteger(group)) throw t.untranslatable("does not share its channels out evenly");
  const strides = spatial(t, "strides");
  const dilations = spatial(t, "dilations");
  const attributes = {
    kernel_shape: window,
    strides,
    dilations,
    group,
    ...paddingOf(t, { window, strides, dilations }),
  };
  return channelsFirst(t, (value) => t.node("Conv", [value, kernel], attributes));
}

/** Cells that padding adds count in neither pool, as in TensorFlow. */
function pool(t: Translation, op: "AveragePool" | "MaxPool"): string {
  requireFloats(t);
  const { attributes } = t.operation;
  const [batch, channels] = outer(t, attributes.ints("ksize"));
  if (batch !== 1 || channels !== 1) throw t.untranslatable("pools over rows or channels");
  const window = spatial(t, "ksize");
  const strides = spatial(t, "strides");
  const padding = paddingOf(t, { window, strides, dilations: [1, 1] });
  return channelsFirst(t, (value) =>
    t.node(op, [value], { kernel_shape: window, strides, ...padding }),
  );
}

function requireFloats(t: Translation, position = 0): void {
  const dtype = t.dtype(position);
  if (dtype !== "float32") throw t.untranslatable(`is given ${dtype} values`);
}

function isChannelsLast(t: Translation): boolean {
  const format = t.operation.attributes.text("data_format") || "NHWC";
  if (format !== "NHWC" && format !== "NCHW") throw t.untranslatable(`has ${format} channels`);
  return format === "NHWC";
}

/** What `compute` makes of the input with its channels first, with them where they were. */
function channelsFirst(t: Translation, compute: (value: string) => string, position = 0): string {
  if (!isChannelsLast(t)) return compute(t.name(position));
  const result = compute(t.node("Transpose", [t.name(position)], { perm: [0, 3, 1, 2] }));
  return t.node("Transpose", [result], { perm: [0, 2, 3, 1] });
}

function kernelWindow(t: Translation, window: readonly number[]): readonly number[] {
  if (window.some((size) => size < 1)) throw t.untranslatable("needs a kernel of known size");
  return window;
}

/** The two numbers of a list of four that belong to height and width; 1 where it is absent. */
function spatial(t: Translation, name: string): readonly number[] {
  const list = t.operation.attributes.ints(name);
  if (list.length === 0) return [1, 1];
  if (list.length !== 4 || list.some((size) => size < 1 || size > SIZE_MAX)) {
    throw t.untranslatable(`has the ${name} [${list.join(",")}]`);
  }
  return isChannelsLast(t) ? list.slice(1, 3) : list.slice(2);
}

/** A larger window, stride or dilation is a damaged file. */
const SIZE_MAX = 1 << 20;

/** The numbers of a list of four that belong to rows and channels. */
function outer(t: Translation, list: readonly number[]): readonly (number | undefined)[] {
  return isChannelsLast(t) ? [list[0], list[3]] : [list[0], list[1]];
}

interface Steps {
  readonly window: readonly number[];
  readonly strides: readonly number[];
  readonly dilations: readonly number[];
}

function paddingOf(t: Translation, steps: Steps): Attributes {
  const padding = t.operation.attributes.text("padding");
  if (padding === "VALID") return {};
  if (padding === "SAME") return samePadding(t, steps);
  if (padding !== "EXPLICIT") throw t.untranslatable(`has the padding ${padding}`);
  const list = t.operation.attributes.ints("explicit_paddings");
  const [top = 0, bottom = 0, left = 0, right = 0] = list.slice(isChannelsLast(t) ? 2 : 4);
  return { pads: [top, left, bottom, right] };
}

function samePadding(t: Translation, { window, strides, dilations }: Steps): Attributes {
  const sizes = isChannelsLast(t) ? t.value(0).shape?.slice(1, 3) : t.value(0).shape?.slice(2);
  const pads = window.map((cells, axis) => {
    const reach = (cells - 1) * dilations[axis]! + 1;
    return paddedCells(sizes?.[axis] ?? -1, { reach, stride: strides[axis]! });
  });
  if (!pads.includes(undefined)) {
    const before = pads.map((cells) => Math.floor(cells! / 2));
    return { pads: [...before, ...pads.map((cells, axis) => cells! - before[axis]!)] };
  }
  const isDilated = dilations.some((dilation) => dilation > 1);
  if (isDilated) throw t.untranslatable("has strides and dilations over an axis of open size");
  return { auto_pad: "SAME_UPPER" };
}

/** Cells that "SAME" adds to an axis; `undefined` where they depend on a size that is open. */
function paddedCells(
  size: number,
  { reach, stride }: { readonly reach: number; readonly stride: number },
): number | undefined {
  if (stride === 1) return reach - 1;
  if (size < 0) return undefined;
  return Math.max(0, (Math.ceil(size / stride) - 1) * stride + reach - size);
}
