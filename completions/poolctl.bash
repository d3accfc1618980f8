# Completion of poolctl in bash: `source <(poolctl completion bash)`, or this file as
# /usr/share/bash-completion/completions/poolctl. Names come from the state, read only.
_poolctl() {
  local word
  COMPREPLY=()
  while IFS= read -r word; do
    # bash has cut the words at `=` already.
    COMPREPLY+=("${word#--*=}")
  done < <(poolctl __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[/.=] ]]; then
    compopt -o nospace 2>/dev/null
  fi
}
complete -o default -F _poolctl poolctl
