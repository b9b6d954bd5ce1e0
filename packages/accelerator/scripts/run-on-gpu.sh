#!/usr/bin/env bash
# Tries Winnow's GPU accelerator on a machine that has a GPU and its driver and nothing else. Lies as
# run.sh beside winnow-gpu.tar.gz (pack-for-gpu.mjs), which it unpacks below TMPDIR.
#
#   bash run.sh [all|doctor|tests|exactness|bench] [--minutes 9] [flags of gpu-bench.mjs]
#
#   doctor     what the machine has and lacks; without a usable GPU nothing else is begun
#   tests      the GPU accelerator's tests
#   exactness  searches by chance, far larger than those of the tests, against the reference
#   bench      gpu-bench.mjs, PyTorch beside it where WINNOW_BENCH_PYTHON or python3 has it
#
# All ends within --minutes. Each stage has a part of it, and what a stage leaves goes to the next; one
# that is cut off has written what it found so far. Results come to OUT, by default the folder
# `results` beside this file: run.log, doctor.json, tests.json, exactness.json, and the benchmark's
# <device>-<date>.json and .md. The exit status is 0 if every stage passed; a stage that found no time
# left or was cut off did not.
set -uo pipefail
began=$(date +%s)
here=$(cd "$(dirname "$0")" && pwd)
wanted=all
case ${1:-} in
  all | doctor | tests | exactness | bench) wanted=$1 && shift ;;
  -* | "") ;;
  *) echo "no stage $1: all, doctor, tests, exactness or bench" >&2 && exit 2 ;;
esac
minutes=9
flags=()
while [ $# -gt 0 ]; do
  case $1 in
    --minutes) minutes=${2:-} && shift ;;
    --minutes=*) minutes=${1#*=} ;;
    *) flags+=("$1") ;;
  esac
  shift
done
case $minutes in "" | *[!0-9]*) echo "--minutes wants a whole number, not '$minutes'" >&2 && exit 2 ;; esac
total=$((minutes * 60))
mkdir -p "${OUT:=$here/results}"
out=$(cd "$OUT" && pwd)
root=${TMPDIR:-/tmp}/winnow-gpu
software=${WINNOW_GPU_ALLOW_SOFTWARE:-}
status=0

say() { echo "== $(($(date +%s) - began)) s  $*" | tee -a "$out/run.log"; }

# Seconds left for a stage that may have so many hundredths of the whole; alone it may have all.
seconds_for() {
  local left=$((began + total - 10 - $(date +%s))) share=$((total * $1 / 100))
  if [ "$wanted" != all ]; then share=$left; fi
  echo $((share < left ? share : left))
}

# stage NAME HUNDREDTHS COMMAND...
stage() {
  local name=$1 seconds code=0
  seconds=$(seconds_for "$2")
  shift 2
  if [ "$wanted" != all ] && [ "$wanted" != "$name" ] && [ "$name" != doctor ]; then return 0; fi
  if [ "$seconds" -lt 5 ]; then
    say "$name: no time left"
    status=1
    return 1
  fi
  say "$name: begins, $seconds s at most"
  SECONDS_MAX=$seconds timeout -k 5 "$seconds" "$@" 2>&1 | tee -a "$out/run.log"
  code=${PIPESTATUS[0]}
  case $code in
    0) say "$name: passed" ;;
    124 | 137) say "$name: CUT OFF after $seconds s; what it wrote until then is there" ;;
    *) say "$name: FAILED with status $code" ;;
  esac
  if [ "$code" != 0 ]; then status=1; fi
  return "$code"
}

unpack() {
  local stamp
  stamp=$(cksum <"$here/winnow-gpu.tar.gz")
  if [ "$(cat "$root/.stamp" 2>/dev/null)" = "$stamp" ]; then return; fi
  rm -rf "$root"
  mkdir -p "$root" && tar -C "$root" -xzf "$here/winnow-gpu.tar.gz" && echo "$stamp" >"$root/.stamp"
}

# The Vulkan loader, from the packages brought along, without installing them.
bring_loader() {
  case $( (ldconfig -p || /sbin/ldconfig -p) 2>/dev/null) in *libvulkan.so.1*) return ;; esac
  for package in "$here"/*.deb; do
    if [ -e "$package" ]; then dpkg -x "$package" "$root/system"; fi
  done
  export LD_LIBRARY_PATH="$root/system/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}

# The driver's file, where it lies in none of the loader's folders.
name_driver() {
  local file=/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json
  local egl=/usr/local/nvidia/share/glvnd/egl_vendor.d/10_nvidia.json
  if [ -z "${VK_DRIVER_FILES:-}" ] && ! ls /usr/share/vulkan/icd.d/*.json /etc/vulkan/icd.d/*.json >/dev/null 2>&1; then
    if [ ! -e "$file" ]; then
      file=$root/nvidia_icd.json
      echo '{"file_format_version":"1.0.0","ICD":{"library_path":"libGLX_nvidia.so.0","api_version":"1.3.0"}}' >"$file"
    fi
    export VK_DRIVER_FILES=$file
  fi
  if [ -n "${VK_DRIVER_FILES:-}" ]; then export VK_ICD_FILENAMES=$VK_DRIVER_FILES; fi # older loaders
  if [ -e "$egl" ]; then export __EGL_VENDOR_LIBRARY_FILENAMES=${__EGL_VENDOR_LIBRARY_FILENAMES:-$egl}; fi
}

: >"$out/run.log"
say "unpack"
unpack || { say "cannot unpack winnow-gpu.tar.gz" && exit 1; }
cd "$root" || exit 1
./node --version >>"$out/run.log" 2>&1 || { cat "$out/run.log" && say "this Node.js does not run here" && exit 1; }
bring_loader
name_driver
{ nvidia-smi -L && nvidia-smi --query-gpu=driver_version,memory.total,memory.used --format=csv; } >>"$out/run.log" 2>&1
if [ -z "${WINNOW_BENCH_PYTHON+named}" ]; then
  WINNOW_BENCH_PYTHON=$(command -v python3 || true)
  export WINNOW_BENCH_PYTHON
fi
scripts=packages/accelerator/scripts
stage doctor 20 ./node $scripts/gpu-doctor.mjs --out "$out/doctor.json" || {
  say "no stage is begun without a usable GPU"
  exit 1
}
stage tests 40 ./node node_modules/vitest/vitest.mjs run --config test/vitest.config.ts --root . --project unit \
  --reporter=default --reporter=json --outputFile.json="$out/tests.json" packages/accelerator/src/gpu
# A stage is told its time through the environment, and ends a little before it is cut off.
stage exactness 15 bash -c './node "$0" --seconds $((SECONDS_MAX * 8 / 10)) "$@"' \
  $scripts/gpu-exactness.mjs --out "$out/exactness.json" ${software:+--small}
stage bench 100 bash -c './node "$0" --seconds-in-all $((SECONDS_MAX * 9 / 10)) "$@"' \
  $scripts/gpu-bench.mjs --out "$out" ${software:+--software} ${flags[@]+"${flags[@]}"}
say "files in $out: $(cd "$out" && echo *)"
exit "$status"
