#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a command while `exeunt serve MODEL` listens at $URL:  served.sh MODEL COMMAND
: > serve.log  # not that of an earlier server
exeunt serve "$1" --port 0 2>> serve.log &
server=$!
trap 'kill $server; wait $server' EXIT
until grep -q 'listening address=[^ ]* ' serve.log; do
  kill -0 $server || exit 1
  sleep 0.1
done
URL=http://$(sed -n 's/.*listening address=\([^ ]*\).*/\1/p' serve.log) sh -c "$2"
