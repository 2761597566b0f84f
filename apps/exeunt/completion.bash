# Completion of exeunt for bash, written by 'exeunt completion bash'.
_exeunt() {
  local found
  COMPREPLY=()
  if found=$("$1" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2> /dev/null); then
    COMPREPLY=($(cut -f 1 <<< "$found"))
  else
    compopt -o default -o bashdefault 2> /dev/null
  fi
}
complete -F _exeunt exeunt exeunt-lab
