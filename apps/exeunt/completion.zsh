#compdef exeunt exeunt-lab
# Completion of exeunt for zsh, written by 'exeunt completion zsh'.
_exeunt() {
  local found
  local -a lines
  if found=$("$words[1]" __complete "${(@)words[2,CURRENT]}" 2> /dev/null); then
    lines=("${(@f)${found//:/\\:}}")
    lines=("${(@)lines/$'\t'/:}")
    [[ -z $found ]] || _describe exeunt lines
  else
    _files
  fi
}
_exeunt "$@"
