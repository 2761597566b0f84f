#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PABEE's finetune_albert.sh, ours inside: 'finetune_albert.sh MRPC 50' trains on a task and saves and evaluates every 50 steps.
# Run from the repository root; variables may be set outside (TASK_NAME=RTE scripts/originals/pabee/finetune_albert.sh).
# TRAIN_FLAGS is added to 'exeunt train'.
set -euo pipefail

GLUE_DIR=${GLUE_DIR:-./glue_data}
TASK_NAME=${1:-${TASK_NAME:-MRPC}}
STEPS=${2:-${STEPS:-50}}            # between two checkpoints and evaluations
MODEL_TYPE=${MODEL_TYPE:-albert}    # or bert, as in finetune_bert.sh
OUT_DIR=${OUT_DIR:-./saved_models/pabee/$MODEL_TYPE/$TASK_NAME}
EXEUNT=${EXEUNT:-build/release/bin/exeunt}

case $MODEL_TYPE in  # a folder, or a name in the local Hugging Face cache
  bert) MODEL=${MODEL:-bert-base-uncased} ;;
  *) MODEL=${MODEL:-albert-base-v2} ;;
esac

"$EXEUNT" train --recipe pabee --model "$MODEL" --task "$TASK_NAME" --data "$GLUE_DIR" \
  --lr 2e-5 --batch 32 --epochs 5 --max-length 128 --seed 42 \
  --log-every "$STEPS" --eval-every "$STEPS" --save-every "$STEPS" --keep-checkpoints 0 \
  --out "$OUT_DIR" --overwrite ${TRAIN_FLAGS:-}
