/* The texts of --help. */
#include "cli.h"

#include <string.h>

#define ASKING                                                                                     \
    "  --server URL        the rematd to ask, like localhost:7070 (default:\n"                     \
    "                      $REMAT_SERVER, then http://127.0.0.1:7070); its token is\n"             \
    "                      $REMAT_TOKEN\n"                                                         \
    "  --timeout SECONDS   longest time of one request beyond the wait it asks for\n"              \
    "                      (default 60)\n"

#define OUTPUT                                                                                     \
    "  --json              the answer as JSON on stdout; errors as problem JSON on\n"              \
    "                      stderr\n"                                                               \
    "  -o, --output FILE   write the answer's JSON to FILE\n"                                      \
    "  -h, --help          this text\n"

#define PROFILE_ARGUMENT                                                                           \
    "PROFILE is a file in the format remat-profile/1, - for standard input, or of a\n"             \
    "profile that the server has the name, the id or its beginning (4 digits or more).\n"

static const char general[] =
    "remat: rematerialization schedules for training jobs\n"
    "\n"
    "usage: remat COMMAND [OPTIONS] [ARGUMENTS]\n"
    "\n"
    "  profile    check, push, list, show and import profiles\n"
    "  solve      the fastest schedule of a profile within a memory budget\n"
    "  curve      what less memory costs: the trade-off between budget and time\n"
    "  plan       does a model train on a device, how fast, with how large a batch?\n"
    "  calibrate  measure this device for plan\n"
    "  show       a schedule, readable: numbers, memory over time, operations\n"
    "  trace      a schedule for Perfetto or chrome://tracing\n"
    "  simulate   replay an operation list on a profile: is it valid, what does it cost\n"
    "  layout     addresses for buffers of any origin: static memory planning\n"
    "  snapshots  what a checkpoint must save: the data-flow equations of checkpointing\n"
    "  jobs       solves under way on the server: list, show, cancel\n"
    "  solvers    the algorithms there are, what they accept, their options\n"
    "  mcp        the everyday commands for agents: Model Context Protocol on stdio\n"
    "  version    the version of this program\n"
    "\n"
    "A first try, without any server:\n"
    "  remat solve --local --budget 60% clients/profiles/resnet50.chain.json\n"
    "\n"
    "'remat COMMAND --help' explains a command, 'man remat' all of it. An option that does\n"
    "nothing beside another one, or beside the command, is refused.\n"
    "\n"
    "exit codes: 0 done; 1 the answer is no (nothing fits the budget, the schedule is\n"
    "not valid); 2 wrong command line; 3 bad input (file, profile, request); 4 the\n"
    "server cannot be reached or has no answer; 5 internal (memory, output, a bug);\n"
    "130 interrupted by Ctrl-C; 141 who read the output has gone\n";

static const char profile[] =
    "usage: remat profile check FILE     is this a valid profile? asks nobody\n"
    "       remat profile push FILE      store it on the server\n"
    "       remat profile list           what the server has\n"
    "       remat profile show ID        one of them, by name, id or its beginning\n"
    "       remat profile import FILE    a graph in another format as a profile\n"
    "\n"
    "FILE is in the format remat-profile/1, or - for standard input. A profile's id\n"
    "is the digest of what can change an answer, so pushing it twice stores it once,\n"
    "and pushing it under another name gives it both.\n"
    "\n"
    "import reads, by what is in the file:\n"
    "  networkx node_link_data (JSON), as MOCCASIN's instances are: cost_cpu and\n"
    "    cost_ram, or duration and out_cost, of each node\n"
    "  dnn-partitioning's JSON (msr-fiddle): fpgaLatency of each node, size of each edge\n"
    "  graph.txt of PipeDream's profiler: a forward graph in ms\n"
    "  DOT: digraph whose nodes have time and bytes, and workspace if they like\n"
    "All but PipeDream's become joint graphs whose outputs are what nobody reads, of 0\n"
    "bytes once made. Bytes are rounded up; sizes and times keep their units.\n"
    "\n"
    "  --name TEXT         list: only profiles of this name; import: the profile's name\n"
    "  --limit N           list: at most N (default 100)\n"
    "  --cursor CURSOR     list: go on where a list ended\n" ASKING OUTPUT;

static const char solve[] =
    "usage: remat solve --budget BYTES [OPTIONS] PROFILE\n"
    "\n"
    "Finds the fastest schedule of one training step whose activations, gradients of\n"
    "activations and workspaces fit the budget, and says why it is as it is. Every\n"
    "schedule was replayed by the simulator before it is answered. The same question is\n"
    "solved once: later it is answered from the store. Ctrl-C ends its job on the server\n"
    "too, unless others asked for it.\n"
    "\n" PROFILE_ARGUMENT "\n"
    "  -b, --budget BYTES  4GiB or 4Gi (of 1024), 4GB or 4G (of 1000), 4294967296, or\n"
    "                      of the peak of storing everything 60% or 0.6\n"
    "  --reserved BYTES    subtracted from the budget: parameters, optimiser state\n"
    "  --solver NAME       instead of the best one (auto); see 'remat solvers'\n"
    "  --option NAME=VALUE option of that solver; may be given several times\n"
    "  --link LINK         the way to the host, for offloading: 12GB/s, pcie3-x16 (see\n"
    "                      'remat solvers'), bytes per time unit, or the JSON object\n"
    "  --alignment BYTES   of the addresses in the arena: a power of two (default 256;\n"
    "                      1 for profiles below 64 KiB)\n"
    "  --effort EFFORT     of improving the answer of auto and interval at this budget:\n"
    "                      quick (default, about a second for 250 nodes) or\n"
    "                      thorough (some seconds to a minute)\n"
    "  --in-flight N       so many micro-batches of a pipeline's rank are alive at once:\n"
    "                      what the profile, a stage, holds when its forward has run\n"
    "                      counts for each, what works counts once; percentages are of\n"
    "                      what all of them take (default 1)\n"
    "  --no-layout         no addresses: the budget is about the peak, not the arena\n"
    "  --whole-device      the budget is the device's memory: what weights, gradients and\n"
    "                      optimizer states take is reserved of it, by --optimizer,\n"
    "                      --precision, --parallel, --ranks, --no-master, --view-buckets,\n"
    "                      --no-prefetch and --device (for its context) as for plan, and\n"
    "                      --parameters N where the profile does not say it\n"
    "  --wait SECONDS      wait that long and then name the job instead of its answer\n"
    "                      (exit code 4); 0: only start it (exit code 0). Default: wait\n"
    "                      until it is solved\n"
    "  --local             solve here, without a server\n" ASKING OUTPUT "\n"
    "examples:\n"
    "  remat solve -b 6GiB --reserved 400MiB resnet50.json -o schedule.json\n"
    "  remat solve -b 60% --local resnet50.json --json | jq .overhead\n";

static const char curve[] =
    "usage: remat curve [OPTIONS] PROFILE\n"
    "\n"
    "Prints the makespan for a range of budgets, as a table and as a plot. Without\n"
    "--budgets, they are spread evenly from the least peak to what storing everything\n"
    "takes. Peaks leave addresses out: solve may refuse the least.\n"
    "\n" PROFILE_ARGUMENT "\n"
    "  --points N          so many budgets, 2 to 1000 (default 20; of slots 50,\n"
    "                      or every number of them where there are fewer)\n"
    "  --budgets A,B,C     these budgets, written as for solve\n"
    "  --solver NAME       instead of the best one at each budget (auto)\n"
    "  --option NAME=VALUE option of that solver; may be given several times\n"
    "  --link LINK         as for solve\n"
    "  --in-flight N       as for solve\n"
    "  --wait SECONDS      as with solve\n"
    "  --ascii             draw without block characters\n"
    "  --local             solve here, without a server\n" ASKING OUTPUT;

static const char plan[] =
    "usage: remat plan MODEL --batch N --device DEVICE [OPTIONS]\n"
    "       remat plan CONFIG.JSON --batch N --device DEVICE [OPTIONS]\n"
    "       remat plan PROFILE --parameters N --device DEVICE [OPTIONS]\n"
    "\n"
    "Says from shapes alone whether a training step fits the device: what weights,\n"
    "gradients, optimizer states, context, NCCL and the gaps of PyTorch's allocator\n"
    "take of what the driver offers, what that leaves for activations, what storing all\n"
    "and two ways of checkpointing take, the schedule that fits and how much longer its\n"
    "step is, and samples a second over batches for storing all, per-block\n"
    "checkpointing and remat, without and with offloading. Sizes are exact for the\n"
    "operations described; times are a model: remat calibrate makes them those of a\n"
    "device. Exit code 1 where nothing fits.\n"
    "Ranks that share a model wait for what they send one another; weights and\n"
    "gradients of dp ranks go behind compute: a unit is gathered while the one before\n"
    "it runs, its gradient goes while the next backward runs, one after the other on\n"
    "one way; what the step is longer for is its communication. Nothing is slower for\n"
    "running beside it.\n"
    "\n"
    "MODEL: gpt2, gpt2-medium, gpt2-large, gpt2-xl, tinyllama-1.1b, llama2-7b,\n"
    "llama2-13b, llama2-70b, llama3-8b, llama3-70b, llama3.1-8b, llama3.1-70b,\n"
    "llama3.1-405b, llama3.2-1b, llama3.2-3b, mistral-7b, qwen2.5-0.5b, qwen2.5-1.5b,\n"
    "qwen2.5-3b, qwen2.5-7b, qwen2.5-14b, qwen2.5-32b, qwen2.5-72b, qwen3-0.6b,\n"
    "qwen3-1.7b, qwen3-4b, qwen3-8b, qwen3-14b, qwen3-32b, qwen3-30b-a3b,\n"
    "qwen3-235b-a22b, mistral-7b-v0.3, mixtral-8x7b, mixtral-8x22b, phi3-mini,\n"
    "mpt-125m, mpt-350m, mpt-760m, mpt-1b, mpt-3b, mpt-7b, mpt-13b, mpt-30b, mpt-70b,\n"
    "bert-base, bert-large, vit-s16, vit-b16, vit-b32, vit-l16, vit-h14, resnet18,\n"
    "resnet34, resnet50, resnet101, resnet152, unet. Or the config.json of one of\n"
    "Hugging Face (llama, mistral, mixtral, qwen2, qwen3, qwen3_moe, gpt2, bert).\n"
    "PROFILE: a file, as for solve.\n"
    "\n"
    "  --batch N           samples of a step (of one rank)\n"
    "  --sequence N, --image N, --layers N\n"
    "                      tokens, pixels, blocks; default: as published\n"
    "  --hidden N, --heads N, --kv-heads N, --head-width N, --ffn N, --vocab N,\n"
    "  --experts N, --experts-per-token N\n"
    "                      of a transformer, in place of its own\n"
    "  --attention KIND    fused (default) or eager, which writes its scores out\n"
    "  --kernels SET       eager (default): one an operation; compiled: blocks by\n"
    "                      torch.compile, in which norms, rotary positions, SwiGLU and\n"
    "                      dropout with its sum are one each; fused: and logits are made\n"
    "                      in chunks (Liger)\n"
    "  --autocast          of weights in float32: products in 16 bits, norms, softmax and\n"
    "                      sums of residuals in float32, copies of weights kept\n"
    "  --channels-last     images lie so that convolutions are products as they are\n"
    "  --device DEVICE     a100-40gb, a100-80gb, h100, h100-96gb, h100-nvl, h200, b200,\n"
    "                      mi300x, v100-16gb, v100-32gb, l4, l40s, a10g, a6000, rtx3090,\n"
    "                      rtx4090, rtx5090, t4, cpu, or a file that calibrate wrote (a\n"
    "                      path with / or .)\n"
    "  --precision P       float32, tf32, bfloat16 or float16; default: 16 bits where the\n"
    "                      device has them, with weights in float32 beside\n"
    "  --no-master         no weights in float32 beside those in 16 bits\n"
    "  --optimizer NAME    sgd, momentum, adam, adamw (default), adafactor, adam8bit\n"
    "  --parallel KIND     ddp, zero1, zero2, zero3 (fsdp), tensor, sequence (tensor, and\n"
    "                      tokens between the matrices), context, expert, pipeline, with\n"
    "                      --ranks N\n"
    "  --mesh dp=N,tp=N    a product of these: dp (with shard=N in groups of so many,\n"
    "                      each with all weights, and ep=N, experts among so many), tp or\n"
    "                      sp, cp, pp; --parallel says how dp ranks share (default\n"
    "                      zero3; beside pp dp is 1).\n"
    "                      Ranks of tp are neighbours, then those of cp, then those of dp\n"
    "  --microbatches N    of a pipeline, whose --batch, or profile, is one of them. It\n"
    "                      is cut where all goes through one value, so that every rank\n"
    "                      fits and the step is shortest; each rank fetches its own\n"
    "                      schedule\n"
    "  --schedule NAME     of a pipeline: 1f1b (default) or gpipe\n"
    "  --runtime NAME      what runs the pipeline: pytorch (default; it keeps outputs and\n"
    "                      has room for all inputs), megatron (neither), none (no room\n"
    "                      for what is received ahead either)\n"
    "  --network WAY+WAY   within a node and between nodes, by name (nvlink4+ndr; a wrong\n"
    "                      one says which) or as collectives reach it: 235GB/s@40us.\n"
    "                      Default: as nodes of the device are sold\n"
    "  --node-ranks N      ranks of a node (default 8)\n"
    "  --view-buckets      gradients lie in DDP's buckets\n"
    "  --no-prefetch       zero3 gathers one unit at a time\n"
    "  --offload           the schedule may copy values to the host\n"
    "  --no-sweep          no table over batches\n"
    "  --parameters N      of a profile: numbers in its weights; of a pipeline none\n"
    "  --measured-on DEVICE\n"
    "                      of a profile: whose its times are; those of another than\n"
    "                      --device are rescaled by the rooflines of both. Default: as\n"
    "                      the profile's source.device says\n"
    "  --solver NAME       instead of selective (with --offload: auto; of a pipeline: of\n"
    "                      each stage, the quickest that is good)\n"
    "  --option NAME=VALUE option of that solver\n"
    "  --effort EFFORT     quick (default) or thorough\n"
    "  --local             here, which is the default\n"
    "  --server URL        ask this rematd, which remembers\n"
    "  --wait SECONDS      with --server: wait that long, then name the job\n"
    "  --timeout SECONDS   with --server: longest time of one request (default 60)\n" OUTPUT "\n"
    "example:\n"
    "  remat plan gpt2-xl --batch 8 --device rtx4090 --optimizer adam8bit\n";

static const char calibrate[] =
    "usage: remat calibrate [-o FILE]\n"
    "\n"
    "Measures on this CPU what kernels of each class reach, by size, with those of\n"
    "remat-train, which must be installed, and writes a device for plan: its name is\n"
    "calibrated. Takes some seconds on one thread.\n"
    "\n"
    "  --json              the same: the entry is JSON\n"
    "  -o, --output FILE   write it to FILE\n"
    "  -h, --help          this text\n";

static const char show[] =
    "usage: remat show [OPTIONS] SCHEDULE\n"
    "\n"
    "Prints a schedule: its numbers, the memory that is alive over time with the line\n"
    "of the budget, and its operations, neighbours on one line.\n"
    "\n"
    "SCHEDULE is the id of a schedule that the server has, or a file that 'remat solve\n"
    "-o' wrote, or - for standard input. It is replayed here on its profile, which is\n"
    "asked of the server unless --profile gives it, and what it says of itself has to\n"
    "be so.\n"
    "\n"
    "  --profile FILE      the profile of the schedule\n"
    "  -a, --all           list every operation, drops too\n"
    "  --ascii             draw without block characters\n" ASKING OUTPUT "\n"
    "example:\n"
    "  remat solve --local --json -b 60% net.json | remat show --profile net.json -\n";

static const char tracing[] =
    "usage: remat trace [OPTIONS] SCHEDULE\n"
    "\n"
    "Writes a schedule in the JSON format of Chrome's trace viewer, which ui.perfetto.dev\n"
    "and chrome://tracing open: the compute stream and the two copy streams are tracks,\n"
    "the memory alive is a counter. A profile without a unit of time counts microseconds.\n"
    "\n"
    "SCHEDULE is what it is for 'remat show'.\n"
    "\n"
    "  --profile FILE      the profile of the schedule: it is replayed here\n" ASKING OUTPUT "\n"
    "example:\n"
    "  remat trace --profile net.json schedule.json -o net.trace.json\n";

static const char simulate[] =
    "usage: remat simulate [OPTIONS] PROFILE SCHEDULE-FILE\n"
    "\n"
    "Replays an operation list on a profile and says whether it is valid (exit code 1\n"
    "and the first bad operation if not), how long it takes and how much memory.\n"
    "\n" PROFILE_ARGUMENT "SCHEDULE-FILE is a schedule, or the array of its operations alone:\n"
    "[[\"F\", 0], [\"A\", 1], [\"D\", 0], ..]; - is standard input.\n"
    "The replay is made here. Of the server only a PROFILE that is no file is asked.\n"
    "\n"
    "  --in-flight N       so many micro-batches alive at once, as for solve (default:\n"
    "                      what the schedule says)\n"
    "  --local             ask no server\n" ASKING OUTPUT;

static const char snapshots[] =
    "usage: remat snapshots [OPTIONS] FILE\n"
    "\n"
    "Solves the data-flow equations of checkpointing (Dauvergne and Hascoet 2006): which\n"
    "variables a checkpointed fragment must save, and which its reversal must preserve.\n"
    "FILE is a fragment or a sequence of them, as POST /v1/snapshots takes it; - is\n"
    "standard input. Exit code 1 when a proposal in it does not hold.\n"
    "\n"
    "  --local             solve here, without a server\n" ASKING OUTPUT "\n"
    "example:\n"
    "  echo '{\"variables\":[\"a\",\"b\"],\"Req\":[\"b\"],\"out_C\":[\"a\"],\"use_Cbar\":[\"a\"],\n"
    "    \"out_Cbar\":[\"a\"],\"out_Dbar\":[\"b\"]}' | remat snapshots --local -\n";

static const char layout[] =
    "usage: remat layout [OPTIONS] FILE\n"
    "\n"
    "Gives each buffer an offset in one arena, so that no two that are alive together\n"
    "overlap, and says how small an arena can be: static memory planning. The layout was\n"
    "checked by a judge that shares no code with the packer.\n"
    "\n"
    "FILE is a table (CSV) with the columns lower, upper, size and, if you like, id, as\n"
    "minimalloc's instances are, or JSON as POST /v1/layouts takes it, or its array of\n"
    "buffers alone: [{\"lower\": 0, \"upper\": 3, \"size\": 1024}, ..]; - is standard\n"
    "input. A buffer is alive from lower until upper, which is not included. At most\n"
    "200000 buffers, which take some seconds.\n"
    "\n"
    "  --capacity BYTES    an arena within it will do. Exit code 1 where it is impossible\n"
    "                      (below what is alive at once), or no layout was found\n"
    "  --alignment BYTES   of the offsets: a power of two (default 1)\n"
    "  --local             here, which is the default\n" ASKING OUTPUT
    "                      (FILE.csv: the table with a column offset)\n"
    "\n"
    "example:\n"
    "  remat layout --capacity 1MiB A.1048576.csv -o offsets.csv\n";

static const char jobs[] = "usage: remat jobs [list]           the solves that the server knows\n"
                           "       remat jobs show ID          one of them\n"
                           "       remat jobs cancel ID        stop it\n"
                           "\n"
                           "The newest come first. ID is a job's id or its beginning (4 digits).\n"
                           "\n"
                           "  --limit N           list: at most N (default 100)\n"
                           "  --cursor CURSOR     list: go on where a list ended\n" ASKING OUTPUT;

static const char solvers[] =
    "usage: remat solvers [OPTIONS]\n"
    "\n"
    "Prints every solver: what it accepts, where it is from, its options.\n"
    "\n"
    "  --local             those of this program, without a server\n" ASKING OUTPUT;

static const char mcp[] =
    "usage: remat mcp\n"
    "\n"
    "Serves the everyday commands as tools of the Model Context Protocol on standard\n"
    "input and output: profile_check, solve, explain, plan and curve. Nothing else is\n"
    "read than regular files that a call names, nothing written but the file output of\n"
    "solve, and no server is asked.\n"
    "\n"
    "  -h, --help          this text\n"
    "\n"
    "example, for a client's settings:\n"
    "  {\"mcpServers\": {\"remat\": {\"command\": \"remat\", \"args\": [\"mcp\"]}}}\n";

static const char version[] = "usage: remat version [--json]\n"
                              "\n"
                              "Prints the version of this program.\n"
                              "\n"
                              "  --json              as JSON\n"
                              "  -h, --help          this text\n";

const char *help_text(const char *command)
{
    static const struct {
        const char *command, *text;
    } texts[] = {
        {"profile", profile},   {"solve", solve}, {"curve", curve},         {"show", show},
        {"simulate", simulate}, {"jobs", jobs},   {"snapshots", snapshots}, {"solvers", solvers},
        {"version", version},   {"plan", plan},   {"calibrate", calibrate}, {"layout", layout},
        {"trace", tracing},     {"mcp", mcp}};
    if (!command)
        return general;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(texts[i].command, command) == 0)
            return texts[i].text;
    return NULL;
}
