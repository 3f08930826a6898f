"""`inputs.npz`: every dtype, sequences, strings and odd names come back as they went in, byte for byte."""

import io

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import helper
from onnx.reference import ReferenceEvaluator

from corpus.errors import UserError
from corpus.formats.onnx import input_types
from corpus.onnx.inputs import make_inputs
from corpus.onnx.types import DTYPES, element_type
from corpus.values import InputType, Tensor, Value, fit_value, read_inputs, read_inputs_noting, write_inputs
from tests.helpers.models import identity, model_of, value


def written(inputs: dict[str, Value]) -> bytes:
    buffer = io.BytesIO()
    write_inputs(buffer, inputs)
    return buffer.getvalue()


def type_of(item: Value) -> InputType:
    first = (item[0] if item else None) if isinstance(item, list) else item
    dtype = np.dtype(np.float32) if first is None else first.dtype
    dtype = np.dtype(np.str_) if dtype.kind in "UO" else dtype.newbyteorder("=")
    return InputType(dtype, None, sequence=isinstance(item, list), optional=item is None)


def same(left: Value, right: Value) -> bool:
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        if left.dtype.kind in "UO":
            return left.shape == right.shape and left.tolist() == right.tolist()
        return left.shape == right.shape and left.dtype == right.dtype and left.tobytes() == right.tobytes()
    return left is None and right is None


def assert_round_trip(inputs: dict[str, Value]) -> None:
    content = written(inputs)
    back = read_inputs(io.BytesIO(content), {name: type_of(item) for name, item in inputs.items()})
    assert list(back) == list(inputs)
    assert all(same(inputs[name], back[name]) for name in inputs)
    assert written(back) == content


@pytest.mark.parametrize("code", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3)])
def test_every_dtype_in_every_kind_of_shape(code, shape):
    rng = np.random.default_rng(code)
    if DTYPES[code].kind == "U":
        array: Tensor = np.array(["", "a", "βγ", "one\ntwo"])[rng.integers(0, 4, shape)]
        array = np.asarray(array)
    else:
        raw = rng.integers(0, 2 if code == 9 else 256, (*shape, DTYPES[code].itemsize), dtype=np.uint8)
        array = np.frombuffer(raw.tobytes(), DTYPES[code]).reshape(shape)
    assert_round_trip({"x": array})


def test_the_table_of_dtypes_is_onnxs():
    known = {code for code in onnx.TensorProto.DataType.values() if code}
    assert known <= set(DTYPES)
    for code in known - {onnx.TensorProto.STRING}:
        assert onnx.helper.tensor_dtype_to_np_dtype(code) == DTYPES[code]
        assert element_type(DTYPES[code]) == code


NAMES = ["file", "/abs", "../up", "a::b", " ", "x.npy", "é", "x#0", "a\\b", "%s"]


@pytest.mark.parametrize("name", NAMES)
def test_odd_names(name):
    assert_round_trip({name: np.arange(3), "other": [np.ones(2)], "third": []})


def test_numpy_reads_it_and_we_read_numpys(tmp_path):
    path = tmp_path / "in.npz"
    write_inputs(path, {"file": np.arange(3), "s": [np.ones(2), np.zeros((0, 1))]})
    with np.load(path, allow_pickle=False) as file:
        assert file.files == ["file", "s#0", "s#1"]
    np.savez_compressed(path, x=np.asfortranarray(np.arange(6.0).reshape(2, 3)), y=np.arange(4, dtype=">i2"))
    types = {"x": InputType(np.dtype(float), (2, "n")), "y": InputType(np.dtype(np.int16), (None,))}
    back = read_inputs(path, types)
    assert same(back["x"], np.arange(6.0).reshape(2, 3))
    assert same(back["y"], np.arange(4, dtype=np.int16))


arrays = hnp.arrays(
    st.one_of(hnp.scalar_dtypes().filter(lambda dtype: dtype.kind in "biufc" and dtype.itemsize <= 16)),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
).filter(lambda array: array.dtype.name not in ("longdouble", "float128", "complex256"))
texts = hnp.arrays(
    np.dtype("U5"),
    hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3),
    elements=st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=5),
)
values = st.one_of(arrays, texts, st.none(), st.lists(hnp.arrays(np.float32, (2,)), max_size=3))
names = st.text(st.characters(exclude_characters="#\0", exclude_categories=("Cs",)), min_size=1, max_size=8)


@given(st.dictionaries(names, values, max_size=4))
def test_any_inputs_round_trip(inputs):
    native = {
        name: item.astype(item.dtype.newbyteorder("=")) if isinstance(item, np.ndarray) else item
        for name, item in inputs.items()
    }
    assert_round_trip(native)


def test_equal_values_give_equal_bytes_however_they_lie_in_memory():
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    assert (
        written({"x": array})
        == written({"x": np.asfortranarray(array)})
        == written({"x": array.astype(">i4")})
    )
    assert written({"x": np.array(["a"], "U9")}) == written({"x": np.array(["a"], object)})


def test_an_input_with_a_default_may_be_left_out_and_an_unknown_one_is_noted():
    types = {"x": InputType(np.dtype(int), (3,)), "w": InputType(np.dtype(float), (1,), required=False)}
    inputs, notes = read_inputs_noting(io.BytesIO(written({"x": np.arange(3), "z": np.ones(1)})), types)
    assert list(inputs) == ["x"]
    assert len(notes) == 1
    assert "'z'" in notes[0]


def test_names_that_would_share_a_member_are_refused():
    with pytest.raises(UserError, match="x#0"):
        written({"x": [np.ones(1)], "x#0": np.ones(1)})
    with pytest.raises(UserError, match="rename"):
        written({"a\0b": np.ones(1)})


# Made inputs: of the declared type, in range of what reads them, the same for the same seed


@pytest.mark.parametrize("code", DTYPES)
def test_every_dtype_is_made_as_declared(code):
    kinds = [
        value("x", [2, "n"], code),
        value("scalar", [], code),
        value("none", [0, 3], code),
        helper.make_tensor_sequence_value_info("s", code, ["n"]),
    ]
    optional = onnx.ValueInfoProto(name="o")
    optional.type.optional_type.elem_type.CopyFrom(kinds[0].type)
    program = identity([*kinds, optional])
    inputs = make_inputs(program, 7)
    types = input_types(program, "m")
    assert list(inputs) == ["x", "scalar", "none", "s", "o"]
    for name, made in inputs.items():
        assert fit_value(name, made, types[name], "m") is not None
    for array in (inputs["x"], *(inputs["s"] or [])):
        if array.dtype.kind not in "U":
            assert np.all(np.isfinite(array.astype(np.complex128)))
            assert np.all(np.abs(array.astype(np.complex128)) <= 4)


def test_the_seed_decides():
    program = identity([value("x", ["a", "b"]), value("y", ["b", "a"])])
    one, again, other = make_inputs(program, 1), make_inputs(program, 1), make_inputs(program, -2)
    assert all(np.array_equal(one[name], again[name]) for name in one)
    assert any(
        one[name].shape != other[name].shape or not np.array_equal(one[name], other[name]) for name in one
    )
    assert one["x"].shape == one["y"].shape[::-1]


def test_dims_are_consistent_by_name_and_formulas_hold():
    program = identity(
        [value("x", ["n", "past"]), value("y", ["n", "past + 1"]), value("z", ["2*n", "now()"])]
    )
    inputs = make_inputs(program, 0)
    rows, past = inputs["x"].shape
    assert inputs["y"].shape == (rows, past + 1)
    assert inputs["z"].shape[0] == 2 * rows
    assert inputs["z"].shape[1] in (2, 3, 4)


TABLE = "<float[2,3] t = {0, 1, 2, 3, 4, 5}>"
READERS = {
    "Gather": "(int64[n] i) => (float[] y) <float[1,3] t = {0, 1, 2}> { y = Gather (t, i) }",
    "Gather of a cast": f"(int32[n] i) => (float[] y) {TABLE} {{ j = Cast <to = 7> (i) y = Gather (t, j) }}",
    "Reshape": f"(int64[3] i) => (float[] y) {TABLE} {{ y = Reshape (t, i) }}",
    "Slice": "(int64[2] i, int64[2] j, int64[2] k, int64[2] l) => (float[] y)"
    f" {TABLE} {{ y = Slice (t, i, j, k, l) }}",
    "TopK": f"(int64[1] i) => (float[] y) {TABLE} {{ y, z = TopK (t, i) }}",
    "Pad": f"(int64[4] i) => (float[] y) {TABLE} {{ y = Pad (t, i) }}",
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("seed", range(3))
def test_integers_suit_what_reads_them(name, seed):
    program = model_of(f"g {READERS[name]}")
    (result,) = ReferenceEvaluator(program).run(None, make_inputs(program, seed))
    assert result.size


def test_a_divisor_is_never_zero():
    program = model_of("g (int64[99] a, int64[99] b) => (int64[99] y) { y = Div (a, b) z = Mod (a, b) }")
    assert all(np.all(make_inputs(program, seed)["b"] > 0) for seed in range(5))
