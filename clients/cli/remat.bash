# Completion of remat for bash.

_remat_words()
{
    COMPREPLY=($(compgen -W "$1" -- "$2"))
}

_remat()
{
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}
    local commands="profile solve curve plan calibrate show trace simulate layout snapshots jobs solvers mcp version help"
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
        --optimizer) _remat_words "sgd momentum adam adamw adafactor adam8bit" "$current"; return ;;
        --precision) _remat_words "float32 tf32 bfloat16 float16" "$current"; return ;;
        --parallel) _remat_words "ddp zero1 zero2 zero3 fsdp tensor sequence context expert pipeline" "$current"; return ;;
        --kernels) _remat_words "eager compiled compiled-loss chunked-loss fused" "$current"; return ;;
        --attention) _remat_words "fused eager" "$current"; return ;;
        --device|--measured-on)
            _remat_words "a100-40gb a100-80gb h100 h100-96gb h100-nvl h200 b200 mi300x v100-16gb v100-32gb l4 l40s a10g a6000 rtx3090 rtx4090 rtx5090 t4 cpu" "$current"
            return
            ;;
        --mesh) _remat_words "dp=8,tp=4 dp=16,shard=8 dp=8,sp=8 dp=4,cp=2 pp=16,tp=8" "$current"; return ;;
        --schedule) _remat_words "1f1b gpipe interleaved" "$current"; return ;;
        --runtime) _remat_words "pytorch megatron none" "$current"; return ;;
        --network) _remat_words "nvlink3+hdr nvlink4+ndr pcie4+100gbe" "$current"; return ;;
        --hidden|--heads|--kv-heads|--head-width|--ffn|--vocab|--experts|--experts-per-token|--window|--capacity-factor|--lora) return ;;
        --expert-load) _remat_words "balanced worst" "$current"; return ;;
        --lora-targets) _remat_words "q,v attention all-linear" "$current"; return ;;
        --lora-base) _remat_words "frozen nf4 nf4-double" "$current"; return ;;
        --fp8) _remat_words "torchao torchao-gather te te-weights" "$current"; return ;;
        --node-ranks|--batch|--sequence|--image|--layers|--parameters|--ranks|--microbatches|--chunks|--memory) return ;;
        --server) _remat_words "http://127.0.0.1:7070" "$current"; return ;;
        --timeout|--reserved|--capacity|--option|--link|--alignment|--wait|--points|--budgets|--name|--cursor|--limit) return ;;
    esac

    if [[ $current == -* && $previous != --profile ]]; then
        case $command in
            "") _remat_words "--help --version --json --server --timeout" "$current" ;;
            profile) _remat_words "$asking --name --limit --cursor" "$current" ;;
            solve)
                _remat_words "$asking --budget --reserved --solver --option --link --alignment --no-layout \
                    --effort --in-flight --wait --local --whole-device --device --parameters --optimizer --precision \
                    --no-master --parallel --ranks --view-buckets --no-prefetch" \
                    "$current"
                ;;
            plan)
                _remat_words "$asking --batch --sequence --image --layers --hidden --heads --kv-heads --head-width --ffn --vocab \
                    --experts --experts-per-token --window --capacity-factor --expert-load \
                    --lora --lora-targets --lora-dropout --lora-base --optimizer-in-backward --attention --kernels --fp8 --autocast --channels-last --measured-on --device --parameters \
                    --optimizer --precision --memory --no-master --keep-gradients --parallel --ranks --mesh --microbatches --schedule --chunks --runtime --network --node-ranks --view-buckets --no-prefetch \
                    --offload --no-sweep --solver --option --effort --wait --local" \
                    "$current"
                ;;
            calibrate) _remat_words "--json --output --help" "$current" ;;
            curve)
                _remat_words \
                    "$asking --points --budgets --solver --option --link --in-flight --wait --ascii --local" \
                    "$current"
                ;;
            trace) _remat_words "$asking --profile" "$current" ;;
            show) _remat_words "$asking --profile --all --ascii" "$current" ;;
            layout) _remat_words "$asking --capacity --alignment --local" "$current" ;;
            simulate) _remat_words "$asking --local --in-flight" "$current" ;;
            snapshots|solvers) _remat_words "$asking --local" "$current" ;;
            jobs) _remat_words "$asking --limit --cursor" "$current" ;;
            mcp) _remat_words "--help" "$current" ;;
            version) _remat_words "--json --help" "$current" ;;
        esac
        return
    fi

    case $command/$verb in
        plan/)
            local models="gpt2 gpt2-medium gpt2-large gpt2-xl tinyllama-1.1b llama2-7b llama2-13b llama2-70b"
            models+=" llama3.2-1b llama3.2-3b llama3-8b llama3-70b mistral-7b mpt-125m mpt-350m mpt-760m mpt-1b"
            models+=" mpt-3b mpt-7b mpt-13b mpt-30b mpt-70b bloom-7b1 bert-base bert-large vit-s16 vit-b16 vit-b32 vit-l16"
            models+=" vit-h14 resnet18 resnet34 resnet50 resnet101 resnet152 unet"
            models+=" llama3.1-8b llama3.1-70b llama3.1-405b qwen2.5-0.5b qwen2.5-1.5b qwen2.5-3b qwen2.5-7b"
            models+=" qwen2.5-14b qwen2.5-32b qwen2.5-72b qwen3-0.6b qwen3-1.7b qwen3-4b qwen3-8b qwen3-14b qwen3-32b"
            models+=" qwen3-30b-a3b qwen3-235b-a22b mistral-7b-v0.3 mixtral-8x7b mixtral-8x22b phi3-mini"
            COMPREPLY=($(compgen -W "$models" -- "$current") $(compgen -f -- "$current"))
            ;;
        /*) _remat_words "$commands" "$current" ;;
        help/) _remat_words "$commands" "$current" ;;
        profile/) _remat_words "check push list show import" "$current" ;;
        jobs/) _remat_words "list show cancel" "$current" ;;
        profile/check|profile/push|profile/import|solve/*|curve/*|show/*|trace/*|simulate/*|layout/*|snapshots/*)
            COMPREPLY=($(compgen -f -- "$current"))
            ;;
    esac
}

complete -o filenames -o bashdefault -F _remat remat
