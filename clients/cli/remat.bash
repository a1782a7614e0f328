# Completion of remat for bash.

_remat_words()
{
    COMPREPLY=($(compgen -W "$1" -- "$2"))
}

_remat()
{
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
    local commands="profile solve curve show simulate snapshots jobs solvers version help"
    local asking="--server --timeout --json --output --help"
    local command= verb= i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
            --server|--timeout) i=$((i + 1)) ;;
            -*) ;;
            *)
                if [[ -z $command ]]; then
                    command=${COMP_WORDS[i]}
                elif [[ -z $verb ]]; then
                    verb=${COMP_WORDS[i]}
                fi
                ;;
        esac
    done

    COMPREPLY=()
    case $previous in
        --solver)
            local names
            names=$(remat solvers --local --json 2>/dev/null |
                grep -o '"name":"[^"]*","summary":"[^"]*","source"' | cut -d '"' -f 4)
            _remat_words "auto $names" "$current"
            return
            ;;
        --effort) _remat_words "quick thorough" "$current"; return ;;
        --budget|-b) _remat_words "40% 50% 60% 70% 80%" "$current"; return ;;
        --server) _remat_words "http://127.0.0.1:7070" "$current"; return ;;
        --timeout|--reserved|--option|--link|--alignment|--wait|--points|--budgets|--name|--cursor|--limit) return ;;
    esac

    if [[ $current == -* && $previous != --profile ]]; then
        case $command in
            "") _remat_words "--help --version --json --server --timeout" "$current" ;;
            profile) _remat_words "$asking --name --limit --cursor" "$current" ;;
            solve)
                _remat_words "$asking --budget --reserved --solver --option --link --alignment --no-layout \
                    --effort --wait --local" \
                    "$current"
                ;;
            curve)
                _remat_words \
                    "$asking --points --budgets --solver --option --link --wait --ascii --local" \
                    "$current"
                ;;
            show) _remat_words "$asking --profile --all --ascii" "$current" ;;
            simulate|snapshots|solvers) _remat_words "$asking --local" "$current" ;;
            jobs) _remat_words "$asking --limit --cursor" "$current" ;;
            version) _remat_words "--json --help" "$current" ;;
        esac
        return
    fi

    case $command/$verb in
        /*) _remat_words "$commands" "$current" ;;
        help/) _remat_words "$commands" "$current" ;;
        profile/) _remat_words "check push list show import" "$current" ;;
        jobs/) _remat_words "list show cancel" "$current" ;;
        profile/check|profile/push|profile/import|solve/*|curve/*|show/*|simulate/*|snapshots/*)
            COMPREPLY=($(compgen -f -- "$current"))
            ;;
    esac
}

complete -o filenames -o bashdefault -F _remat remat
