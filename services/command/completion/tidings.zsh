#compdef tidings
# Completion of tidings for zsh. Load it after compinit with: source <(tidings completion zsh)

_tidings() {
  local line
  local -a found
  local files=
  while IFS= read -r line; do
    if [[ $line == :files ]]; then files=1; else found+=("$line"); fi
  done < <("${words[1]}" __complete zsh "${(@)words[2,CURRENT]}" 2>/dev/null)
  [[ $PREFIX == -*=* ]] && compset -P '*='
  (( $#found )) && _describe -V tidings found
  [[ -n $files ]] && _files
}

compdef _tidings tidings
