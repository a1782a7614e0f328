#!/bin/sh
# The largest batch for my card: largest_batch.sh MODEL --device CARD [option of remat plan ...]
batch=$(remat plan "$@" --batch 1 | sed -n 's/^  largest  *batch \([0-9]*\),.*/\1/p') # by lists; schedules go on from there
while remat plan "$@" --batch $((${batch:-0} + 1)) --no-sweep >/dev/null; do
    batch=$((${batch:-0} + 1))
done
echo "${batch:-0}"
