# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts that wait for other programs: shows what is going on, how far it is and for how long.
#   begin_progress WORDS [FUNCTION]   FUNCTION prints how far it is, e.g. "43 %"
#   end_progress                      before anything else is printed; also call it in a trap on EXIT
# On a terminal one line that changes, else a line at the start and one every 15 seconds.

_progress_lines() {
  local begun=$SECONDS far reported=0
  while sleep 1 > /dev/null 2>&1; do  # a sleep that outlives us must not hold the output open
    far=$([ -z "${2:-}" ] || "$2" || true)
    far="$1${far:+: $far}, $((SECONDS - begun)) s"
    if [ -t 1 ]; then
      printf '\r\033[K%.*s' "$((${COLUMNS:-80} - 1))" "$far"
    elif [ $((SECONDS - begun)) -ge $((reported + 15)) ]; then
      reported=$((SECONDS - begun))
      echo "$far"
    fi
  done
}

begin_progress() {
  if [ ! -t 1 ]; then echo "$1 ..."; fi
  _progress_lines "$@" &
  _progress=$!
}

end_progress() {
  [ -n "${_progress:-}" ] || return 0
  { kill -KILL "$_progress"; wait "$_progress"; } 2> /dev/null || true  # a milder signal may run the script's own trap there
  _progress=
  if [ -t 1 ]; then printf '\r\033[K'; fi
}
