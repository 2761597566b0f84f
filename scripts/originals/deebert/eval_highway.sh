#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# DeeBERT's eval_highway.sh, ours inside: the score of every exit, and each_layer.npy for its plots.
# Run from the repository root; variables may be set outside (DATASET=RTE scripts/originals/deebert/eval_highway.sh).
# EVAL_FLAGS is added to the commands.
set -euo pipefail

PATH_TO_DATA=${PATH_TO_DATA:-./glue_data}
MODEL_TYPE=${MODEL_TYPE:-bert}  # bert or roberta
MODEL_SIZE=${MODEL_SIZE:-base}  # base or large
DATASET=${DATASET:-MRPC}        # SST-2, MRPC, RTE, QNLI, QQP or MNLI
SAVED_MODELS=${SAVED_MODELS:-./saved_models}
PLOTTING=${PLOTTING:-./plotting}
EXEUNT=${EXEUNT:-build/release/bin/exeunt}

RUN=$SAVED_MODELS/$MODEL_TYPE-$MODEL_SIZE/$DATASET/two_stage
PLOT=$PLOTTING/${RUN#./}

# One pass at full depth; each_layer.npy and the table both come from it.
mkdir -p "$PLOT"
"$EXEUNT" trace "$RUN" --task "$DATASET" --data "$PATH_TO_DATA" --out "$PLOT/dev.safetensors" ${EVAL_FLAGS:-}
"$EXEUNT" sweep "$PLOT/dev.safetensors" --policy full --npy "$PLOT" -q > /dev/null
"$EXEUNT" eval "$PLOT/dev.safetensors" --policy full --each-exit
