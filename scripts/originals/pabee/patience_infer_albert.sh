#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PABEE's patience_infer_albert.sh, ours inside: 'patience_infer_albert.sh MRPC' measures every checkpoint at every patience.
# Run from the repository root; variables may be set outside (TASK_NAME=RTE scripts/originals/pabee/patience_infer_albert.sh).
# EVAL_FLAGS is added to the commands.
set -euo pipefail

GLUE_DIR=${GLUE_DIR:-./glue_data}
TASK_NAME=${1:-${TASK_NAME:-MRPC}}
PATIENCE=${PATIENCE:-3,4,5,6,7,8}
REGRESSION_THRESHOLD=${REGRESSION_THRESHOLD:-0.1}  # STS-B: answers this near to each other count as equal
MODEL_TYPE=${MODEL_TYPE:-albert}    # or bert, as in patience_infer_bert.sh
OUT_DIR=${OUT_DIR:-./saved_models/pabee/$MODEL_TYPE/$TASK_NAME}
PRECISION=${PRECISION:-fp32}    # as the original; or bf16, int8
EXEUNT=${EXEUNT:-build/release/bin/exeunt}

POLICY=patience:${PATIENCE//,/|}
if [ "$TASK_NAME" = STS-B ]; then POLICY+=,tol=$REGRESSION_THRESHOLD; fi
SETS=$TASK_NAME  # MNLI's model is evaluated on both of its sets
if [ "$TASK_NAME" = MNLI ]; then
  if [ -e "$GLUE_DIR/MNLI/dev_mismatched.tsv" ]; then
    SETS='MNLI MNLI-mm'
  else
    echo "no MNLI/dev_mismatched.tsv in $GLUE_DIR: MNLI-mm is left out" >&2
  fi
fi
for SET in $SETS; do
  "$EXEUNT" sweep "$OUT_DIR" --all-checkpoints --task "$SET" --data "$GLUE_DIR" --policy "$POLICY" --view pabee \
    --precision "$PRECISION" ${EVAL_FLAGS:-}
done
