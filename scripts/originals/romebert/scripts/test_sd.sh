#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# RomeBERT's test_sd.sh, ours inside: the test split answered at one threshold, as its TSV.
# Run from the repository root; variables may be set outside (DATASET=RTE scripts/originals/romebert/scripts/test_sd.sh).
# EVAL_FLAGS is added to the commands.
set -euo pipefail

PATH_TO_DATA=${PATH_TO_DATA:-./glue_data}
MODEL_TYPE=${MODEL_TYPE:-bert}  # bert or roberta
MODEL_SIZE=${MODEL_SIZE:-base}  # base or large
DATASET=${DATASET:-MRPC}        # SST-2, MRPC, RTE, QNLI, QQP or MNLI
SAVED_MODELS=${SAVED_MODELS:-./saved_models/romebert}
ENTROPY=${ENTROPY:-0.15}
PREDICTIONS=${PREDICTIONS:-.}  # the folder that gets mrpc.tsv
ROUTINE=${ROUTINE:-raw}         # raw: self-distillation; new_gp: with gradient projection
PRECISION=${PRECISION:-fp32}    # as the original; or bf16, int8
EXEUNT=${EXEUNT:-build/release/bin/exeunt}

RUN=$SAVED_MODELS/$MODEL_TYPE-$MODEL_SIZE/$DATASET/$ROUTINE

# MNLI's model answers both of its sets: mnli.tsv and mnli-mm.tsv.
SETS=$DATASET
if [ "$DATASET" = MNLI ]; then
  if [ -e "$PATH_TO_DATA/MNLI/test_mismatched.tsv" ]; then
    SETS='MNLI MNLI-mm'
  else
    echo "no MNLI/test_mismatched.tsv in $PATH_TO_DATA: MNLI-mm is left out" >&2
  fi
fi
for SET in $SETS; do
  "$EXEUNT" sweep "$RUN" --task "$SET" --data "$PATH_TO_DATA" --split test --policy "entropy:$ENTROPY" \
    --view romebert --view-files "$PREDICTIONS" --precision "$PRECISION" ${EVAL_FLAGS:-}
done
