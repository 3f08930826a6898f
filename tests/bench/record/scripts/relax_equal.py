from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3, 4), "float32"), w: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            a = R.nn.softmax(R.matmul(x, w), axis=-1)
            p = R.greater(a, R.const(0.1, "float32"))
            q = R.less(a, R.const(0.5, "float32"))
            out = R.equal(p, q)
            R.output(out)
        return out
