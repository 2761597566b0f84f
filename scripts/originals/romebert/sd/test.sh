#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# RomeBERT's test_sd.sh, ours inside: the test split answered at one threshold, as its TSV.
# Run from the repository root; variables may be set outside (DATASET=RTE scripts/originals/romebert/sd/test.sh).
# EVAL_FLAGS is added to the commands.
set -euo pipefail

PATH_TO_DATA=${PATH_TO_DATA:-./glue_data}
MODEL_TYPE=${MODEL_TYPE:-bert}  # bert or roberta
MODEL_SIZE=${MODEL_SIZE:-base}  # base or large
DATASET=${DATASET:-MRPC}        # SST-2, MRPC, RTE, QNLI, QQP or MNLI
SAVED_MODELS=${SAVED_MODELS:-./saved_models/romebert}
ENTROPY=${ENTROPY:-0.15}
PREDICTIONS=${PREDICTIONS:-.}  # the folder that gets mrpc.tsv
EXEUNT=${EXEUNT:-build/release/bin/exeunt}

RUN=$SAVED_MODELS/$MODEL_TYPE-$MODEL_SIZE/$DATASET/raw

"$EXEUNT" sweep "$RUN" --task "$DATASET" --data "$PATH_TO_DATA" --split test --policy "entropy:$ENTROPY" \
  --view romebert --view-files "$PREDICTIONS" ${EVAL_FLAGS:-}
