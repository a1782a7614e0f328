#compdef remat
# Completion of remat for zsh.

_remat_solvers()
{
    local -a names
    names=(auto ${(f)"$(remat solvers --local --json 2>/dev/null |
        grep -o '"name":"[^"]*","summary":"[^"]*","source"' | cut -d '"' -f 4)"})
    compadd -a names
}

_remat()
{
    local -a asking question
    asking=(
        '--server[the rematd to ask]:address:(localhost\:7070)'
        '--timeout[longest time of one request]:seconds:'
        '--json[the answer as JSON]'
        '(-o --output)'{-o,--output}'[write the JSON of the answer to a file]:file:_files'
        '(-h --help)'{-h,--help}'[explain the command]'
    )
    question=(
        '--solver[the algorithm]:solver:_remat_solvers'
        '*--option[an option of the solver]:name=value:'
        '--link[the way to the host]:link:(pcie3-x16 pcie4-x16 pcie5-x16 nvlink-c2c)'
        '--wait[seconds to wait for a solve]:seconds:'
        '--local[solve in this process]'
    )
    local -a step=(
        '--device[of the step]:device:(a100-40gb a100-80gb h100 h100-96gb h100-nvl h200 b200 mi300x v100-16gb v100-32gb l4 l40s a10g a6000 rtx3090 rtx4090 rtx5090 t4 cpu)'
        '--parameters[numbers in the weights]:number:'
        '--optimizer[of the step]:optimizer:(sgd momentum adam adamw adafactor adam8bit)'
        '--precision[of the step]:precision:(float32 tf32 bfloat16 float16)'
        '--no-master[no weights in float32 beside]'
        '--parallel[how ranks share]:kind:(ddp zero1 zero2 zero3 fsdp tensor sequence context expert pipeline)'
        '--ranks[so many]:number:' '--view-buckets[gradients lie in buckets]'
        '--no-prefetch[gather one unit at a time]'
    )
    if (( CURRENT == 2 )); then
        local -a commands
        commands=(
            'profile:check, push, list, show and import profiles'
            'solve:the fastest schedule within a memory budget'
            'curve:what less memory costs'
            'plan:does a model train on a device'
            'calibrate:measure this device for plan'
            'show:a schedule, readable'
            'trace:a schedule for Perfetto'
            'simulate:replay an operation list'
            'layout:addresses for buffers of any origin'
            'snapshots:what a checkpoint must save'
            'jobs:solves under way on the server'
            'solvers:the algorithms there are'
            'mcp:for agents, on stdio'
            'version:the version of this program'
            'help:explain a command'
        )
        _describe command commands
        _arguments '--help' '--version' '--json' '--server:address:' '--timeout:seconds:'
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
        profile)
            _arguments $asking '--name[part of the name]:name:' '--limit[at most so many]:number:' \
                '--cursor[go on where a list ended]:cursor:' \
                '1:what to do:(check push list show import)' '2:file or id:_files'
            ;;
        solve)
            _arguments $asking $question \
                '(-b --budget)'{-b,--budget}'[memory]:bytes or percent:(40% 50% 60% 70% 80%)' \
                '--reserved[memory for other things]:bytes:' \
                '--alignment[of the addresses]:bytes:' '--no-layout[no addresses]' \
                '--effort[of the improver]:effort:(quick thorough)' \
                '--in-flight[micro-batches alive at once]:number:' \
                '--whole-device[the budget is the memory of a device]' $step '1:profile:_files'
            ;;
        plan)
            _arguments $asking $step '--batch[samples of a step]:number:' '--sequence[tokens]:number:' \
                '--image[pixels]:number:' '--layers[blocks]:number:' \
                '--mesh[how ranks share]:axes:(dp=8,tp=4 dp=16,shard=8 pp=16,tp=8)' \
                '--memory[of the device, in place of its own]:size:' '--microbatches[of a pipeline]:number:' '--schedule[of a pipeline]:name:(1f1b gpipe interleaved)' '--chunks[stages of a rank, of interleaved]:number:' \
                '--runtime[what runs a pipeline]:name:(pytorch megatron none)' \
                '--network[between ranks]:way:(nvlink3+hdr nvlink4+ndr pcie4+100gbe)' \
                '--node-ranks[ranks of a node]:number:' \
                '--hidden[columns between blocks]:number:' '--heads[of attention]:number:' '--kv-heads[of keys and values]:number:' '--head-width[columns of a head]:number:' \
                '--ffn[columns inside an MLP]:number:' '--vocab[words]:number:' '--experts[MLPs of a block]:number:' '--experts-per-token[of them a token takes]:number:' \
                '--window[tokens that attention sees back]:number:' '--capacity-factor[of an even share an expert takes]:number:' '--expert-load[of experts]:load:(balanced worst)' \
                '--lora[columns of an adapter]:number:' '--lora-targets[what has one]:targets:(q,v attention all-linear)' '--lora-dropout[of what goes into them]' \
                '--lora-base[how frozen matrices are held]:base:(frozen nf4 nf4-double)' '--optimizer-in-backward[gradients are freed as they are used]' \
                '--attention[kernel]:kind:(fused eager)' '--kernels[put together]:set:(eager compiled compiled-loss chunked-loss fused)' '--fp8[products in 8 bits]:kind:(torchao torchao-gather te te-weights)' \
                '--measured-on[whose times a profile has]:device:' '--autocast[weights in float32]' '--channels-last[how images lie]' '--keep-gradients[from one backward to the next]' '--offload[values may go to the host]' \
                '--no-sweep[no table over batches]' '--solver[the algorithm]:solver:_remat_solvers' \
                '*--option[an option of the solver]:name=value:' \
                '--effort[of the improver]:effort:(quick thorough)' \
                '--wait[seconds to wait for a solve]:seconds:' '--local[in this process]' \
                '1:model or profile:_files'
            ;;
        calibrate)
            _arguments '--json' '--help' '(-o --output)'{-o,--output}'[write to a file]:file:_files'
            ;;
        curve)
            _arguments $asking $question '--points[so many budgets]:number:' \
                '--in-flight[micro-batches alive at once]:number:' \
                '--budgets[these budgets]:list:' '--ascii[plain characters]' '1:profile:_files'
            ;;
        show)
            _arguments $asking '--profile[replay on this profile]:file:_files' \
                '(-a --all)'{-a,--all}'[every operation]' '--ascii[plain characters]' \
                '1:schedule:_files'
            ;;
        trace) _arguments $asking '--profile[replay on this profile]:file:_files' '1:schedule:_files' ;;
        layout)
            _arguments $asking '--capacity[of the arena]:bytes:' '--alignment[of the offsets]:bytes:' \
                '--local[in this process]' '1:file:_files'
            ;;
        simulate)
            _arguments $asking '--local[in this process]' '--in-flight[micro-batches alive at once]:number:' \
                '*:file:_files'
            ;;
        snapshots) _arguments $asking '--local[in this process]' '1:file:_files' ;;
        jobs)
            _arguments $asking '--limit[at most so many]:number:' \
                '--cursor[go on where a list ended]:cursor:' '1:what to do:(list show cancel)' '2:job:'
            ;;
        solvers) _arguments $asking '--local[in this process]' ;;
        mcp) _arguments '--help' ;;
        version) _arguments '--json' '--help' ;;
        help) compadd profile solve curve plan calibrate show trace simulate layout snapshots jobs solvers mcp version ;;
    esac
}

_remat "$@"
