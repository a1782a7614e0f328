#!/bin/sh
# The largest batch for my card: largest_batch.sh MODEL --device CARD [option of remat plan ...]
fits() { remat plan "$@" --no-sweep >/dev/null || { code=$?; [ $code -eq 1 ] || exit $code; false; }; } # 1: nothing fits
low=0 high=1
while fits "$@" --batch $high; do low=$high high=$((2 * high)); done
while [ $((high - low)) -gt 1 ]; do
    middle=$(((low + high) / 2))
    if fits "$@" --batch $middle; then low=$middle; else high=$middle; fi
done
echo "$low"
