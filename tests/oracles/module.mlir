module @jit_f attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%x: tensor<4x8xf32> {mhlo.sharding = "{replicated}"}, %w: tensor<8x3xf32>)
      -> (tensor<4xf32> {jax.result_info = "result"}, tensor<i32>) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x3xf32>)
      -> tensor<4x3xf32> loc("here")
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<4x3xf32>, tensor<f32>) -> tensor<4xf32>
    %i = stablehlo.constant dense<0> : tensor<i32>
    %2:2 = stablehlo.while(%a = %i, %b = %1) : tensor<i32>, tensor<4xf32>
      cond {
        %n = stablehlo.constant dense<3> : tensor<i32>
        %c = stablehlo.compare LT, %a, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %one = stablehlo.constant dense<1> : tensor<i32>
        %d = stablehlo.add %a, %one : tensor<i32>
        %e = func.call @half(%b) : (tensor<4xf32>) -> tensor<4xf32>
        stablehlo.return %d, %e : tensor<i32>, tensor<4xf32>
      }
    return %2#1, %2#0 : tensor<4xf32>, tensor<i32>
  }
  func.func private @half(%x: tensor<4xf32>) -> tensor<4xf32> {
    %half = stablehlo.constant dense<0.5> : tensor<4xf32>
    %0 = stablehlo.multiply %x, %half : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
