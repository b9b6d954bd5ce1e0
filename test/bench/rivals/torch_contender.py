"""A rival of the search benchmark: matmul and topk of PyTorch, driven line by line.

load FILE ROWS DIM THREADS        answers "ready VERSION"
search FROM QUERIES K             answers the milliseconds, then the rows of the first query

The table is transposed beforehand, which is the faster of the two layouts for one query.
"""

import sys
import time

import numpy
import torch


def main():
    table, vectors = None, None
    for line in sys.stdin:
        command, *words = line.split()
        if command == "load":
            path, rows, dim, threads = words[0], *map(int, words[1:])
            torch.set_num_threads(threads)
            values = torch.from_numpy(numpy.fromfile(path, dtype=numpy.float32))
            table = values[: rows * dim].reshape(rows, dim).T.contiguous()
            vectors = values[rows * dim :].reshape(-1, dim).clone()
            print("ready", torch.__version__, flush=True)
        else:
            start, queries, k = map(int, words)
            asked = vectors[start : start + queries]
            began = time.perf_counter()
            with torch.inference_mode():
                _, found = torch.topk(torch.matmul(asked, table), k, dim=1)
            elapsed = (time.perf_counter() - began) * 1000
            print(elapsed, *found[0].tolist(), flush=True)


main()
