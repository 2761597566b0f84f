#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# RomeBERT's train_high.sh, ours inside: self-distillation and gradient projection, in one stage.
# The folder romebert keeps its models apart from DeeBERT's, which has one of the name raw, too.
# Run from the repository root; variables may be set outside (DATASET=RTE scripts/originals/romebert/new_scripts/train_high.sh).
# TRAIN_FLAGS is added to 'exeunt train'.
set -euo pipefail

PATH_TO_DATA=${PATH_TO_DATA:-./glue_data}
MODEL_TYPE=${MODEL_TYPE:-bert}  # bert or roberta
MODEL_SIZE=${MODEL_SIZE:-base}  # base or large
DATASET=${DATASET:-MRPC}        # SST-2, MRPC, RTE, QNLI, QQP or MNLI
SAVED_MODELS=${SAVED_MODELS:-./saved_models/romebert}
EXEUNT=${EXEUNT:-build/release/bin/exeunt}

case $MODEL_TYPE in  # a folder, or a name in the local Hugging Face cache
  bert) MODEL_NAME=${MODEL_NAME:-bert-$MODEL_SIZE-uncased} EPOCHS=${EPOCHS:-3} ;;
  *) MODEL_NAME=${MODEL_NAME:-$MODEL_TYPE-$MODEL_SIZE} EPOCHS=${EPOCHS:-10} ;;
esac

"$EXEUNT" train --recipe romebert --model "$MODEL_NAME" --task "$DATASET" --data "$PATH_TO_DATA" \
  --lr 2e-5 --batch 8 --epochs "$EPOCHS" --max-length 128 --seed 42 --save-every 0 \
  --set stages.0.objective.gamma=0.9 --temperature 3 \
  --out "$SAVED_MODELS/$MODEL_TYPE-$MODEL_SIZE/$DATASET/new_gp" --overwrite ${TRAIN_FLAGS:-}
