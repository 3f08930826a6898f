"""What a case is: the program, its inputs and its target, and the formats that hold them."""
