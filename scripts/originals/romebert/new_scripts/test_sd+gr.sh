#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# RomeBERT's test_sd+gr.sh, ours inside: ../scripts/test_sd.sh for the model trained with gradient projection.
ROUTINE=new_gp exec "$(dirname "$0")/../scripts/test_sd.sh" "$@"
