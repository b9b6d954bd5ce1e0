"""A rival of the GPU benchmark: PyTorch's matmul and topk, asked line by line with JSON.

{"rows", "dim", "batch", "k", "dtype": "float32" | "float16", "seconds", "share"?}
    answers {"wallMs", "deviceMs"?, "runs", "pieces"} or {"error"}; share: a mask admits so many rows
Without CUDA it says so, computes on the CPU, and leaves out tables that are too large for that.
{"free": true} gives the memory back
"""

import json
import statistics
import sys
import time

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SCORE_BYTES = 2**33 if DEVICE == "cuda" else 2**29
KEPT = {}
CPU_VALUES_MAX = 2**28


def table(rows, dim, dtype):
    name = (rows, dim, dtype)
    if name not in KEPT:
        KEPT.clear()
        if DEVICE == "cuda":
            torch.cuda.empty_cache()
        kind = getattr(torch, dtype)
        values = torch.empty(rows, dim, dtype=kind, device=DEVICE)
        for start in range(0, rows, 2**20):
            part = values[start : start + 2**20]
            part.copy_(torch.randn(part.shape, device=DEVICE))
        KEPT[name] = values
    return KEPT[name]


def search(values, queries, ask, mask):
    rows = values.shape[0]
    together = max(1, SCORE_BYTES // (rows * values.element_size()))
    pieces = 0
    for start in range(0, queries.shape[0], together):
        scores = queries[start : start + together] @ values.T
        if mask is not None:
            scores.masked_fill_(mask, float("-inf"))
        torch.topk(scores, min(ask["k"], rows)).indices.cpu()
        pieces += 1
    return pieces


def answer(ask):
    if ask.get("free"):
        KEPT.clear()
        return {}
    if DEVICE == "cpu" and ask["rows"] * ask["dim"] > CPU_VALUES_MAX:
        return {"error": "no CUDA: too large for PyTorch on the CPU"}
    values = table(ask["rows"], ask["dim"], ask["dtype"])
    queries = torch.randn(ask["batch"], ask["dim"], device=DEVICE).to(values.dtype)
    share = ask.get("share")
    mask = None if share is None else torch.rand(ask["rows"], device=DEVICE) >= share
    wall, device, pieces = [], [], 0
    end = time.perf_counter() + ask["seconds"]
    for turn in range(1000):
        if turn > 3 and time.perf_counter() > end:
            break
        if DEVICE == "cuda":
            events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            torch.cuda.synchronize()
            events[0].record()
        began = time.perf_counter()
        pieces = search(values, queries, ask, mask)
        if DEVICE == "cuda":
            events[1].record()
            torch.cuda.synchronize()
            device.append(events[0].elapsed_time(events[1]))
        wall.append((time.perf_counter() - began) * 1000)
    told = {"wallMs": statistics.median(wall[1:]), "runs": len(wall) - 1, "pieces": pieces}
    if device:
        told["deviceMs"] = statistics.median(device[1:])
    return told


def main():
    name = torch.cuda.get_device_name() if DEVICE == "cuda" else "no CUDA: on the CPU"
    threads = {} if DEVICE == "cuda" else {"threads": torch.get_num_threads()}
    print(json.dumps({"torch": torch.__version__, "device": name, **threads}), flush=True)
    with torch.inference_mode():
        for line in sys.stdin:
            try:
                told = answer(json.loads(line))
            except Exception as error:  # memory that does not suffice is a result
                KEPT.clear()
                told = {"error": str(error).splitlines()[0][:300]}
            print(json.dumps(told), flush=True)


main()
