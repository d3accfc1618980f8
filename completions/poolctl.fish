# Completion of poolctl in fish: `poolctl completion fish | source`, or this file in
# ~/.config/fish/completions. Names come from the state, read only.
function __poolctl_complete
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    set -l found (poolctl __complete -- $words[2..] "$typed" 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path "$typed"
    end
end
complete -c poolctl -f -a '(__poolctl_complete)'
