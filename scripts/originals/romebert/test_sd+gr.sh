#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# RomeBERT's test_sd+gr.sh, ours inside: test_sd.sh for the model trained with gradient projection.
ROUTINE=new_gp exec "$(dirname "$0")/test_sd.sh" "$@"
