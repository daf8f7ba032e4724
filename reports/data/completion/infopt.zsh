#compdef infopt
# Completion of infopt for zsh: source <(infopt completion zsh), or this file as _infopt in a folder of fpath
_infopt() {
    local -a found
    found=("${(@f)$(_INFOPT_COMPLETE="${(j: :)words[1,CURRENT]}" "${words[1]}" 2>/dev/null | cut -f 1)}")
    if [[ ${found[1]} == ":files" ]]; then
        _files
    elif [[ -n ${found[1]} ]]; then
        compadd -M 'm:{a-zA-Z}={A-Za-z}' -- "${found[@]}"
    fi
}
if [[ $funcstack[1] == _infopt ]]; then
    _infopt "$@"
else
    compdef _infopt infopt
fi
