"""ONNX Runtime's graph transformers and rules: which of them a log tells of, and how one is left out."""

import re
from collections.abc import Iterable, Set

from oracles.abilities import Passes
from oracles.verdict import Run

DISABLED_BY = '`disabled_optimizers=["{}"]` of `InferenceSession`'

RULES = {
    "Level1_RuleBasedTransformer": {
        "EliminateIdentity": "Identity",
        "EliminateSlice": "Slice",
        "UnsqueezeElimination": "Unsqueeze",
        "EliminateDropout": "Dropout",
        "ExpandElimination": "Expand",
        "CastElimination": "Cast",
        "CastChainElimination": "Cast",
        "PreShapeNodeElimination": "Cast",
        "NoopElimination": "Add Sub Mul Div",
        "DivMulFusion": "Div",
        "FuseReluClip": "Relu",
        "GemmSumFusion": "Gemm",
        "GemmTransposeFusion": "Gemm",
        "NotWhereFusion": "Where",
        "ConvAddFusion": "Conv",
        "ConvMulFusion": "Conv",
        "ConvBNFusion": "Conv",
        "Pad_Fusion": "Pad",
        "MatMul_BatchNormalization_Fusion": "MatMul",
        "LabelEncoderFusion": "ai.onnx.ml:LabelEncoder",
    },
    "Level2_RuleBasedTransformer": {
        "ClipQuantRewrite": "Clip",
        "ReluQuantRewrite": "Relu",
        "GemmTransposeFusion": "Gemm",
    },
}
"""The rewrite rules by the transformer that applies them, each with the operators at which it starts."""

TRANSFORMERS = """
    AttentionFusion Avx2WeightS8ToU8Transformer BiasDropoutFusion BiasGeluFusion BiasSkipLayerNormFusion
    BiasSoftmaxFusion CommonSubexpressionElimination ConstantFolding ConstantSharing ConvActivationFusion
    ConvAddActivationFusion DoubleQDQPairsRemover DynamicQuantizeMatMulFusion EmbedLayerNormFusion
    EnsureUniqueDQForNodeUnit FastGeluFusion FreeDimensionOverrideTransformer
    FuseFp16InitializerToFp32NodeTransformer GatherSliceToSplitFusion GatherToSliceFusion GatherToSplitFusion
    GeluApproximation GeluFusion GeluFusionL1 GeluFusionL2 GemmActivationFusion GqaValueLayoutTransformer
    GroupQueryAttentionFusion GroupQueryAttentionPreNormFusion IdenticalChildrenConsolidation LayerNormFusion
    LayerNormFusionL1 LayerNormFusionL2 MatMulActivationFusion MatMulAddFusion MatMulIntegerToFloatFusion
    MatMulNBitsFusion MatMulNBitsMlpFusion MatMulNBitsQkvFusion MatMulScaleFusion MatmulTransposeFusion
    NchwcTransformer NhwcTransformer QDQFinalCleanupTransformer QDQPropagationTransformer
    QDQS8ToU8Transformer QDQSelectorActionTransformer QuickGeluFusion ReshapeFusion RocmBlasAltImpl
    SimplifiedLayerNormFusion SkipLayerNormFusion SliceConcatToSpaceToDepthFusion TransposeOptimizer
    TransposeOptimizer_CPUExecutionProvider WeightBiasQuantization WhereDummyDq
"""
"""The transformers of releases 1.15 to 1.31; a log names those of its own release."""

ALWAYS = frozenset(
    ("CastFloat16Transformer", "InsertCastTransformer", "MemcpyTransformer", "RemoveDuplicateCastTransformer")
)
"""Transformers that run at every level and cannot be disabled."""

OPTIMIZERS = tuple(
    dict.fromkeys([*(rule for rules in RULES.values() for rule in rules), *TRANSFORMERS.split()])
)
"""The names that `disabled_optimizers` takes; one that a release does not know has no effect."""

APPLYING = re.compile(r"Applying graph transformer (\S+) on step")
APPLIED = re.compile(r"GraphTransformer (\S+) modified: (\d) with status: (\S+)")


def applied(run: Run) -> tuple[tuple[str, bool], ...]:
    """The transformers of a run with its log, in order, and whether each modified the graph.

    One that fails, or that is not known to have come to its end, counts as having done so.
    """
    steps: list[tuple[str, bool]] = []
    open_one = ""
    for line in run.log:
        if match := APPLYING.search(line):
            steps += [(open_one, True)] if open_one else []
            open_one = match[1]
        elif match := APPLIED.search(line):
            steps.append((match[1], match[2] != "0" or match[3] != "OK"))
            open_one = ""
    return tuple([*steps, (open_one, True)] if open_one else steps)


def fired(run: Run) -> tuple[str, ...]:
    """The transformers that modified the graph, by the log, and the one in which the run died."""
    return tuple(dict.fromkeys(name for name, modified in applied(run) if modified))


def suspects(run: Run) -> tuple[str, ...]:
    """List the passes that fired and can be disabled; all rules if a rule fired, since no log tells which."""
    names = (rule for name in fired(run) if name not in ALWAYS for rule in RULES.get(name, [name]))
    return tuple(dict.fromkeys(names))


def may_have_fired(run: Run) -> tuple[str, ...]:
    """List the passes that fired, those that cannot be disabled too; all rules if a rule fired."""
    return (*suspects(run), *(name for name in fired(run) if name in ALWAYS))


def told_with(name: str) -> tuple[str, ...]:
    """The other rules of the transformers that apply this one: the log has one line for all of them."""
    families = [rules for rules in RULES.values() if name in rules]
    return tuple(dict.fromkeys(rule for rules in families for rule in rules if rule != name))


def optimizers(run: Run) -> tuple[str, ...]:
    """Everything that can be disabled: the names that we know, and those of the run's log."""
    logged = (name for name, _ in applied(run) if name not in RULES and name not in ALWAYS)
    return tuple(dict.fromkeys([*OPTIMIZERS, *logged]))


def likely(names: Iterable[str], operators: Set[str]) -> tuple[str, ...]:
    """List the passes that can start at one of these operators."""
    starts = {rule: ops.split() for rules in RULES.values() for rule, ops in rules.items()}
    return tuple(name for name in names if name not in starts or not operators.isdisjoint(starts[name]))


DISABLING = Passes(
    DISABLED_BY,
    fired,
    suspects,
    optimizers,
    likely,
    "disabled_optimizers",
    may_have_fired=may_have_fired,
    told_with=told_with,
)
