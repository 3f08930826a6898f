"""A TVMScript module for each construct of the loop IR, by its name; what the tree must be able to say."""

from typing import Any

import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

SHAPE = (8, 8)


@I.ir_module
class Bound:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), n: T.int32):
        x: T.let[T.int32] = n + 1
        B[0, 0] = A[0, 0] + T.float32(x)


@I.ir_module
class ScalarsAndWhile:
    @T.prim_func(s_tir=True)
    def main(B: T.Buffer((8, 8), "float32"), n: T.int32):
        y: T.int32 = 5
        while y > 0:
            y = y - 1
            if y == 3:
                continue
            if y == n:
                break
        B[0, 0] = T.float32(y)


@I.ir_module
class Allocated:
    @T.prim_func(s_tir=True)
    def main(B: T.Buffer((8, 8), "float32")):
        C = T.alloc_buffer((8, 8), "float32", scope="local", annotations={"a": 1, "b": [1, "c"]})
        C[0, 0] = T.float32(1)
        B[0, 0] = C[0, 0]


@I.ir_module
class Asserted:
    @T.prim_func(s_tir=True)
    def main(B: T.Buffer((8, 8), "float32"), n: T.int32):
        assert n > 1, "n is small"
        B[0, 0] = T.float32(1)


@I.ir_module
class External:
    @T.prim_func(s_tir=True)
    def main(B: T.Buffer((8, 8), "float32")):
        T.evaluate(T.call_extern("int32", "foo", B.data, 1))
        T.evaluate(T.call_packed("foo", B.data, 1))
        B[0, 0] = T.call_pure_extern("float32", "sinf", B[0, 1])


@I.ir_module
class Attributed:
    @T.prim_func(s_tir=True)
    def main(B: T.Buffer((8, 8), "float32")):
        with T.attr(0, "pragma_unroll", 1):
            B[1, 1] = T.float32(2)
        with T.attr(B, "double_buffer_scope", 1):
            B[1, 1] = T.float32(2)


@I.ir_module
class Viewed:
    @T.prim_func(s_tir=True)
    def main(B: T.Buffer((8, 8), "float32")):
        E = T.decl_buffer((64,), "float32", data=B.data)
        E[3] = T.float32(1)
        E[T.ramp(0, 1, 4)] = T.broadcast(T.float32(1), 4)
        E[T.ramp(0, 2, 4)] = E[T.ramp(8, 1, 4)] * T.broadcast(T.float32(3), 4)


@I.ir_module
class Loops:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
        for i in T.serial(0, 8, step=2):
            B[i, 0] = T.if_then_else(i < 3, T.float32(1), T.exp(A[i, 1]))
        for i in T.parallel(8):
            for j in T.vectorized(8):
                B[i, j] = A[i, j]
        for i in T.unroll(2, 5, annotations={"pragma_x": 1}):
            B[i, 0] = A[0, i]


@I.ir_module
class Threads:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
        for i in T.thread_binding(8, thread="threadIdx.x", annotations={"q": "s"}):
            B[i, 0] = A[0, i]


@I.ir_module
class Launched:
    @T.prim_func(s_tir=True)
    def main(B: T.Buffer((8, 8), "float32")):
        bx = T.launch_thread("blockIdx.x", 8)
        tx = T.launch_thread("threadIdx.x", 8)
        B[bx, tx] = T.float32(1)


@I.ir_module
class Blocks:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32"), n: T.int32):
        for i, j in T.grid(8, 8):
            with T.sblock("sum"):
                vi, vj = T.axis.remap("SR", [i, j])
                T.where(i < n)
                T.reads(A[vi, 0:8])
                T.writes(B[vi])
                T.sblock_attr({"axis": 1})
                C = T.sblock_alloc_buffer((1,), "float32")
                with T.init():
                    B[vi] = T.float32(0)
                C[0] = A[vi, vj]
                B[vi] = B[vi] + C[0]


@I.ir_module
class Matched:
    @T.prim_func(s_tir=True)
    def main(B: T.Buffer((8, 8), "float32"), n: T.int32):
        with T.sblock("x"):
            v = T.axis.spatial(8, n)
            T.reads()
            T.writes(B[0:4, v])
            D = T.match_buffer(B[0:4, v], (4, 1), strides=(8, 1), offset_factor=1)
            D[0, 0] = T.float32(1)


@I.ir_module
class Lanes:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
        B[0, 0] = T.Shuffle([T.broadcast(A[0, 0], 4)], [1])
        B[0, T.ramp(0, 1, 2)] = T.vectorlow("float32x2", A[0, T.ramp(0, 1, 4)])
        B[1, T.ramp(0, 1, 4)] = T.Select(
            A[0, T.ramp(0, 1, 4)] < A[1, T.ramp(0, 1, 4)], A[0, T.ramp(0, 1, 4)], A[2, T.ramp(0, 1, 4)]
        )


@I.ir_module
class Arithmetic:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8,), "int32"), n: T.int32):
        if (n > 3 and n < 5) or not n == 3:  # noqa: SIM201 (its node)
            A[0, 0] = T.fabs(A[0, 0])
        C[0] = T.truncdiv(n, 3) + n // 4 + n % 2 + T.truncmod(n, 3)
        C[1] = (n << 2) + (n >> 1) + (n & 3) + (n | 4) + (n ^ 5) + (~n)
        C[2] = T.max(T.min(n, 3), 4) - n * 2
        C[3] = T.Select(n != 3, n, T.int32(7))
        A[1, 1] = A[0, 0] / T.float32(3)


@I.ir_module
class Literals:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((8,), "float32"), H: T.Buffer((8,), "float16"), L: T.Buffer((8,), "int64")):
        A[0] = T.float32("inf") + T.float32("nan") + T.float32(1e-7) + T.float32("-inf")
        H[0] = T.float16(0.5)
        L[0] = T.int64(-9223372036854775808) + T.int64(7)
        L[1] = T.Cast("int64", T.uint8(255))
        L[2] = T.Cast("int64", T.bool(True))


@I.ir_module
class Intrinsics:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "int32"), n: T.int32):
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


@I.ir_module
class Named:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((8,), "int32"), n: T.int32):
        i = T.int32()
        A[0] = T.Let(i + 1, where={i: n * 2})


@I.ir_module
class Returned:
    @T.prim_func(s_tir=True)
    def main(n: T.int32) -> T.int32:
        return n + 1


@I.ir_module
class Symbolic:
    @T.prim_func(s_tir=True)
    def main(a: T.handle, b: T.handle):
        n, m = T.int64(), T.int64()
        A = T.match_buffer(a, (n, m), "float32", strides=(m, 1), align=16, offset_factor=4)
        B = T.match_buffer(b, (n + m,), "int8", scope="global")
        for i in range(n):
            B[i] = T.Cast("int8", A[i, 0])


SAMPLES: dict[str, Any] = {
    name: found for name, found in vars().copy().items() if isinstance(found, tvm.ir.IRModule)
}
