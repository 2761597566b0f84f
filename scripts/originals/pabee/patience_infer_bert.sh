#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PABEE's patience_infer_bert.sh, ours inside: patience_infer_albert.sh for BERT.
MODEL_TYPE=bert exec "$(dirname "$0")/patience_infer_albert.sh" "$@"
