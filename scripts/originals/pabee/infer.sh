#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PABEE's patience_infer_albert.sh and patience_infer_bert.sh, ours inside; the task may be an argument.
# Run from the repository root; variables may be set outside (TASK_NAME=RTE scripts/originals/pabee/infer.sh).
# EVAL_FLAGS is added to the commands.
set -euo pipefail

GLUE_DIR=${GLUE_DIR:-./glue_data}
TASK_NAME=${1:-${TASK_NAME:-MRPC}}
PATIENCE=${PATIENCE:-3,4,5,6,7,8}
REGRESSION_THRESHOLD=${REGRESSION_THRESHOLD:-0.1}  # STS-B: answers this near to each other count as equal
OUT_DIR=${OUT_DIR:-./saved_models/pabee/$TASK_NAME}
EXEUNT=${EXEUNT:-build/release/bin/exeunt}

POLICY=patience:${PATIENCE//,/|}
if [ "$TASK_NAME" = STS-B ]; then POLICY+=,tol=$REGRESSION_THRESHOLD; fi
"$EXEUNT" sweep "$OUT_DIR" --all-checkpoints --task "$TASK_NAME" --data "$GLUE_DIR" --policy "$POLICY" --view pabee \
  ${EVAL_FLAGS:-}
