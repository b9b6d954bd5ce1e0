// Files that hold a model in a format that is not served, found where a version's own files belong: what people copy
// by mistake. Each comes with the way to what is served.

import { excerpt } from "@winnow/core";

interface OtherFormat {
  readonly files: RegExp;
  readonly advice: (name: string) => string;
}

const OTHER_FORMATS: readonly OtherFormat[] = [
  {
    files: /\.weights\.h5$|^checkpoint$/,
    advice: (name) =>
      `${name} belongs to weights without a model; load them into it, and write it in Python: model.export("export/1")`,
  },
  {
    files: /\.(keras|h5|hdf5)$/,
    advice: (name) =>
      `${name} is read by Keras alone; write a SavedModel of it in Python: keras.saving.load_model("${name}").export("export/1")`,
  },
  {
    files: /\.tflite$/,
    advice: (name) => `${name} is for TensorFlow Lite; export the SavedModel that it was made of`,
  },
  {
    files: /\.(pt|pth|pt2|ckpt)$|^pytorch_model\.bin$/,
    advice: (name) =>
      `${name} is read by PyTorch alone; write a model.onnx with torch.onnx.export (docs/pytorch.md)`,
  },
  {
    files: /\.onnx$/,
    advice: (name) => `rename ${name}, and not the file of its weights, if that is the model`,
  },
];

/** Whether a file is a model in a format that is not served, or an ONNX model of another name: not one in a folder. */
export function isOtherFormat(name: string): boolean {
  return !name.includes("/") && OTHER_FORMATS.some(({ files }) => files.test(name));
}

/** What to do about the first of these files that is a model in another format, if any is. */
export function adviceOnFormats(names: readonly string[]): string | undefined {
  const own = names.filter(isOtherFormat);
  for (const { files, advice } of OTHER_FORMATS) {
    const found = own.find((name) => files.test(name));
    if (found !== undefined) return advice(excerpt(found));
  }
  return undefined;
}
