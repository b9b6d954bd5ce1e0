// What a BruteForce layer of TensorFlow Recommenders becomes in ONNX: MatMul and TopK over the transposed
// table, which is a constant of the model: the best case for it. Rivals of the benchmarks run it.

function varint(value) {
  const bytes = [];
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  return Buffer.from([...bytes, rest]);
}

const integer = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);
const block = (field, ...content) => {
  const length = content.reduce((sum, part) => sum + part.length, 0);
  return Buffer.concat([varint(field * 8 + 2), varint(length), ...content]);
};
const text = (field, value) => block(field, Buffer.from(value));

/** The table of a file of `rows` × `dim` float32 values, column by column. */
export function transposedTable(values, rows, dim) {
  const transposed = new Float32Array(rows * dim);
  for (let row = 0; row < rows; row += 1) {
    for (let j = 0; j < dim; j += 1) transposed[j * rows + row] = values[row * dim + j];
  }
  return transposed;
}

/** The bytes of `scores, rows = TopK(MatMul(vectors, table), k)`. */
export function bruteForceModel(transposed, rows, dim) {
  const shaped = (name, type, dims) => {
    const shape = dims.map((size) => block(1, text(2, size)));
    return Buffer.concat([text(1, name), block(2, block(1, integer(1, type), block(2, ...shape)))]);
  };
  const raw = Buffer.from(transposed.buffer, transposed.byteOffset, transposed.byteLength);
  const product = [text(1, "vectors"), text(1, "table"), text(2, "all"), text(4, "MatMul")];
  const best = [text(1, "all"), text(1, "k"), text(2, "scores"), text(2, "rows"), text(4, "TopK")];
  const graph = [
    block(1, ...product),
    block(1, ...best),
    text(2, "search"),
    block(5, integer(1, dim), integer(1, rows), integer(2, 1), text(8, "table"), block(9, raw)),
    block(11, shaped("vectors", 1, ["queries", "dim"])),
    block(11, shaped("k", 7, ["one"])),
    block(12, shaped("scores", 1, ["queries", "k"])),
    block(12, shaped("rows", 7, ["queries", "k"])),
  ];
  return Buffer.concat([integer(1, 8), block(8, integer(2, 17)), block(7, ...graph)]);
}
