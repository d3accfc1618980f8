# Types command lines into a real shell on a terminal, with TAB, and prints what became of them.
# usage: zsh -f tests/completion.zsh SHELL DIR LINE...
zmodload zsh/zpty
shell=$1 dir=$2
shift 2
case $shell in
  bash) zpty typed env -i HOME=$dir PATH=$PATH TERM=dumb POOLCTL_STATE=$POOLCTL_STATE bash --norc --noprofile -i
        start='PS1=; bind "set enable-bracketed-paste off" "set bell-style none"; source completions/poolctl.bash' ;;
  zsh)  zpty typed env -i HOME=$dir PATH=$PATH TERM=dumb POOLCTL_STATE=$POOLCTL_STATE zsh -f -i
        start="PS1=; unsetopt zle_bracketed_paste prompt_cr; autoload -U compinit; compinit -u -d $dir/dump; source completions/_poolctl" ;;
esac
# Waits for a line that no typing contains.
until_said() {
  local line
  while zpty -r typed line; do
    [[ $line == *"$1"* ]] && { print -r -- ${${line//$'\r'/}%$'\n'}; return }
  done
}
zpty -w typed "$start; echo re''ady"
until_said ready >/dev/null
for line in "$@"; do
  # What stands on the line after TAB is printed, not run.
  zpty -w -n typed "$line"$'\t'
  zpty -w typed $'\C-a'"printf 'li''ne: %s\n' '"$'\C-e'"'"
  until_said "line: "
done
zpty -d typed
