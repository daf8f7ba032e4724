# Completion of infopt for fish: infopt completion fish | source
function __infopt_completion
    set -l found (_INFOPT_COMPLETE=(commandline -cp) infopt 2>/dev/null)
    if test "$found[1]" = ":files"
        __fish_complete_path (commandline -ct)
    else
        printf "%s\n" $found
    end
end
complete --command infopt --no-files --arguments "(__infopt_completion)"
