# Completion of exeunt for fish, written by 'exeunt completion fish'.
function __exeunt_complete
  set -l words (commandline -opc)
  set -l program $words[1]
  set -e words[1]
  set -l typed (commandline -ct)
  $program __complete $words "$typed" 2> /dev/null; or __fish_complete_path "$typed"
end
complete -c exeunt -f -a '(__exeunt_complete)'
complete -c exeunt-lab -f -a '(__exeunt_complete)'
