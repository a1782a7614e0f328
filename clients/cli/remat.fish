# Completion of remat for fish.

function __remat_solvers
    echo auto
    remat solvers --local --json 2>/dev/null | grep -o '"name":"[^"]*","summary":"[^"]*","source"' |
        cut -d '"' -f 4
end

function __remat_is
    __fish_seen_subcommand_from $argv
end

complete -c remat -f
for line in \
    'profile:check, push, list, show and import profiles' \
    'solve:the fastest schedule within a memory budget' \
    'curve:what less memory costs' \
    'plan:does a model train on a device' \
    'calibrate:measure this device for plan' \
    'show:a schedule, readable' \
    'trace:a schedule for Perfetto' \
    'simulate:replay an operation list' \
    'layout:addresses for buffers of any origin' \
    'snapshots:what a checkpoint must save' \
    'jobs:solves under way on the server' \
    'solvers:the algorithms there are' \
    'mcp:for agents, on stdio' \
    'version:the version of this program' \
    'help:explain a command'
    set -l pair (string split -m 1 : $line)
    complete -c remat -n __fish_use_subcommand -a $pair[1] -d $pair[2]
end
complete -c remat -n __fish_use_subcommand -l version -s V -d 'the version of this program'

# Files and verbs.
complete -c remat -n '__remat_is solve curve plan show trace simulate layout snapshots' -F
complete -c remat -n '__remat_is profile; and not __remat_is check push list show import' \
    -a 'check push list show import'
complete -c remat -n '__remat_is check push import' -F
complete -c remat -n '__remat_is jobs; and not __remat_is list show cancel' -a 'list show cancel'
complete -c remat -n '__remat_is help' -a 'profile solve curve plan calibrate show trace simulate layout snapshots jobs solvers mcp version'

# Options of all.
complete -c remat -l json -d 'the answer as JSON'
complete -c remat -l help -s h -d 'explain the command'
complete -c remat -n 'not __remat_is version calibrate mcp' -l server -x -a localhost:7070 -d 'the rematd to ask'
complete -c remat -n 'not __remat_is version calibrate mcp' -l timeout -x -d 'longest time of one request, in seconds'
complete -c remat -n 'not __fish_use_subcommand; and not __remat_is version help mcp' -l output -s o -r \
    -d 'write the JSON of the answer to a file'

# Options of some.
complete -c remat -n '__remat_is solve' -l budget -s b -x -a '40% 50% 60% 70% 80%' -d memory
complete -c remat -n '__remat_is solve' -l reserved -x -d 'memory for other things'
complete -c remat -n '__remat_is solve layout' -l alignment -x -d 'bytes, of the addresses'
complete -c remat -n '__remat_is layout' -l capacity -x -d 'of the arena'
complete -c remat -n '__remat_is solve' -l no-layout -d 'no addresses'
complete -c remat -n '__remat_is solve plan' -l effort -x -a 'quick thorough' -d 'of the improver'
complete -c remat -n '__remat_is solve curve simulate' -l in-flight -x -d 'micro-batches alive at once'
complete -c remat -n '__remat_is solve curve plan' -l solver -x -a '(__remat_solvers)' -d 'the algorithm'
complete -c remat -n '__remat_is solve curve plan' -l option -x -d 'name=value, of the solver'
complete -c remat -n '__remat_is solve curve' -l link -x -a 'pcie3-x16 pcie4-x16 pcie5-x16 nvlink-c2c' \
    -d 'the way to the host'
complete -c remat -n '__remat_is solve curve plan' -l wait -x -d 'seconds to wait for a solve'
complete -c remat -n '__remat_is solve curve plan simulate layout snapshots solvers' -l local -d 'in this process'
complete -c remat -n '__remat_is curve' -l points -x -d 'so many budgets'
complete -c remat -n '__remat_is curve' -l budgets -x -d 'these budgets'
complete -c remat -n '__remat_is show trace' -l profile -r -d 'replay on this profile'
complete -c remat -n '__remat_is show' -l all -s a -d 'every operation'
complete -c remat -n '__remat_is show curve' -l ascii -d 'plain characters'
complete -c remat -n '__remat_is profile' -l name -x -d 'part of the name'
complete -c remat -n '__remat_is profile jobs' -l limit -x -d 'at most so many'
complete -c remat -n '__remat_is profile jobs' -l cursor -x -d 'go on where a list ended'
complete -c remat -n '__remat_is solve' -l whole-device -d 'the budget is the memory of a device'
complete -c remat -n '__remat_is solve plan' -l device -x -d 'of the step' \
    -a 'a100-40gb a100-80gb h100 h100-96gb h100-nvl h200 b200 mi300x v100-16gb v100-32gb l4 l40s a10g a6000 rtx3090 rtx4090 rtx5090 t4 cpu'
complete -c remat -n '__remat_is solve plan' -l parameters -x -d 'numbers in the weights'
complete -c remat -n '__remat_is solve plan' -l optimizer -x -a 'sgd momentum adam adamw adafactor adam8bit' \
    -d 'of the step'
complete -c remat -n '__remat_is solve plan' -l precision -x -a 'float32 tf32 bfloat16 float16' -d 'of the step'
complete -c remat -n '__remat_is solve plan' -l no-master -d 'no weights in float32 beside'
complete -c remat -n '__remat_is solve plan' -l parallel -x -a 'ddp zero1 zero2 zero3 fsdp tensor sequence context expert pipeline' -d 'how ranks share'
complete -c remat -n '__remat_is solve plan' -l ranks -x -d 'so many'
complete -c remat -n '__remat_is solve plan' -l view-buckets -d 'gradients lie in buckets'
complete -c remat -n '__remat_is solve plan' -l no-prefetch -d 'gather one unit at a time'
complete -c remat -n '__remat_is plan' -l mesh -x -a 'dp=8,tp=4 dp=16,shard=8 pp=16,tp=8' -d 'how ranks share'
complete -c remat -n '__remat_is plan' -l memory -x -d 'of the device, in place of its own'
complete -c remat -n '__remat_is plan' -l microbatches -x -d 'of a pipeline'
complete -c remat -n '__remat_is plan' -l schedule -x -a '1f1b gpipe interleaved' -d 'of a pipeline'
complete -c remat -n '__remat_is plan' -l chunks -x -d 'stages of a rank, of interleaved'
complete -c remat -n '__remat_is plan' -l runtime -x -a 'pytorch megatron none' -d 'what runs a pipeline'
complete -c remat -n '__remat_is plan' -l network -x -a 'nvlink3+hdr nvlink4+ndr pcie4+100gbe' \
    -d 'between ranks'
complete -c remat -n '__remat_is plan' -l node-ranks -x -d 'ranks of a node'
complete -c remat -n '__remat_is plan' -l batch -x -d 'samples of a step'
complete -c remat -n '__remat_is plan' -l sequence -x -d tokens
complete -c remat -n '__remat_is plan' -l image -x -d pixels
complete -c remat -n '__remat_is plan' -l layers -x -d blocks
complete -c remat -n '__remat_is plan' -l attention -x -a 'fused eager' -d 'how it is computed'
complete -c remat -n '__remat_is plan' -l hidden -x -d 'columns between blocks'
complete -c remat -n '__remat_is plan' -l heads -x -d 'of attention'
complete -c remat -n '__remat_is plan' -l kv-heads -x -d 'of keys and values'
complete -c remat -n '__remat_is plan' -l head-width -x -d 'columns of a head'
complete -c remat -n '__remat_is plan' -l ffn -x -d 'columns inside an MLP'
complete -c remat -n '__remat_is plan' -l vocab -x -d 'words'
complete -c remat -n '__remat_is plan' -l experts -x -d 'MLPs of a block'
complete -c remat -n '__remat_is plan' -l experts-per-token -x -d 'of them a token takes'
complete -c remat -n '__remat_is plan' -l window -x -d 'tokens that attention sees back'
complete -c remat -n '__remat_is plan' -l capacity-factor -x -d 'of an even share an expert takes'
complete -c remat -n '__remat_is plan' -l expert-load -x -a 'balanced worst' -d 'of experts'
complete -c remat -n '__remat_is plan' -l lora -x -d 'columns of an adapter'
complete -c remat -n '__remat_is plan' -l lora-targets -x -a 'q,v attention all-linear' -d 'what has one'
complete -c remat -n '__remat_is plan' -l lora-dropout -d 'of what goes into them'
complete -c remat -n '__remat_is plan' -l lora-base -x -a 'frozen nf4 nf4-double' -d 'how frozen matrices are held'
complete -c remat -n '__remat_is plan' -l optimizer-in-backward -d 'gradients are freed as they are used'
complete -c remat -n '__remat_is plan' -l measured-on -x -d 'whose times a profile has'
complete -c remat -n '__remat_is plan' -l kernels -x -a 'eager compiled compiled-loss chunked-loss fused' -d 'how operations are put together'
complete -c remat -n '__remat_is plan' -l fp8 -x -a 'torchao torchao-gather te te-weights' -d 'products in 8 bits'
complete -c remat -n '__remat_is plan' -l autocast -d 'weights in float32, products in 16 bits'
complete -c remat -n '__remat_is plan' -l channels-last -d 'how images lie'
complete -c remat -n '__remat_is plan' -l keep-gradients -d 'from one backward to the next'
complete -c remat -n '__remat_is plan' -l offload -d 'values may go to the host'
complete -c remat -n '__remat_is plan' -l no-sweep -d 'no table over batches'
