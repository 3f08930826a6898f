"""A TVMScript function for each construct of the loop IR, by its name; what the tree must be able to say."""

from typing import Any

import tvm
from tvm.script import ir as I
from tvm.script import tirx as T


@I.ir_module
class Constructs:
    @T.prim_func(s_tir=True)
    def bound(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), n: T.int32):
        x: T.let[T.int32] = n + 1
        B[0, 0] = A[0, 0] + T.float32(x)

    @T.prim_func(s_tir=True)
    def scalars_and_while(B: T.Buffer((8, 8), "float32"), n: T.int32):
        y: T.int32 = 5
        while y > 0:
            y = y - 1
            if y == 3:
                continue
            if y == n:
                break
        B[0, 0] = T.float32(y)

    @T.prim_func(s_tir=True)
    def asserted(B: T.Buffer((8, 8), "float32"), n: T.int32):
        assert n > 1, "n is small"
        B[0, 0] = T.float32(1)

    @T.prim_func(s_tir=True)
    def external(B: T.Buffer((8, 8), "float32")):
        T.evaluate(T.call_extern("int32", "foo", B.data, 1))
        T.evaluate(T.call_packed("foo", B.data, 1))
        B[0, 0] = T.call_pure_extern("float32", "sinf", B[0, 1])

    @T.prim_func(s_tir=True)
    def attributed(B: T.Buffer((8, 8), "float32")):
        with T.attr(0, "pragma_unroll", 1):
            B[1, 1] = T.float32(2)
        with T.attr(B, "double_buffer_scope", 1):
            B[1, 1] = T.float32(2)

    @T.prim_func(s_tir=True)
    def viewed(B: T.Buffer((8, 8), "float32")):
        E = T.decl_buffer((64,), "float32", data=B.data)
        E[3] = T.float32(1)
        E[T.ramp(0, 1, 4)] = T.broadcast(T.float32(1), 4)
        E[T.ramp(0, 2, 4)] = E[T.ramp(8, 1, 4)] * T.broadcast(T.float32(3), 4)

    @T.prim_func(s_tir=True)
    def threads(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
        for i in T.thread_binding(8, thread="threadIdx.x", annotations={"q": "s"}):
            B[i, 0] = A[0, i]

    @T.prim_func(s_tir=True)
    def launched(B: T.Buffer((8, 8), "float32")):
        bx = T.launch_thread("blockIdx.x", 8)
        tx = T.launch_thread("threadIdx.x", 8)
        B[bx, tx] = T.float32(1)

    @T.prim_func(s_tir=True)
    def lanes(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
        B[0, 0] = T.Shuffle([T.broadcast(A[0, 0], 4)], [1])
        B[0, T.ramp(0, 1, 2)] = T.vectorlow("float32x2", A[0, T.ramp(0, 1, 4)])
        B[1, T.ramp(0, 1, 4)] = T.Select(
            A[0, T.ramp(0, 1, 4)] < A[1, T.ramp(0, 1, 4)], A[0, T.ramp(0, 1, 4)], A[2, T.ramp(0, 1, 4)]
        )

    @T.prim_func(s_tir=True)
    def intrinsics(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "int32"), n: T.int32):
        A[0] = T.pow(T.sqrt(A[1]), T.tanh(A[2])) + T.fma(A[1], A[2], A[3])
        A[1] = T.ldexp(A[0], n)
        C[0] = T.popcount(n) + T.clz(n)
        C[1] = T.q_multiply_shift(n, n, 31, 1)
        if T.isnan(A[0]) or T.isinf(A[1]):
            A[2] = T.reinterpret("float32", n)
        if T.likely(n < 3):
            T.evaluate(T.address_of(A[1]))
        T.evaluate(T.tvm_access_ptr(T.type_annotation("float32"), A.data, 0, 3, 1))
        C[2] = T.Cast("int32", T.undef())
        C[3] = T.vscale()

    @T.prim_func(s_tir=True)
    def named(A: T.Buffer((8,), "int32"), n: T.int32):
        i = T.int32()
        A[0] = T.Let(i + 1, where={i: n * 2})

    @T.prim_func(s_tir=True)
    def returned(n: T.int32) -> T.int32:
        return n + 1

    @T.prim_func(s_tir=True)
    def symbolic(a: T.handle, b: T.handle):
        n, m = T.int64(), T.int64()
        A = T.match_buffer(a, (n, m), "float32", strides=(m, 1), align=16, offset_factor=4)
        B = T.match_buffer(b, (n + m,), "int8", scope="global")
        for i in range(n):
            B[i] = T.Cast("int8", A[i, 0])


SAMPLES: dict[str, Any] = {
    key.name_hint: tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    for key, function in Constructs.functions_items()
}
