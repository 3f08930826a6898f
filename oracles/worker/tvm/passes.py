"""TVM's passes by name: where each comes from, what it needs of the module, what it leaves behind.

A *fact* is something that holds of the module. At first, as the importer leaves it, there are `operators`
(Relax operators that no PrimFunc implements yet), dataflow blocks, and a check that functions are pure.
Passes that ask for nothing run on any module; that is what was seen of each, not what its documentation
says. Passes are left out that change a function's signature (parameters lifted out, bundled, fetched
lazily), that give other results by design (mixed precision, fast mathematics, training), or that need what
only the code generator puts in (a target on each function, packed arguments). Some stand in sequences all the
same, prepared so that `main` takes and gives what it did; of `LOSSY` ones results are not compared.

PrimFuncs are made in the form of blocks. `loops` says that they have become plain loops, `flat` that their
buffers have one dim as well: most passes take either form, and what the pipelines do to blocks they leave
alone. The bodies around them must not be in dataflow blocks any more, where TVM looks for reshapes in them.
"""

from dataclasses import replace
from typing import Any, Iterable  # noqa: UP035 (Python 3.8)

from oracles.worker.tvm.sequences import Pass, Step, base_of, complaint, is_option, step_of

LLVM = "llvm"
"""LLVM's own optimisations, as if they were one pass."""

START = frozenset(("operators",))
"""The facts of a module as it is imported."""

BLOCKS = frozenset(("primfuncs", "plain"))
"""The facts of a module of PrimFuncs alone."""

PLAIN_LOOPS = BLOCKS | {"initialised", "opaque", "loops"}
"""The facts of one without blocks; where all buffers have one dim, it is `flat` as well.

One with vectorised loops has `lanes`, which passes over memory do not take; see `MARKED` for the others.
"""


def pass_of(name: str) -> Pass:
    """The pass of that name, or the step of a schedule; KeyError if there is none."""
    if name not in PASSES and step_of(name) is not None:
        return Step(name, gives=_words("lanes" * base_of(name).endswith(".vectorize")))
    return PASSES[name]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _pass(
    name: str, *, needs: str = "", bars: str = "", gives: str = "", takes: str = "", arguments: Any = ()
) -> Pass:
    return Pass(name, _words(needs), _words(bars), _words(gives), _words(takes), tuple(arguments))


ANYWHERE = """
    AdjustMatmulOrder AllocateWorkspace AttachGlobalSymbol CanonicalizeBindings CombineParallelMatmul
    ComputePrimValue DataflowUseInplaceCalls DeadCodeElimination DecomposeOpsForInference
    EliminateCommonSubexpr ExpandMatmulOfSum ExpandTupleArguments FoldBatchnormToConv2D FoldConstant
    FuseTransposeMatmul InlinePrivateFunctions LambdaLift LowerGPUIPCAllocStorage Normalize
    NormalizeGlobalVar OptimizeLayoutTransform RealizeVDevice RemoveRedundantReshape
    RemoveUnusedOutputs RemoveUnusedParameters ReorderPermuteDimsAfterConcat ReorderTakeAfterMatmul
    RewriteCUDAGraph RewriteDataflowReshape SpecializePrimFuncBasedOnCallSite TopologicalSort
    backend.DispatchSampling backend.DispatchSortScan
"""
"""Relax passes that any module can be given."""

NOT_WITHIN_GROUPS = ("FoldConstant", "RewriteDataflowReshape")
"""Those that leave constants and reshapes in what FuseOps grouped: FuseTIR takes calls of PrimFuncs alone."""

ON_PRIMFUNCS = """
    tirx.AnnotateEntryFunc tirx.BF16ComputeLegalize tirx.ConvertSSA tirx.FP8ComputeLegalize
    tirx.ForceNarrowIndexToInt32 tirx.InlinePrivateFunctions tirx.LowerTVMBuiltin
    tirx.RemoveAssume tirx.RemoveNoOp tirx.SkipAssert tirx.StmtSimplify tirx.UnrollLoop
    tirx.VerifyMemory
    s_tir.AnnotateIrregularLoop s_tir.CanonicalizeLoop s_tir.HoistExpression s_tir.HoistIfThenElse
    s_tir.InjectDoubleBuffer s_tir.InjectPermutedLayout s_tir.InjectSoftwarePipeline s_tir.InjectVirtualThread
    s_tir.InstrumentBoundCheckers s_tir.LiftThreadBinding s_tir.LoopPartition s_tir.LowerAutoCopy
    s_tir.LowerCrossThreadReduction s_tir.LowerMatchBuffer s_tir.LowerVtcmAlloc
    s_tir.ManifestSharedMemoryLocalStage s_tir.MergeSharedMemoryAllocations
    s_tir.RemoveStoreUndef s_tir.RemoveWeightLayoutRewriteBlock s_tir.RenormalizeSplitPattern
    s_tir.RewriteUnsafeSelect s_tir.StmtSimplify s_tir.TransformMmaBufferLayout s_tir.UnifyThreadBinding
    s_tir.UseAssumeToReduceBranches s_tir.VerifyVTCMLimit
"""
"""Passes over PrimFuncs in any form: of blocks, as legalising the operators makes them, or of loops."""

MARKED = {
    "jumps": (
        "s_tir.AnnotateIrregularLoop",
        "s_tir.InjectSoftwarePipeline s_tir.LoopPartition tirx.UnrollLoop",
    ),
    "matches": (
        "s_tir.LowerMatchBuffer",
        "s_tir.LowerOpaqueBlock tirx.FlattenBuffer s_tir.InjectPermutedLayout s_tir.InjectSoftwarePipeline",
    ),
    "staged": (
        "s_tir.InjectSoftwarePipeline",
        "s_tir.LowerOpaqueBlock s_tir.LoopPartition s_tir.InjectVirtualThread s_tir.InjectDoubleBuffer"
        " s_tir.HoistIfThenElse s_tir.HoistExpression tirx.UnrollLoop tirx.RemoveNoOp tirx.RemoveAssume",
    ),
    "doubled": (
        "s_tir.InjectDoubleBuffer",
        "tirx.StorageRewrite s_tir.HoistIfThenElse s_tir.HoistExpression tirx.UnrollLoop tirx.RemoveNoOp"
        " tirx.RemoveAssume tirx.PointerValueTypeRewrite",
    ),
    "boxed": ("s_tir.LowerOpaqueBlock", "s_tir.InjectDoubleBuffer"),
    "lanes": ("tirx.VectorizeLoop", "s_tir.InjectDoubleBuffer"),
    "shifted": ("s_tir.CanonicalizeLoop", "tirx.VectorizeLoop s_tir.InjectDoubleBuffer"),
    "crossed": ("tirx.FlattenBuffer", "tirx.VectorizeLoop"),
}
"""What some TIR programs hold: the pass that takes it, and those that TVM's pipelines run after that.

Loops that are left early; blocks with views of buffers; software pipelines; double buffers; these as memory
of a block; lanes; these, or a double buffer, of a loop that begins elsewhere than at 0; lanes along a dim
that is not a buffer's last.
"""


def _marks(name: str) -> tuple[frozenset[str], frozenset[str]]:
    """The marks that bar a pass, and those that it takes."""
    bars = frozenset(mark for mark, (_, later) in MARKED.items() if name in later.split())
    return bars, frozenset(mark for mark, (taker, _) in MARKED.items() if taker == name)


ON_FLAT = """
    tirx.PointerValueTypeRewrite
    s_tir.DecorateDeviceScope s_tir.InstrumentProfileIntrinsics
"""
"""Passes over PrimFuncs of loops over buffers of one dim."""

CONDITIONAL = (
    _pass("LegalizeOps", gives="primfuncs", takes="operators"),
    _pass("AnnotateTIROpPattern", needs="primfuncs", gives="patterns"),
    _pass("FuseOps", needs="patterns", gives="groups"),
    _pass("FuseTIR", needs="groups", takes="groups"),
    _pass("MergeCompositeFunctions", bars="allocations lowered"),
    _pass("RemovePurityChecking", gives="unchecked"),
    _pass("ToNonDataflow", gives="plain"),
    _pass("ConvertToDataflow", bars="loops", takes="plain"),
    _pass("SplitLayoutRewritePreproc", bars="loops"),
    _pass("CallTIRRewrite", needs="primfuncs unchecked plain", bars="groups", gives="allocations"),
    _pass(
        "VMShapeLower", needs="primfuncs scans unchecked plain", bars="groups allocations", gives="lowered"
    ),
    _pass("backend.DispatchSortScan", gives="scans"),
    _pass("KillAfterLastUse", needs="unchecked plain"),
    _pass("AttachAttrLayoutFreeBuffers", needs="primfuncs"),
    _pass("ConvertLayout", needs="operators", arguments=({"relax.nn.conv2d": ["NHWC", "OHWI"]},)),
    _pass("StaticPlanBlockMemory", needs="allocations"),
    _pass("LowerAllocTensor", needs="allocations", gives="lowered", takes="allocations"),
    _pass("LowerRuntimeBuiltin", needs="unchecked", bars="allocations"),
    _pass("s_tir.LowerInitBlock", needs="primfuncs", gives="initialised"),
    _pass("s_tir.PlanAndUpdateBufferAllocationLocation", needs="initialised"),
    _pass("s_tir.ConvertBlocksToOpaque", needs="initialised", gives="opaque"),
    _pass("s_tir.CompactBufferAllocation", needs="opaque"),
    _pass("s_tir.LowerOpaqueBlock", needs="opaque plain", bars="groups", gives="loops"),
    _pass("tirx.FlattenBuffer", needs="loops", gives="flat"),
    _pass("tirx.CommonSubexprElim", needs="loops"),
    _pass("tirx.StorageRewrite", needs="flat", bars="lanes"),
    _pass("tirx.VectorizeLoop", needs="primfuncs", takes="lanes"),
    _pass("tirx.NarrowDataType", needs="flat", arguments=(32,)),
    *(_pass(f"FuseOps:{level}", needs="patterns", gives="groups", arguments=(level,)) for level in (0, 1, 2)),
    _pass("EliminateCommonSubexpr:calls", arguments=(True,)),
    _pass("TopologicalSort:breadth-first", arguments=("breadth-first",)),
    _pass("TopologicalSort:from-outputs", arguments=("depth-first", "from-outputs")),
    _pass("s_tir.CompactBufferAllocation:lax", needs="opaque", arguments=(False,)),
    _pass("tirx.VectorizeLoop:off", needs="primfuncs", takes="lanes", arguments=(False,)),
)
"""Passes with conditions of their own."""


PATTERNS = "matmul+add nn.conv2d+nn.relu multiply+add add+nn.relu exp negative+exp permute_dims+matmul add"
"""Operators that follow each other, which `FuseOpsByPattern` makes functions of."""


def _prepared(name: str, by: str = "", *arguments: Any) -> Pass:
    return replace(_pass(name, needs="operators", bars="plain groups", arguments=arguments), by=by)


PREPARED = (
    _prepared("LiftTransformParams", "lift_transform_params", 1),
    _prepared("LiftTransformParams:2", "lift_transform_params", 2),
    _prepared("Gradient", "take_gradient"),
    _prepared("UpdateVDevice", "update_vdevice"),
    _prepared("ToMixedPrecision", "", "float32"),
    _prepared("ToMixedPrecision:float16", "", "float16"),
    *(_prepared(f"FuseOpsByPattern:{each}", "fuse_by_pattern", each) for each in PATTERNS.split()),
)
"""Passes that take arguments of a program's own, or change what `main` is."""

LOSSY = frozenset(("ToMixedPrecision", "ToMixedPrecision:float16"))
"""Passes after which results are others by design."""


def _with_marks(each: Pass) -> Pass:
    bars, takes = _marks(base_of(each.name))
    return replace(each, bars=each.bars | bars, takes=each.takes | takes)


PASSES = {
    each.name: _with_marks(each)
    for each in (
        *(_pass(name, bars="groups" * (name in NOT_WITHIN_GROUPS)) for name in ANYWHERE.split()),
        *(_pass(name, needs="primfuncs") for name in ON_PRIMFUNCS.split()),
        *(_pass(name, needs="flat") for name in ON_FLAT.split()),
        *CONDITIONAL,
        *PREPARED,
    )
}
"""Every pass that may stand in a sequence."""

ASKED_ABOUT = {
    each.name: each
    for each in (
        *map(_pass, _names("BundleModelParams DecomposeOpsForTraining FastMathTransform LazyGetInput")),
        _pass("LazySetOutput"),
        _pass("BindSymbolicVars", arguments=({"n": 4},)),
    )
}
"""Passes that stand in no sequence, since they change a function's signature or its results.

Their patterns are kept: other passes look for the same.
"""

_LEAST = """
    s_tir.transform.CanonicalizeLoop() s_tir.transform.LowerCrossThreadReduction()
    s_tir.transform.LowerInitBlock() s_tir.transform.PlanAndUpdateBufferAllocationLocation()
    s_tir.transform.ConvertBlocksToOpaque() s_tir.transform.LiftThreadBinding()
    s_tir.transform.UnifyThreadBinding() s_tir.transform.LowerMatchBuffer()
    s_tir.transform.LowerOpaqueBlock() tirx.transform.FlattenBuffer() tirx.transform.BF16ComputeLegalize()
    tirx.transform.VectorizeLoop(False) s_tir.transform.InjectVirtualThread()
    tirx.transform.FP8ComputeLegalize() tirx.transform.VerifyMemory() tirx.transform.AnnotateEntryFunc()
    s_tir.transform.ThreadSync("shared") s_tir.transform.LowerThreadAllreduce()
    tirx.transform.SplitHostDevice() tirx.transform.MakePackedAPI() tirx.transform.FP8StorageLegalize()
    tirx.transform.BF16StorageLegalize()
"""
LEAST = tuple(_LEAST.split())
"""The passes that lower a module of PrimFuncs for the code generator and do nothing else, under `tvm.`."""

OPTIONAL = _names(
    """
    AnnotateTIROpPattern FoldConstant FuseOps FuseTIR DeadCodeElimination NormalizeGlobalVar
    RewriteDataflowReshape StaticPlanBlockMemory RewriteCUDAGraph KillAfterLastUse
    s_tir.CanonicalizeLoop s_tir.CompactBufferAllocation s_tir.StmtSimplify s_tir.AnnotateIrregularLoop
    s_tir.InjectSoftwarePipeline s_tir.LoopPartition s_tir.InjectDoubleBuffer s_tir.InsertHoistIfThenElse
    s_tir.HoistIfThenElse s_tir.RenormalizeSplitPattern s_tir.RewriteUnsafeSelect tirx.NarrowDataType
    tirx.StorageRewrite tirx.UnrollLoop tirx.StmtSimplify tirx.RemoveNoOp tirx.CommonSubexprElim
    tirx.VerifyMemory
    """
)
"""The passes of TVM's own pipelines that a build does without; it needs all others."""


REQUIRED = _words(
    """
    LegalizeOps CallTIRRewrite LowerAllocTensor LowerRuntimeBuiltin AttachGlobalSymbol VMShapeLower
    ToNonDataflow RemovePurityChecking ComputePrimValue backend.DispatchSampling backend.DispatchSortScan
    s_tir.LowerInitBlock s_tir.PlanAndUpdateBufferAllocationLocation s_tir.ConvertBlocksToOpaque
    s_tir.LiftThreadBinding s_tir.ManifestSharedMemoryLocalStage s_tir.LowerAutoCopy s_tir.UnifyThreadBinding
    s_tir.LowerMatchBuffer s_tir.LowerCrossThreadReduction s_tir.InjectPermutedLayout
    s_tir.TransformMmaBufferLayout s_tir.InjectVirtualThread s_tir.VerifyVTCMLimit s_tir.LowerVtcmAlloc
    s_tir.MergeSharedMemoryAllocations s_tir.LowerOpaqueBlock tirx.FlattenBuffer
    tirx.BF16ComputeLegalize tirx.FP8ComputeLegalize tirx.VectorizeLoop
    tirx.AnnotateEntryFunc tirx.ConvertSSA tirx.LowerTVMBuiltin
    """
)
"""The passes of sequences that a build may need as well."""

AT_WILL = frozenset(PASSES) - REQUIRED
"""The passes of sequences that can be disabled by name: no build needs one."""


UNDRAWN = _words(
    "KillAfterLastUse s_tir.DecorateDeviceScope s_tir.HoistExpression tirx.ForceNarrowIndexToInt32"
)
"""Passes that refuse or spoil some modules as early as this, or are for devices: a user asks for them."""


SELDOM = _words(
    """
    AllocateWorkspace LowerGPUIPCAllocStorage RealizeVDevice RewriteCUDAGraph backend.DispatchSampling
    InlinePrivateFunctions LambdaLift Normalize RemoveUnusedParameters
    tirx.AnnotateEntryFunc tirx.BF16ComputeLegalize tirx.FP8ComputeLegalize tirx.ConvertSSA
    tirx.InlinePrivateFunctions tirx.LowerTVMBuiltin tirx.SkipAssert tirx.VerifyMemory
    s_tir.AnnotateIrregularLoop s_tir.CanonicalizeLoop s_tir.InjectDoubleBuffer s_tir.InjectPermutedLayout
    s_tir.InjectSoftwarePipeline s_tir.InjectVirtualThread s_tir.InstrumentBoundCheckers
    s_tir.LiftThreadBinding s_tir.LowerAutoCopy s_tir.LowerCrossThreadReduction s_tir.LowerMatchBuffer
    s_tir.LowerVtcmAlloc s_tir.ManifestSharedMemoryLocalStage s_tir.MergeSharedMemoryAllocations
    s_tir.RemoveWeightLayoutRewriteBlock s_tir.TransformMmaBufferLayout s_tir.UnifyThreadBinding
    s_tir.UseAssumeToReduceBranches s_tir.VerifyVTCMLimit
    """
)
"""Passes for what importing and legalising for a CPU make none of: threads, devices, other memory."""


IDLE_ON_LOOPS = _words(
    """
    tirx.ConvertSSA tirx.InlinePrivateFunctions tirx.VerifyMemory
    s_tir.InstrumentBoundCheckers s_tir.LiftThreadBinding s_tir.LowerAutoCopy s_tir.LowerCrossThreadReduction
    s_tir.LowerVtcmAlloc s_tir.ManifestSharedMemoryLocalStage s_tir.MergeSharedMemoryAllocations
    s_tir.RemoveWeightLayoutRewriteBlock s_tir.TransformMmaBufferLayout s_tir.VerifyVTCMLimit
    s_tir.UseAssumeToReduceBranches s_tir.InjectPermutedLayout
    """
)
"""Passes that seldom change TIR programs for a CPU: they are for threads, devices and other memory."""


def facts_after(names: Iterable[str], facts: frozenset[str] = START) -> frozenset[str]:
    """The facts that hold of a module after these passes."""
    for name in _passes_in(names):
        known = pass_of(name)
        facts = facts - known.takes | known.gives
    return facts


def misplaced(names: Iterable[str], facts: frozenset[str] = START) -> str:
    """Say why these passes cannot stand in this order, given the first facts; empty if they can."""
    names = tuple(names)
    for name in filter(is_option, names):
        if why := complaint(name):
            return why
    for name in _passes_in(names):
        if name not in PASSES and step_of(name) is None:
            return f"there is no pass {name}"
        missing, barred = pass_of(name).needs - facts, pass_of(name).bars & facts
        if missing:
            return f"{name} needs {' and '.join(sorted(missing))}: {_makers(missing)} before it"
        if barred:
            return f"{name} cannot follow a pass that leaves {' and '.join(sorted(barred))}"
        facts = facts_after((name,), facts)
    return ""


def repaired(names: Iterable[str], facts: frozenset[str] = START) -> tuple[str, ...]:
    """The sequence with what each pass needs before it put in, the first that gives it; it is valid then."""
    names = tuple(names)
    found: list[str] = []
    for name in _passes_in(names):
        _place(name, found, facts)
    return (*dict.fromkeys(filter(is_option, names)), *found)


def completed(names: Iterable[str]) -> tuple[str, ...]:
    """The repaired sequence; FuseTIR ends what FuseOps began, since the pipelines after it fold constants."""
    found = repaired(names)
    return repaired((*found, "FuseTIR")) if "groups" in facts_after(found) else found


def _passes_in(names: Iterable[str]) -> list[str]:
    """The names without the options among them, which hold everywhere."""
    return [name for name in names if not is_option(name)]


def _place(name: str, found: list[str], start: frozenset[str]) -> bool:
    """Put a pass at the end, after what it needs; False where that cannot be had any more."""
    wanted = pass_of(name)
    for fact in sorted(wanted.bars & facts_after(found, start)):
        taker = next((each.name for each in PASSES.values() if fact in each.takes), "")
        if not taker or not _place(taker, found, start):
            return False
    for fact in sorted(wanted.needs - facts_after(found, start)):
        maker = next((each.name for each in PASSES.values() if fact in each.gives), "")
        if not maker or not _place(maker, found, start):
            return False
    if misplaced((name,), facts_after(found, start)):  # what took one fact away may leave another that bars
        return False
    found.append(name)
    return True


def _makers(facts: frozenset[str]) -> str:
    found = (each.name for each in PASSES.values() if facts & each.gives)
    return " or ".join(found) or "no pass that takes it away"
