// Writes tiny ONNX models for tests, straight in the wire format of protocol buffers (onnx.proto3).

type Bytes = readonly number[];

function varint(value: number): Bytes {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  return [...bytes, rest];
}

const integer = (field: number, value: number): Bytes => [...varint(field * 8), ...varint(value)];

function block(field: number, ...content: Bytes[]): Bytes {
  const bytes = content.flat();
  return [...varint(field * 8 + 2), ...varint(bytes.length), ...bytes];
}

const text = (field: number, value: string): Bytes =>
  block(field, [...new TextEncoder().encode(value)]);

/** Element type numbers of `TensorProto.DataType`. */
const ONNX_TYPES = {
  float32: 1,
  uint8: 2,
  int32: 6,
  int64: 7,
  bool: 9,
  float64: 11,
} as const;

type OnnxDtype = keyof typeof ONNX_TYPES;

/** A named input or output of a graph, whose dimensions are named too. */
function valueInfo(name: string, dtype: OnnxDtype, dims: readonly string[]): Bytes {
  const shape = block(2, ...dims.map((dim) => block(1, text(2, dim))));
  return [...text(1, name), ...block(2, block(1, integer(1, ONNX_TYPES[dtype]), shape))];
}

function model(graph: Bytes[]): Uint8Array {
  return Uint8Array.from([...integer(1, 8), ...block(8, integer(2, 17)), ...block(7, ...graph)]);
}

/** `y = x` for one element type, any number of values. */
export function identityModel(dtype: OnnxDtype): Uint8Array {
  return model([
    block(1, text(1, "x"), text(2, "y"), text(4, "Identity")),
    text(2, "identity"),
    block(11, valueInfo("x", dtype, ["n"])),
    block(12, valueInfo("y", dtype, ["n"])),
  ]);
}

/** `scores = vectors · weights` with float32 `weights` `[rows, columns]` inside the model. */
export function matMulModel(weights: Float32Array, rows: number, columns: number): Uint8Array {
  const raw = [...new Uint8Array(weights.buffer, weights.byteOffset, weights.byteLength)];
  return model([
    block(1, text(1, "vectors"), text(1, "weights"), text(2, "scores"), text(4, "MatMul")),
    text(2, "product"),
    block(
      5,
      integer(1, rows),
      integer(1, columns),
      integer(2, 1),
      text(8, "weights"),
      block(9, raw),
    ),
    block(11, valueInfo("vectors", "float32", ["n", "rows"])),
    block(12, valueInfo("scores", "float32", ["n", "columns"])),
  ]);
}
