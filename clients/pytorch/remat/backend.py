"""A backend for torch.compile: the joint graph of each compiled piece runs under a schedule of the service.
Dynamo decides what is compiled and guards it; AOTAutograd makes the joint graph. Torch 2.4 or later."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import hashlib
import itertools
import json
import re
import sys
import threading
import warnings
import weakref
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path
from typing import Any, Callable, DefaultDict, Dict, Iterator, List, Optional, Sequence, Set, Tuple, Union

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from . import handover, joint, lengths, opened, operations, partition, pipelines, recurrent as recurrent_layers, sharing, traced, transfers
from .client import Budget, Cache, bytes_of, named_link, parse_budget
from .errors import BudgetError, CaptureError, ServiceError
from .joint import line_of, version
from .local import connect
from .memory import free_bytes
from .tensors import Looks, tensors_of

FORMAT = 1  # of kept schedules
KNOWN = "2.14"  # the newest torch whose insides are known
AUTO_SHARE = 0.9  # of the memory that is free
_FORMULAS = ("silu_backward", "mish_backward")
_KERNELS = (*_FORMULAS, "upsample_", "_upsample_", "hardshrink", "softshrink", "multi_margin_loss", "multilabel_margin_loss", "lstm", "gru", "rnn_")
MOST = 10000  # calls of a step that are remembered, and graphs of one code
SHAPES = 64  # for which one code has schedules


@dataclasses.dataclass(eq=False)
class Piece:
    """A graph of Dynamo's under a schedule. order: runs of the profile's nodes, and moves. frame: which code of the forward it is of, in
    their order; each may have a graph for each shape. gradients: bytes of those of parameters, which stay."""
    profile: Dict[str, Any]
    schedule: Dict[str, Any]
    order: List[sharing.Run]
    forward: Any
    backward: Any
    frame: int = 0
    gradients: int = 0
    number: int = dataclasses.field(default_factory=itertools.count().__next__)

    def takes(self, order: Optional[Sequence[sharing.Run]] = None) -> sharing.Takes:
        return sharing.takes(self.profile, order or self.order)._replace(gradients=self.gradients)


class Backend:
    """pieces: by now compiled for training. breaks: reasons of graph breaks, with their lines."""

    calls = property(lambda self: self.latest[threading.get_ident()][0])  # graphs of the latest step of what fit made, in this thread

    def __init__(self, budget: Budget = "auto", *, server: Optional[str] = None, token: Optional[str] = None, solver: str = "auto", effort: str = "quick",
                 reserved: int = 0, inner: Optional[str] = None, never: Sequence[str] = (), cache: Optional[Union[str, Path]] = None,
                 offline: str = "error", repeats: int = 3, loss: Sequence[int] = (0, 0), gradients: bool = True, spans: int = 1, divided: bool = False,
                 least: Optional[Dict[str, int]] = None, waiting: int = 1, stage: Optional[pipelines.Stage] = None, link: transfers.Link = None,
                 breaks: Sequence[str] = (), firsts: Optional[Tuple[Dict[str, int], Dict[str, int]]] = None) -> None:
        if link is not None and (inner is not None or stage is not None):
            raise ValueError(f"link= and {'inner=' if inner is not None else 'in_flight='} do not go together: "
                             f"{'Inductor has an order of its own' if inner is not None else 'micro-batches would share the link'}")
        if inner not in (None, "inductor"):
            raise ValueError(f"inner is {inner!r}; there are None and \"inductor\"")
        if offline not in ("error", "plain"):
            raise ValueError(f"offline is {offline!r}; there are \"error\" and \"plain\"")
        at_least(1, spans=spans, repeats=repeats)
        at_least(0, reserved=reserved)
        if version() < (2, 4):
            raise CaptureError(f"torch {torch.__version__} has no torch.compile that this works with; 2.4 or later has")
        self.budget = budget if budget == "auto" else parse_budget(budget)
        self.client, self.cache = connect(server, token), Cache(cache)
        self.stage, self.at_once = stage, stage.in_flight if stage else 1
        self.in_flight = min(pipelines.MOST, self.at_once * waiting)  # so many times counts what a graph holds for its backward
        self.question = {"solver": solver, "effort": effort, "reserved": reserved + (stage.reserved if stage else 0),
                         **({"in_flight": self.in_flight} if self.in_flight > 1 else {})}
        self.inner, self.never, self.offline, self.repeats, self.loss = inner, tuple(never), offline, repeats, loss
        self.gradients, self.spans, self.link = gradients, spans, link
        self.divided = divided  # the budget is of each graph
        self.more, self.least = least is not None, {} if least is None else least  # one that needs more gets its least, by profile
        self.frame, self.place, self.goes_on = 0, "", False  # that is compiled, lines where it begins, whether another graph comes after it
        self.pieces: List[Piece] = []
        self.lists: Dict[int, lengths.Lists] = {}  # by frame
        self.traced: Counter[int] = Counter()  # the same: how often
        self.made: List[Callable[..., Any]] = []  # what Dynamo calls
        self.current: Optional[Backend] = None  # by whose budget the graphs that came here are planned now: its own
        self.results, self.shares = firsts or ({}, {})  # by place, of the first batch, which is that of fit: bytes of those, and of its budget
        self.writes: Set[int] = set()  # frames whose graphs write what they are given, or may
        self.latest: DefaultDict[int, Tuple[List[Piece], List[Any]]] = defaultdict(lambda: ([], []))  # and a value of each until the backward; by thread
        self.ran: Counter[int] = Counter()  # graphs so far, by thread
        self.breaks = list(breaks)
        self.refused: Dict[str, Tuple[str, Optional[int]]] = {}  # what was, by question, and what was said
        self.__name__ = "remat"

    # ---- what Dynamo calls ----

    def __call__(self, module: torch.fx.GraphModule, example: List[Any]) -> Callable[..., Any]:
        self._look_at_break(module)
        for node in module.graph.nodes:
            if getattr(node.target, "__name__", "") == "_enter_inference_mode":
                raise CaptureError(f"{line_of(node)}: the forward enters inference_mode, of which nothing can be differentiated: use no_grad")
            inner = getattr(module, str(node.args[0]), None) if "checkpoint" in str(node.target) and node.args else None
            if inner is not None and any(t.requires_grad for t in tensors_of(node.meta["example_value"])) and _writes_inputs(inner):  # else it runs once
                raise CaptureError(f"{line_of(node)}: torch.utils.checkpoint runs again what writes a buffer, as BatchNorm in training does, so that a plain "
                                   "step writes it twice: leave the checkpoint out, whose work the schedule does")
            if node.op == "call_method" and node.target.startswith("to_sparse") and node.meta["example_value"].requires_grad:  # torch 2.6: no word
                raise CaptureError(f"{line_of(node)}: {node.target} loses the gradient where this torch compiles it")
        traced.adopt()
        if recurrent_layers.split(module.graph, self.spans, self.inner is None):
            module.recompile()
        compiling = torch._guards.CompileContext.try_get()  # parts after a graph break follow those before it
        self.frame = compiling.compile_id.frame_id if compiling is not None and compiling.compile_id is not None else 0
        first = next((n.stack_trace for n in module.graph.nodes if n.op.startswith("call_") and n.stack_trace), "")
        self.place = str(re.findall(r'([^/\\]*)", line (\d+)', first) or self.frame)  # which a copy elsewhere has, too, but for the frame
        self.traced[self.frame] += 1
        if (times := self.traced[self.frame]) in (SHAPES // 8, SHAPES):
            warnings.warn(f"remat: torch.compile has traced one code {times} times, which takes seconds each: something of it differs from call to call")
        self.made.append(self._by_inputs(module, example))
        made = weakref.ref(self.made[-1])  # Dynamo keeps it for good where the graph is not the forward's first
        return torch._dynamo.disable(lambda *args: made()(*args))

    def _compile(self, module: torch.fx.GraphModule, example: List[Any]) -> Callable[..., Any]:
        traced.without_masks(module, traced.masks(module))
        graph = _Graph(self, module, example)
        return graph.connected(self._compiled(module, example, graph))

    def _compiled(self, module: torch.fx.GraphModule, example: List[Any], graph: Union[_Graph, _Open]) -> Callable[..., Any]:
        from torch._dynamo.backends.common import aot_autograd
        compiler = functools.partial(aot_autograd, fw_compiler=graph.forward_compiler, bw_compiler=graph.backward_compiler,
                                     inference_compiler=graph.inference_compiler, partition_fn=graph.partition)
        if self.inner:
            from torch._inductor.decomposition import select_decomp_table
            return compiler(decompositions=select_decomp_table())(module, example)
        try:
            with _own_autocast(module), _undivided():
                return compiler()(module, example)
        except AssertionError as error:  # such as bytes of a parameter that are written through another tensor
            raise CaptureError(f"AOTAutograd cannot compile a graph of these inputs: {error}") from error

    def _by_inputs(self, module: torch.fx.GraphModule, example: List[Any]) -> Callable[..., Any]:
        """A plan for each kind of inputs that comes, of the latest ones: shapes, where the graph holds for many of them (after the second
        shape, or dynamic=True), and which of them lie in the same bytes, for which AOTAutograd compiles, and Dynamo guards nothing."""
        from torch._guards import TracingContext, tracing
        plans: Any = weakref.WeakKeyDictionary()  # by whose budget
        open_graph, frame, place, goes_on = None, self.frame, self.place, self.goes_on

        def compile_as(key: Any, args: List[Any]) -> None:
            owner = self.current or self
            owner.frame, owner.place, owner.goes_on, before = frame, place, goes_on, len(owner.pieces)
            made = open_graph.at(args, owner) if open_graph is not None else None
            plans.setdefault(owner, OrderedDict())[key] = made or owner._compile(_settled(module, args), args), owner.pieces[before:]

        def run(*args: Any) -> Any:
            owner = self.current or self
            owner.ran[threading.get_ident()] += 1
            key, compiled = _kind(args, frame in owner.writes), plans.setdefault(owner, OrderedDict())
            if key not in compiled:
                with torch._dynamo.convert_frame.compile_lock, tracing(TracingContext(torch._subclasses.FakeTensorMode())):  # as Dynamo: one at a time
                    for gone in compiled.popitem(last=False)[1][1] if len(compiled) == SHAPES else []:
                        owner.pieces.remove(gone)
                    compile_as(key, list(args))
                if len(compiled) == SHAPES // 8 and open_graph is None:
                    warnings.warn(f"remat: a graph was compiled for {SHAPES // 8} kinds of inputs, which takes seconds each: sizes, or shared bytes, differ")
            compiled.move_to_end(key)
            return compiled[key][0](*args)

        given = [node.meta.get("example_value") for node in module.graph.nodes if node.op == "placeholder"]  # sizes of a view's base may be left open, too
        if not any(isinstance(size, torch.SymInt) for v in given for t in (v, getattr(v, "_base", None)) for size in getattr(t, "shape", [t])):
            compile_as(_kind(example, False), example)
        elif self.inner is None:
            with contextlib.suppress(Exception), warnings.catch_warnings():  # then it is traced for each: what is wrong is said with numbers
                warnings.filterwarnings("ignore", "Error detected in")  # AOTAutograd traces in torch's anomaly mode
                open_graph = _Open(self, module, example)
        return run

    def _look_at_break(self, module: torch.fx.GraphModule) -> None:
        reason = getattr(module, "compile_subgraph_reason", None)
        self.goes_on = reason is not None and reason.graph_break
        if reason is not None and reason.graph_break:
            lines = [f"{frame.filename}:{frame.lineno}" for frame in reason.user_stack[-1:]]
            self.say_break(f"{lines[0] if lines else 'an unknown line'}: {why(str(reason.reason))}")

    def say_break(self, text: str) -> None:
        if text not in self.breaks:
            self.breaks.append(text)
            warnings.warn(f"remat: torch.compile breaks the graph at {text}. The pieces get a schedule each, and share the budget", stacklevel=2)

    # ---- the schedule ----

    def costs(self, graph: Any, device: torch.device) -> Dict[str, Any]:
        """Of the operations of a Joint: microseconds and workspace."""
        return operations.measure(graph, device, self.repeats, self.cache)

    def order_for(self, profile: Dict[str, Any], lists: lengths.Lists) -> Tuple[Dict[str, Any], List[sharing.Run]]:
        """As order; or a list of another shape of the same code, where that is within the budget."""
        plain = range(len(profile["nodes"]))
        whole = sharing.peak_in_flight(profile, plain, self.in_flight)
        budget = bytes_of(self.amount(whole), whole) - self.question["reserved"]
        taken = lists.take(profile, budget)
        if taken is None:
            schedule, order = self.order(profile, whole)
            lists.add(profile, order, budget, True)
            return schedule, order
        lists.add(profile, taken, budget, False)
        seconds = lengths.time_of(profile, plain)
        return {"solver": "the list of another shape", "budget": budget, "peak": sharing.peak_in_flight(profile, taken, self.in_flight),
                "store_all_peak": whole, "makespan": lengths.time_of(profile, taken),
                "overhead": lengths.time_of(profile, taken) / seconds - 1 if seconds else 0.0, "operations": sharing.operations_of(taken)}, taken

    def order(self, profile: Dict[str, Any], whole: int) -> Tuple[Dict[str, Any], List[sharing.Run]]:
        """The schedule of a joint profile, and its runs. whole: bytes where nothing is computed twice. Raises BudgetError, ServiceError."""
        amount, key = self.amount(whole), hashlib.sha256(json.dumps(profile, sort_keys=True).encode()).hexdigest()
        if self.more and self.least.get(key, 0) > bytes_of(amount, whole):
            amount = self.least[key]  # to find out again that there is nothing below takes long
        try:
            return self._ask(profile, amount)
        except BudgetError as error:
            of_a_break = isinstance(self.budget, str) and self.breaks  # a percentage of a few operations is no budget
            if not (self.more or of_a_break) or error.minimum_budget is None:
                raise
            self.least[key] = error.minimum_budget
            return self._ask(profile, error.minimum_budget)

    def _ask(self, profile: Dict[str, Any], budget: Budget) -> Tuple[Dict[str, Any], List[sharing.Run]]:
        question = {**self.question, "budget": budget}
        key = hashlib.sha256(json.dumps([FORMAT, profile, question], sort_keys=True).encode()).hexdigest()
        schedule = self.cache.get(key, "operations")
        if key in self.refused:  # again, by a loop that skips such batches: to find that out takes longest
            raise BudgetError(*self.refused[key])
        if schedule is None:
            try:
                schedule = self._solved(profile, question)
            except BudgetError as error:
                self.refused[key] = str(error), error.minimum_budget
                raise
            if self.budget != "auto" and "cut_short" not in schedule:  # every start has another; another day a better one
                self.cache.put(key, schedule)
        return schedule, sharing.runs_of(schedule["operations"])

    def _solved(self, profile: Dict[str, Any], question: Dict[str, Any]) -> Dict[str, Any]:
        budget, reserved = question["budget"], question["reserved"]
        try:
            if self.stage is None or not isinstance(budget, int):
                return self.client.schedule(profile, **question)
            schedule = self.client.schedule(profile, **{**question, "budget": max(budget, reserved)})
        except BudgetError as error:
            least = error.minimum_budget and error.minimum_budget + reserved  # the solver's is beside that
            raise pipelines.too_little(self.stage, reserved, least) if self.stage else BudgetError(str(error), least) from None
        if max(reserved, self.stage.end) > budget:
            raise pipelines.too_little(self.stage, reserved, schedule["peak"] + reserved)
        return schedule

    def frames(self) -> List[Piece]:
        """The latest piece of each code of the forward."""
        return [piece for _, piece in sorted({piece.frame: piece for piece in self.pieces}.items())]

    def together(self) -> int:
        """Bytes that the calls of the latest step take together, by their schedules."""
        return sharing.peak_of([piece.takes() for piece in self.calls], self.at_once)

    def at(self, share: int) -> int:
        """About the same, were each given a share in percent of what it takes when nothing is computed twice."""
        whole = [piece.takes(range(len(piece.profile["nodes"]))) for piece in self.calls]
        return sharing.peak_of([sharing.Takes(t.peak * share // 100, t.held * share // 100, t.gradients) for t in whole], self.at_once)

    def _look_at_share(self, piece: Piece) -> None:
        """Graphs that come later get what those before them leave."""
        if not isinstance(self.budget, int) or self.divided or len(self.frames()) < 2 or not piece.schedule:
            return
        taken = sharing.peak_of([piece.takes() for piece in self.frames()]) + self.question["reserved"]
        if taken > self.budget:
            raise BudgetError(f"the budget is {self.budget} bytes, and the graphs into which the forward breaks take {taken} "
                              "together: remat.fit divides a budget among all of them, here each takes what those before it leave", taken)

    def amount(self, whole: int) -> Budget:
        if self.more and isinstance(self.budget, str):  # of a larger batch not more than of the first
            first = self.shares.setdefault(self.place, bytes_of(self.budget, whole))
            return first if first < bytes_of(self.budget, whole) else self.budget
        if isinstance(self.budget, int) and not self.divided:
            return max(1, self.budget - sum(piece.takes().held for piece in self.frames() if piece.frame < self.frame))
        return self.budget if self.budget != "auto" else auto_budget(None, torch.device("cuda" if torch.cuda.is_available() else "cpu"))


def at_least(least: int, **numbers: Any) -> None:
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name} is {value!r}; it must be a whole number, {least} or more")


def auto_budget(model: Optional[torch.nn.Module], device: torch.device) -> int:
    """A share of the memory that is free, without what a model's gradients will take. Raises BudgetError."""
    free, source = free_bytes(device)
    missing = sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad and p.grad is None) if model else 0
    budget = int(AUTO_SHARE * free) - missing
    if budget <= 0:
        raise BudgetError(f"budget \"auto\": {free} bytes are free ({source}); gradients of parameters need {missing}")
    return budget


def backend(budget: Budget = "auto", **more: Any) -> Backend:
    """For torch.compile(model, backend=remat.backend(...), dynamic=False). Torch 2.4 or later.

    budget: of each compiled graph's forward and backward: bytes, "8GiB", "60%" of what it is predicted to take when nothing is computed twice, or "auto" (a
    share of the memory that is free). Activations, gradients, those of the parameters too, workspaces and inputs that are no parameters count. A graph break
    makes two graphs, and is said once. server, token, solver, effort, reserved, cache, repeats: as for fit. offline: "error", or "plain" for the graph's own
    order, with a warning, when the service does not answer. never: names of operators ("aten.topk", "my.route") that must not run twice; random operators,
    collectives and what a selective checkpoint policy must save never do. inner: None runs the operations one by one; "inductor" hands both halves to
    Inductor, which fuses and orders them as it likes: what is saved for the backward is the schedule's then, the peak is not. loss: bytes that the loss takes
    beside the results and their gradients, forward and backward, and as a third what stays behind its number to the end of the backward. gradients: False,
    those of the parameters do not count. link: to the host's memory, as for fit."""
    return Backend(budget, **more)


class _Graph:
    """One graph of Dynamo's, from its compilation on. parts: of its backward, None where gradients come at its end."""

    def __init__(self, owner: Backend, module: torch.fx.GraphModule, example: List[Any]) -> None:
        self.owner, self.n_inputs = owner, len(example)
        self.n_results = len(module.graph.output_node().args[0])
        nodes = module.graph.find_nodes(op="placeholder")
        self.resident = {i for i, (node, value) in enumerate(zip(nodes, example)) if isinstance(value, torch.nn.Parameter)
                         or node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type")}  # buffers
        self.parameters = frozenset(i for i, value in enumerate(example) if isinstance(value, torch.nn.Parameter))
        self.together = _sharing_memory(example)
        self.parts: Optional[List[Any]] = None
        self.piece: Optional[Piece] = None
        self.shapes: List[Any] = []
        self.reached: List[int] = []
        self.tangents: List[int] = []  # their places among what the backward begins with
        self.own: List[int] = []  # results that are no part of an input
        self.now = threading.local()  # without: bits of the tangents that a backward begins without
        self.graph: Any = None
        self.backward: Any = None

    def partition(self, module: torch.fx.GraphModule, _: Any, *, num_fwd_outputs: int, **__: Any) -> Tuple[Any, Any]:
        return self.halves(module, _facts(sys._getframe(1)), num_fwd_outputs)

    def halves(self, module: torch.fx.GraphModule, facts: Any, n_forward: int) -> Tuple[Any, Any]:
        owner = self.owner
        if any(info.mutates_data for info in facts.input_info):
            owner.writes.add(owner.frame)
        if owner.inner is None:
            joint.shorten(module.graph)
            # of the first tangents, those of inputs that the forward writes: which are of parameters, as by max_norm
            joint.drop_updates(module.graph, [i in self.parameters for i, info in enumerate(facts.input_info) if info.requires_grad
                                              and info.mutates_data and info.mutation_type.name == "MUTATED_OUT_GRAPH"])
            joint.split_dropout(module)
            joint.draw_in_place(module.graph)
            recurrent_layers.keep_workspaces(module.graph)
        graph = joint.Joint(module, n_forward, self.n_results, owner.never, self.parameters)
        profile, schedule, order = self._scheduled(graph, facts)
        halves = partition.partition(graph, order)
        stay = [g for i, g in enumerate(graph.gradients) if g is not None and i in self.parameters and owner.gradients]
        self.piece = Piece(profile, schedule, order, *halves, owner.frame, sum(map(joint.storage_bytes, stay)))
        owner.pieces.append(self.piece)
        owner._look_at_share(self.piece)
        self.graph, self.backward = graph, halves[1]
        return halves

    def _scheduled(self, graph: Any, facts: Any) -> Tuple[Dict[str, Any], Dict[str, Any], List[sharing.Run]]:
        """Profile, schedule and its runs. The schedule of another shape, where it serves this one."""
        owner = self.owner
        primals = [n for n in graph.placeholders if n not in graph.tangents]
        stage, first = owner.stage, all(piece.frame >= owner.frame for piece in owner.pieces)
        resident = frozenset(n.name for i, n in enumerate(primals) if i in self.resident or stage and first)
        uncounted = frozenset() if owner.gradients else self.parameters
        held = owner.inner is None and not self._can_hand_over(graph, facts)
        lists = owner.lists.setdefault(owner.frame, lengths.Lists(owner.in_flight))
        results = sum(joint.storage_bytes(r) for r in graph.forward_results if isinstance(r, torch.fx.Node))
        first = owner.results.setdefault(owner.place, results)  # the loss has as many more bytes than with the first batch as they have
        loss = [amount * results // first for amount in owner.loss] if first else owner.loss
        added = self.parameters if stage and not held and stage.microbatches > 1 else frozenset()
        kept = joint.Kept(owner.in_flight > 1, bool(stage) and not stage.last and not owner.goes_on, added)

        if owner.link is not None:
            owner.question.setdefault("link", transfers.measure(_device(graph)) if owner.link == "measured" else named_link(owner.link))

        def profile_of(costs: Dict[str, Any]) -> Dict[str, Any]:
            return joint.profile_of(graph, "joint graph", costs, resident, loss, uncounted, held, kept, owner.link is not None)
        profile = lists.costs(profile_of({})) or profile_of(owner.costs(graph, _device(graph)))
        try:
            schedule, order = owner.order_for(profile, lists)
        except ServiceError as error:
            if owner.offline != "plain" or error.status:
                raise
            warnings.warn(f"remat: {error}; a graph of {len(graph.operations)} operations runs in its own order, outside the budget", stacklevel=2)
            return profile, {}, list(range(len(graph.operations)))
        return profile, schedule, order

    def _can_hand_over(self, graph: Any, facts: Any) -> bool:
        """Whether what stands before an input is like it: none is written, given back, looked into by a result, or of a class of its own."""
        infos = facts.input_info
        touched = any(i.requires_grad and (i.mutates_data or i.mutates_metadata) for i in infos)
        given = {o.base_idx for o in facts.output_info if o.output_type.name in ("alias_of_input", "is_input")}
        back = any(infos[i].requires_grad for i in given if i is not None and i < len(infos))
        plain = all(type(m).__name__ in ("int", "PlainTensorMeta") for m in facts.subclass_inp_meta)
        return self.owner.inner is None and not touched and not back and plain and len(graph.gradients) == self.n_inputs

    def _cut(self, graph: Any, backward: torch.fx.GraphModule) -> None:
        wanted = [i for i, g in enumerate(graph.gradients) if g is not None]
        tensors = [None if g is None else g.meta["val"] for g in graph.gradients]
        self.shapes = [None if t is None else (tuple(t.shape), t.dtype, t.device) for t in tensors]
        whole = sum(t.numel() * t.element_size() for t in tensors if t is not None)
        if wanted:
            primals = [n for n in graph.placeholders if n not in graph.tangents]
            self.parts = partition.parts(backward, wanted, whole // partition.GROUPS, [[primals[i].name for i in together] for together in self.together])

    def _watch(self, results: Any) -> None:
        """A result that the loss does not use has no gradient; the compiled backward would take it for zeros, and hand
        zeros on where a plain step leaves None, which optimizers skip."""
        starts = [r.grad_fn for r in map(results.__getitem__, self.own) if isinstance(r, torch.Tensor) and r.grad_fn is not None]
        starts += [f for start in starts for f, _ in start.next_functions if f is not None]
        for node in [n for n in starts if type(n).__name__ == "CompiledFunctionBackward"][:1]:
            node.register_prehook(lambda grads: setattr(self.now, "without", sum(1 << i for i, place in enumerate(self.tangents) if grads[place] is None)))

    def _none(self) -> Set[int]:
        """Places of gradients that are made of tangents that are not there only."""
        without, self.now.without = getattr(self.now, "without", 0), 0
        return {i for i, bits in enumerate(self.reached) if bits and not bits & ~without} if without else set()

    def forward_compiler(self, module: torch.fx.GraphModule, example: List[Any]) -> Callable[..., Any]:
        facts = torch._guards.TracingContext.get().fw_metadata
        if self.owner.inner is None:
            facts.bw_donated_idxs = []  # none is written over: a backward with retain_graph may be followed by another
        return self.forward_of(module, facts, example)

    def forward_of(self, module: torch.fx.GraphModule, facts: Any, example: Sequence[Any] = ()) -> Callable[..., Any]:
        places = _begun(facts)
        if len(places) == len(self.graph.tangents):
            self.tangents, self.reached = places, self.graph.reached()
        self.own = [i for i, o in enumerate(facts.output_info) if o.output_type.name not in ("alias_of_input", "is_input")]
        if self._can_hand_over(self.graph, facts):
            self._cut(self.graph, self.backward)
        run = _inductor(module, example, False) if self.owner.inner else _boxed(module)
        n, outputs = len(self.graph.forward_results), module.graph.output_node().args[0]
        results = set(outputs[:n])
        own = [i for i, node in enumerate(outputs[n:], n) if node not in results and node.op != "placeholder"]

        def held(args: List[Any]) -> Any:
            found = run(args)
            tensors = (t for t in map(found.__getitem__, own) if torch.is_tensor(t) and not t._is_view())
            self.owner.latest[threading.get_ident()][1].extend(map(weakref.ref, itertools.islice(tensors, 1)))
            return found
        return _as_boxed(held)

    def backward_compiler(self, module: torch.fx.GraphModule, example: List[Any]) -> Callable[..., Any]:
        if self.parts is not None:
            return handover.backward_of(self.parts, self.shapes, self._none)
        run = _inductor(module, example, True) if self.owner.inner else _boxed(module)
        return _as_boxed(lambda args: [None if i in none else g for none in (self._none(),) for i, g in enumerate(run(args))])

    def inference_compiler(self, module: torch.fx.GraphModule, example: List[Any]) -> Callable[..., Any]:
        self.owner.writes.add(self.owner.frame)
        return _inductor(module, example, False, True) if self.owner.inner else _boxed(module)

    def connected(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            if self.piece is not None:
                calls, held = self.owner.latest[threading.get_ident()]
                calls.append(self.piece)
                del calls[:-MOST], held[:-MOST]
            results = compiled(*(args if self.parts is None else handover.connect(self.parts, list(args))))
            if len(self.tangents) > 1:
                self._watch(results)
            return results

        return run


class _Open:
    """A graph whose sizes are left open: AOTAutograd traces it once, and for sizes that come its joint graph, with these, has halves of its own."""

    def __init__(self, owner: Backend, module: torch.fx.GraphModule, example: List[Any]) -> None:
        """example: Dynamo's, with symbols. Raises CaptureError, and what AOTAutograd does."""
        self.module, self.plain, self.now = module, _Graph(owner, module, example), threading.local()  # now.forward: of the call that is made
        self.given = [n.meta.get("example_value", e) for n, e in zip(module.graph.find_nodes(op="placeholder"), example)]
        self.joint: Optional[torch.fx.GraphModule] = None  # where there is a backward
        self.autocast, own = _kind((), False), _settled(module, ())
        self.masks = traced.masks(module, [g.node.hint if isinstance(g, torch.SymInt) else g for g in self.given])
        traced.without_masks(own, self.masks)
        with opened.guarded(self.given) as self.guards:
            self.compiled = owner._compiled(own, example, self)
        if any(i.mutates_data or i.mutates_metadata for i in self.facts.input_info) and any(len(same) > 1 for same in self.plain.together):
            raise CaptureError("an input is written, and which others lie in its bytes depends on sizes")

    def at(self, args: Sequence[Any], owner: Backend) -> Optional[Callable[..., Any]]:
        """For the sizes that the arguments have, by that one's budget; None where it was not traced for such arguments."""
        sizes = opened.Sizes(self.given, args)
        try:
            alike = all(map(sizes.is_of, self.given, args)) and sizes.hold(self.guards) and _kind((), False) == self.autocast
            if not alike or _sharing_memory(args) != self.plain.together or traced.masks(self.module, args) != self.masks:
                return None
            joint_graph = sizes.settled(self.joint.graph) if self.joint is not None else None
        except CaptureError:
            return None
        if joint_graph is None:
            return self.compiled
        graph = copy.copy(self.plain)
        graph.owner, graph.now = owner, threading.local()
        forward, backward = graph.halves(opened.lazily(self.joint, joint_graph), self.facts, self.n_forward)
        run_forward, size = graph.forward_of(forward, self.facts), _Size()
        size.backward = graph.backward_compiler(backward, [])

        def run(*args: Any) -> Any:
            self.now.forward = lambda args: [*run_forward(args), size]
            return self.compiled(*args)
        return graph.connected(run)

    def partition(self, module: torch.fx.GraphModule, _: Any, *, num_fwd_outputs: int, **__: Any) -> Tuple[Any, Any]:
        """Halves that never run, for AOTAutograd to see what goes in and out; between them goes a size, by which a backward is found."""
        self.facts, self.joint, self.n_forward = _facts(sys._getframe(1)), module, num_fwd_outputs
        results, given = module.graph.output_node().args[0], module.graph.find_nodes(op="placeholder")
        places, tangents = _begun(self.facts), [n for n in given if n.name.startswith("tangents")]
        if [str(results[place].meta["val"].stride()) for place in places] != [str(n.meta["val"].stride()) for n in tangents]:
            raise CaptureError("with sizes left open AOTAutograd has gradients that lie otherwise than the results that they are of")
        if any(n.meta.get("saved_tensor_with_no_vc_check") for n in module.graph.nodes):
            raise CaptureError("how many tensors it saves unchecked is told with sizes only")
        size = next(n for n in given if isinstance(n.meta["val"], torch.SymInt))
        return tuple(opened.giving(module, wanted) for wanted in ((*results[:num_fwd_outputs], size), results[num_fwd_outputs:]))

    def forward_compiler(self, module: torch.fx.GraphModule, example: List[Any]) -> Callable[..., Any]:
        facts = torch._guards.TracingContext.get().fw_metadata
        facts.dynamic_outputs = False
        facts.saved_tensor_is_graph_input = [False] * MOST  # how many are saved is said by each schedule
        return _as_boxed(lambda args: self.now.forward(args))

    def backward_compiler(self, module: torch.fx.GraphModule, example: List[Any]) -> Callable[..., Any]:
        return _as_boxed(lambda args: args.pop(0).backward(args))

    def inference_compiler(self, module: torch.fx.GraphModule, example: List[Any]) -> Callable[..., Any]:
        self.facts = torch._guards.TracingContext.get().fw_metadata
        return self.plain.inference_compiler(module, example)


class _Size(int):
    """That a forward saves, by which its backward is found."""
    backward: Callable[[List[Any]], Any]


def _settled(module: torch.fx.GraphModule, args: Sequence[Any]) -> torch.fx.GraphModule:
    """A copy with the sizes that are among the arguments as numbers."""
    graph = copy.deepcopy(module.graph)
    for node, size in zip(graph.find_nodes(op="placeholder"), args):
        if isinstance(size, int):
            opened.replace(node, size)
    return opened.lazily(module, graph)


def _kind(args: Sequence[Any], places: bool) -> Tuple[Any, ...]:
    """Of the arguments of a graph: which want gradients, shapes (of parameters Dynamo guards them), and how far apart those are that lie in the same bytes;
    places: and where, for AOTAutograd takes what is written out of one tensor of all these bytes."""
    key: List[Any] = [torch.get_autocast_dtype(kind) for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]  # which torch 2.6 does not guard
    there: Dict[int, List[Tuple[int, int, int]]] = {}  # by storage; of parameters by its complement
    for i, value in enumerate(args):
        strided = isinstance(value, torch.Tensor) and value.layout == torch.strided and not is_traceable_wrapper_subclass(value)
        is_parameter, is_tensor = isinstance(value, torch.nn.Parameter), isinstance(value, torch.Tensor)
        key.append(value if not is_tensor else (value.requires_grad, value.dtype) if is_parameter else  # which torch 2.6 does not guard, either
                   (value.shape, strided and value.stride(), value.dtype, value.requires_grad))
        if strided:
            begin, storage = value.storage_offset() * value.element_size(), value.untyped_storage()._cdata
            end = begin + joint.span(value)
            others = [*there.get(storage, ()), *(() if is_parameter else there.get(~storage, ()))]  # many parameters may lie in one
            key += [(i, j, begin - first, value is args[j], places and begin) for j, first, last in others if first < end and begin < last]
            there.setdefault(~storage if is_parameter else storage, []).append((i, begin, end))
    return tuple(key)


def why(reason: str) -> str:
    """Of a graph break: what it is, and why. Some of Dynamo's reasons only say that there is one; what it counts says more."""
    from torch._dynamo.utils import counters
    if reason.split(":")[0].strip() in ("step_unsupported", "store_attr", "generic_jump", ""):
        reason = ([str(r) for r in counters["graph_break"]] or [reason])[-1]
    lines = [line.strip() for line in reason.splitlines() if line.strip()] or ["no reason was given"]
    more = [line[len("Explanation:"):].strip() for line in lines if line.startswith("Explanation:")]
    return ": ".join([lines[0], *more[:1]])


def _writes_inputs(module: torch.fx.GraphModule) -> bool:
    """What a checkpoint runs, as batch norm does with its statistics; of sizes and types alone."""
    given = [v.detach().clone() if isinstance(v := node.meta["example_value"], torch.Tensor) else v for node in module.graph.find_nodes(op="placeholder")]
    tensors, written = tensors_of(given), set()

    def look(function: Any, arguments: Dict[str, Any], _: Any) -> None:
        names = [a.name for a in function._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
        written.update(t.untyped_storage()._cdata for t in tensors_of([arguments.get(name) for name in names]))
    with tensors[0].fake_mode if tensors else contextlib.nullcontext(), torch._dispatch.python.enable_python_dispatcher(), Looks(look):
        module(*given)
    return any(t.untyped_storage()._cdata in written for t in tensors)


def _facts(frame: Any) -> Any:
    """What AOTAutograd knows of inputs and results. It tells the compilers of the two halves, and the partitioner nothing, so it
    is read out of the frame that calls that. Raises CaptureError where it is not there."""
    facts = frame.f_locals.get("inner_meta")
    wanted = ("input_info", "output_info", "mutated_inp_runtime_indices", "num_outputs", "num_intermediate_bases", "subclass_inp_meta")
    missing = [name for name in wanted if not hasattr(facts, name)]
    if facts is None or missing:
        raise CaptureError(f"AOTAutograd of torch {torch.__version__} does not say what it knows of a graph where it did until "
                           f"torch {KNOWN} ({'inner_meta of ' + frame.f_code.co_name if facts is None else ', '.join(missing)} "
                           "is not there), and without it a schedule may be wrong: this package is too old for this torch")
    return facts


def _begun(facts: Any) -> List[int]:
    """Places of the results with whose gradients the backward begins, as AOTAutograd picks them out: inputs that were written are the first."""
    infos = [facts.input_info[i] for i in facts.mutated_inp_runtime_indices]
    first, written = len(infos), [i for i, info in enumerate(infos) if info.mutates_data and info.requires_grad]
    kinds = ("non_alias", "unsafe_view_alias", "custom_function_view")
    places = [first + i for i, o in enumerate(facts.output_info) if o.output_type.name in kinds and issubclass(o.raw_type, torch.Tensor) and o.requires_grad]
    return written + places + [first + facts.num_outputs + i for i in range(facts.num_intermediate_bases)]


def _sharing_memory(values: List[Any]) -> List[List[int]]:
    """By place, the places of what lies in the same storage, its own among them."""
    known = [isinstance(v, torch.Tensor) and v.layout == torch.strided and not is_traceable_wrapper_subclass(v) for v in values]
    storages = [v.untyped_storage()._cdata if is_known else -1 - i for i, (v, is_known) in enumerate(zip(values, known))]
    return [[i for i, other in enumerate(storages) if other == own] for own in storages]


@contextlib.contextmanager
def _own_autocast(module: torch.fx.GraphModule) -> Iterator[None]:
    """The autocast around a graph becomes a part of it, so that the backward is traced without, as it is run: where the
    forward turned autocast off, its backward is not in 16 bits either."""
    kinds = [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
    graph, output = module.graph, module.graph.output_node()
    first = next((n for n in graph.nodes if n.op != "placeholder"), output)
    for kind in kinds:
        with graph.inserting_before(first):
            entered = graph.call_function(torch.amp.autocast_mode._enter_autocast, (
                kind, torch.get_autocast_dtype(kind), True, torch.is_autocast_cache_enabled()))
        with graph.inserting_before(output):
            graph.call_function(torch.amp.autocast_mode._exit_autocast, (entered,))
    module.recompile()
    with contextlib.ExitStack() as stack:
        for kind in kinds:
            stack.enter_context(torch.autocast(kind, enabled=False))
        yield


@contextlib.contextmanager
def _undivided() -> Iterator[None]:
    """Operators stay that a plain step runs as one: AOTAutograd would trace many in their place, with other last bits,
    more results and more time. There are formulas of torch's beside a kernel, and those in Python."""
    from torch._C import DispatchKey
    keys = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)
    names = [name for name in {*dir(torch.ops.aten), *_FORMULAS} if name.startswith(_KERNELS)]
    packets = [getattr(torch.ops.aten, name) for name in names]
    ops = [getattr(packet, overload) for packet in packets for overload in packet.overloads()]
    before = [[(key, op.py_kernels.pop(key)) for key in keys if key in op.py_kernels] for op in ops]
    for op in ops:
        if op.overloadpacket.__name__ in _FORMULAS:
            op.py_kernels[keys[1]] = lambda *_, **__: NotImplemented  # as torch.export keeps operators
        op._dispatch_cache.clear()
    try:
        yield
    finally:
        for op, kernels in zip(ops, before):
            op.py_kernels.pop(keys[1], None)
            op.py_kernels.update(kernels)
            op._dispatch_cache.clear()


def _boxed(module: torch.fx.GraphModule) -> Callable[[List[Any]], Any]:
    forward = partition.boxed(module, module.graph)

    def run(args: List[Any]) -> Any:
        with torch._C._DisableAutocast():  # what it casts is in the graph
            return forward(args)
    return _as_boxed(run)


def _as_boxed(run: Callable[[List[Any]], Any]) -> Callable[[List[Any]], Any]:
    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _inductor(module: torch.fx.GraphModule, example: Sequence[Any], backward: bool, inference: bool = False) -> Any:
    from torch._inductor import compile_fx, config
    with config.patch(fallback_random=True):  # the numbers of a plain step
        return compile_fx.compile_fx_inner(module, example, is_backward=backward, is_inference=inference)


def _device(graph: Any) -> torch.device:
    values = [node.meta.get("val") for node in graph.placeholders]
    return next((v.device for v in values if isinstance(v, torch.Tensor)), torch.device("cpu"))
