#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# RomeBERT's eval_high_layer.sh, ours inside: the score of every exit, and each_layer.npy for its plots.
# Run from the repository root; variables may be set outside (DATASET=RTE scripts/originals/romebert/scripts/eval_high_layer.sh).
# EVAL_FLAGS is added to the commands.
set -euo pipefail

PATH_TO_DATA=${PATH_TO_DATA:-./glue_data}
MODEL_TYPE=${MODEL_TYPE:-bert}  # bert or roberta
MODEL_SIZE=${MODEL_SIZE:-base}  # base or large
DATASET=${DATASET:-MRPC}        # SST-2, MRPC, RTE, QNLI, QQP or MNLI
SAVED_MODELS=${SAVED_MODELS:-./saved_models/romebert}
PLOTTING=${PLOTTING:-./plotting}
ROUTINE=${ROUTINE:-raw}         # raw: self-distillation; new_gp: with gradient projection
PRECISION=${PRECISION:-fp32}    # as the original; or bf16, int8
EXEUNT=${EXEUNT:-build/release/bin/exeunt}

RUN=$SAVED_MODELS/$MODEL_TYPE-$MODEL_SIZE/$DATASET/$ROUTINE

# MNLI's model answers both of its sets; the mismatched one keeps its results apart, as -MM.
SETS=$DATASET
if [ "$DATASET" = MNLI ]; then
  if [ -e "$PATH_TO_DATA/MNLI/dev_mismatched.tsv" ]; then
    SETS='MNLI MNLI-mm'
  else
    echo "no MNLI/dev_mismatched.tsv in $PATH_TO_DATA: MNLI-mm is left out" >&2
  fi
fi
# One pass at full depth; each_layer.npy and the table both come from it.
for SET in $SETS; do
  PLOT=$PLOTTING/${RUN#./}
  if [ "$SET" = MNLI-mm ]; then PLOT+=-MM; fi
  mkdir -p "$PLOT"
  "$EXEUNT" trace "$RUN" --task "$SET" --data "$PATH_TO_DATA" --out "$PLOT/dev.safetensors" \
    --precision "$PRECISION" ${EVAL_FLAGS:-}
  "$EXEUNT" sweep "$PLOT/dev.safetensors" --policy full --npy "$PLOT" -q > /dev/null
  "$EXEUNT" eval "$PLOT/dev.safetensors" --policy full --each-exit
done
