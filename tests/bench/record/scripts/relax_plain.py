from tvm.script import ir as I
from tvm.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), w: R.Tensor((3, 4), "float32")) -> R.Tensor((2, 4), "float32"):
        with R.dataflow():
            a = R.nn.relu(R.matmul(x, w))
            b = R.nn.softmax(R.add(a, R.const(1, "float32")), axis=-1)
            R.output(b)
        return b
