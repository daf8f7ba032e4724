# Completion of infopt for bash: source <(infopt completion bash)
_infopt_completion() {
    local line="${COMP_LINE:0:COMP_POINT}" IFS=$'\n' typed before
    COMPREPLY=($(_INFOPT_COMPLETE="$line" "$1" 2>/dev/null | cut -f 1))
    if [[ ${COMPREPLY[0]} == ":files" ]]; then
        COMPREPLY=()
        compopt -o default
        return
    fi
    # bash breaks words at : and = and wants what comes after the last of them.
    typed="${line##* }"
    before="${typed%"${typed##*[$COMP_WORDBREAKS]}"}"
    [[ -n $before ]] && COMPREPLY=("${COMPREPLY[@]#"$before"}")
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[:=,] ]] && compopt -o nospace
}
complete -F _infopt_completion infopt
