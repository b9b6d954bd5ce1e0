#!/usr/bin/env bash
# Runs Winnow's GPU tests and benchmark on a machine that has a GPU and its driver and nothing else.
# It lies beside winnow-gpu.tar.xz (see pack-for-gpu.mjs) and unpacks it below TMPDIR; results come to
# OUT, by default the folder `results` beside this file.
# Usage: bash run.sh [all|tests|bench] [flags of gpu-bench.mjs]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
steps=${1:-all}
shift || true
root=${TMPDIR:-/tmp}/winnow-gpu
mkdir -p "$root"
tar -C "$root" -xJf "$here/winnow-gpu.tar.xz"

# The Vulkan loader, from the packages brought along, without installing them.
if ! ldconfig -p 2>/dev/null | grep -q libvulkan.so.1; then
  for package in "$here"/*.deb; do
    if [ -e "$package" ]; then dpkg -x "$package" "$root/system"; fi
  done
  export LD_LIBRARY_PATH="$root/system/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fi

# The driver's file, where it lies in none of the loader's folders.
if [ -z "${VK_DRIVER_FILES:-}" ] && ! ls /usr/share/vulkan/icd.d/*.json /etc/vulkan/icd.d/*.json >/dev/null 2>&1; then
  file=/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json
  if [ ! -e "$file" ]; then
    file=$root/nvidia_icd.json
    echo '{"file_format_version":"1.0.0","ICD":{"library_path":"libGLX_nvidia.so.0","api_version":"1.3.0"}}' >"$file"
  fi
  export VK_DRIVER_FILES=$file
fi
if [ -n "${VK_DRIVER_FILES:-}" ]; then export VK_ICD_FILENAMES=$VK_DRIVER_FILES; fi # older loaders
egl=/usr/local/nvidia/share/glvnd/egl_vendor.d/10_nvidia.json
if [ -e "$egl" ]; then export __EGL_VENDOR_LIBRARY_FILENAMES=${__EGL_VENDOR_LIBRARY_FILENAMES:-$egl}; fi

cd "$root"
status=0
if [ "$steps" != bench ]; then
  ./node node_modules/vitest/vitest.mjs run --config test/vitest.config.ts --root . --project unit \
    packages/accelerator/src/gpu || status=$?
fi
if [ "$steps" != tests ]; then
  ./node packages/accelerator/scripts/gpu-bench.mjs --out "${OUT:-$here/results}" "$@" || status=$?
fi
exit "$status"
