"""The commands of `crux`, one file each: a function under `@command`, or a group that `add_to(app)` adds."""
